// SPDX-License-Identifier: Apache-2.0
//
// The results of a problem against what is expected of them: by the references that its template names, or, of a GEMM,
// by Kiln itself.
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
    /// it. Throws TemplateError for a reference that is not there or lacks what it needs.
    ResultCheck(ReferenceService& references, const Variant& variant, const Problem& problem, bool gemm);

    /// The tensors of which it keeps a copy in host memory while it checks.
    const std::set<std::string>& copied() const { return copied_; }
    /// Builds the references. Throws BuildError.
    void build();

    /// Checks all outputs and inouts as they are now; nothing may run. done becomes what was done.
    std::vector<OutputCheck> outputs(const ProblemLaunch& launch, const CheckRequest& request, Check& done);
    /// Checks one result of the launch's inputs, which may lie elsewhere.
    OutputCheck output(const ProblemLaunch& launch, const GuardedTensor& result, CheckRequest& request);
    /// Frees the copies of the inputs, which belong to one launch's data.
    void release() { inputs_.clear(); }

  private:
    OutputCheck gemm_output(const ProblemLaunch& launch, const GuardedTensor& result,
                            CheckRequest& request) const;

    bool gemm_;
    std::map<std::string, Reference, std::less<>> references_;  ///< by output
    std::set<std::string> copied_;
    HostTensors inputs_;
};

/// The patterns of the problem's inputs (Data::contributions) as the references of its outputs ask for; those of a
/// gemm_problem() are set already. Whether there is any.
bool set_patterns(ReferenceService& references, const Variant& variant, Problem& problem, bool gemm);

}  // namespace kiln
