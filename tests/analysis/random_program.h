// SPDX-License-Identifier: Apache-2.0
//
// Random kernels as AccessRecorder sees them: branches, loops whose trip counts differ from lane to lane, returns,
// accesses of all kinds and widths to small shared variables and to a buffer, barriers of blocks and parts of warps,
// releases and acquires. run() hands the events of a launch to an observer, thread by thread as fibers run.
#pragma once

#include <kiln/observe.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace kiln::test {

class RandomProgram {
  public:
    static constexpr unsigned kMostTurns = 20;  // statements of a thread between two meetings
    static constexpr std::uint64_t kBufferAddress = 0x10000000, kBufferSize = 1 << 16;

    RandomProgram(std::uint64_t seed, unsigned warp_size)
        : random_(seed), seed_(seed), warp_size_(warp_size) {
        threads_ = pick({warp_size / 2, warp_size, warp_size, warp_size + 7, 2 * warp_size});
        const unsigned variables = 2 + below(10);
        for (unsigned i = 0; i < variables; ++i)
            launch_.shared.push_back(
                {"v" + std::to_string(i), 0x100000 + 0x10000 * std::uint64_t{i}, pick({4, 8, 16, 64, 512})});
        launch_.grid = {1 + below(2), 1, 1};
        launch_.block = {threads_, 1, 1};
        launch_.global = {{kBufferAddress, kBufferSize + 16, "a"}};
        kinds_ = {AccessKind::load, AccessKind::store};
        if (below(2) == 0) kinds_.push_back(AccessKind::atomic);
        if (below(4) == 0) kinds_.push_back(AccessKind::matrix_load);
        if (below(4) == 0) kinds_.push_back(AccessKind::async_copy);
        is_local_ = below(2) == 0;
        has_clocks_ = below(2) == 0;
        const unsigned phases = 1 + below(4);
        for (unsigned i = 0; i < phases; ++i) {
            Phase& phase = phases_.emplace_back();
            phase.warp_by_warp = below(2) == 0;
            const unsigned parts = has_clocks_ ? 1 + below(3) : 1;
            for (unsigned k = 0; k < parts; ++k) {
                phase.parts.push_back(statements(0));
                phase.meeting.push_back(below(4));
            }
        }
    }

    void run(AccessObserver& observer) {
        observer.begin_launch(launch_);
        for (unsigned block = 0; block < launch_.grid.x; ++block) {
            if (!observer.begin_block({block, 0, 0})) continue;
            block_ = block;
            ended_.assign(threads_, false);
            for (const Phase& phase : phases_) run(phase, observer);
            observer.end_block();
        }
        observer.end_launch();
    }

  private:
    struct Statement {
        enum What { access, branch, loop, leave, release, acquire } what = access;
        unsigned id = 0;  // of the instruction, or for what a lane decides
        AccessKind kind{};
        unsigned bytes = 0, variable = 0, factor = 0, offset = 0;
        bool is_global = false;
        std::vector<Statement> body, otherwise;
    };
    struct Phase {
        bool warp_by_warp = false;
        std::vector<std::vector<Statement>> parts;
        std::vector<unsigned>
            meeting;  // behind each: of nobody, of warps, of halves of warps, a shuffle of warps
    };

    unsigned below(unsigned end) { return static_cast<unsigned>(random_() % end); }
    unsigned pick(std::initializer_list<unsigned> list) {
        return *(list.begin() + below(static_cast<unsigned>(list.size())));
    }
    // The same whenever it is asked.
    unsigned decision(unsigned id, unsigned thread, unsigned turn, unsigned end) const {
        std::uint64_t x = seed_ ^ (std::uint64_t{id} << 40) ^ (std::uint64_t{thread} << 20) ^ turn ^
                          std::uint64_t{block_} << 60;
        x = (x ^ x >> 31) * 0x9e3779b97f4a7c15u;
        x = (x ^ x >> 29) * 0xd6e8feb86659fd93u;
        return static_cast<unsigned>((x ^ x >> 32) % end);
    }

    std::vector<Statement> statements(unsigned depth) {
        std::vector<Statement> list;
        const unsigned count = 1 + below(4);
        for (unsigned i = 0; i < count; ++i) list.push_back(statement(depth));
        return list;
    }
    Statement statement(unsigned depth) {
        Statement result;
        result.id = ++ids_;
        const unsigned chance = below(20);
        if (depth < 3 && chance < 4) {
            result.what = Statement::branch;
            result.factor = 1 + below(4);
            result.body = statements(depth + 1);
            if (below(2) == 0) result.otherwise = statements(depth + 1);
        } else if (depth < 3 && chance < 7) {
            result.what = Statement::loop;
            result.factor = 1 + below(4);
            result.body = statements(depth + 1);
        } else if (chance == 7 && below(4) == 0) {
            result.what = Statement::leave;
        } else if (has_clocks_ && chance < 10) {
            result.what = chance == 8 ? Statement::release : Statement::acquire;
            result.variable = below(2);
        } else {
            result.kind = kinds_[below(static_cast<unsigned>(kinds_.size()))];
            result.bytes = pick({1, 2, 4, 4, 8, 16});
            result.variable = below(static_cast<unsigned>(launch_.shared.size()));
            result.factor = is_local_ && below(8) != 0 ? 1 : below(4);
            result.offset = is_local_ && below(8) != 0 ? 0 : below(64);
            result.is_global = result.kind == AccessKind::load && below(4) == 0;
        }
        return result;
    }

    void run(const Phase& phase, AccessObserver& observer) {
        const unsigned warps = (threads_ + warp_size_ - 1) / warp_size_;
        const auto part = [&](unsigned warp, std::size_t k) {
            std::vector<unsigned> order;
            for (unsigned t = warp * warp_size_; t < std::min(threads_, (warp + 1) * warp_size_); ++t)
                if (!ended_[t]) order.push_back(t);
            std::vector<unsigned> met = order;
            std::shuffle(order.begin(), order.end(), random_);
            for (const unsigned thread : order) run_thread(phase.parts[k], thread, observer);
            if (phase.meeting[k] == 0) return;
            std::erase_if(met, [&](unsigned t) { return ended_[t]; });
            const unsigned half = warp_size_ / 2;
            std::vector<unsigned> low, high;
            for (const unsigned t : met) (t % warp_size_ < half ? low : high).push_back(t);
            if (phase.meeting[k] == 1) {
                if (!met.empty()) observer.meeting(met, false);
                return;
            }
            if (phase.meeting[k] == 3) {
                if (!met.empty()) observer.exchange(met);
                return;
            }
            if (!low.empty()) observer.meeting(low, false);
            if (!high.empty() && k % 2 == 0) observer.meeting(high, false);
        };
        if (phase.warp_by_warp) {
            for (unsigned warp = 0; warp < warps; ++warp)
                for (std::size_t k = 0; k < phase.parts.size(); ++k) part(warp, k);
        } else {
            for (std::size_t k = 0; k < phase.parts.size(); ++k)
                for (unsigned warp = 0; warp < warps; ++warp) part(warps - 1 - warp, k);
        }
        std::vector<unsigned> live;
        for (unsigned t = 0; t < threads_; ++t)
            if (!ended_[t]) live.push_back(t);
        if (!live.empty()) observer.meeting(live, true);
    }

    void run_thread(const std::vector<Statement>& list, unsigned thread, AccessObserver& observer) {
        turn_ = 0;
        execute(list, thread, observer);
        flush(thread, observer);
    }
    void flush(unsigned thread, AccessObserver& observer) {
        if (!log_.empty()) observer.accesses(thread, log_);
        log_.clear();
    }

    void execute(const std::vector<Statement>& list, unsigned thread, AccessObserver& observer) {
        for (const Statement& one : list) {
            if (ended_[thread] || turn_ > kMostTurns) return;
            ++turn_;
            switch (one.what) {
                case Statement::branch:
                    execute(decision(one.id, thread, turn_, one.factor + 1) != 0 ? one.body : one.otherwise,
                            thread, observer);
                    break;
                case Statement::loop:
                    for (unsigned k = decision(one.id, thread, turn_, one.factor + 1); k > 0; --k)
                        execute(one.body, thread, observer);
                    break;
                case Statement::leave:
                    ended_[thread] = decision(one.id, thread, 0, 3) == 0;
                    break;
                case Statement::release:
                    flush(thread, observer);
                    observer.release(thread, 0x42 + one.variable);
                    break;
                case Statement::acquire:
                    flush(thread, observer);
                    observer.acquire(thread, 0x42 + one.variable);
                    break;
                case Statement::access:
                    log_.push_back(access(one, thread));
                    // Its wait follows, so that it is never under way when another access comes.
                    if (one.kind != AccessKind::async_copy) break;
                    log_.push_back(log_.back());
                    log_.back().kind = AccessKind::async_arrival;
                    break;
            }
        }
    }
    ObservedAccess access(const Statement& one, unsigned thread) const {
        ObservedAccess result;
        result.code = 1000 + one.id;
        result.kind = one.kind;
        // Asynchronous copies move whole words.
        const unsigned bytes =
            result.kind == AccessKind::async_copy ? std::max(4u, unsigned(one.bytes)) : one.bytes;
        result.bytes = static_cast<std::uint16_t>(bytes);
        const std::uint64_t place = (one.factor * thread + one.offset + (one.factor > 2 ? turn_ : 0)) * bytes;
        if (one.is_global) {
            result.address = kBufferAddress + place % kBufferSize;
            return result;
        }
        const SharedVariable& variable = launch_.shared[one.variable];
        const std::uint64_t whole = std::max<std::uint64_t>(variable.size_bytes, bytes);
        result.address = variable.address + place % whole;  // beyond a variable that is too small for it
        if (decision(one.id, thread, turn_, 500) == 0) result.address = variable.address - bytes;
        return result;
    }

    std::mt19937_64 random_;
    const std::uint64_t seed_;
    const unsigned warp_size_;
    unsigned threads_ = 0, ids_ = 0, block_ = 0, turn_ = 0;
    bool is_local_ = false, has_clocks_ = false;
    ObservedLaunch launch_;
    std::vector<AccessKind> kinds_;
    std::vector<Phase> phases_;
    std::vector<bool> ended_;
    std::vector<ObservedAccess> log_;
};

}  // namespace kiln::test
