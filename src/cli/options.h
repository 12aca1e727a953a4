// SPDX-License-Identifier: Apache-2.0
//
// The command line of jit-gemm, and its configuration file. The parameters of the chosen template
// become options: BM is --bm, PAD_A is --pad-a; the type parameter T is set by --dtype.
#pragma once

#include <kiln/run.h>
#include <kiln/template.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/common_options.h"
#include "cli/dtype.h"

namespace kiln::cli {

enum class Action { multiply, help, version, list_kernels, list_devices };
enum class Emit { source, ptx, binary, log, key };

std::string_view name(Emit emit);

/// The parsed options. Not set means: chosen when the device is known.
struct Options : CommonOptions {
    Action action = Action::multiply;
    std::string help;  ///< the text for Action::help

    std::string kernel;
    bool kernel_given = false;  ///< else it is the default, and another may be chosen
    std::optional<Dtype> dtype;
    std::optional<int> m, n, k;
    Sizes sizes;     ///< others, of templates that declare them
    Values problem;  ///< what is computed, where it is more than C = A * B: OUT, TRANS_B, BIAS and the like
    Values values;   ///< of the template's other parameters, those that were given

    bool compile_only = false;
    bool analyze = false;
    bool explain_choice = false;

    bool tune = false;
    std::optional<double> budget_seconds;
    std::filesystem::path wisdom;  ///< empty: the usual

    std::optional<int> iterations;
    std::optional<int> warm_up;
    bool cold_l2 = false;
    std::optional<Check> check;
    std::uint64_t seed = 1;

    std::optional<Emit> emit;
    std::filesystem::path output;  ///< empty: standard output
    bool json = false;
};

/// Reads the command line and the file that --config names; the command line wins. Throws UsageError;
/// VariantError for a parameter's value; TemplateError for an invalid template.
Options parse_options(const std::vector<std::string>& arguments);

/// An option, for completion.
struct JitGemmOption {
    std::string name;  ///< without dashes
    bool has_value = false;
    std::vector<std::string> values;  ///< that it may have; empty: no list of the program's own
};
/// All options where this kernel is chosen.
std::vector<JitGemmOption> jit_gemm_options(const Template& chosen);

}  // namespace kiln::cli
