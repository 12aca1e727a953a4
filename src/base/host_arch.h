// SPDX-License-Identifier: Apache-2.0
//
// The architecture of this processor, as the host compiler and the host device name it.
#pragma once

#include <string>

namespace kiln {

/// The x86-64 level of this processor ("x86-64-v3"), or the machine's name elsewhere ("aarch64").
std::string host_arch();

}  // namespace kiln
