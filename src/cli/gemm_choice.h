// SPDX-License-Identifier: Apache-2.0
//
// Which variant jit-gemm runs: that of the options, or, where those name no tile, the one that wisdom or the model
// chooses for the shape; and --tune, which finds wisdom first.
#pragma once

#include <kiln/service.h>
#include <kiln/wisdom.h>

#include <optional>

#include "cli/interrupts.h"
#include "cli/options.h"
#include "cli/terminal.h"

namespace kiln::cli {

struct GemmChoice {
    Variant variant;
    std::optional<Choice> choice;  ///< not set: the options say it all
};

/// Values of parameters, but for the type, leave nothing to choose. Without --kernel, all templates that compute the
/// plain product compete; on the host gemm_tiled alone. Notes on the terminal what wisdom can't be used. Throws
/// UsageError when the kernel is no matrix product or does not have the --dtype asked for, and for a --wisdom
/// file that is not right; VariantError.
GemmChoice choose_gemm(const Service& service, const Options& options, const Terminal& terminal);

/// --tune: times variants of those templates for the shape and merges the best into the wisdom file: that of
/// --wisdom, else the user's. Notes on the terminal when it finds nothing, and why. Throws what kiln::tune throws.
void tune_gemm(Service& service, const Options& options, const Terminal& terminal,
               const Interrupts& interrupts);

}  // namespace kiln::cli
