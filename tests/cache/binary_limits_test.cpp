// SPDX-License-Identifier: Apache-2.0
//
// Kernels that can't be launched as their template says, or have more shared memory: found when they are built.
#include <gmock/gmock.h>
#include <kiln/kiln.h>

#include "rejected.h"
#include "require.h"
#include "scale_kernel.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Lines of front matter, what stands before the kernel's name, and the extent of an array in shared memory.
std::string text_of(const std::string& lines, const std::string& bounds, int extent) {
    return "// f: for tests.\n//@ kernel f\n" + lines +
           "//@ grid 1\n#include \"kiln/device.h\"\nextern \"C\" __global__ void " + bounds +
           " f(float* x) {\n    __shared__ float s[" + std::to_string(extent) +
           "];\n    s[threadIdx.x] = x[threadIdx.x];\n    __syncthreads();\n    x[threadIdx.x] = "
           "s[threadIdx.x ^ 1];\n}\n";
}

struct BinaryLimits : test::ServiceFixture {
    Service service() { return Service(options()); }
    Service compiling(const std::string& arch) {
        ServiceOptions result = options();
        result.backend = Backend::cuda;
        result.arch = arch;
        result.compile_only = true;
        return Service(std::move(result));
    }
};

TEST_F(BinaryLimits, MoreStaticSharedMemoryThanDeclaredIsAWarning) {
    Service host = service();
    host.build(host.parse(text_of("//@ block 64\n//@ shared static 256\n", "", 64), "f.cu").variant());
    host.build(host.parse(text_of("//@ block 64\n", "", 64), "f.cu").variant());
    EXPECT_THAT(warnings, IsEmpty());
    host.build(host.parse(text_of("//@ block 64\n//@ shared static 252\n", "", 64), "f.cu").variant());
    EXPECT_THAT(warnings,
                ElementsAre(HasSubstr("has 256 bytes of static shared memory, and its template says 252")));
}

TEST_F(BinaryLimits, MoreStaticSharedMemoryThanABlockHasIsAnError) {
    Service host = service();
    const Variant variant =
        host.parse(text_of("//@ block 64\n//@ shared static 256\n", "", 12289), "f.cu").variant();
    EXPECT_THAT(test::rejected<BuildError>([&] { host.build(variant); }),
                AllOf(HasSubstr("49156 bytes of static shared memory"), HasSubstr("may have 49152")));
}

// GCC 14 gives some variables a second name.
TEST_F(BinaryLimits, AVariableOfTwoNamesCountsOnce) {
    Service host = service();
    const std::string text = text_of("//@ block 64\n//@ shared static 40960\n", "", 10240) +
                             "asm(\".set twin, _ZZ1fE1s\\n.type twin, @tls_object\\n.size twin, 40960\");\n";
    host.build(host.parse(text, "f.cu").variant());
    EXPECT_THAT(warnings, IsEmpty());
}

TEST_F(BinaryLimits, ABlockHasAtMostTheThreadsOfItsLaunchBounds) {
    for (const char* arch : {"sm_80", "sm_90a"}) {
        Service cuda = compiling(arch);
        const auto compile = [&](const std::string& block) {
            cuda.compile(cuda.parse(text_of("//@ block " + block + "\n//@ shared static 512\n",
                                            "__launch_bounds__(128)", 128),
                                    "f.cu")
                             .variant());
        };
        try {
            compile("16, 8");
        } catch (const BuildError& error) {
            KILN_REQUIRE_OR_SKIP("nvrtc", false, error.what());
        }
        EXPECT_THAT(warnings, IsEmpty());
        EXPECT_THAT(test::rejected<BuildError>([&] { compile("16, 16"); }),
                    AllOf(HasSubstr("the kernel f has 256 threads"),
                          HasSubstr("at most 128 as the kernel's __launch_bounds__")));
    }
}

}  // namespace
}  // namespace kiln
