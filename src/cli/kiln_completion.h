// SPDX-License-Identifier: Apache-2.0
//
// The completion scripts of shells, which CMake embeds in the program. Each completes kiln and jit-gemm.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::cli {

struct CompletionScript {
    std::string_view shell;
    std::string_view text;
};

std::span<const CompletionScript> completion_scripts();

/// The scripts call `kiln complete LINE` and `jit-gemm complete LINE`; users do not need it.
constexpr std::string_view kComplete = "complete";

/// Completions of this command line of kiln or jit-gemm, each as a complete last word. Does not throw.
std::vector<std::string> completions(const std::string& line);

}  // namespace kiln::cli
