// SPDX-License-Identifier: Apache-2.0
//
// The templates with asynchronous copies and matrix cores, compiled for real: the instructions they are there
// for, and nothing spilled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/kiln.h>

#include <regex>
#include <string>
#include <vector>

#include "compile/compiler.h"
#include "compiler_fixtures.h"
#include "require.h"

namespace kiln {
namespace {
using test::missing_nvrtc;
using testing::HasSubstr;
using testing::Not;

struct MatrixCase {
    std::string name;
    Values values;
};

ServiceOptions compile_only(Backend backend, const std::string& arch) {
    ServiceOptions options;
    options.backend = backend;
    options.arch = arch;
    options.compile_only = true;
    options.cache.enabled = false;
    return options;
}

TEST(MatrixCores, CudaKernelsSpillNothing) {
    const std::string reason = missing_nvrtc();
    KILN_REQUIRE_OR_SKIP("nvrtc", reason.empty(), reason);
    const std::vector<MatrixCase> cases = {
        {"gemm_mma", {}},
        {"gemm_mma", {{"TRANS_A", true}, {"TRANS_B", true}, {"T", "bfloat16"}, {"ACTIVATION", 3}}},
        {"gemm_mma", {{"BM", 256}, {"BK", 64}, {"STAGES", 2}, {"SWIZZLE", false}}},
        {"gemm_mma", {{"BN", 256}, {"BK", 16}, {"TRANS_A", true}}},
        {"gemm_mma", {{"WM", 32}, {"WN", 32}}},
        {"gemm_mma_batched", {{"BIAS", true}, {"BETA", 0.5f}, {"ACTIVATION", 1}}},
        {"gemm_async", {{"BM", 128}, {"BN", 128}, {"TM", 8}, {"TN", 8}, {"VEC", 8}, {"BK", 16}}},
        {"gemm_async", {{"T", "float"}, {"STAGES", 4}, {"SWIZZLE", false}, {"PAD", 4}}},
    };
    for (const char* arch : {"sm_80", "sm_90a"}) {
        Service service(compile_only(Backend::cuda, arch));
        for (const auto& [name, values] : cases) {
            const Variant variant = service.find(name).variant(values);
            SCOPED_TRACE(variant.text() + " for " + arch);
            const std::string log = service.compile(variant).binary.log;
            EXPECT_THAT(log, HasSubstr("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"));
            EXPECT_THAT(log, Not(HasSubstr("warning")));
        }
    }
}

TEST(MatrixCores, CudaKernelsUseTheirInstructions) {
    const std::string reason = missing_nvrtc();
    KILN_REQUIRE_OR_SKIP("nvrtc", reason.empty(), reason);
    Service service(compile_only(Backend::cuda, "sm_80"));
    const auto ptx = [&](const std::string& name, const Values& values) {
        return service.ptx(service.find(name).variant(values));
    };
    const std::string plain = ptx("gemm_mma", {});
    EXPECT_THAT(plain, HasSubstr("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"));
    EXPECT_THAT(plain, HasSubstr("cp.async.cg.shared.global.L2::128B"));
    EXPECT_THAT(plain, HasSubstr("ldmatrix.sync.aligned.m8n8.x4.shared.b16"));        // of A
    EXPECT_THAT(plain, HasSubstr("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"));  // of B
    const std::string other = ptx("gemm_mma", {{"T", "bfloat16"}, {"TRANS_B", true}});
    EXPECT_THAT(other, HasSubstr("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"));
    EXPECT_THAT(other, Not(HasSubstr("m8n8.x4.trans")));
    EXPECT_THAT(ptx("gemm_async", {{"VEC", 4}}), HasSubstr("cp.async.ca.shared.global"));
    EXPECT_THAT(ptx("gemm_async", {{"VEC", 8}}), HasSubstr("cp.async.cg.shared.global"));

    Service older(compile_only(Backend::cuda, "sm_75"));
    EXPECT_THAT(older.ptx(older.find("gemm_async").variant()), Not(HasSubstr("cp.async")));
    EXPECT_THROW(older.find("gemm_mma").variant(), VariantError);
}

TEST(MatrixCores, HipKernelsCompile) {
    const std::string reason =
        test::why_missing([] { return make_hiprtc_compiler(std::make_shared<WorkerPool>(WorkerLimits{})); });
    KILN_REQUIRE_OR_SKIP("hiprtc", reason.empty(), reason);
    for (const char* arch : {"gfx908", "gfx90a"}) {
        Service service(compile_only(Backend::hip, arch));
        for (const char* type : {"half", "bfloat16", "float"}) {
            for (const int size : {16, 32}) {
                const Variant variant =
                    service.find("gemm_mfma")
                        .variant({{"T", type}, {"MFMA_SIZE", size}, {"BM", 64}, {"WM", 32}});
                EXPECT_EQ(service.compile(variant).binary.kind, BinaryKind::code_object) << variant.text();
            }
        }
    }
    Service without(compile_only(Backend::hip, "gfx1030"));
    EXPECT_THROW(without.find("gemm_mfma").variant(), VariantError);
}

}  // namespace
}  // namespace kiln
