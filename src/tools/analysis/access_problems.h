// SPDX-License-Identifier: Apache-2.0
//
// What was found to be wrong, once per kind and places, with a count.
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
    /// The first of its kind at its places is kept, and later ones counted. Its count is set here.
    void add(AccessProblem problem);
    const std::vector<AccessProblem>& all() const { return problems_; }

  private:
    using Key = std::tuple<ProblemKind, SourcePlace, AccessKind, SourcePlace, AccessKind, std::string, bool>;

    std::map<Key, std::size_t> places_;
    std::vector<AccessProblem> problems_;
};

}  // namespace kiln
