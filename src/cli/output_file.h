// SPDX-License-Identifier: Apache-2.0
//
// --output FILE: a file that appears whole or not at all.
#pragma once

#include <filesystem>
#include <string_view>

namespace kiln::cli {

/// A device such as /dev/null is written, not replaced. Throws UsageError, naming --output, when it can't be.
void write_output(const std::filesystem::path& path, std::string_view content);

}  // namespace kiln::cli
