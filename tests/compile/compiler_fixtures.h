// SPDX-License-Identifier: Apache-2.0
//
// What the tests of all compilers share: the message of a BuildError, pools of workers, and a script in the
// worker's place.
#pragma once

#include <gtest/gtest.h>
#include <kiln/error.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "compile/compiler.h"
#include "compile/identity_memory.h"
#include "compile/worker_pool.h"
#include "scoped_variable.h"

namespace kiln::test {

/// Why the compiler that `make` makes can't be used; empty: it can.
template <class Make>
std::string why_missing(Make make) {
    try {
        make()->identity();
    } catch (const BuildError& error) {
        return error.what();
    }
    return {};
}
inline std::string missing_nvrtc() {
    return why_missing([] { return make_nvrtc_compiler(); });
}

inline WorkerLimits within(std::chrono::milliseconds timeout) {
    WorkerLimits limits;
    limits.timeout = timeout;
    return limits;
}

inline std::shared_ptr<WorkerPool> workers(std::chrono::milliseconds timeout = std::chrono::minutes(1)) {
    WorkerLimits limits = within(timeout);
    limits.workers = 2;
    return std::make_shared<WorkerPool>(limits);
}

/// Identities in memory instead of a file.
struct TextStore : IdentityStore {
    std::string text;
    int writes = 0;
    std::string read() override { return text; }
    void write(const std::string& now) override {
        text = now;
        ++writes;
    }
};

/// A program in the worker's place.
class FakeWorker {
  public:
    explicit FakeWorker(const std::string& script) {
        const auto file = directory_.path() / "worker";
        write_text(file, "#!/bin/sh\n" + script + "\n");
        std::filesystem::permissions(file, std::filesystem::perms::owner_all);
        variable_.emplace("KILN_COMPILE_WORKER", file.string());
    }

  private:
    TemporaryDirectory directory_;
    std::optional<ScopedVariable> variable_;
};

}  // namespace kiln::test
