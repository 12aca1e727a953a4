// SPDX-License-Identifier: Apache-2.0
//
// The table of variables, held against the real compilers: with each variable that the table says is an ingredient
// the compiler's ingredients differ, and with each that it says is withheld they and the bytes are equal.
#include "compile/compiler_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/host_arch.h"
#include "compile/compiler.h"
#include "compiler_fixtures.h"
#include "rejected.h"
#include "require.h"

namespace kiln {
namespace {

using test::rejected;
using test::ScopedVariable;
using test::workers;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr CompilerKind kAllKinds[] = {CompilerKind::nvrtc, CompilerKind::hiprtc, CompilerKind::host};

Source gpu_source() {
    return {"scale.cu",
            "scale",
            "extern \"C\" __global__ void scale(float* x) { x[threadIdx.x] *= sinf(x[0]) / 3; }\n",
            {}};
}
Source host_source() {
    return {"answer.cu",
            "answer",
            "#define KILN_HOST_KERNEL(entry) extern \"C\" __attribute__((visibility(\"default\"))) int "
            "kiln_host_kernel() { return entry(); }\nextern \"C\" int answer() { return 42; }",
            {}};
}

TEST(CompilerEnvironment, TheLoadersVariablesAreWithheldFromEveryCompiler) {
    for (const CompilerKind kind : kAllKinds) {
        for (const char* name : {"LD_PRELOAD", "LD_AUDIT", "LD_DEBUG", "LD_RUN_PATH"})
            EXPECT_EQ(treatment_of(kind, name), VariableTreatment::withheld) << name;
        for (const char* name : {"LD_LIBRARY_PATH", "PATH", "HOME", "TMPDIR", "CUDA_VISIBLE_DEVICES"})
            EXPECT_EQ(treatment_of(kind, name), VariableTreatment::harmless) << name;
    }
}

TEST(CompilerEnvironment, NamesMayBePatterns) {
    EXPECT_EQ(treatment_of(CompilerKind::nvrtc, "NV_NVVM_VERSION"), VariableTreatment::ingredient);
    EXPECT_EQ(treatment_of(CompilerKind::nvrtc, "NVVM_SOMETHING_NEW"), VariableTreatment::ingredient);
    EXPECT_EQ(treatment_of(CompilerKind::nvrtc, "NVRTC_DISABLE_PCH"), VariableTreatment::harmless);
    EXPECT_EQ(treatment_of(CompilerKind::host, "NV_NVVM_VERSION"), VariableTreatment::harmless);
    EXPECT_EQ(treatment_of(CompilerKind::hiprtc, "AMD_COMGR_NEW"), VariableTreatment::withheld);
    EXPECT_EQ(treatment_of(CompilerKind::host, "CCACHE_COMPILER"), VariableTreatment::ingredient);
    EXPECT_EQ(treatment_of(CompilerKind::host, "CCACHE_DIR"), VariableTreatment::harmless);
}

TEST(CompilerEnvironment, NvrtcsIngredientsAreThoseThatAreSet) {
    KILN_REQUIRE_OR_SKIP("nvrtc", test::missing_nvrtc().empty(), "no NVRTC");
    const auto pool = workers();
    const auto compiler = make_nvrtc_compiler(pool);
    const Target target{Backend::cuda, "sm_90a", {}};
    const auto plain = compiler->ingredients();
    const auto bytes = compiler->compile(gpu_source(), target).bytes;
    EXPECT_THAT(plain.environment, IsEmpty());
    for (const char* name : {"NV_NVVM_VERSION", "NVVM_IR_VER_CHK", "CAN_FINALIZE_DEBUG", "FINALIZER_CUBIE",
                             "LLVM_OVERRIDE_PRODUCER"}) {
        const ScopedVariable variable(name, "0");
        EXPECT_EQ(compiler->ingredients().environment, (std::vector<Variable>{{name, "0"}}));
    }
    for (const auto& [name, value] :
         std::vector<Variable>{{"NVRTC_APPEND_FLAGS", "-G -DNDEBUG --pre-include=/nowhere.h"},
                               {"EDG_BASE", "/nowhere"},
                               {"EDG_MODULES_PATH", "/nowhere"},
                               {"NVRTCWIZ", "1"},
                               {"LD_PRELOAD", "/nowhere.so"}}) {
        const ScopedVariable variable(name.c_str(), value);
        EXPECT_EQ(compiler->ingredients(), plain) << name;
        EXPECT_EQ(compiler->compile(gpu_source(), target).bytes, bytes) << name;
    }
}

// The attack: NV_NVVM_VERSION=nvvm-latest makes other code.
TEST(CompilerEnvironment, WhatNvrtcReadsIsInTheKeyAndReachesItsWorkerAlone) {
    KILN_REQUIRE_OR_SKIP("nvrtc", test::missing_nvrtc().empty(), "no NVRTC");
    const auto pool = workers();
    const auto compiler = make_nvrtc_compiler(pool);
    const Target target{Backend::cuda, "sm_90a", {}};
    const auto plain = compiler->ingredients();
    const auto before = compiler->compile(gpu_source(), target).bytes;
    Bytes under;
    {
        const ScopedVariable variable("NV_NVVM_VERSION", "nvvm-latest");
        const auto with = compiler->ingredients();
        EXPECT_NE(with, plain);
        under = compiler->compile(gpu_source(), target).bytes;
        EXPECT_EQ(compiler->compile(gpu_source(), target, with, Isolation::worker).bytes, under);
        // What was looked up without it can't be made with it.
        EXPECT_THAT(
            rejected<BuildError>([&] { compiler->compile(gpu_source(), target, plain, Isolation::here); }),
            AllOf(HasSubstr("NV_NVVM_VERSION"), HasSubstr("changed")));
    }
    EXPECT_EQ(compiler->compile(gpu_source(), target).bytes, before);
    EXPECT_EQ(compiler->compile(gpu_source(), target, Isolation::worker).bytes, before);
    // NVRTC 13.0 makes other bytes with it: else this test shows nothing.
    if (compiler->description().find("NVRTC 13.0") != std::string::npos) {
        EXPECT_NE(under, before);
    }
}

TEST(CompilerEnvironment, AValueThatBreaksTheCompilerIsNamed) {
    KILN_REQUIRE_OR_SKIP("nvrtc", test::missing_nvrtc().empty(), "no NVRTC");
    const auto compiler = make_nvrtc_compiler(workers());
    Source source = gpu_source();
    source.text = "broken";
    const ScopedVariable variable("NV_NVVM_VERSION", "nonsense");
    EXPECT_THAT(rejected<BuildError>([&] {
                    compiler->compile(source, {Backend::cuda, "sm_90a", {}});
                }),
                HasSubstr("NV_NVVM_VERSION is set to \"nonsense\""));
}

TEST(CompilerEnvironment, NothingReachesHiprtc) {
    KILN_REQUIRE_OR_SKIP("hiprtc", test::why_missing([] { return make_hiprtc_compiler(workers()); }).empty(),
                         "no hipRTC");
    const Target target{Backend::hip, "gfx90a", {}};
    const auto compiler = make_hiprtc_compiler(workers());
    const auto plain = compiler->ingredients();
    const auto bytes = compiler->compile(gpu_source(), target).bytes;
    std::vector<std::unique_ptr<ScopedVariable>> all;
    for (const char* name :
         {"HIPRTC_COMPILE_OPTIONS_APPEND", "HIPRTC_LINK_OPTIONS_APPEND", "AMD_COMGR_SAVE_TEMPS", "ROCM_PATH",
          "HIP_PATH", "HIP_DEVICE_LIB_PATH", "DEVICE_LIB_PATH", "LLVM_PATH", "LLD_VERSION", "LLD_REPRODUCE",
          "LLVM_OVERRIDE_PRODUCER", "CPATH", "CPLUS_INCLUDE_PATH", "CCC_OVERRIDE_OPTIONS", "LD_PRELOAD"})
        all.push_back(std::make_unique<ScopedVariable>(name, "/nowhere/-O0"));
    EXPECT_EQ(compiler->ingredients(), plain);
    EXPECT_EQ(make_hiprtc_compiler(workers())->compile(gpu_source(), target).bytes, bytes);
}

class HostEnvironment : public testing::TestWithParam<const char*> {};

TEST_P(HostEnvironment, NothingReachesTheCompiler) {
    const ScopedVariable chosen("KILN_HOST_CXX", GetParam());
    KILN_REQUIRE_OR_SKIP((GetParam() == std::string_view("clang++") ? "clang" : "host"),
                         test::why_missing([] { return make_host_compiler({}); }).empty(),
                         "no such C++ compiler");
    const Target target{Backend::host, host_arch(), {}};
    const auto memory = process_memory();
    const auto compiler = make_host_compiler({}, HostBuild::fast, memory);
    const auto plain = compiler->ingredients();
    const auto bytes = compiler->compile(host_source(), target).bytes;
    for (const char* name : {"CPATH",
                             "C_INCLUDE_PATH",
                             "CPLUS_INCLUDE_PATH",
                             "LIBRARY_PATH",
                             "LPATH",
                             "COMPILER_PATH",
                             "GCC_EXEC_PREFIX",
                             "GCC_COMPARE_DEBUG",
                             "GCC_ROOT",
                             "G++_ROOT",
                             "BINUTILS_ROOT",
                             "COLLECT_GCC",
                             "COLLECT_GCC_OPTIONS",
                             "CXX_MODULE_MAPPER",
                             "SOURCE_DATE_EPOCH",
                             "GNUTARGET",
                             "LDEMULATION",
                             "LD_RUN_PATH",
                             "CCC_OVERRIDE_OPTIONS",
                             "LLVM_OVERRIDE_PRODUCER",
                             "AS_SECURE_LOG_FILE",
                             "CC_PRINT_OPTIONS",
                             "MAKEFLAGS",
                             "LD_DEBUG"}) {
        const ScopedVariable variable(name, "/nowhere/+-O0");
        EXPECT_EQ(compiler->ingredients(), plain) << name;
        EXPECT_EQ(compiler->compile(host_source(), target).bytes, bytes) << name;
    }
}
INSTANTIATE_TEST_SUITE_P(, HostEnvironment, testing::Values("g++", "clang++"),
                         [](const auto& one) { return *one.param == 'g' ? "gcc" : "clang"; });

TEST(CompilerEnvironment, AWrappersOptionsAreIngredients) {
    KILN_REQUIRE_OR_SKIP("host", test::why_missing([] { return make_host_compiler({}); }).empty(),
                         "no C++ compiler");
    const auto compiler = make_host_compiler({});
    const auto plain = compiler->ingredients();
    const ScopedVariable variable("NIX_CFLAGS_COMPILE", "-O0");
    EXPECT_THAT(compiler->ingredients().environment,
                testing::Contains(Variable{"NIX_CFLAGS_COMPILE", "-O0"}));
    EXPECT_NE(compiler->ingredients(), plain);
}

// The variable comes and goes while others compile: what is returned was made without it.
TEST(CompilerEnvironment, AVariableThatChangesMeanwhileMakesNoWrongBinary) {
    KILN_REQUIRE_OR_SKIP("nvrtc", test::missing_nvrtc().empty(), "no NVRTC");
    const auto compiler = make_nvrtc_compiler(workers());
    const Target target{Backend::cuda, "sm_90a", {}};
    const auto plain = compiler->ingredients();
    const auto bytes = compiler->compile(gpu_source(), target).bytes;
    (void)compiler->compile(gpu_source(), target, Isolation::worker);  // starts it
    std::atomic<bool> done = false;
    std::thread changer([&] {
        while (!done) {
            const ScopedVariable variable("NV_NVVM_VERSION", "nvvm-latest");
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    });
    for (int i = 0; i < 10; ++i) {
        try {
            EXPECT_EQ(compiler->compile(gpu_source(), target, plain, Isolation::worker).bytes, bytes);
        } catch (const BuildError& error) {
            EXPECT_THAT(error.what(), HasSubstr("NV_NVVM_VERSION"));
        }
    }
    done = true;
    changer.join();
}

}  // namespace
}  // namespace kiln
