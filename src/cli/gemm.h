// SPDX-License-Identifier: Apache-2.0
//
// What jit-gemm adds to running a template: which kernels are GEMMs, and the conversion of its options to a
// run.
#pragma once

#include <kiln/service.h>

#include "cli/options.h"
#include "cli/run_report.h"
#include "cli/terminal.h"

namespace kiln::cli {

/// How jit-gemm runs a template.
enum class GemmForm {
    none,     ///< it is not a GEMM
    plain,    ///< C = A * B (gemm_problem), checked without a reference
    declared  ///< as the problem that the template declares: batches, layouts, epilogues
};

/// declared: a problem with sizes m, n and k and a result c.
GemmForm gemm_form(const Variant& variant);
/// The same for a template's defaults, even if they are not for this machine.
GemmForm gemm_form(const Template& of);

/// The requested variant. Throws UsageError when its kernel is not a GEMM or lacks the requested --dtype;
/// VariantError.
Variant choose_variant(const Service& service, const Options& options);

/// Compiles, or builds and runs and checks. Throws any kiln::Error, but not for a wrong result.
RunReport run_gemm(Service& service, const Variant& variant, const Options& options,
                   const Terminal& terminal);

/// The requested sizes: m, n and k with jit-gemm's own defaults, and --size.
Sizes gemm_sizes(const Options& options, Backend backend = Backend::cuda);

}  // namespace kiln::cli
