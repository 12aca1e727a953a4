// SPDX-License-Identifier: Apache-2.0
//
// The reference for AccessRecorder: an observer that merges nothing and remembers every access of a block with the
// vector clock of its thread, and compares each with each. Slow, and plain enough to be believed.
#pragma once

#include <kiln/observe.h>
#include <kiln/tools/banks.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace kiln::test {

class PlainRecording final : public AccessObserver {
  public:
    explicit PlainRecording(const BankModel& banks)
        : banks_(banks), warp_size_(static_cast<unsigned>(banks.lanes)) {}

    struct Cost {
        std::uint64_t requests = 0, units = 0, ideal = 0;
        bool operator==(const Cost&) const = default;
    };
    using Site = std::tuple<AccessKind, int, std::string>;  // kind, bytes, variable; global: no variable
    using Byte = std::pair<std::string, std::uint64_t>;

    std::set<std::string> racy;  ///< variables with a byte that two threads access with nothing to order them
    std::set<std::string>
        must_be_empty;  ///< variables of which bytes that nobody wrote are read, beyond doubt
    std::set<std::string> may_be_empty;  ///< the same, where unordered accesses leave it open
    std::map<Site, Cost> costs;
    std::map<std::string, std::uint64_t> out_of_bounds;  ///< accesses, by the nearest variable
    std::uint64_t accesses_seen = 0;

    /// Whether two such accesses of that byte race.
    bool has_race(const std::string& variable, std::uint64_t at, unsigned thread, AccessKind kind,
                  unsigned other, AccessKind other_kind) const {
        for (const auto& interval : intervals_) {
            const auto found = interval.find(variable);
            if (found == interval.end()) continue;
            const std::vector<Access>& list = found->second;
            for (std::size_t i = 0; i < list.size(); ++i) {
                if (!list[i].is(thread, kind, at)) continue;
                for (std::size_t k = 0; k < list.size(); ++k)
                    if (list[k].is(other, other_kind, at) && are_racing(list, i, k)) return true;
            }
        }
        return false;
    }

    void begin_launch(const ObservedLaunch& launch) override {
        launch_ = launch;
        threads_ = static_cast<unsigned>(launch.block.count());
        if (launch.dynamic_shared_bytes != 0)
            launch_.shared.push_back(
                {"dynamic shared memory", launch.dynamic_shared_address, launch.dynamic_shared_bytes});
    }
    bool begin_block(Dim3) override {
        written_.clear();
        restart();
        return true;
    }
    void accesses(unsigned thread, std::span<const ObservedAccess> list) override {
        for (const ObservedAccess& access : list) add(thread, access);
    }
    void bad_index(unsigned, const ObservedBadIndex&) override {}
    void meeting(std::span<const unsigned> who, bool whole_block) override {
        if (whole_block) return end_interval();
        if (who.size() > 1) {
            Clock joined(threads_, 0);
            for (const unsigned thread : who) join(joined, clocks_[thread]);
            for (const unsigned thread : who) {
                clocks_[thread] = joined;
                ++clocks_[thread][thread];
            }
        }
        exchange(who);
    }
    void exchange(std::span<const unsigned> who) override {
        for (const unsigned thread : who) ++meetings_[thread];
    }
    void release(unsigned thread, std::uint64_t object) override {
        Clock& held = objects_.try_emplace(object, threads_, 0).first->second;
        join(held, clocks_[thread]);
        ++clocks_[thread][thread];
    }
    void acquire(unsigned thread, std::uint64_t object) override {
        const auto found = objects_.find(object);
        if (found == objects_.end()) return;
        const std::uint32_t own = clocks_[thread][thread];
        join(clocks_[thread], found->second);
        clocks_[thread][thread] = std::max(own, clocks_[thread][thread]);
    }
    void end_block() override { end_interval(); }
    void end_launch() override {}

  private:
    using Clock = std::vector<std::uint32_t>;
    struct Access {
        unsigned thread;
        AccessKind kind;
        std::uint32_t code;
        std::uint64_t first, end;  // in the variable
        Clock clock;

        bool is(unsigned by, AccessKind how, std::uint64_t at) const {
            return thread == by && kind == how && at >= first && at < end;
        }
    };
    using Instruction = std::tuple<std::uint32_t, std::uint32_t, int, AccessKind, bool, std::string>;
    using RequestKey = std::tuple<unsigned, unsigned, Instruction, unsigned>;  // warp, meetings, ..., k
    using Lanes = std::vector<std::optional<std::uint64_t>>;

    static bool reads(AccessKind kind) {
        return kind == AccessKind::load || kind == AccessKind::matrix_load || kind == AccessKind::atomic;
    }
    static bool writes(AccessKind kind) {
        return kind != AccessKind::load && kind != AccessKind::matrix_load;
    }
    static bool conflict(AccessKind a, AccessKind b) {
        return (writes(a) || writes(b)) && !(a == AccessKind::atomic && b == AccessKind::atomic);
    }
    static void join(Clock& clock, const Clock& other) {
        for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
    }
    static bool comes_before(const Access& a, const Access& b, std::size_t place_a, std::size_t place_b) {
        if (a.thread == b.thread) return place_a < place_b;
        return b.clock[a.thread] >= a.clock[a.thread];
    }

    void restart() {
        clocks_.assign(threads_, Clock(threads_, 0));
        for (unsigned i = 0; i < threads_; ++i) clocks_[i][i] = 1;
        meetings_.assign(threads_, 0);
        objects_.clear();
        shared_.clear();
        executions_.clear();
        requests_.clear();
    }

    void add(unsigned thread, const ObservedAccess& access) {
        const SharedVariable* inside = nullptr;
        const SharedVariable* near = nullptr;
        for (const SharedVariable& variable : launch_.shared) {
            const std::uint64_t end = variable.address + variable.size_bytes;
            const std::uint64_t access_end = access.address + access.bytes;
            if (access.address >= variable.address && access_end <= end) inside = &variable;
            if (access_end > variable.address - launch_.shared_gap_bytes &&
                access.address < end + launch_.shared_gap_bytes)
                near = &variable;
        }
        ++accesses_seen;
        if (inside == nullptr && near != nullptr) {
            ++out_of_bounds[near->name];
            return;
        }
        const std::string name = inside != nullptr ? inside->name : "";
        const Instruction instruction{access.code, access.caller,         access.bytes,
                                      access.kind, access.unaligned_type, name};
        const unsigned k = executions_[{thread, meetings_[thread], instruction}]++;
        Lanes& lanes = requests_[{thread / warp_size_, meetings_[thread], instruction, k}];
        lanes.resize(warp_size_);
        lanes[thread % warp_size_] = inside != nullptr ? access.address - inside->address : access.address;
        if (inside == nullptr) return;
        const std::uint64_t first = access.address - inside->address;
        shared_[name].push_back(
            {thread, access.kind, access.code, first, first + access.bytes, clocks_[thread]});
    }

    // What is before a meeting of all comes before what is behind it.
    void end_interval() {
        for (const auto& [name, list] : shared_) compare(name, list);
        for (const auto& [name, list] : shared_) {
            for (const Access& access : list) {
                if (!writes(access.kind)) continue;
                for (std::uint64_t at = access.first; at < access.end; ++at) written_.emplace(name, at);
            }
        }
        for (const auto& [key, lanes] : requests_) count(key, lanes);
        intervals_.push_back(std::move(shared_));
        restart();
    }

    static bool are_racing(const std::vector<Access>& list, std::size_t i, std::size_t k) {
        const Access &a = list[i], &b = list[k];
        return a.thread != b.thread && conflict(a.kind, b.kind) && !comes_before(a, b, i, k) &&
               !comes_before(b, a, k, i);
    }

    void compare(const std::string& name, const std::vector<Access>& list) {
        std::map<std::uint64_t, std::vector<std::size_t>> bytes;
        for (std::size_t i = 0; i < list.size(); ++i)
            for (std::uint64_t at = list[i].first; at < list[i].end; ++at) bytes[at].push_back(i);
        std::set<std::uint64_t> racy_words;
        for (const auto& [at, those] : bytes) {
            for (std::size_t i = 0; i < those.size() && racy_words.count(at / 4) == 0; ++i)
                for (std::size_t k = i + 1; k < those.size(); ++k)
                    if (are_racing(list, those[i], those[k])) racy_words.insert(at / 4);
        }
        if (!racy_words.empty()) racy.insert(name);
        for (const auto& [at, those] : bytes) {
            if (written_.count({name, at}) != 0) continue;
            for (const std::size_t i : those) {
                if (reads(list[i].kind)) read(name, list, those, i, racy_words.count(at / 4) != 0);
            }
        }
    }
    // Of a byte that nobody has written before the interval.
    void read(const std::string& name, const std::vector<Access>& list, const std::vector<std::size_t>& those,
              std::size_t i, bool is_racy) {
        bool open = is_racy;
        for (const std::size_t k : those) {
            if (k == i || !writes(list[k].kind)) continue;
            if (comes_before(list[k], list[i], k, i)) return;
            open = open || !comes_before(list[i], list[k], i, k);
        }
        may_be_empty.insert(name);
        if (!open) must_be_empty.insert(name);
    }

    void count(const RequestKey& key, const Lanes& lanes) {
        const auto& [code, caller, bytes, kind, unaligned, variable] = std::get<2>(key);
        if (unaligned || bytes > 16 || kind == AccessKind::async_copy || !has_cost(kind)) return;
        Cost& cost = costs[{kind, bytes, variable}];
        ++cost.requests;
        if (!variable.empty()) {
            std::vector<std::optional<std::uint32_t>> row(lanes.size());
            for (std::size_t lane = 0; lane < lanes.size(); ++lane)
                if (lanes[lane]) row[lane] = static_cast<std::uint32_t>(*lanes[lane]);
            const Wavefronts found =
                wavefronts(row, bytes, banks_, writes(kind) ? SharedAccess::store : SharedAccess::load);
            cost.units += static_cast<std::uint64_t>(found.actual);
            cost.ideal += static_cast<std::uint64_t>(found.ideal);
            return;
        }
        constexpr std::uint64_t kSector = 32;
        std::set<std::uint64_t> sectors;
        std::uint64_t asked = 0;
        for (const auto& lane : lanes) {
            if (!lane) continue;
            asked += static_cast<std::uint64_t>(bytes);
            sectors.insert(*lane / kSector);
            sectors.insert((*lane + static_cast<std::uint64_t>(bytes) - 1) / kSector);
        }
        cost.units += sectors.size();
        cost.ideal += std::min<std::uint64_t>(sectors.size(), (asked + kSector - 1) / kSector);
    }

    const BankModel banks_;
    const unsigned warp_size_;
    ObservedLaunch launch_;
    unsigned threads_ = 0;
    std::vector<Clock> clocks_;
    std::vector<unsigned> meetings_;
    std::map<std::uint64_t, Clock> objects_;
    std::map<std::string, std::vector<Access>> shared_;                  // of the interval
    std::vector<std::map<std::string, std::vector<Access>>> intervals_;  // before
    std::set<Byte> written_;                                             // in this block, before the interval
    std::map<std::tuple<unsigned, unsigned, Instruction>, unsigned> executions_;
    std::map<RequestKey, Lanes> requests_;
};

}  // namespace kiln::test
