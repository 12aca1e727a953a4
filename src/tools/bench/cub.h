// SPDX-License-Identifier: Apache-2.0
//
// CUB's sum and histogram, called in this process: a helper is compiled by nvcc while other things are measured.
#pragma once

#include <future>
#include <memory>
#include <string>

#include "base/dynamic_library.h"
#include "base/file.h"
#include "bench/benchmark.h"

namespace kiln::bench {

/// Why there is no nvcc to compile helpers with; empty: there is.
std::string nvcc_problem();

/// One function of a helper, compiled in the background from when this was made.
class CubFunction {
  public:
    /// source: of sources.h; symbol: its function.
    CubFunction(Benchmark& bench, std::string_view source, const char* symbol);
    ~CubFunction();

    /// Waits for nvcc, which would take processors from what is measured meanwhile.
    void wait() const;
    /// The same. A launch on this input and output, with its temporary memory allocated; empty where there is
    /// none, and `problem` says why. count: elements of the input.
    Launch prepare(const void* input, long long count, void* output, std::string& problem);

  private:
    using Function = int(const void*, long long, void*, void*, std::size_t*, void*);

    Benchmark& bench_;
    const char* symbol_;
    TemporaryDirectory directory_;
    std::future<std::string> compiled_;  ///< what went wrong; empty: nothing
    std::string problem_;
    DynamicLibrary library_;
    Function* function_ = nullptr;
    Buffer temporary_;
};

}  // namespace kiln::bench
