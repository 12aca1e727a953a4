// SPDX-License-Identifier: Apache-2.0
//
// Uses the calls of a report that are in the kernel's shared object, whose debug information gives the lines.
#include "run/kernel_failure.h"

#include <signal.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/source_lines.h"
#include "base/words.h"
#include "format/format.h"

namespace kiln {
namespace {

constexpr std::uint64_t kNear = std::uint64_t{1} << 30;

std::string hex(std::uint64_t number) { return formatted("0x{:x}", number); }

/// "gemm.cu:41"; empty: not known.
std::string place_text(const KernelReport& report) {
    std::string other;
    for (int i = 0; i < std::min(report.calls, KernelReport::kMostCalls); ++i) {
        const int number = report.object_of[i];
        if (number < 1 || number > KernelReport::kMostObjects) continue;
        const KernelReport::Object& object = report.object[number - 1];
        const SourcePlace place = place_in_file(object.name, report.call[i] - object.begin);
        if (place.line == 0) continue;
        if (place.file.ends_with(".cu")) return place.text();
        if (other.empty()) other = place.text();
    }
    return other;
}

std::string index_text(const unsigned (&index)[3]) {
    return formatted("({},{},{})", index[0], index[1], index[2]);
}

/// " in block (0,0,0), thread (1,0,0), at gemm.cu:41"
std::string where_text(const KernelReport& report) {
    std::string text;
    if (report.in_kernel && report.is_loading)
        text = " while its library was loaded, which constructs its global objects";
    else if (report.in_kernel)
        text = " in block " + index_text(report.block) + ", thread " + index_text(report.thread);
    if (const std::string place = place_text(report); !place.empty())
        text += (text.empty() ? " at " : ", at ") + place;
    return text;
}

std::string kernel_text(const KernelReport& report, const std::string& otherwise) {
    const std::string name = report.in_kernel && report.kernel[0] != '\0' ? report.kernel : otherwise;
    return "Kernel " + name;
}

/// ", 40 bytes after the end of c: element 1010 of c, which has 1000"
std::string nearest_text(const KernelWatch& watch, std::uint64_t address) {
    std::uint64_t least = kNear;
    std::string text;
    const int count = std::min(watch.memory_count.load(), KernelWatch::kMostMemories);
    for (int i = 0; i < count; ++i) {
        const WatchedMemory& memory = watch.memories[i];
        const std::uint64_t end = memory.begin + memory.bytes;
        const bool is_before = address < memory.begin;
        const std::uint64_t distance = is_before ? memory.begin - address : address - end;
        if (!is_before && address < end) return std::string(", which is in ") + memory.name;
        if (distance >= least) continue;
        least = distance;
        // Rounded down: what ends right before the start is in element -1.
        const auto element = is_before
                                 ? -1 - static_cast<std::int64_t>((distance - 1) / memory.element_bytes)
                                 : static_cast<std::int64_t>((address - memory.begin) / memory.element_bytes);
        text = ", " + counted(distance, "byte", "bytes") +
               (is_before ? " before the start of " : " after the end of ") + memory.name +
               formatted(": element {} of {}, which has {}", element, memory.name,
                         memory.bytes / memory.element_bytes);
    }
    return text;
}

std::string access_text(const KernelReport& report) {
    if (!report.is_access_known) return "accessed";
    return report.is_write ? "wrote to" : "read from";
}

/// "signal 11 (Segmentation fault)"
std::string signal_text(int number) { return formatted("signal {} ({})", number, ::strsignal(number)); }

/// By the name that a call has, so that it does not read like a fault.
std::string sent_text(const KernelReport& report) {
    constexpr std::pair<int, const char*> kNames[] = {
        {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"}, {SIGILL, "SIGILL"},
        {SIGABRT, "SIGABRT"}, {SIGTRAP, "SIGTRAP"}, {SIGSYS, "SIGSYS"}};
    const auto* const known = std::ranges::find(kNames, report.signal, &std::pair<int, const char*>::first);
    const std::string sent =
        known == std::end(kNames) ? signal_text(report.signal) : std::string("the signal ") + known->second;
    return report.by_itself ? "sent itself " + sent + ", as raise() and kill() do"
                            : "was sent " + sent + " by another process";
}

/// What the kernel did, as part of a sentence.
std::string deed(const KernelWatch& watch, const KernelReport& report) {
    const bool is_abort = report.signal == SIGABRT && report.code == SI_TKILL;  // which abort() raises
    if (report.was_sent && !is_abort) return sent_text(report);
    switch (report.signal) {
        case SIGSEGV:
        case SIGBUS:
            if (report.on_guard_of_stack)
                return formatted(
                    "used up its stack, which has {} KiB: it calls itself too deeply, or has arrays that are "
                    "too large",
                    report.stack_bytes / 1024);
            if (report.near_shared)
                return formatted(
                    "{} byte {} of the {} bytes of dynamic shared memory that the template's '//@ shared' "
                    "line requests",
                    access_text(report), report.shared_offset, report.shared_bytes);
            if (report.code == SI_KERNEL)
                return "used an address that is not aligned for a vector access (an access of 16 bytes needs "
                       "a "
                       "multiple of 16), or that can't be an address";
            return access_text(report) + " the address " + hex(report.address) +
                   ", which is not mapped memory" + nearest_text(watch, report.address);
        case SIGFPE:
            return report.code == FPE_INTDIV ? "divided an integer by zero, or the least one by -1"
                                             : "made an arithmetic exception";
        case SIGILL:
        case SIGTRAP:
            return "executed an instruction that ends a program, as __builtin_trap() and code that can't be "
                   "reached are";
        case SIGABRT:
            return "called abort()";
        default:
            return "ended by " + signal_text(report.signal);
    }
}

}  // namespace

std::string kernel_failure_text(const KernelWatch& watch, const ProcessEnd& end, const std::string& kernel) {
    const KernelReport& report = watch.end;
    const std::string how = !end.is_known     ? "ended"
                            : end.signal != 0 ? "was ended by " + signal_text(end.signal)
                                              : formatted("exited with status {}", end.exit_status);
    if (report.state != 2)
        return "The process in which kernel " + kernel + " ran " + how +
               (end.signal == SIGKILL ? ". The system does that when memory runs out."
                : end.signal != 0     ? "."
                                      : ": a kernel can't call _exit().");
    if (report.what == KernelReport::What::exit)
        return kernel_text(report, kernel) + " failed on the host" + where_text(report) +
               ": it called exit(), which a kernel can't.";
    if (!report.in_kernel && report.was_sent)
        return "The process in which kernel " + kernel + " ran " + sent_text(report) + ".";
    if (!report.in_kernel)
        return "The process in which kernel " + kernel + " ran " + how +
               " outside of the kernel: it has probably written to memory that is not its own.";
    return kernel_text(report, kernel) + " failed on the host" + where_text(report) + ": it " +
           deed(watch, report) + ".";
}

bool leads_to_kernel(const KernelReport& report) {
    return report.state == 2 &&
           std::ranges::any_of(report.object_of, [](unsigned char number) { return number != 0; });
}

std::string kernel_timeout_text(const KernelWatch& watch, double limit_seconds, const std::string& kernel,
                                std::string_view phase) {
    const bool has_begun = watch.begin_ns.load() != 0;
    const std::string under_way = phase == "filling"    ? " while its tensors were filled"
                                  : phase == "checking" ? " while its results were checked"
                                  : has_begun           ? ""
                                                        : " before its first launch";
    if (!under_way.empty())
        return formatted(
            "Kernel {} exceeded the time limit of {:g} s on the host{}{}; smaller sizes take less "
            "time, and --time-limit SECONDS gives it more.",
            kernel, limit_seconds, under_way,
            !has_begun && phase == "filling" ? ", before its first launch" : "");
    std::string text =
        formatted("Kernel {} ran longer on the host than the time limit of {:g} s", kernel, limit_seconds);
    auto seen = std::ranges::find_if(watch.seen, leads_to_kernel);
    if (seen == std::end(watch.seen))
        seen = std::ranges::find_if(
            watch.seen, [](const KernelReport& report) { return report.state == 2 && report.in_kernel; });
    if (seen != std::end(watch.seen))
        text += "; it was last seen in kernel " + std::string(seen->kernel) + where_text(*seen);
    return text +
           ". If it is not an endless loop, --time-limit SECONDS gives it more time. A thread that spins "
           "until another one of its block has set a flag never ends there, since the threads of a block run "
           "one "
           "after the other; a barrier lets the others run.";
}

}  // namespace kiln
