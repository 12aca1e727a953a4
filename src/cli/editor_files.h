// SPDX-License-Identifier: Apache-2.0
//
// What an editor needs to understand a template (kiln show --editor): a header with its parameters as constants, the
// prelude, and compile_commands.json, which clangd and others read.
#pragma once

#include <kiln/template.h>

#include <filesystem>
#include <vector>

#include "cli/common_options.h"

namespace kiln::cli {

/// Writes NAME.h, include/kiln/*.h, for a built-in template NAME.cu, and an entry of compile_commands.json into the
/// directory, which it makes. The entries of other files stay. The template is seen as the host's compiler sees it, with
/// its defaults. Returns the files that it wrote. Throws UsageError, before it writes any, for a template that the host
/// can't run, a file of one of these names that it did not make, and a compile_commands.json that is none; and for a
/// directory that can't be written.
std::vector<std::filesystem::path> write_editor_files(const Template& of, const CommonOptions& options,
                                                      const std::filesystem::path& directory);

}  // namespace kiln::cli
