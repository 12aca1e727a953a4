// SPDX-License-Identifier: Apache-2.0
//
// The matrix product as a job: choose the variant, check that its kernel is a matrix product, build,
// run, time, verify.
#pragma once

#include <kiln/service.h>

#include <optional>

#include "cli/options.h"
#include "cli/report.h"
#include "cli/terminal.h"

namespace kiln::cli {

/// How jit-gemm runs a template.
enum class GemmForm {
    none,     ///< it is no matrix product
    plain,    ///< with matrices of its own and a check made for plain products
    declared  ///< as the problem that the template declares: batches, layouts, epilogues
};

/// The type of A and B when the kernel is (int m, int n, int k, const T* a, const T* b, float* c) with
/// T half, bfloat16 or float; nullopt for any other signature.
std::optional<Dtype> gemm_dtype(const Variant& variant);

/// plain: that signature, and no other reference than gemm_reference. declared: a problem with sizes m, n and
/// k and a result c.
GemmForm gemm_form(const Variant& variant);
/// The same of a template's defaults, also where they are not for this machine.
GemmForm gemm_form(const Template& of);

/// The variant that was asked for. Throws UsageError when its kernel is no matrix product or does not
/// have the --dtype that was asked for; VariantError.
Variant choose_variant(const Service& service, const Options& options);

/// Compiles, or builds and runs and verifies. Throws any kiln::Error; a wrong result is no error, see
/// the report's verdict.
Report run_gemm(Service& service, const Variant& variant, const Options& options, const Terminal& terminal);

/// The sizes of the product that was asked about: m, n and k with jit-gemm's own defaults there, and --size.
Sizes product_sizes(const Options& options, Backend backend = Backend::cuda);

}  // namespace kiln::cli
