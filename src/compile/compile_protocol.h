// SPDX-License-Identifier: Apache-2.0
//
// What Kiln and its compile worker say to each other over the worker's standard input and output: one
// request, one response. A message is a list of byte strings, each with its length in front; what is cut
// short, too long or of another version does not decode.
#pragma once

#include <kiln/build.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// Part of every message and of the identity of compilers that run in the worker.
inline constexpr std::string_view kCompileProtocol = "kiln-compile-1";

struct CompileRequest {
    std::string library;  ///< path of the runtime compiler to open
    std::string arch;
    std::vector<std::string> options;
    Source source;  ///< an empty text: only tell the version and the architectures
};

enum class CompileStatus : char {
    ok = 'o',
    refused = 'r',           ///< the compiler rejected the source; the log says why
    unsupported_arch = 'a',  ///< found before compiling
    unusable_library = 'l',  ///< it does not open or lacks a function; the log says which
};

struct CompileResponse {
    CompileStatus status = CompileStatus::ok;
    std::string log;
    std::string binary;
    std::string version;                       ///< of the runtime compiler: "9.0"
    std::vector<std::string> supported_archs;  ///< empty when it can't tell
};

std::string encode(const CompileRequest& request);
std::string encode(const CompileResponse& response);
std::optional<CompileRequest> decode_request(std::string_view bytes);
std::optional<CompileResponse> decode_response(std::string_view bytes);

}  // namespace kiln
