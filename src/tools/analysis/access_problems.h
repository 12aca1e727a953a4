// SPDX-License-Identifier: Apache-2.0
//
// The problems that were found: one entry per kind and places, with a count.
#pragma once

#include <kiln/tools/accesses.h>

#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace kiln {

class AccessProblems {
  public:
    /// Keeps the first problem of a kind at its places and counts the later ones. Sets `count`. Returns the problem where it is
    /// the first, until the next call.
    const AccessProblem* add(AccessProblem problem);
    const std::vector<AccessProblem>& all() const { return problems_; }

  private:
    using Key = std::tuple<ProblemKind, SourcePlace, AccessKind, SourcePlace, AccessKind, std::string, bool>;

    std::map<Key, std::size_t> places_;
    std::vector<AccessProblem> problems_;
};

}  // namespace kiln
