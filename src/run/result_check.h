// SPDX-License-Identifier: Apache-2.0
//
// Checks the results of a problem: by the references that its template names or, for a GEMM, by Kiln itself.
#pragma once

#include <kiln/run.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "run/check.h"
#include "run/problem_launch.h"
#include "run/reference.h"

namespace kiln {

/// Not thread-safe.
class ResultCheck {
  public:
    /// gemm: the problem is a gemm_problem(), whose result Kiln checks itself. Builds nothing. references must outlive
    /// it. Throws TemplateError for a reference that does not exist or does not match.
    ResultCheck(ReferenceService& references, const Variant& variant, const Problem& problem, bool gemm);

    /// The tensors that are copied to host memory for the check.
    const std::set<std::string>& copied() const { return copied_; }
    /// Builds the references. Throws BuildError.
    void build();

    /// Checks the present content of all outputs and inouts; nothing may run meanwhile. Sets `done` to the
    /// check that was done.
    std::vector<OutputCheck> outputs(const ProblemLaunch& launch, const CheckRequest& request, Check& done);
    /// Checks one result for the launch's inputs, which may be in other memory.
    OutputCheck output(const ProblemLaunch& launch, const GuardedTensor& result, CheckRequest& request);
    /// Frees the copies of the inputs, which are valid for one launch's data.
    void release() { inputs_.clear(); }

  private:
    OutputCheck gemm_output(const ProblemLaunch& launch, const GuardedTensor& result,
                            CheckRequest& request) const;

    bool gemm_;
    std::map<std::string, Reference, std::less<>> references_;  ///< by output
    std::set<std::string> copied_;
    HostTensors inputs_;
};

/// Sets the patterns of the problem's inputs that the references of its outputs declare (Data::contributions);
/// those of a gemm_problem() are set already. Returns whether there are any.
bool set_patterns(ReferenceService& references, const Variant& variant, Problem& problem, bool gemm);

}  // namespace kiln
