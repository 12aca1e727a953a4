// SPDX-License-Identifier: Apache-2.0
//
// CUB's sum and histogram, called in this process from a helper library, which nvcc compiles in the
// background.
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

/// One function of a helper library. The constructor starts its compilation in the background.
class CubFunction {
  public:
    /// source: of sources.h; symbol: its function.
    CubFunction(Benchmark& bench, std::string_view source, const char* symbol);
    ~CubFunction();

    /// Waits for nvcc, which would slow down measurements on the CPU.
    void wait() const;
    /// Waits for nvcc. Returns a launch on this input and output, with temporary memory allocated; empty on
    /// errors, with the reason in `problem`. count: elements of the input.
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
