// SPDX-License-Identifier: Apache-2.0
//
// --emit: the compiler's input and output, for people and other tools.
#pragma once

#include <kiln/service.h>

#include <string>

#include "cli/options.h"
#include "cli/terminal.h"

namespace kiln::cli {

/// The text or bytes of one kind of output. Throws UsageError, BuildError.
std::string emitted(Service& service, const Variant& variant, Emit what);

/// Writes to options.output, or to standard output. Throws UsageError when that is not possible, or when a binary
/// would be written to a terminal.
void write_emitted(const std::string& content, const Options& options, const Terminal& terminal);

}  // namespace kiln::cli
