// SPDX-License-Identifier: Apache-2.0
//
// Also the text of problems, places and kinds.
#include "analysis/access_problems.h"

#include <sstream>
#include <utility>

#include "analysis/access_totals.h"
#include "base/words.h"
#include "format/format.h"

namespace kiln {
namespace {

constexpr std::size_t kMostProblems = 100;

std::string width_text(int bytes) { return counted(static_cast<unsigned>(bytes), "byte", "bytes"); }

std::string variable_text(const AccessProblem& problem) {
    if (!problem.tensor.empty()) return problem.tensor;
    if (problem.variable.empty()) return "global memory";
    std::string text = problem.variable;
    if (problem.variable_line != 0) text += formatted(" (line {})", problem.variable_line);
    return text;
}

std::string race_text(const AccessProblem& problem) {
    std::string text = formatted("race: {} {} by thread {} and {} {} by thread {}", problem.place.text(),
                                 name(problem.access), problem.thread, problem.other.text(),
                                 name(problem.other_access), problem.other_thread);
    text += formatted(" touch the same {} of {} (offset {}) with no ",
                      problem.bytes == 1 ? "byte" : width_text(problem.bytes), variable_text(problem),
                      problem.offset);
    // A thread's own access conflicts with nothing but a copy that is under way.
    if (problem.thread == problem.other_thread)
        text += "wait for the copy between";
    else if (problem.other_access == AccessKind::async_copy || problem.other_access == AccessKind::bulk_begin)
        text += "wait for the copy and barrier between";
    else
        text += "barrier between";
    const bool both_store = problem.access == AccessKind::store && problem.other_access == AccessKind::store;
    if (both_store) text += "; two stores race even if they store the same value";
    return text;
}

// Where in global memory, as the end of a sentence.
std::string tensor_text(const AccessProblem& problem) {
    const auto bytes_text = [](std::int64_t bytes) {
        return counted(static_cast<std::uint64_t>(bytes), "byte", "bytes");
    };
    if (problem.tensor.empty()) {
        std::ostringstream address;
        address << " at address 0x" << std::hex << problem.offset << ", which is not near any tensor";
        return address.str();
    }
    const auto size = static_cast<std::int64_t>(problem.variable_bytes);
    const std::int64_t end = problem.offset + problem.bytes;
    const std::string whole = problem.tensor + ", which has " + bytes_text(size);
    if (end <= 0) return ", " + bytes_text(-problem.offset) + " before the start of " + whole;
    if (problem.offset < 0)
        return ", " + bytes_text(-problem.offset) + " of them before the start of " + whole;
    if (problem.offset == size) return " right after the end of " + whole;
    if (problem.offset > size) return ", " + bytes_text(problem.offset - size) + " after the end of " + whole;
    return ", " + bytes_text(end - size) + " of them after the end of " + whole;
}

std::string bounds_text(const AccessProblem& problem) {
    if (problem.bytes == 0 && !problem.tensor.empty())
        return "out of bounds: something that the recording can't see, such as a function of the C "
               "library, wrote" +
               tensor_text(problem);
    std::string text = "out of bounds: " + problem.place.text() + " ";
    if (problem.index) {
        return formatted("{}index {} of an array of type {}, by thread {}", text, *problem.index,
                         problem.array_type, problem.thread);
    }
    text +=
        formatted("{} by thread {} of {}", name(problem.access), problem.thread, width_text(problem.bytes));
    if (problem.variable.empty()) return text + tensor_text(problem);
    text += formatted(" at offset {} of {}, ", problem.offset, variable_text(problem));
    if (problem.offset < 0) return text + "which begins at 0";
    return text + "which has " + counted(problem.variable_bytes, "byte", "bytes");
}

std::string misaligned_text(const AccessProblem& problem) {
    const int width = part_bytes(problem.bytes);
    if (problem.offset % width == 0)
        return formatted(
            "misaligned: {} {} of {} of {}, which its declaration does not align to that width; on a GPU the "
            "kernel may fail there, unless it is declared {}",
            problem.place.text(), name(problem.access), width_text(problem.bytes), variable_text(problem),
            problem.variable.empty() ? formatted("`align {}`", width) : formatted("alignas({})", width));
    return formatted(
        "misaligned: {} {} of {} by thread {} at offset {} of {}, which is not a multiple of its width; on a "
        "GPU the kernel fails there",
        problem.place.text(), name(problem.access), width_text(problem.bytes), problem.thread, problem.offset,
        variable_text(problem));
}

std::string uninitialised_text(const AccessProblem& problem) {
    if (problem.access == AccessKind::idle_lane)
        return formatted(
            "uninitialised: {} shuffle by thread {} reads lane {}, which does not take part: what it gets is "
            "undefined",
            problem.place.text(), problem.thread, problem.offset);
    return formatted("uninitialised: {} {} by thread {} of {} of {} (offset {}) that was never written",
                     problem.place.text(), name(problem.access), problem.thread, width_text(problem.bytes),
                     variable_text(problem), problem.offset);
}

std::string read_only_text(const AccessProblem& problem) {
    const std::string input = problem.tensor.empty() ? problem.variable + ", which is __constant__"
                                                     : problem.tensor + ", which is an input";
    if (problem.bytes == 0)
        return "read only: something that the recording can't see, such as a function of the C library, "
               "wrote to " +
               input;
    return formatted("read only: {} {} by thread {} of {} at offset {} of {}", problem.place.text(),
                     name(problem.access), problem.thread, width_text(problem.bytes), problem.offset, input);
}

}  // namespace

const AccessProblem* AccessProblems::add(AccessProblem problem) {
    Key key{problem.kind,
            problem.place,
            problem.access,
            problem.other,
            problem.other_access,
            problem.variable.empty() ? problem.tensor : problem.variable,
            problem.variable.empty() && problem.offset < 0};
    const auto [slot, is_new] = places_.try_emplace(std::move(key), problems_.size());
    if (!is_new) {
        ++problems_[slot->second].count;
        return nullptr;
    }
    if (problems_.size() == kMostProblems) {
        places_.erase(slot);
        return nullptr;
    }
    problem.count = 1;
    return &problems_.emplace_back(std::move(problem));
}

std::string AccessProblem::text() const {
    std::string text;
    switch (kind) {
        case ProblemKind::race:
            text = race_text(*this);
            break;
        case ProblemKind::out_of_bounds:
            text = bounds_text(*this);
            break;
        case ProblemKind::misaligned:
            text = misaligned_text(*this);
            break;
        case ProblemKind::uninitialised:
            text = uninitialised_text(*this);
            break;
        case ProblemKind::read_only:
            text = read_only_text(*this);
            break;
    }
    const bool is_recorded = bytes != 0 || index;
    if (!is_recorded) return text;  // it has no block
    text += formatted("; block ({},{},{})", block.x, block.y, block.z);
    if (count > 1) text += ", " + counted(count, "time", "times");
    return text;
}

inline namespace KILN_ABI {

std::string_view name(AccessKind kind) {
    switch (kind) {
        case AccessKind::load:
            return "load";
        case AccessKind::store:
            return "store";
        case AccessKind::atomic:
            return "atomic";
        case AccessKind::matrix_load:
            return "matrix load";
        case AccessKind::matrix_store:
            return "matrix store";
        case AccessKind::async_copy:
            return "asynchronous copy";
        case AccessKind::bulk_load:
        case AccessKind::bulk_begin:
            return "bulk load";
        case AccessKind::bulk_store:
            return "bulk store";
        case AccessKind::async_arrival:
            return "arrival of an asynchronous copy";
        case AccessKind::bulk_arrival:
            return "arrival of a bulk load";
        case AccessKind::barrier_init:
            return "mbarrier init";
        case AccessKind::barrier_use:
            return "mbarrier operation";
        case AccessKind::idle_lane:
            return "shuffle";
    }
    return "?";
}

std::string_view name(ProblemKind kind) {
    switch (kind) {
        case ProblemKind::race:
            return "race";
        case ProblemKind::out_of_bounds:
            return "out of bounds";
        case ProblemKind::misaligned:
            return "misaligned";
        case ProblemKind::uninitialised:
            return "uninitialised";
        case ProblemKind::read_only:
            return "read only";
    }
    return "?";
}

}  // namespace KILN_ABI
}  // namespace kiln
