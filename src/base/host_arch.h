// SPDX-License-Identifier: Apache-2.0
//
// The architecture of this processor, as the host compiler and the host device name it.
#pragma once

#include <string>
#include <string_view>

namespace kiln {

/// The x86-64 level of this processor ("x86-64-v3"), or the machine's name elsewhere ("aarch64").
std::string host_arch();

/// Whether both are levels of x86-64, and every processor of the second runs what is compiled for the first.
bool is_lower_level(std::string_view arch, std::string_view than);

}  // namespace kiln
