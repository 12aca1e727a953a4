// SPDX-License-Identifier: Apache-2.0
//
// gemm_wgmma for Hopper, compiled for real: the log tells whether the matrix instructions can overlap,
// whether registers suffice, and whether the warpgroups may divide them as the kernel asks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/kiln.h>

#include <string>

#include "compile/compiler.h"
#include "compiler_fixtures.h"
#include "require.h"

namespace kiln {
namespace {

using test::missing_nvrtc;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class WgmmaTest : public testing::Test {
  protected:
    void SetUp() override {
        const std::string missing = missing_nvrtc();
        KILN_REQUIRE_OR_SKIP("nvrtc", missing.empty(), missing);
    }
    static Service service_for(const std::string& arch) {
        ServiceOptions options;
        options.backend = Backend::cuda;
        options.arch = arch;
        options.compile_only = true;
        options.cache.enabled = false;
        return Service(options);
    }
    static Values values(int bm, int bn, int stages, int cluster, bool tma_store, const char* type = "half") {
        return {{"BM", bm},         {"BN", bn},
                {"STAGES", stages}, {"CLUSTER_M", cluster},
                {"T", type},        {"TMA_STORE", tma_store}};
    }
};

// C75xx are ptxas's warnings that it runs matrix instructions one after the other, or ignores setmaxnreg. 168
// registers are what 384 threads begin with, and what the kernel's shares add up to.
TEST_F(WgmmaTest, CompilesWithoutWarningsSpillsOrStack) {
    Service service = service_for("sm_90a");
    for (const Values& chosen :
         {Values{}, values(128, 256, 4, 2, true), values(128, 256, 4, 2, false, "bfloat16"),
          values(128, 192, 4, 2, true), values(128, 128, 6, 1, true), values(128, 64, 6, 2, true, "bfloat16"),
          values(256, 128, 4, 2, true), values(256, 64, 4, 1, false)}) {
        const Variant variant = service.find("gemm_wgmma").variant(chosen);
        SCOPED_TRACE(variant.text());
        const Binary binary = service.compile(variant).binary;
        EXPECT_THAT(binary.log,
                    AllOf(HasSubstr("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"),
                          HasSubstr("Used 168 registers"), Not(HasSubstr("warning")), Not(HasSubstr("C75"))));
    }
}

TEST_F(WgmmaTest, UsesTheInstructionsItIsThereFor) {
    Service service = service_for("sm_90a");
    Target target;
    target.backend = Backend::cuda;
    target.arch = "sm_90a";
    const auto ptx = [&](const Values& chosen) {
        return make_nvrtc_compiler()->ptx(service.find("gemm_wgmma").variant(chosen).source(Backend::cuda),
                                          target);
    };
    EXPECT_THAT(
        ptx(values(128, 256, 4, 2, true)),
        AllOf(HasSubstr("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16"),
              HasSubstr(".multicast::cluster"), HasSubstr("cp.async.bulk.tensor.2d.global.shared::cta"),
              HasSubstr("setmaxnreg.inc"), HasSubstr("mapa.shared::cluster")));
    EXPECT_THAT(ptx(values(256, 64, 4, 1, false, "bfloat16")),
                AllOf(HasSubstr("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"),
                      HasSubstr("cp.async.bulk.tensor.2d.shared::cluster.global"),
                      Not(HasSubstr("cp.async.bulk.tensor.2d.global")), Not(HasSubstr(".multicast::cluster")),
                      Not(HasSubstr("barrier.cluster"))));
}

TEST_F(WgmmaTest, OtherArchitecturesAreRejectedBeforeCompiling) {
    for (const char* arch : {"sm_80", "sm_90", "sm_100a"}) {
        Service service = service_for(arch);
        EXPECT_THROW((void)service.find("gemm_wgmma").variant(), VariantError) << arch;
    }
}

TEST_F(WgmmaTest, TilesThatDoNotFitAreRejectedBeforeCompiling) {
    Service service = service_for("sm_90a");
    EXPECT_THROW((void)service.find("gemm_wgmma").variant(values(256, 256, 2, 1, false)), VariantError)
        << "registers";
    EXPECT_THROW((void)service.find("gemm_wgmma").variant(values(128, 256, 5, 1, true)), VariantError)
        << "shared memory";
}

}  // namespace
}  // namespace kiln
