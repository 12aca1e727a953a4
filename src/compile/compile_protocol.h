// SPDX-License-Identifier: Apache-2.0
//
// The protocol between Kiln and its compile worker over the worker's standard input and output: requests
// and responses alternate, until the input ends. A message is the protocol's name, its length, and a list of
// byte strings, each preceded by its length; a message that is truncated, too long or of another version does not
// decode.
#pragma once

#include <kiln/build.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln {

/// The start of every message.
inline constexpr std::string_view kCompileProtocol = "kiln-compile-5";
/// The largest size of a message.
inline constexpr std::size_t kMaxMessageBytes = std::size_t{256} << 20;

/// How long a worker waits for the next request before it precompiles headers.
inline constexpr std::chrono::milliseconds kIdleBeforePrecompiling{50};

/// A runtime compiler that is a library. A worker serves the one that its first request names.
enum class RuntimeProduct : char { nvrtc = 'n', hiprtc = 'h' };

enum class Wanted : char {
    facts = 'f',   ///< only the version and the architectures
    binary = 'b',  ///< for a device
    ptx = 'p',     ///< NVRTC only
    ltoir = 'l'    ///< the same
};

/// What becomes of the #include lines that may be precompiled, where the compiler has not precompiled them yet.
enum class Precompiling : char {
    when_idle = 'i',  ///< a worker does it once it has answered, when no other request comes
    now = 'n'         ///< this compile does, and takes longer
};

struct CompileRequest {
    RuntimeProduct product = RuntimeProduct::nvrtc;
    std::string library;  ///< path of the runtime compiler to open
    std::string build;  ///< its elf_identity(), which is part of the key: the worker must use the same build
    Wanted wanted = Wanted::facts;
    std::string arch;
    std::vector<std::string> options;
    Source source;
    /// #include lines that may be precompiled for all sources with this key; empty: none. NVRTC only.
    std::string hoisted = {};
    std::string hoisted_key = {};
    Precompiling precompiling = Precompiling::when_idle;
    /// The compiler's environment variables for the worker process. Not part of the message.
    std::vector<std::pair<std::string, std::string>> environment = {};
};

enum class CompileStatus : char {
    ok = 'o',
    refused = 'r',           ///< the compiler rejected the source; error and log say why
    unsupported_arch = 'a',  ///< found before compiling
    unusable_library = 'l',  ///< it can't be opened, lacks a function or is another build; see the log
    out_of_memory = 'm'
};

struct CompileResponse {
    CompileStatus status = CompileStatus::ok;
    int code = 0;       ///< the compiler's result
    std::string error;  ///< its name for that
    std::string log;
    std::string binary;
    std::string version;                       ///< of the runtime compiler: "9.0"
    std::vector<std::string> supported_archs;  ///< empty when not known
    std::vector<std::string> entries;          ///< of the source, in order, as the binary names them
    bool precompiles = false;                  ///< the worker will, when it is idle
};

/// Calls take(const Header&) for the headers that the source brings, then for those that include directories gave.
template <class Take>
void for_each_header(const Source& source, const Take& take) {
    for (const Header& header : source.headers) take(header);
    if (source.found_headers == nullptr) return;
    for (const Header& header : *source.found_headers) take(header);
}

/// The kernels of a source, in order.
std::vector<std::string> all_entries(const Source& source);
/// "reduce<T, BLOCK>", which the compiler gives a name of its own.
inline bool is_name_expression(std::string_view entry) { return entry.find('<') != std::string_view::npos; }
/// Tells a program of either library of these, before it is compiled. result: 0 for success; nothing more is done after a
/// failure.
template <class Api, class Program>
void add_name_expressions(const Api& api, Program program, const Source& source, int& result) {
    for (const std::string& entry : all_entries(source))
        if (is_name_expression(entry) && result == 0)
            result = api.add_name_expression(program, entry.c_str());
}

/// The binary, taken out of the response.
Bytes take_binary(CompileResponse& response);
/// Of all kernels, in order.
void set_entries(Binary& binary, std::vector<std::string> entries);

std::string encode(const CompileRequest& request);
std::string encode(const CompileResponse& response);
std::optional<CompileRequest> decode_request(std::string_view message);
std::optional<CompileResponse> decode_response(std::string_view message);

enum class Arrival {
    partial,  ///< the beginning of a message
    whole,    ///< one message
    broken    ///< not the beginning of a message, or too long, or more than one
};
Arrival arrival(std::string_view bytes);

}  // namespace kiln
