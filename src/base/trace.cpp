// SPDX-License-Identifier: Apache-2.0
//
// The list of counters, what can be done with all of them alike, and the names of events.
#include <kiln/trace.h>

#include <array>

namespace kiln {
namespace {

constexpr std::array kFields = std::to_array<CounterField>({
    {"memory_hits", &Counters::memory_hits, "Look-ups served from the memory of the process"},
    {"disk_hits", &Counters::disk_hits, "Look-ups served from the cache directory"},
    {"seed_hits", &Counters::seed_hits, "Look-ups served from seed packs"},
    {"remote_hits", &Counters::remote_hits, "Look-ups served from the remote"},
    {"misses", &Counters::misses, "Look-ups that were neither found nor served by another process"},
    {"compiles", &Counters::compiles, "Compiles that were started"},
    {"build_failures", &Counters::build_failures, "Compiles that failed"},
    {"waits", &Counters::waits, "Waits for another process or machine that compiled the same"},
    {"take_overs", &Counters::take_overs,
     "Compiles taken over from a process or machine that died or stalled"},
    {"rejected_entries", &Counters::rejected_entries,
     "Entries that were damaged, foreign, not trusted, or rejected by the driver"},
    {"stored_entries", &Counters::stored_entries, "Entries stored in the cache directory"},
    {"remote_stores", &Counters::remote_stores, "Entries stored in the remote"},
    {"remote_failures", &Counters::remote_failures, "Calls to the remote that failed or ran out of time"},
    {"pruned_entries", &Counters::pruned_entries,
     "Entries removed to keep the cache directory within its limit"},
    {"bytes_read", &Counters::bytes_read, "Bytes of entries read for hits beyond memory"},
    {"bytes_written", &Counters::bytes_written, "Bytes of entries stored, on disk and remotely"},
    {"compile_ms", &Counters::compile_ms, "Milliseconds spent compiling"},
    {"saved_ms", &Counters::saved_ms, "Milliseconds of compiling that hits beyond memory made unnecessary"},
});
static_assert(sizeof(Counters) == kFields.size() * sizeof(std::uint64_t), "a counter is not in the list");

}  // namespace

inline namespace KILN_ABI {

std::span<const CounterField> counter_fields() { return kFields; }

Counters& Counters::operator+=(const Counters& other) {
    for (const auto& field : kFields) this->*field.value += other.*field.value;
    return *this;
}

std::string prometheus_text(const Counters& counters, std::string_view labels) {
    std::string text;
    for (const auto& field : kFields) {
        const std::string metric = "kiln_" + std::string(field.name) + "_total";
        text.append("# HELP ").append(metric).append(" ").append(field.help).append("\n");
        text.append("# TYPE ").append(metric).append(" counter\n").append(metric);
        if (!labels.empty()) text.append("{").append(labels).append("}");
        text.append(" ").append(std::to_string(counters.*field.value)).append("\n");
    }
    return text;
}

std::string_view name(TraceKind kind) {
    switch (kind) {
        case TraceKind::hit:
            return "hit";
        case TraceKind::miss:
            return "miss";
        case TraceKind::wait:
            return "wait";
        case TraceKind::take_over:
            return "take_over";
        case TraceKind::compile:
            return "compile";
        case TraceKind::failure:
            return "failure";
        case TraceKind::store:
            return "store";
        case TraceKind::reject:
            return "reject";
        case TraceKind::prune:
            return "prune";
        case TraceKind::unavailable:
            return "unavailable";
    }
    return "unknown";
}

}  // namespace KILN_ABI
}  // namespace kiln
