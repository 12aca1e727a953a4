// SPDX-License-Identifier: Apache-2.0
//
// What jit-gemm prints: the report of a run, with other names for some fields, as text and JSON.
#pragma once

#include <string>

#include "cli/run_report.h"
#include "cli/terminal.h"

namespace kiln::cli {

/// "f16", or the type as the kernel declares it; "" if there is no operand A.
std::string operand_type(const Variant& variant);

/// The run's JSON, and `kernel`, `variant`, `dtype`, `shape`, `cache`, `verified`, `max_abs_error` and
/// `max_error_over_bound`.
std::string gemm_json(const RunReport& report);

}  // namespace kiln::cli
