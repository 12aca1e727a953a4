// SPDX-License-Identifier: Apache-2.0
//
// A Session has the state of one process: connections, locks, and the health of the server. A child of fork()
// inherits its parent's, whose locks may be held for ever. It closes the descriptors and does not touch the
// rest.
#include "cache/redis_client.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "base/fork.h"
#include "format/format.h"

namespace kiln {
namespace {

constexpr std::size_t kMostConnections = 4;
constexpr std::chrono::seconds kFirstPause{30};
constexpr std::chrono::seconds kLongestPause{300};

// The server can't serve anyone at the moment, or rejects this user.
constexpr std::string_view kRefusals[] = {"NOAUTH", "WRONGPASS", "LOADING",     "MASTERDOWN", "BUSY",
                                          "MOVED",  "ASK",       "CLUSTERDOWN", "TRYAGAIN"};

bool refuses(const RedisReply& reply) {
    return std::find(std::begin(kRefusals), std::end(kRefusals), reply.error_code()) != std::end(kRefusals);
}

}  // namespace

class RedisClient::Session {
  public:
    Session(const RedisSettings& settings, Session* parents) : settings_(settings), parents_(parents) {}

    unsigned generation() const { return generation_; }

    /// In a child: this was the parent's. Not freed, since its state may be in the middle of a change.
    void abandon() {
        for (auto& slot : slots_) {
            const int descriptor = slot.descriptor.exchange(-1);
            if (descriptor >= 0) ::close(descriptor);
        }
    }

    RedisReply call(const RedisCommand& command, Manner manner) {
        const Deadline deadline(settings_.timeout);
        const auto permit = admit(manner, deadline);
        try {
            auto reply = exchange(permit, command, deadline);
            if (refuses(reply))
                throw RedisFailure("answered with an error: " + settings_.quote(reply.text()));
            succeeded(permit);
            return reply;
        } catch (const std::exception& error) {
            throw RedisError(failed(permit, error.what()));
        }
    }

    std::string leave_alone(const std::string& what) {
        const std::lock_guard lock(mutex_);
        ++failures_;
        return health_ == Health::down ? problem_ : pause(what);
    }

    std::string pause_writes(const std::string& what) {
        const std::lock_guard lock(mutex_);
        ++failures_;
        written_again_ = Deadline::Clock::now() + kFirstPause;
        write_problem_ =
            formatted("{}; nothing is stored there for {} s.", sentence(what), kFirstPause.count());
        return write_problem_;
    }

    bool writes_paused() const {
        const std::lock_guard lock(mutex_);
        return Deadline::Clock::now() < written_again_;
    }

    std::string problem() const {
        const std::lock_guard lock(mutex_);
        if (!problem_.empty()) return problem_;
        return Deadline::Clock::now() < written_again_ ? write_problem_ : std::string();
    }

    std::uint64_t failures() const {
        const std::lock_guard lock(mutex_);
        return failures_;
    }

  private:
    enum class Health { unknown, up, down };
    struct Slot {
        std::optional<RedisConnection> connection;
        bool busy = false;
        std::atomic<int> descriptor{-1};
    };
    /// The right to use a connection.
    struct Permit {
        Slot* slot = nullptr;
        bool probe = false;  ///< its outcome decides on the server's health
    };

    Permit admit(Manner manner, const Deadline& deadline) {
        std::unique_lock lock(mutex_);
        for (;;) {
            const bool insistent = manner == Manner::insistent;
            if (health_ == Health::down && !insistent && (probing_ || Deadline::Clock::now() < asked_again_))
                throw RedisError(problem_);
            const bool probe = health_ != Health::up;
            // While the server's health is not known, one thread finds out and the others wait for it.
            if (Slot* slot = free_slot(); slot != nullptr && (!probe || !probing_ || insistent)) {
                slot->busy = true;
                if (probe) probing_ = true;
                return {slot, probe};
            }
            // What is left after waiting for a connection must be enough to blame the server if it runs out.
            const auto until = probe ? deadline.end() : deadline.end() - settings_.timeout / 2;
            if (changed_.wait_until(lock, until) == std::cv_status::timeout) {
                ++failures_;
                throw RedisError(sentence("has too many calls in flight from this process."));
            }
        }
    }

    RedisReply exchange(const Permit& permit, const RedisCommand& command, const Deadline& deadline) {
        auto& slot = *permit.slot;
        if (!slot.connection) slot.connection.emplace(settings_, tls());
        // Not stored during the exchange: the descriptor may be closed and its number reused meanwhile.
        slot.descriptor = -1;
        auto reply = slot.connection->exchange(command, deadline);
        slot.descriptor = slot.connection->descriptor();
        return reply;
    }

    const TlsContext* tls() {
        if (!settings_.url.tls) return nullptr;
        const std::lock_guard lock(mutex_);
        if (!tls_) tls_.emplace(settings_.ca_file);
        return &*tls_;
    }

    void succeeded(const Permit& permit) {
        const std::lock_guard lock(mutex_);
        if (permit.probe) {
            health_ = Health::up;
            next_pause_ = kFirstPause;
            problem_.clear();
        }
        give_back(permit);
    }

    std::string failed(const Permit& permit, const std::string& what) {
        const std::lock_guard lock(mutex_);
        ++failures_;
        permit.slot->descriptor = -1;
        if (permit.slot->connection) permit.slot->connection->close();
        // If several calls fail together, one of them begins the pause.
        std::string text = health_ != Health::down || permit.probe ? pause(what) : problem_;
        give_back(permit);
        return text;
    }

    void give_back(const Permit& permit) {
        permit.slot->busy = false;
        if (permit.probe) probing_ = false;
        changed_.notify_all();
    }

    std::string pause(const std::string& what) {
        health_ = Health::down;
        asked_again_ = Deadline::Clock::now() + next_pause_;
        problem_ = formatted("{}; it is left alone for {} s.", sentence(what), next_pause_.count());
        next_pause_ = std::min(next_pause_ * 2, kLongestPause);
        return problem_;
    }

    std::string sentence(const std::string& what) const {
        return "The remote cache " + settings_.url.place() + " " + what;
    }

    /// One that is connected before one that is not.
    Slot* free_slot() {
        Slot* found = nullptr;
        for (auto& slot : slots_) {
            if (!slot.busy && (found == nullptr || (found->descriptor < 0 && slot.descriptor >= 0)))
                found = &slot;
        }
        return found;
    }

    const RedisSettings& settings_;
    [[maybe_unused]] Session* const parents_;  ///< reachable, so that it does not count as a leak
    const unsigned generation_ = fork_generation();
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::optional<TlsContext> tls_;
    std::array<Slot, kMostConnections> slots_;
    Health health_ = Health::unknown;
    bool probing_ = false;
    Deadline::Clock::time_point asked_again_;
    std::chrono::seconds next_pause_ = kFirstPause;
    std::string problem_;
    Deadline::Clock::time_point written_again_;
    std::string write_problem_;
    std::uint64_t failures_ = 0;
};

RedisClient::RedisClient(RedisSettings settings)
    : settings_(std::move(settings)), session_(new Session(settings_, nullptr)) {}

RedisClient::~RedisClient() {
    Session* session = session_.load();
    if (session->generation() == fork_generation())
        delete session;
    else
        session->abandon();
}

RedisClient::Session& RedisClient::session() const {
    Session* current = session_.load();
    if (current->generation() == fork_generation()) return *current;
    auto mine = std::make_unique<Session>(settings_, current);
    if (session_.compare_exchange_strong(current, mine.get())) {
        current->abandon();
        return *mine.release();
    }
    return *current;
}

RedisReply RedisClient::call(const RedisCommand& command, Manner manner) {
    return session().call(command, manner);
}
std::string RedisClient::leave_alone(const std::string& what) { return session().leave_alone(what); }
std::string RedisClient::pause_writes(const std::string& what) { return session().pause_writes(what); }
bool RedisClient::writes_paused() const { return session().writes_paused(); }
std::string RedisClient::problem() const { return session().problem(); }
std::uint64_t RedisClient::failures() const { return session().failures(); }

}  // namespace kiln
