// SPDX-License-Identifier: Apache-2.0
//
// What a service and its cache do, as numbers (Counters) and as a call per event (TraceEvent).
#pragma once

#include <kiln/build.h>
#include <kiln/version.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace kiln {
inline namespace KILN_ABI {

/// What has happened; a snapshot. Of one service since it was made, or of a cache directory since it was
/// cleared, summed over all processes. A request for a kernel or a binary is one hit or one miss, with two
/// exceptions: who waited for another thread's build that failed is neither, and an entry that the driver
/// rejects is a hit and a miss.
struct Counters {
    std::uint64_t memory_hits = 0;       ///< kernels that were loaded already
    std::uint64_t disk_hits = 0;         ///< entries of the cache directory
    std::uint64_t seed_hits = 0;         ///< entries of seed packs
    std::uint64_t remote_hits = 0;       ///< entries of the remote
    std::uint64_t misses = 0;            ///< neither found nor served by another process or machine
    std::uint64_t compiles = 0;          ///< that were started
    std::uint64_t build_failures = 0;    ///< of those
    std::uint64_t waits = 0;             ///< for another process or machine that compiled the same
    std::uint64_t take_overs = 0;        ///< from one that died or stalled
    std::uint64_t rejected_entries = 0;  ///< damaged, foreign, not trusted, or rejected by the driver
    std::uint64_t stored_entries = 0;    ///< on disk
    std::uint64_t remote_stores = 0;     ///< entries sent to the remote
    std::uint64_t remote_failures = 0;   ///< calls that failed or ran out of time
    std::uint64_t pruned_entries = 0;    ///< removed to stay below the limit
    std::uint64_t bytes_read = 0;        ///< entries of hits beyond memory
    std::uint64_t bytes_written = 0;     ///< entries stored, on disk and remotely
    std::uint64_t compile_ms = 0;        ///< spent compiling
    std::uint64_t saved_ms = 0;          ///< what those hits would have taken to compile

    /// Adds each counter.
    Counters& operator+=(const Counters& other);
    bool operator==(const Counters&) const = default;
};

/// One counter with its name and a line of help, for writing all of them out.
struct CounterField {
    std::string_view name;           ///< the member's name
    std::uint64_t Counters::*value;  ///< the member
    std::string_view help;           ///< one line for people
};
/// Every counter, in the order of the struct.
std::span<const CounterField> counter_fields();

/// Prometheus' text format, version 0.0.4: kiln_disk_hits_total and so on, each with HELP and TYPE.
/// labels: written into every line as they are, say `service="a"`; may be empty.
std::string prometheus_text(const Counters& counters, std::string_view labels = {});

/// What happened.
enum class TraceKind {
    hit,         ///< tier: where; bytes, elapsed_ms of the look-up
    miss,        ///< in every tier; `wait` and a hit may follow
    wait,        ///< for another process or machine; elapsed_ms: how long it took
    take_over,   ///< from a holder that died or stalled
    compile,     ///< elapsed_ms
    failure,     ///< a compile failed; detail: the message
    store,       ///< tier: where; bytes
    reject,      ///< tier: where; detail: why
    prune,       ///< bytes: what was freed; detail: how many entries
    unavailable  ///< a tier can't be used; detail: why
};
/// "hit", "miss", "wait", "take_over", "compile", "failure", "store", "reject", "prune", "unavailable".
std::string_view name(TraceKind kind);

/// Valid during the call only.
struct TraceEvent {
    TraceKind kind = TraceKind::hit;  ///< what happened
    Origin tier = Origin::memory;     ///< where, as TraceKind says
    std::string_view key;             ///< the digest; empty where none is concerned
    std::string_view variant;         ///< "gemm_tiled BM=64 ..."; empty where none is concerned
    double elapsed_ms = 0;            ///< of what happened, as TraceKind says
    std::uint64_t bytes = 0;          ///< likewise
    std::string_view detail;          ///< likewise; for people
};

/// Called from any thread, in the middle of a build: it must be quick, not throw, and not call the
/// service. Hits in memory are not traced, since the call would cost more than the look-up.
using TraceFunction = std::function<void(const TraceEvent&)>;

}  // namespace KILN_ABI
}  // namespace kiln
