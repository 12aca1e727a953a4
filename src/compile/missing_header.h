// SPDX-License-Identifier: Apache-2.0
//
// What a compiler's log says of a header that it did not find, and what to do about it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// The name of the header that NVRTC, hipRTC, GCC or clang say they can't open; nullopt when they say no such thing.
std::optional<std::string> missing_header(std::string_view log);

/// A paragraph: where the header was looked for, how to name more directories, and which package has it, where that is
/// known.
std::string missing_header_advice(const std::string& name,
                                  const std::vector<std::filesystem::path>& searched);

}  // namespace kiln
