// SPDX-License-Identifier: Apache-2.0
//
// hipRTC for real, several compiles in one worker included, and what becomes of a worker that fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "compile/compiler.h"
#include "compiler_fixtures.h"
#include "rejected.h"
#include "require.h"

namespace kiln {
namespace {
using namespace std::chrono_literals;
using test::FakeWorker;
using test::rejected;
using test::ScopedVariable;
using test::workers;
using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Target hip(std::string arch) { return {Backend::hip, std::move(arch), {}}; }

Source hip_source(const std::string& body = "x[i] = twice(x[i]);") {
    return {"scale.cu",
            "scale",
            "constexpr int N = 8;\n#line 1 \"scale.cu\"\n#include \"part/twice.h\"\n"
            "extern \"C\" __global__ void scale(float* x) { int i = threadIdx.x;\n" +
                body + "\n}\n",
            {{"part/twice.h", "inline __device__ float twice(float x) { return sinf(2 * x); }\n"}}};
}

bool hiprtc_is_here() {
    try {
        make_hiprtc_compiler(workers())->identity();
        return true;
    } catch (const BuildError&) {
        return false;
    }
}

class HiprtcTest : public testing::Test {
  protected:
    void SetUp() override {
        KILN_REQUIRE_OR_SKIP("hiprtc", hiprtc_is_here(), "no hipRTC library on this machine");
    }
    std::unique_ptr<Compiler> compiler_ = make_hiprtc_compiler(workers());
};

TEST_F(HiprtcTest, MakesACodeObjectForCdnaAndRdna) {
    for (const char* arch : {"gfx90a", "gfx90a:xnack-", "gfx1030"}) {
        const Binary binary = compiler_->compile(hip_source(), hip(arch));
        EXPECT_EQ(binary.kind, BinaryKind::code_object);
        EXPECT_EQ(binary.entry, "scale");
        ASSERT_GT(binary.bytes.size(), 4u);
        EXPECT_EQ(binary.bytes[1], std::byte{'E'});
        EXPECT_THAT(binary.compiler, StartsWith("hipRTC"));
    }
}

TEST_F(HiprtcTest, AnEmptyHeaderIsIncluded) {
    Source source = hip_source();
    source.text = "#include \"part/empty.h\"\n" + source.text;
    source.headers.push_back({"part/empty.h", ""});
    EXPECT_FALSE(compiler_->compile(source, hip("gfx90a")).bytes.empty());
}

TEST_F(HiprtcTest, EqualInputGivesEqualBytes) {
    EXPECT_EQ(compiler_->compile(hip_source(), hip("gfx90a")).bytes,
              compiler_->compile(hip_source(), hip("gfx90a")).bytes);
}

// One process compiles for one architecture after the other, and the bytes are those of a process for each.
TEST_F(HiprtcTest, ManyCompilesInOneWorkerGiveTheBytesOfOneEach) {
    const auto alone = [](const char* arch) {
        return make_hiprtc_compiler(workers())->compile(hip_source(), hip(arch)).bytes;
    };
    const auto wave64 = alone("gfx90a"), wave32 = alone("gfx1030");
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(compiler_->compile(hip_source(), hip("gfx90a")).bytes, wave64);
        EXPECT_EQ(compiler_->compile(hip_source(), hip("gfx1030")).bytes, wave32);
        compiler_->compile(hip_source("x[i] = expf(x[i]) / 3;"), hip("gfx906"));
    }
}

TEST_F(HiprtcTest, CompilesAfterARejectedSource) {
    const auto before = compiler_->compile(hip_source(), hip("gfx90a")).bytes;
    rejected<BuildError>([&] { compiler_->compile(hip_source("x[i] = nothing;"), hip("gfx90a")); });
    EXPECT_EQ(compiler_->compile(hip_source(), hip("gfx90a")).bytes, before);
}

TEST_F(HiprtcTest, VariablesThatPointToOtherDeviceLibrariesDoNotReachIt) {
    const auto bytes = compiler_->compile(hip_source(), hip("gfx90a")).bytes;
    const ScopedVariable rocm("ROCM_PATH", "/nowhere"), libraries("HIP_DEVICE_LIB_PATH", "/nowhere");
    EXPECT_EQ(make_hiprtc_compiler(workers())->compile(hip_source(), hip("gfx90a")).bytes, bytes);
}

TEST_F(HiprtcTest, AnErrorCarriesTheTemplatesLine) {
    EXPECT_THAT(
        rejected<BuildError>([&] { compiler_->compile(hip_source("x[i] = nothing;"), hip("gfx90a")); }),
        AllOf(HasSubstr("scale.cu:3:"), HasSubstr("error: "), HasSubstr("nothing"), HasSubstr("gfx90a")));
}

TEST_F(HiprtcTest, AnErrorInAHeaderCarriesItsVirtualName) {
    Source source = hip_source();
    source.headers[0].text = "\nint broken = nothing;\n";
    const std::string error = rejected<BuildError>([&] { compiler_->compile(source, hip("gfx90a")); });
    EXPECT_THAT(error, AllOf(HasSubstr("\npart/twice.h:2:"), Not(HasSubstr("comgr-"))));
}

TEST_F(HiprtcTest, AnEntryThatIsNotThereIsAnError) {
    Source source = hip_source();
    source.entry = "other";
    EXPECT_THAT(rejected<BuildError>([&] { compiler_->compile(source, hip("gfx90a")); }),
                AllOf(HasSubstr("\"other\""), HasSubstr("extern \"C\"")));
}

TEST_F(HiprtcTest, AnUnknownArchitectureIsAnErrorAndThisProcessLives) {
    for (const char* arch : {"gfx9999", "gfx9999:xnack+"})
        EXPECT_THAT(rejected<BuildError>([&] { compiler_->compile(hip_source(), hip(arch)); }),
                    AllOf(HasSubstr(arch), HasSubstr("gfx90a"), HasSubstr("gfx1030")));
}

TEST_F(HiprtcTest, AMalformedArchitectureStartsNoWorker) {
    const FakeWorker worker("touch started; exit 3");
    for (const char* arch :
         {"sm_90", "gfx", "gfx9", "gfx90A", "gfx90a:", "gfx90a:fast+", "gfx90a,gfx908", ""})
        EXPECT_THAT(
            rejected<BuildError>([&] { compiler_->compile(hip_source(), hip(arch)); }),
            AllOf(HasSubstr("\"" + std::string(arch) + "\""), HasSubstr("gfx906"), Not(HasSubstr("status"))));
}

TEST_F(HiprtcTest, ListsArchitectures) {
    EXPECT_THAT(compiler_->supported_archs(),
                AllOf(Contains("gfx90a"), Contains("gfx1030"), Not(Contains("gfx9999"))));
}

TEST_F(HiprtcTest, TheIdentityHoldsNoPath) {
    EXPECT_EQ(compiler_->identity(), make_hiprtc_compiler(workers())->identity());
    EXPECT_THAT(compiler_->identity(), AllOf(StartsWith("hiprtc "), HasSubstr("libamd_comgr"),
                                             HasSubstr("kiln-compile-2"), Not(HasSubstr("/"))));
}

TEST_F(HiprtcTest, CompilesFromManyThreadsAtOnce) {
    std::vector<Binary> binaries(3);
    std::vector<std::thread> threads;
    for (auto& binary : binaries)
        threads.emplace_back([&] { binary = compiler_->compile(hip_source(), hip("gfx90a")); });
    for (auto& thread : threads) thread.join();
    for (const auto& binary : binaries) EXPECT_EQ(binary.bytes, binaries[0].bytes);
    EXPECT_FALSE(binaries[0].bytes.empty());
}

TEST_F(HiprtcTest, AWorkerThatDiesIsAnErrorWithItsLastWords) {
    const FakeWorker worker("echo last words >&2; kill -ABRT $$");
    EXPECT_THAT(rejected<BuildError>([&] { compiler_->compile(hip_source(), hip("gfx90a")); }),
                AllOf(HasSubstr("signal 6"), HasSubstr("last words"), HasSubstr("gfx1030")));
}

TEST_F(HiprtcTest, AWorkerThatHangsIsKilled) {
    const FakeWorker worker("sleep 60");
    const auto start = std::chrono::steady_clock::now();
    EXPECT_THAT(rejected<BuildError>(
                    [&] { make_hiprtc_compiler(workers(300ms))->compile(hip_source(), hip("gfx90a")); }),
                HasSubstr("300 ms"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

TEST_F(HiprtcTest, AWorkerThatTalksNonsenseIsAnError) {
    for (const char* script : {"echo hello", "exit 0", "printf kiln-compile-1", "cat"}) {
        const FakeWorker worker(script);
        EXPECT_THAT(rejected<BuildError>([&] { compiler_->compile(hip_source(), hip("gfx90a")); }),
                    HasSubstr("no proper response"));
    }
    const FakeWorker worker("echo why >&2; exit 7");
    EXPECT_THAT(rejected<BuildError>([&] { compiler_->compile(hip_source(), hip("gfx90a")); }),
                AllOf(HasSubstr("status 7"), HasSubstr("why")));
}

TEST_F(HiprtcTest, AMissingWorkerIsNamed) {
    const ScopedVariable variable("KILN_COMPILE_WORKER", "/nowhere/worker");
    EXPECT_THAT(rejected<BuildError>([&] { compiler_->compile(hip_source(), hip("gfx90a")); }),
                AllOf(HasSubstr("KILN_COMPILE_WORKER"), HasSubstr("/nowhere/worker")));
}

TEST_F(HiprtcTest, NothingStaysInTheTemporaryDirectory) {
    const TemporaryDirectory directory;
    const ScopedVariable variable("TMPDIR", directory.path().string());
    compiler_->compile(hip_source(), hip("gfx90a"));
    rejected<BuildError>([&] { compiler_->compile(hip_source("x[i] = nothing;"), hip("gfx90a")); });
    EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(HiprtcMissing, SaysWhatIsWrongWithTheVariable) {
    const ScopedVariable variable("KILN_HIPRTC", "/nowhere/libhiprtc.so");
    EXPECT_THAT(rejected<BuildError>([] { make_hiprtc_compiler(workers())->identity(); }),
                AllOf(HasSubstr("KILN_HIPRTC"), HasSubstr("/nowhere/libhiprtc.so")));
}

}  // namespace
}  // namespace kiln
