// SPDX-License-Identifier: Apache-2.0
//
// Which variant jit-gemm runs: that of the options or, if those name no tile, the one that wisdom or the model
// chooses for the shape; and --tune, which finds wisdom first.
#pragma once

#include <kiln/service.h>
#include <kiln/wisdom.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "cli/interrupts.h"
#include "cli/options.h"
#include "cli/terminal.h"

namespace kiln::cli {

struct GemmChoice {
    Variant variant;
    std::optional<Choice> choice;  ///< not set: the options determine the variant
};

/// Nothing is chosen if a parameter other than the type is given. Without --kernel, all templates that compute a
/// plain GEMM compete; on the host only gemm_tiled. Reports on the terminal which wisdom can't be used. Throws
/// UsageError when the kernel is not a GEMM or lacks the requested --dtype, and for an invalid --wisdom file;
/// VariantError.
GemmChoice choose_gemm(const Service& service, const Options& options, const Terminal& terminal);

/// The variants that are considered for the shape, at most `most`, the one that is taken first.
std::vector<ConsideredVariant> considered_gemms(const Service& service, const Options& options,
                                                const Terminal& terminal, std::size_t most);

/// --tune: times variants of those templates for the shape and merges the best into the wisdom file: that of
/// --wisdom, else the user's. Reports on the terminal when it finds nothing, and why. Throws what kiln::tune
/// throws.
void tune_gemm(Service& service, const Options& options, const Terminal& terminal,
               const Interrupts& interrupts);

}  // namespace kiln::cli
