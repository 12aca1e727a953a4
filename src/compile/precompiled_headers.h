// SPDX-License-Identifier: Apache-2.0
//
// PrecompiledHeaders: the headers that NVRTC has precompiled in this process. A PCH belongs to the instance of the library
// that made it, so none outlives the process, and none is part of a key: a binary has the same code with and without (symbols may have
// another order).
//
// NVRTC takes a PCH without looking at what the headers in memory contain now. So each is known by the digest of
// everything that went into it, and has a file name of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "compile/compile_protocol.h"

namespace kiln {

/// What the files of one process may take. NVRTC maps the file that it writes, so that a file system that is full kills
/// the process instead of failing the compile.
struct PrecompiledLimits {
    std::size_t files = 2;                                ///< that are there at once
    std::uintmax_t free_bytes = std::uintmax_t{1} << 30;  ///< that must be free where one is created
};

/// Creating a PCH takes a quarter of a compile and writes hundreds of megabytes, so that a process that compiles one variant
/// would pay for nothing.
///
/// Where there are as many as there may be, a new one takes the place of the one that was asked for longest ago, if its
/// own headers were asked for since: headers that are used alternately do not drive each other out.
///
/// Thread-safe. One compile at a time uses it; others go without meanwhile, which costs them time only.
class PrecompiledHeaders {
  public:
    explicit PrecompiledHeaders(PrecompiledLimits limits = {}) : limits_(limits) {}

    /// Compiles with these options, too. Makes a PCH of what stands before `#pragma nv_hdrstop`, or takes it.
    using Compile = std::function<CompileResponse(const std::vector<std::string>& options)>;

    /// key: all that the headers depend on. creates: where there is no PCH yet. nullopt: compile without one, and tell
    /// afterwards by compiled_without().
    std::optional<CompileResponse> compile(const std::string& key, bool creates, const Compile& compile);
    /// Whether a PCH could be created that is not there yet.
    bool lacks(const std::string& key);
    /// What became of a source that compile() gave nullopt for: one that compiles, and did not with the PCH, will not be
    /// tried again.
    void compiled_without(const std::string& key, bool succeeded);

  private:
    enum class State { wanted, ready, unusable };
    struct Headers {
        State state = State::wanted;
        bool has_failed = false;  ///< at the latest attempt
        std::string file;
        std::uint64_t asked = 0, asked_before = 0;  ///< the numbers of the latest two requests for them
        bool is_awaited = false;                    ///< the latest one created none
    };

    std::optional<Headers> next(const std::string& key, bool creates);
    bool make_room(std::uint64_t asked_before);
    static void remove_file(Headers& headers);

    const PrecompiledLimits limits_;

    std::mutex busy_;                         // held while a PCH is in use
    std::mutex mutex_;                        // for what follows
    std::map<std::string, Headers> headers_;  // by key
    std::optional<TemporaryDirectory> directory_;
    int files_ = 0;
    std::uint64_t requests_ = 0;
};

}  // namespace kiln
