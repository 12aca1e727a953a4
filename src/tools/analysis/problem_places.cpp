// SPDX-License-Identifier: Apache-2.0
#include "analysis/problem_places.h"

namespace kiln {

AccessProblem ProblemPlaces::problem(ProblemKind kind, unsigned thread, const ObservedAccess& access) {
    AccessProblem problem;
    problem.kind = kind;
    problem.place = lines_.place(access.code, access.caller);
    problem.access = access.kind;
    problem.thread = thread;
    problem.bytes = access.bytes;
    problem.block = block_;
    return problem;
}

void ProblemPlaces::name_variable(AccessProblem& problem, int variable) {
    const SharedRange& range = regions_.variables()[static_cast<std::size_t>(variable)];
    problem.variable = range.name;
    problem.variable_bytes = range.size_bytes;
    if (!range.dynamic) problem.variable_line = lines_.line_of_variable(range.name);
}

void ProblemPlaces::name_tensor(AccessProblem& problem, std::uint64_t address) const {
    const MemoryRange* const tensor = regions_.nearest(address, static_cast<std::uint64_t>(problem.bytes));
    problem.offset = static_cast<std::int64_t>(tensor != nullptr ? address - tensor->address : address);
    if (tensor == nullptr) return;
    problem.tensor = tensor->name;
    problem.variable_bytes = tensor->size_bytes;
}

void ProblemPlaces::name_memory(AccessProblem& problem, std::uint64_t address) {
    const Region& region = regions_.find(address);
    if (region.variable == kNoVariable) {
        name_tensor(problem, address);
        return;
    }
    name_variable(problem, region.variable);
    problem.offset = static_cast<std::int64_t>(
        address - regions_.variables()[static_cast<std::size_t>(region.variable)].address);
}

}  // namespace kiln
