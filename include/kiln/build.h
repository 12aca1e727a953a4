// SPDX-License-Identifier: Apache-2.0
//
// The values that flow through the pipeline: Source -> BuildKey -> Binary, and what a build tells
// about itself. Plain data; copying is safe, sharing between threads needs the usual care.
#pragma once

#include <kiln/types.h>
#include <kiln/version.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln {
inline namespace KILN_ABI {

/// A header as the compilers see it: the name in `#include "name"`, and its content.
struct Header {
    std::string name;  ///< as in an include line: "kiln/device.h"
    std::string text;  ///< its content
};

/// The optimization level of ptxas where a template has no `opt_level` line.
inline constexpr int kUsualOptLevel = 3;

/// Options of the compiler, from a template, a service or a command: docs/templates.md lists what may be given.
struct CompileOption {
    std::string text;       ///< "--use_fast_math", "cuda, sm_80+: --maxrregcount=64"
    std::string file = {};  ///< of the template whose line it is; empty: of none
    int line = 0;           ///< from 1; 0: of no template
    int column = 0;         ///< likewise
};

/// LTO-IR of a caller's function that a source declares, which is linked with the source's own.
struct LinkedCode {
    std::string symbol;                        ///< of the function
    std::shared_ptr<const std::string> ltoir;  ///< never null
    std::string digest;                        ///< its BLAKE2b-256
};

/// A specialised template: everything a compiler is given but its own options.
struct Source {
    std::string file_name;  ///< a virtual name without directory, used in messages: "gemm_tiled.cu"
    std::string entry;      ///< the extern "C" name of the kernel, or "reduce<T, BLOCK>" of a C++ template
    std::string
        text;  ///< typed constants, code of the caller, a `#line`, then the template's bytes untouched
    std::vector<Header> headers;  ///< every header it may include, in a fixed order
    int opt_level =
        kUsualOptLevel;  ///< of ptxas, 0 to 3; PTX that a driver compiles, and other backends, have none
    /// What #include lines name that is none of the headers, as written: "<cub/cub.cuh>", "\"tile.h\"". Looked for in
    /// include directories; what these lack is left to the compiler.
    std::vector<std::string> open_includes = {};
    std::vector<std::filesystem::path> include_directories = {};  ///< of the template's include_dir lines
    /// The BLAKE2b-256 of the headers that include directories give; empty for none.
    std::string include_digest = {};
    /// These headers, once a compiler is to see them: all variants of a template share them. nullptr for none.
    std::shared_ptr<const std::vector<Header>> found_headers = {};
    std::vector<CompileOption> options = {};  ///< of the template, then of the service
    std::vector<LinkedCode> linked = {};      ///< CUDA only
    bool to_ltoir = false;                    ///< CUDA only: no binary for a device but LTO-IR, to be linked
    std::vector<std::string> more_entries = {};  ///< of a template with several kernels: those after `entry`
};

/// Where in the text of a Source the template's own begins, with its `#line 1 "FILE"`; npos for what has none.
std::size_t own_text_begin(std::string_view source);

/// The identity of a build: `text` is the canonical list of ingredients, `digest` the BLAKE2b-256 of
/// it in hexadecimal (64 characters). Equal digests with unequal texts are treated as different.
struct BuildKey {
    std::string digest;  ///< 64 hexadecimal digits
    std::string text;    ///< every ingredient, tagged and with its length
};

/// Bytes that never change and that copies share: memory of their own, or part of a mapped file.
class Bytes {
  public:
    Bytes() = default;
    /// Owns them.
    Bytes(std::vector<std::byte> bytes)
        : Bytes(std::make_shared<const std::vector<std::byte>>(std::move(bytes))) {}
    /// view: kept alive by owner.
    Bytes(std::shared_ptr<const void> owner, std::span<const std::byte> view)
        : owner_(std::move(owner)), view_(view) {}

    /// The first; nullptr where there are none.
    const std::byte* data() const { return view_.data(); }
    /// How many.
    std::size_t size() const { return view_.size(); }
    /// There are none.
    bool empty() const { return view_.empty(); }
    /// For loops over all of them.
    const std::byte* begin() const { return view_.data(); }
    /// Behind the last.
    const std::byte* end() const { return view_.data() + view_.size(); }
    /// The byte at `index`, which must be less than size().
    const std::byte& operator[](std::size_t index) const { return view_[index]; }
    /// A part, which shares the owner. Throws std::out_of_range beyond the end.
    Bytes part(std::size_t offset, std::size_t count) const;

    /// Compares the bytes, not where they are.
    friend bool operator==(const Bytes& a, const Bytes& b);

  private:
    explicit Bytes(std::shared_ptr<const std::vector<std::byte>> bytes) : owner_(bytes), view_(*bytes) {}

    std::shared_ptr<const void> owner_;
    std::span<const std::byte> view_;
};

/// What the bytes of a Binary are: of CUDA a cubin, PTX or LTO-IR, of HIP a code object, of the host a shared object.
enum class BinaryKind { cubin, ptx, code_object, shared_object, ltoir };

/// What a compiler made.
struct Binary {
    BinaryKind kind = BinaryKind::cubin;  ///< what the bytes are
    std::string entry;                    ///< the kernel's name in it, mangled where it is a C++ template's
    std::vector<std::string> more_entries = {};  ///< of the other kernels, in their order
    Bytes bytes;                                 ///< what the driver loads
    std::string log;                             ///< the compiler's log, warnings and resource usage included
    std::string compiler;                        ///< for people: "NVRTC 13.0, build 65be0db3"
    double compile_ms = 0;                       ///< what compiling took
};

/// Where a build came from.
enum class Origin { memory, disk, seed, remote, compiled, off };

/// "cubin", "ptx", "code_object", "shared_object" or "ltoir".
std::string_view name(BinaryKind kind);

/// "memory", "disk", "seed", "remote", "compiled" or "off" (compiled, with the cache switched off).
std::string_view name(Origin origin);

/// What is known of a built kernel.
struct BuildInfo {
    Origin origin = Origin::compiled;              ///< what served this build
    BuildKey key;                                  ///< that it was looked up by
    std::string compiler;                          ///< Binary::compiler
    std::string log;                               ///< Binary::log
    double build_ms = 0;                           ///< look-up and, on a miss, compiling; this call
    double load_ms = 0;                            ///< handing the binary to the driver; this call
    std::optional<int> registers;                  ///< per thread
    std::optional<int> blocks_per_multiprocessor;  ///< at once, as the driver says
    std::optional<std::size_t> local_bytes;        ///< per thread: spills and stack
    std::size_t static_shared_bytes = 0;           ///< per block, declared by the kernel
    std::size_t dynamic_shared_bytes = 0;          ///< per block, given at launch

    /// Per block, static and dynamic.
    std::size_t shared_bytes() const { return static_shared_bytes + dynamic_shared_bytes; }
};

}  // namespace KILN_ABI
}  // namespace kiln
