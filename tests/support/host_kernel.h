// SPDX-License-Identifier: Apache-2.0
//
// Kernels for tests of the host backend: compiled by the real host compiler with the real prelude,
// launched straight through the driver.
#pragma once

#include <gtest/gtest.h>
#include <kiln/device.h>
#include <kiln/error.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/host_arch.h"
#include "compile/compiler.h"
#include "device/driver.h"
#include "prelude.h"

namespace kiln::test {

/// Compiles `text` (which need not include the prelude) with the kernel `entry`.
inline Binary compile_for_host(const std::string& text, const std::string& entry = "kernel",
                               const std::string& arch = host_arch()) {
    static const std::unique_ptr<Compiler> compiler = make_host_compiler(WorkerLimits{});
    Target target;
    target.arch = arch;
    return compiler->compile(prelude_source(entry, text), target);
}

/// A host device with these settings, whatever the environment says.
inline Device open_host(std::optional<unsigned long long> seed = std::nullopt, int threads = 0) {
    seed ? ::setenv("KILN_HOST_SEED", std::to_string(*seed).c_str(), 1) : ::unsetenv("KILN_HOST_SEED");
    threads != 0 ? ::setenv("KILN_HOST_THREADS", std::to_string(threads).c_str(), 1)
                 : ::unsetenv("KILN_HOST_THREADS");
    return Device::open(Backend::host);
}

class HostKernel {
  public:
    explicit HostKernel(const std::string& text) : HostKernel(compile_for_host(text)) {}
    explicit HostKernel(const Binary& binary, const Device& device = open_host())
        : module_(device.driver()->load(binary)) {}

    template <class... A>
    void operator()(Dim3 grid, Dim3 block, std::size_t shared_bytes, A... arguments) const {
        void* pointers[sizeof...(A) + 1] = {&arguments...};
        module_->launch({grid, block, {}, shared_bytes}, pointers, nullptr);
    }
    Module& module() const { return *module_; }

  private:
    std::shared_ptr<Module> module_;
};

}  // namespace kiln::test
