// SPDX-License-Identifier: Apache-2.0
//
// Kernels compiled for tests of what is read from binaries, and what a disassembler says of them.
#pragma once

#include <gtest/gtest.h>
#include <kiln/error.h>
#include <kiln/service.h>
#include <kiln/tools/resources.h>

#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/process.h"
#include "require.h"

namespace kiln::test {

/// A service that compiles for an architecture, without a cache.
inline ServiceOptions compile_for(const std::string& arch) {
    ServiceOptions options;
    options.arch = arch;
    options.compile_only = true;
    options.cache.enabled = false;
    return options;
}

/// `body`: the kernel, called "kernel".
inline Binary compile_text(const std::string& arch, const std::string& body) {
    Service service(compile_for(arch));
    const Template parsed = service.parse(
        "// kernel: for tests\n//\n//@ kernel kernel\n//@ block 32\n//@ grid 1\n#include "
        "\"kiln/device.h\"\n" +
            body,
        "kernel.cu");
    return service.compile(parsed.variant()).binary;
}

/// Empty where there is such a compiler, else why not.
inline std::string why_no_compiler(const std::string& arch) {
    try {
        (void)compile_text(arch, "extern \"C\" __global__ void kernel() {}\n");
        return {};
    } catch (const Error& error) {
        return error.what();
    }
}

/// The first of these programs that answers --version.
inline std::optional<std::string> find_program(const std::vector<std::string>& candidates) {
    for (const std::string& program : candidates) {
        ProcessRequest request;
        request.arguments = {program, "--version"};
        if (run_process(request).succeeded()) return program;
    }
    return std::nullopt;
}

/// What a program prints of a binary; nullopt where it can't read it.
inline std::optional<std::string> disassembly(std::vector<std::string> command, const Binary& binary) {
    const TemporaryDirectory folder;
    const auto file = folder.path() / "binary";
    write_text(file, {reinterpret_cast<const char*>(binary.bytes.data()), binary.bytes.size()});
    command.push_back(file.string());
    ProcessRequest request;
    request.arguments = std::move(command);
    const ProcessResult result = run_process(request);
    if (!result.succeeded()) return std::nullopt;
    return result.output;
}

/// The counts without those that are 0, for comparing.
using Counts = std::map<std::string, int>;

inline int count(const Resources& resources, const std::string& name) {
    const auto found = resources.instructions.find(name);
    return found == resources.instructions.end() ? 0 : found->second;
}

}  // namespace kiln::test
