// SPDX-License-Identifier: Apache-2.0
//
// How Kiln asks each compiler, which is a part of the compiler's identity. The key has a source as it is; what the
// compiler gets in its place (a kernel's name on the host, #line directives for NVRTC, the margins of recorded shared
// variables) and arguments that are no options follow from the revision here.
#pragma once

#include <string_view>

namespace kiln {

// Raised when the bytes of a binary may change. A test holds each to the files that it stands for.
inline constexpr std::string_view kHostInvocation = "kiln-host-2";
inline constexpr std::string_view kNvrtcInvocation = "kiln-nvrtc-1";
inline constexpr std::string_view kHiprtcInvocation = "kiln-compile-2";

}  // namespace kiln
