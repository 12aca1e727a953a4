// SPDX-License-Identifier: Apache-2.0
//
// PTX in a pack: what a service that compiles nothing takes on a GPU for which there is no binary, and that it says so.
#include <gmock/gmock.h>
#include <kiln/kiln.h>

#include "require.h"
#include "scale_kernel.h"

namespace kiln {
namespace {

using test::scale_variant;
using testing::HasSubstr;
using testing::IsEmpty;

struct PtxFallback : test::ServiceFixture {
    std::filesystem::path pack = directory.path() / "app.pack";

    ServiceOptions for_arch(const std::string& arch) {
        ServiceOptions result = options();
        result.backend = Backend::cuda;
        result.arch = arch;
        result.compile_only = true;
        return result;
    }
    /// A pack of scale with FACTOR=3 for these; false: no NVRTC.
    bool make_pack(const std::vector<std::string>& archs) {
        try {
            for (const std::string& arch : archs) {
                Service service(for_arch(arch));
                service.compile(scale_variant(service, 3));
            }
        } catch (const BuildError&) {
            return false;
        }
        Cache(for_arch("sm_80").cache).pack(pack);
        return true;
    }
    Compiled shipped(const std::string& arch, int factor = 3) {
        ServiceOptions result = for_arch(arch);
        result.cached_only = true;
        result.cache.directory = directory.path() / "empty";
        result.cache.seed_packs = {pack};
        Service service(result);
        return service.compile(scale_variant(service, factor));
    }
};

TEST_F(PtxFallback, ServesNewerGpusAndSaysSo) {
    KILN_REQUIRE_OR_SKIP("nvrtc", make_pack({"sm_75", "compute_75", "sm_80", "compute_80"}), "no NVRTC");
    for (const char* newer : {"sm_90a", "sm_121a", "sm_86"}) {
        warnings.clear();
        const Compiled found = shipped(newer);
        EXPECT_EQ(found.binary.kind, BinaryKind::ptx);
        EXPECT_EQ(found.origin, Origin::seed);
        EXPECT_THAT(
            std::string(reinterpret_cast<const char*>(found.binary.bytes.data()), found.binary.bytes.size()),
            HasSubstr(".target sm_80"));
        ASSERT_EQ(warnings.size(), 1u);
        EXPECT_THAT(warnings[0], HasSubstr("there is no binary of scale FACTOR=3 for " + std::string(newer) +
                                           ": the PTX for compute_80 is used"));
    }
    warnings.clear();
    EXPECT_EQ(shipped("sm_80").binary.kind, BinaryKind::cubin);  // its own
    EXPECT_THAT(warnings, IsEmpty());
    EXPECT_THROW(shipped("sm_90a", 4), BuildError);
}

TEST_F(PtxFallback, IsNotForOlderGpus) {
    KILN_REQUIRE_OR_SKIP("nvrtc", make_pack({"compute_80"}), "no NVRTC");
    EXPECT_THROW(shipped("sm_75"), BuildError);
    EXPECT_EQ(shipped("sm_80").binary.kind, BinaryKind::ptx);
}

}  // namespace
}  // namespace kiln
