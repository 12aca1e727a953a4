// SPDX-License-Identifier: Apache-2.0
//
// Where a problem is: its line, its block, and the variable or tensor.
#pragma once

#include <kiln/observe.h>
#include <kiln/tools/accesses.h>

#include "analysis/access_regions.h"
#include "base/source_lines.h"

namespace kiln {

/// Uses what it is made of, for one problem.
class ProblemPlaces {
  public:
    ProblemPlaces(SourceLines& lines, const Regions& regions, Dim3 block)
        : lines_(lines), regions_(regions), block_(block) {}

    /// Without what memory it is of.
    AccessProblem problem(ProblemKind kind, unsigned thread, const ObservedAccess& access);
    /// variable: its number; the offset remains to be set.
    void name_variable(AccessProblem& problem, int variable);
    /// The nearest tensor, and the offset of the address in it.
    void name_tensor(AccessProblem& problem, std::uint64_t address) const;
    /// The shared variable at or near the address, or else the tensor, with the offset.
    void name_memory(AccessProblem& problem, std::uint64_t address);

  private:
    SourceLines& lines_;
    const Regions& regions_;
    const Dim3 block_;
};

}  // namespace kiln
