// SPDX-License-Identifier: Apache-2.0
//
// Matrix products that are more than A * B: run as the problem that their template declares, through Runner.
#pragma once

#include <kiln/service.h>

#include <string>

#include "cli/options.h"
#include "cli/report.h"
#include "cli/terminal.h"

namespace kiln::cli {

/// It declares every argument, sizes m, n and k, and a result c.
bool is_declared_product(const Template& of);

/// The type of A as --dtype writes it, else as the kernel declares it; "" where there is no argument a.
std::string operand_type(const Variant& variant);

/// Sizes, flops and bytes. Throws VariantError for sizes that are wrong.
void describe_declared(const Service& service, const Variant& variant, const Options& options,
                       Report& report);

/// Builds, runs, checks and times. Throws any kiln::Error.
void run_declared(Service& service, const Variant& variant, const Options& options, const Terminal& terminal,
                  Report& report);

}  // namespace kiln::cli
