// SPDX-License-Identifier: Apache-2.0
//
// Flight over lock files. The leader holds "<digest>.0". The file contains the leader's heartbeat, a counter,
// and its outcome. A process that considers the leader stalled writes that into the file, and continues with
// "<digest>.1", which has its own leader; and so on.
//
// There is one leader at a time: a leader holds the lock and *then* finds no result. Leaders publish the
// result, then write the outcome, then release the lock; so the next leader finds the result. A release
// unlinks the file, but waiting processes have it open and can still read the outcome. A holder that dies
// leaves the file in place without an outcome, so the next holder knows that it takes over.
#include "cache/flight.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/blocked_signals.h"
#include "base/stopwatch.h"
#include "format/format.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{5}, kLongestPause{50};
constexpr int kGenerations = 4;

/// The content of a lock's file. Zero, as in a new file, means nothing in every field.
struct Record {
    std::uint64_t beat = 0;        ///< only ever grows
    std::uint64_t stalled_at = 0;  ///< beat + 1 when a process considered the holder stalled; valid as long
                                   ///< as the beat does not change
    std::uint64_t last_word = 0;
};
enum LastWord : std::uint64_t { kNone = 0, kPublished = 1, kNothingToWaitFor = 2 };

/// Bytes that are missing after a short or failed read are zero.
Record read_record(int file) {
    Record record;
    (void)!::pread(file, &record, sizeof record, 0);
    return record;
}

/// If it can't be written, others do without it.
bool write_word(int file, std::size_t offset, std::uint64_t word) {
    const WriteSignalBlock block;
    return ::pwrite(file, &word, sizeof word, static_cast<off_t>(offset)) == sizeof word;
}

/// Writes the heartbeat during its lifetime.
std::jthread start_beating(int file, std::uint64_t beat, milliseconds interval) {
    const BlockedSignals blocked;
    try {
        return std::jthread([=](std::stop_token stop) mutable {
            std::mutex mutex;
            std::condition_variable_any ended;
            std::unique_lock lock(mutex);
            while (!ended.wait_for(lock, stop, interval, [&] { return stop.stop_requested(); }))
                write_word(file, offsetof(Record, beat), ++beat);
        });
    } catch (const std::system_error&) {
        // No thread could be started: others will consider this holder stalled, and not wait for it.
        return {};
    }
}

/// The holder that is waited for, as seen in its file.
class Holder {
  public:
    explicit Holder(milliseconds stall) : stall_(stall) {}

    /// Reads the file. If that one was unlinked without an outcome that says to continue alone, opens the
    /// file that now has the name.
    void look(const std::filesystem::path& path) {
        if (!file_ || (lost_its_name() && last_word() != kNothingToWaitFor)) {
            record_ = {};
            file_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
        }
        const Record record = read_record(file_.value());
        const auto now = Clock::now();
        // While this process was stopped it could not observe the holder, so a long interval counts as a
        // short one.
        silence_ = record.beat == record_.beat
                       ? silence_ + std::min<Clock::duration>(now - looked_at_, stall_ / 4)
                       : Clock::duration::zero();
        record_ = record;
        looked_at_ = now;
    }

    /// The present content of the file, even if it has been unlinked.
    LastWord last_word() const { return static_cast<LastWord>(read_record(file_.value()).last_word); }

    /// Whether there is no heartbeat, for this process or another one; tells the others. If this process
    /// can't write either (the file system is full), a holder without a heartbeat may be alive, so its lock
    /// counts.
    bool stalled() {
        if (silence_ >= stall_ && file_ &&
            !write_word(file_.value(), offsetof(Record, stalled_at), record_.beat + 1) && record_.beat == 0)
            return false;
        return silence_ >= stall_ || record_.stalled_at == record_.beat + 1;
    }

    /// The holder died during the wait: this is its file, without an outcome.
    bool left(const FileLock& lock) const {
        struct stat mine, locked;
        return file_ && ::fstat(file_.value(), &mine) == 0 && ::fstat(lock.descriptor(), &locked) == 0 &&
               mine.st_dev == locked.st_dev && mine.st_ino == locked.st_ino && last_word() == kNone;
    }

  private:
    bool lost_its_name() const {
        struct stat status;
        return ::fstat(file_.value(), &status) != 0 || status.st_nlink == 0;
    }

    milliseconds stall_;
    FileDescriptor file_;
    Record record_;
    Clock::time_point looked_at_ = Clock::now();
    Clock::duration silence_{};
};

}  // namespace

struct Flight::State {
    Role role = Role::alone;
    double waited_ms = 0;
    bool waited = false;
    bool took_over = false;
    pid_t process = ::getpid();
    std::optional<FileLock> lock;
    std::jthread beat;  // ends before the lock does

    void lead(FileLock acquired, milliseconds stall) {
        lock.emplace(std::move(acquired));
        // After one that died there is a record already.
        const std::uint64_t first = read_record(lock->descriptor()).beat + 1;
        write_word(lock->descriptor(), offsetof(Record, last_word), kNone);
        write_word(lock->descriptor(), offsetof(Record, beat), first);
        beat = start_beating(lock->descriptor(), first, std::max(stall / 4, milliseconds(1)));
    }
};

Flight Flight::board(LocalLocks& locks, const std::string& digest, const FlightLimits& limits,
                     const std::function<bool()>& probe, std::stop_token stop) {
    auto state = std::make_unique<State>();
    const Stopwatch watch;
    const auto end = [&](Role role) {
        state->role = role;
        if (state->waited) state->waited_ms = watch.elapsed_ms();
        return Flight(std::move(state));
    };

    int generation = 0;
    Holder holder(limits.stall);
    for (milliseconds pause = kFirstPause;; pause = std::min(pause * 5 / 4, kLongestPause)) {
        if (stop.stop_requested()) return end(Role::stopped);
        const std::string name = formatted("{}.{}", digest, generation);
        if (auto lock = locks.try_acquire(name)) {
            if (holder.last_word() == kNothingToWaitFor) return end(Role::alone);
            if (probe()) return end(Role::served);
            state->took_over = generation > 0 || holder.left(*lock);
            state->lead(std::move(*lock), limits.stall);
            return end(Role::leader);
        }
        if (!locks.problem().empty()) return end(Role::alone);

        holder.look(locks.file(name));
        if (holder.last_word() == kNothingToWaitFor) return end(Role::alone);
        if (holder.stalled()) {
            if (++generation == kGenerations) return end(Role::alone);
            holder = Holder(limits.stall);
            continue;
        }
        if (watch.elapsed_ms() >= static_cast<double>(limits.wait.count())) return end(Role::alone);
        std::this_thread::sleep_for(pause);
        state->waited = true;
        if (probe()) return end(Role::served);
    }
}

Flight::Flight(std::unique_ptr<State> state) : state_(std::move(state)) {}
Flight::Flight(Flight&&) noexcept = default;

Flight::~Flight() {
    // A forked child has neither the lock nor the thread, and can't join it.
    if (state_ && state_->process != ::getpid()) (void)state_.release();
}

Flight::Role Flight::role() const { return state_->role; }
double Flight::waited_ms() const { return state_->waited_ms; }
bool Flight::waited() const { return state_->waited; }
bool Flight::took_over() const { return state_->took_over; }

void Flight::settle(bool published) {
    if (!state_->lock || state_->process != ::getpid()) return;
    write_word(state_->lock->descriptor(), offsetof(Record, last_word),
               published ? kPublished : kNothingToWaitFor);
    state_->beat = {};
    state_->lock.reset();
}

}  // namespace kiln
