// SPDX-License-Identifier: Apache-2.0
//
// Adds up the cost of each warp's requests, per line of the source: wavefronts of shared memory
// (shared_costs.cpp), sectors of global memory (global_costs.cpp), both as written and as a compiler may merge
// them.
#pragma once

#include <kiln/tools/accesses.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/access_patterns.h"
#include "analysis/access_requests.h"
#include "analysis/merge_window.h"

namespace kiln {

/// The accesses that one entry of a report describes.
struct AccessSite {
    SourcePlace place;
    AccessKind kind = AccessKind::load;
    int bytes = 0;         ///< per lane, as written
    std::string variable;  ///< empty: global memory

    bool is_shared() const { return !variable.empty(); }
    auto operator<=>(const AccessSite&) const = default;
};

/// The largest power of two, up to 16, that divides the bytes of an access: the GPU splits the access into
/// parts of this size.
int part_bytes(int bytes);

/// Not thread-safe.
class AccessTotals {
  public:
    AccessTotals(const BankModel& banks, unsigned warp_size);

    /// The number of a site, which is added if it is new.
    std::uint32_t site(const AccessSite& site);
    /// Called for the first lane of a request whose address is not a multiple of its width.
    using Misaligned = std::function<void(std::uint32_t instruction, unsigned thread, std::uint64_t address)>;
    /// codes, sites: of the launch's instructions, by number.
    void add(const RequestList& list, std::span<const AccessCode> codes, std::span<const std::uint32_t> sites,
             const Regions& regions, const Misaligned& misaligned);

    /// Instructions are numbered from 0 again.
    void begin_launch();
    void begin_block();
    /// Sets RequestList::sound_before of each list that equals one added before.
    void recall(std::span<RequestList* const> lists);

    std::vector<SharedSite> shared() const;
    std::vector<GlobalSite> global() const;

  private:
    // What changes in a site's totals when accesses up to some width are used.
    struct Merging {
        std::int64_t requests = 0, units = 0, ideal = 0;
        std::uint64_t absorbed = 0;  // accesses that became part of one of that width
        int degree = 0;

        void add(const Merging& more);  // but for the degree
        Merging since(const Merging& before) const;
    };
    struct Sums {
        AccessSite site;
        int width = 0;  // per lane as written, of a power of two
        std::uint64_t requests = 0;
        std::uint64_t units = 0;  // wavefronts or sectors
        std::uint64_t ideal = 0;
        std::uint64_t lane_bytes = 0;
        std::uint64_t misaligned = 0;
        int degree = 0;
        std::array<Merging, kWidths> merged;
        // No change, but what accesses cost if each piece of that width which a lane accesses two parts of or more is one access.
        std::array<Merging, kWidths> spanned;
        int worst_units = -1;
        std::vector<std::optional<std::uint32_t>> worst;

        void add(const Sums& more);
        Sums since(const Sums& before) const;  // what was added
    };
    // A request and its details.
    struct Seen {
        const Request& request;
        const AccessCode& code;
        Sums& sums;
        std::uint32_t site;
        std::uint32_t pattern;
        std::uint64_t address;  // the first lane's
        std::uint64_t base;     // the same, relative to the variable or buffer
        int width;
    };
    // A list of accesses to shared memory, and what it added.
    struct Remembered {
        std::vector<Request> requests;
        std::vector<std::int32_t> relative;
        std::vector<std::pair<std::uint32_t, Sums>> added;  // by site
        bool sound = false;
    };
    struct Cost {
        int units = 0, ideal = 0, degree = 0;
    };

    static bool equal(const Remembered& old, const RequestList& list);
    Remembered* find(const RequestList& list);
    void remember(const RequestList& list, std::vector<std::pair<std::uint32_t, Sums>> before);
    void add_each(const RequestList& list, std::span<const AccessCode> codes,
                  std::span<const std::uint32_t> sites, const Regions& regions, const Misaligned& misaligned);
    Cost cost(const Sums& sums, std::uint32_t pattern, std::uint64_t base, int width);
    void count(const Seen& seen, unsigned warp, const Misaligned& misaligned);
    void count_misaligned(const Seen& seen, unsigned warp, const Misaligned& misaligned);
    void keep_worst(Sums& sums, int units, std::uint32_t pattern, std::uint64_t base);
    static bool is_copy_of(const Seen& source, const AccessCode& next, const Sums& sums);
    void count_copy(const Seen& source, const Seen& target);
    void consider_merging(const Seen& seen);
    void close(std::vector<MergeCandidate>& window);
    void span(Sums& sums, std::span<const MergeCandidate> candidates, int width);
    // The logarithm of the widest width to which at least half of the accesses merge.
    static int widest(const Sums& sums);

    const BankModel banks_;
    const unsigned warp_size_;
    AccessPatterns patterns_;
    std::map<AccessSite, std::uint32_t> numbers_;
    std::vector<Sums> sites_;
    // Candidates: loads and stores, of global [0] and of shared memory [1].
    std::array<std::vector<MergeCandidate>, 2> loads_, stores_;
    std::vector<MergedAccess> merged_;
    static constexpr std::size_t kRemembered = 2;  // per warp
    struct Memory {
        std::array<Remembered, kRemembered> lists;
        std::size_t next = 0;
    };
    std::vector<Memory> memory_;  // per warp
};

}  // namespace kiln
