// SPDX-License-Identifier: Apache-2.0
//
// Every built-in template that an architecture runs, compiled for real: at its defaults, and on some with each
// parameter at the ends of its list. No GPU is needed for that. What a kernel may use is held here for the
// whole library; the instructions that single templates require are in the other tests of this folder.
#include <gtest/gtest.h>
#include <kiln/kiln.h>
#include <kiln/tools/resources.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "compile/compiler.h"
#include "require.h"
#include "shared_cache.h"
#include "variants.h"

namespace kiln {
namespace {

enum class Depth { defaults, corners };

struct Case {
    Backend backend;
    std::string arch;
    Depth depth;
};

void PrintTo(const Case& item, std::ostream* out) { *out << name(item.backend) << "_" << item.arch; }

// Whose register allocation was looked at, and templates adapted to where it mattered. Others may need more of them
// for the same source, which is worth a note and no failure.
bool is_strict(const Binary& binary) {
    constexpr const char* kChecked[] = {"NVRTC 12.9,", "NVRTC 13.0,", "NVRTC 13.5,", "libamdhip64.so.5.2.",
                                        "libamdhip64.so.5.7."};
    return std::ranges::any_of(
        kChecked, [&](const char* checked) { return binary.compiler.find(checked) != std::string::npos; });
}

// The absence of a compiler for this architecture as text; empty when there is one.
std::string missing_compiler(Backend backend, const std::string& arch) {
    try {
        const auto compiler = backend == Backend::cuda ? std::unique_ptr<Compiler>(make_nvrtc_compiler())
                              : backend == Backend::hip
                                  ? make_hiprtc_compiler(std::make_shared<WorkerPool>(WorkerLimits{}))
                                  : make_host_compiler({});
        (void)compiler->identity();
        const std::vector<std::string> known = compiler->supported_archs();
        if (known.empty() || std::ranges::find(known, arch) != known.end()) return {};
        return compiler->description() + " does not know " + arch;
    } catch (const BuildError& error) {
        return error.what();
    }
}

const char* requirement(Backend backend) {
    return backend == Backend::cuda ? "nvrtc" : backend == Backend::hip ? "hiprtc" : "host";
}

// References run on the host alone and have no launch bounds to keep: that they compile is enough.
std::vector<Variant> variants_of(const Template& item, Depth depth) {
    if (depth == Depth::defaults || item.is_reference()) return {item.variant()};
    // One end at a time takes twice as long and misses what only large values together do to registers.
    constexpr int kEndsTogether = 4;
    return test::corners(item, kEndsTogether);
}

// ROCm's compiler reads all operands of an unrolled loop before it uses the first. These two then lack registers
// where a parameter is at its end (UNROLL = 64, 1024 threads): slow on AMD, but right.
bool may_spill(const Variant& variant, Backend backend) {
    return backend == Backend::hip && variant != variant.origin().variant() &&
           (variant.template_name() == "gemm_tiled" || variant.template_name() == "gemm_async");
}

void expect_lean(const Binary& binary, const Variant& variant, Backend backend) {
    ASSERT_GE(binary.bytes.size(), 4u);
    EXPECT_EQ(std::memcmp(binary.bytes.data(), "\177ELF", 4), 0);
    // ptxas's C75xx (matrix instructions one after the other, setmaxnreg ignored) are warnings, too.
    EXPECT_EQ(binary.log.find("warning"), std::string::npos) << binary.log;
    if (backend == Backend::host || may_spill(variant, backend)) return;
    const Resources resources = resources_of(binary);
    ASSERT_TRUE(resources.stack_bytes && resources.spill_bytes) << binary.log;
    if (!is_strict(binary)) {
        if (*resources.stack_bytes != 0)
            std::cout << "note: " << variant.text() << " takes " << *resources.stack_bytes
                      << " bytes of stack with " << binary.compiler << "\n";
        return;
    }
    EXPECT_EQ(*resources.stack_bytes, 0u) << binary.log;
    // AMD's compiler calls it a spill, too, when a scalar register moves into a lane of a vector register, or a
    // vector register into an accumulation register: neither needs memory. What does has a place on the stack.
    if (backend == Backend::hip) return;
    EXPECT_EQ(*resources.spill_bytes, 0u) << binary.log;
}

class Templates : public testing::TestWithParam<Case> {};

TEST_P(Templates, CompileLean) {
    const Case& target = GetParam();
    const std::string missing = missing_compiler(target.backend, target.arch);
    KILN_REQUIRE_OR_SKIP(requirement(target.backend), missing.empty(), missing);
    ServiceOptions options;
    options.backend = target.backend;
    options.arch = target.arch;
    options.compile_only = true;
    options.cache.directory = test::shared_cache();  // other tests read the same binaries
    Service service(options);

    std::vector<std::pair<Variant, std::future<Compiled>>> builds;
    for (const Template& item : service.templates()) {
        if (!item.runs_on(target.backend, target.arch)) continue;
        for (const Variant& variant : variants_of(item, target.depth))
            builds.emplace_back(variant, service.compile_async(variant));
    }
    EXPECT_GT(builds.size(), 20u);
    for (auto& [variant, build] : builds) {
        SCOPED_TRACE(variant.text() + " for " + target.arch);
        try {
            const Binary binary = build.get().binary;
            EXPECT_EQ(binary.entry, variant.template_name());
            expect_lean(binary, variant, target.backend);
        } catch (const BuildError& error) {
            ADD_FAILURE() << error.what();
        }
    }
}

std::string name_of(const testing::TestParamInfo<Case>& item) {
    return item.param.arch + (item.param.depth == Depth::corners ? "_corners" : "");
}

INSTANTIATE_TEST_SUITE_P(Nvrtc, Templates,
                         testing::Values(Case{Backend::cuda, "sm_75", Depth::defaults},
                                         Case{Backend::cuda, "sm_80", Depth::defaults},
                                         Case{Backend::cuda, "sm_90a", Depth::defaults},
                                         Case{Backend::cuda, "sm_90a", Depth::corners},
                                         Case{Backend::cuda, "sm_100a", Depth::defaults}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Hiprtc, Templates,
                         testing::Values(Case{Backend::hip, "gfx90a", Depth::defaults},
                                         Case{Backend::hip, "gfx90a", Depth::corners},
                                         Case{Backend::hip, "gfx1030", Depth::defaults}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Host, Templates,
                         testing::Values(Case{Backend::host, "x86-64-v2", Depth::defaults},
                                         Case{Backend::host, "x86-64-v3", Depth::defaults}),
                         [](const auto& item) { return item.param.arch == "x86-64-v2" ? "v2" : "v3"; });

}  // namespace
}  // namespace kiln
