// SPDX-License-Identifier: Apache-2.0
//
// NVRTC for real: cubins, logs, architectures, PTX for what the library does not know, a missing library,
// identities, parallel compiles.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/dynamic_library.h"
#include "base/file.h"
#include "compile/compiler.h"
#include "compiler_fixtures.h"
#include "rejected.h"
#include "require.h"

namespace kiln {
namespace {
using test::rejected;
using test::ScopedVariable;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Target cuda(std::string arch) { return {Backend::cuda, std::move(arch), {}}; }

// Line 3 of scale.cu uses what a header in a folder, which includes another one, defines.
Source scale_source(const std::string& body = "x[i] = twice(x[i]);") {
    return {"scale.cu",
            "scale",
            "constexpr int N = 8;\n#line 1 \"scale.cu\"\n#include \"part/twice.h\"\n"
            "extern \"C\" __global__ void scale(float* x) { int i = threadIdx.x;\n" +
                body + "\n}\n",
            {{"part/twice.h",
              "#include \"part/factor.h\"\ninline __device__ float twice(float x) { return kFactor * x; }\n"},
             {"part/factor.h", "constexpr float kFactor = 2;\n"}}};
}

std::optional<std::filesystem::path> nvrtc_path() {
    try {
        const std::string description = make_nvrtc_compiler()->description();
        return description.substr(description.rfind(", ") + 2);
    } catch (const BuildError&) {
        return std::nullopt;
    }
}

class NvrtcTest : public testing::Test {
  protected:
    void SetUp() override {
        KILN_REQUIRE_OR_SKIP("nvrtc", nvrtc_path().has_value(), "no NVRTC library on this machine");
    }
    std::unique_ptr<NvrtcCompiler> compiler_ = make_nvrtc_compiler();
};

std::string text_of(const Binary& binary) {
    return {reinterpret_cast<const char*>(binary.bytes.data()), binary.bytes.size()};
}

TEST_F(NvrtcTest, MakesACubinWithRegisterUsageInTheLog) {
    const Binary binary = compiler_->compile(scale_source(), cuda("sm_80"));
    EXPECT_EQ(binary.kind, BinaryKind::cubin);
    EXPECT_EQ(binary.entry, "scale");
    EXPECT_THAT(text_of(binary), StartsWith("\177ELF"));
    EXPECT_THAT(binary.log, HasSubstr("registers"));
    // NVRTC's own cache would leave the second log empty.
    EXPECT_THAT(compiler_->compile(scale_source(), cuda("sm_80")).log, HasSubstr("registers"));
    EXPECT_THAT(binary.compiler, StartsWith("NVRTC "));
    EXPECT_GT(binary.compile_ms, 0);
}

TEST_F(NvrtcTest, AnEmptyHeaderIsIncluded) {
    Source source = scale_source();
    source.text = "#include \"part/empty.h\"\n" + source.text;
    source.headers.push_back({"part/empty.h", ""});
    EXPECT_FALSE(compiler_->compile(source, cuda("sm_80")).bytes.empty());
}

TEST_F(NvrtcTest, EqualInputGivesEqualBytes) {
    const auto bytes = compiler_->compile(scale_source(), cuda("sm_80")).bytes;
    const auto directory = std::filesystem::current_path();
    const TemporaryDirectory elsewhere;
    std::filesystem::current_path(elsewhere.path());
    const auto again = make_nvrtc_compiler()->compile(scale_source(), cuda("sm_80")).bytes;
    std::filesystem::current_path(directory);
    EXPECT_TRUE(bytes == again) << "the current directory reached the bytes";
}

TEST_F(NvrtcTest, LineInformationNamesTheFilesButNoPlace) {
    Source source = scale_source();
    const std::string ptx = compiler_->ptx(source, cuda("sm_80"));
    EXPECT_THAT(ptx, AllOf(HasSubstr("/scale.cu\""), HasSubstr("/part/twice.h\"")));
    EXPECT_THAT(ptx, Not(HasSubstr(std::filesystem::current_path().string())));
}

TEST_F(NvrtcTest, AnErrorInAHeaderCarriesItsVirtualName) {
    Source source = scale_source();
    source.headers[1].text = "\nint broken = nothing;\n";
    EXPECT_THAT(rejected<BuildError>([&] { compiler_->compile(source, cuda("sm_80")); }),
                HasSubstr("\npart/factor.h(2): error"));
}

TEST_F(NvrtcTest, AnErrorCarriesTheTemplatesLine) {
    const std::string error =
        rejected<BuildError>([&] { compiler_->compile(scale_source("x[i] = nothing;"), cuda("sm_80")); });
    EXPECT_THAT(error, AllOf(HasSubstr("scale.cu(3): error"), HasSubstr("nothing"), HasSubstr("sm_80")));
}

TEST_F(NvrtcTest, AHeaderThatWasNotGivenIsNotTakenFromTheCurrentDirectory) {
    const TemporaryDirectory directory;
    write_text(directory.path() / "stray.h", "#define STRAY 1\n");
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(directory.path());
    const Source source{"s.cu", "s", "#include \"stray.h\"\nextern \"C\" __global__ void s() {}\n", {}};
    const std::string error = rejected<BuildError>([&] { compiler_->compile(source, cuda("sm_80")); });
    std::filesystem::current_path(before);
    EXPECT_THAT(error, HasSubstr("stray.h"));
}

TEST_F(NvrtcTest, AnEntryThatIsNotThereIsAnError) {
    Source source = scale_source();
    source.entry = "scal";
    EXPECT_THAT(rejected<BuildError>([&] { compiler_->compile(source, cuda("sm_80")); }),
                AllOf(HasSubstr("\"scal\""), HasSubstr("extern \"C\"")));
}

TEST_F(NvrtcTest, ListsArchitectures) {
    EXPECT_THAT(compiler_->supported_archs(),
                AllOf(Contains("sm_80"), Contains("sm_90"), Not(Contains("sm_20"))));
}

TEST_F(NvrtcTest, TheSuffixOfAnArchitectureIsKept) {
    if (const auto archs = compiler_->supported_archs(); !testing::Value(archs, Contains("sm_90a")))
        GTEST_SKIP() << "this NVRTC has no sm_90a";
    const Source source{"w.cu",
                        "w",
                        "extern \"C\" __global__ void w() { asm volatile(\"wgmma.fence.sync.aligned;\"); }\n",
                        {}};
    EXPECT_EQ(compiler_->compile(source, cuda("sm_90a")).kind, BinaryKind::cubin);
    EXPECT_THAT(rejected<BuildError>([&] { compiler_->compile(source, cuda("sm_90")); }),
                AllOf(HasSubstr("wgmma"), HasSubstr("sm_90")));
}

TEST_F(NvrtcTest, ADeviceNewerThanTheLibraryGetsPtx) {
    Target device = cuda("sm_199");
    device.limits.multiprocessors = 1;  // known from a device only
    const Binary binary = compiler_->compile(scale_source(), device);
    EXPECT_EQ(binary.kind, BinaryKind::ptx);
    EXPECT_THAT(text_of(binary), AllOf(HasSubstr(".entry scale("), Not(HasSubstr(std::string(1, '\0')))));
    EXPECT_THAT(binary.log, AllOf(HasSubstr("sm_199"), HasSubstr("PTX for compute_")));
}

TEST_F(NvrtcTest, WithoutADeviceAnUnknownArchitectureIsRejected) {
    EXPECT_THAT(rejected<BuildError>([&] { compiler_->compile(scale_source(), cuda("sm_199")); }),
                AllOf(HasSubstr("does not know sm_199"), HasSubstr("sm_90a")));
}

TEST_F(NvrtcTest, ArchitecturesItCannotMeetAreNamed) {
    for (const char* arch :
         {"sm_9x", "gfx90a", "sm_", "sm_9", "sm_90b", "sm_75a", "compute_9", "", "sm_0900", "SM_90"}) {
        EXPECT_THAT(rejected<BuildError>([&] { compiler_->compile(scale_source(), cuda(arch)); }),
                    AllOf(HasSubstr("\"" + std::string(arch) + "\""), HasSubstr("sm_80")));
    }
    EXPECT_THAT(rejected<BuildError>([&] { compiler_->compile(scale_source(), cuda("sm_20")); }),
                AllOf(HasSubstr("sm_20"), HasSubstr("sm_80")));
}

TEST_F(NvrtcTest, MakesPtx) {
    const std::string ptx = compiler_->ptx(scale_source(), cuda("sm_80"));
    EXPECT_THAT(ptx, AllOf(HasSubstr(".target sm_80"), HasSubstr(".entry scale(")));
    EXPECT_EQ(ptx.find('\0'), std::string::npos);
}

TEST_F(NvrtcTest, OptionsNameTheWholeArchitecture) {
    const Source source = scale_source();
    EXPECT_THAT(compiler_->options(cuda("sm_90a"), source), Contains("--gpu-architecture=sm_90a"));
    EXPECT_NE(compiler_->options(cuda("sm_90a"), source), compiler_->options(cuda("sm_90"), source));
}

TEST_F(NvrtcTest, AnOptimizationLevelIsAnOptionAndChangesTheCode) {
    Source source = scale_source();
    const auto usual = compiler_->options(cuda("sm_80"), source);
    const Bytes usual_code = compiler_->compile(source, cuda("sm_80")).bytes;
    source.opt_level = 0;
    EXPECT_THAT(compiler_->options(cuda("sm_80"), source), Contains("--ptxas-options=-O0"));
    EXPECT_THAT(usual, Not(Contains(HasSubstr("-O"))));
    const Bytes code = compiler_->compile(source, cuda("sm_80")).bytes;
    EXPECT_FALSE(std::ranges::equal(std::span(code.begin(), code.end()),
                                    std::span(usual_code.begin(), usual_code.end())));
}

TEST_F(NvrtcTest, TheIdentityIsTheBuildAndNotThePlace) {
    const auto path = *nvrtc_path();
    const std::string identity = compiler_->identity();
    EXPECT_EQ(identity, make_nvrtc_compiler()->identity());
    EXPECT_THAT(identity, AllOf(StartsWith("nvrtc libnvrtc "), HasSubstr(" libnvrtc-builtins "),
                                Not(HasSubstr("/")), HasSubstr(" content "), HasSubstr(" kiln-nvrtc-")));

    // Copied with its builtins to another place, it is the same.
    const TemporaryDirectory directory;
    const auto copy = directory.path() / path.filename();
    std::filesystem::copy_file(path, copy);
    for (const auto& entry : std::filesystem::directory_iterator(path.parent_path())) {
        const auto name = entry.path().filename();
        if (name.string().starts_with("libnvrtc-builtins.so."))
            std::filesystem::copy_file(entry.path(), directory.path() / name);
    }
    {
        const ScopedVariable variable("KILN_NVRTC", copy.string());
        EXPECT_EQ(make_nvrtc_compiler()->identity(), identity);
        EXPECT_THAT(make_nvrtc_compiler()->description(), HasSubstr(directory.path().string()));
    }
    {
        const ScopedVariable variable("KILN_NVRTC", directory.path().string());
        EXPECT_EQ(make_nvrtc_compiler()->identity(), identity) << "a directory is searched";
    }
    // Another build, here: one whose size differs.
    std::ofstream(copy, std::ios::app) << "x";
    const ScopedVariable variable("KILN_NVRTC", copy.string());
    EXPECT_NE(make_nvrtc_compiler()->identity(), identity);
}

TEST_F(NvrtcTest, LdLibraryPathGoesBeforeTheToolkit) {
    const TemporaryDirectory directory;
    std::filesystem::create_symlink(*nvrtc_path(), directory.path() / nvrtc_path()->filename());
    const ScopedVariable unset("KILN_NVRTC", "");
    const ScopedVariable variable("LD_LIBRARY_PATH", "/nowhere:" + directory.path().string());
    EXPECT_THAT(make_nvrtc_compiler()->description(), HasSubstr(directory.path().string()));
}

TEST_F(NvrtcTest, CompilesFromManyThreadsAtOnce) {
    constexpr int kThreads = 4;
    std::vector<Binary> binaries(kThreads);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i)
        threads.emplace_back([&, i] { binaries[i] = compiler_->compile(scale_source(), cuda("sm_80")); });
    for (auto& thread : threads) thread.join();
    for (const auto& binary : binaries) EXPECT_EQ(binary.bytes, binaries[0].bytes);
    EXPECT_FALSE(binaries[0].bytes.empty());
}

TEST(NvrtcMissing, SaysWhatIsWrongWithTheVariable) {
    const ScopedVariable variable("KILN_NVRTC", "/nowhere/libnvrtc.so.99");
    for (const auto& error :
         {rejected<BuildError>([] { make_nvrtc_compiler()->identity(); }),
          rejected<BuildError>([] { make_nvrtc_compiler()->compile(scale_source(), cuda("sm_80")); })})
        EXPECT_THAT(error,
                    AllOf(HasSubstr("KILN_NVRTC"), HasSubstr("/nowhere/libnvrtc.so.99"), HasSubstr("unset")));
}

TEST(NvrtcMissing, AFileThatIsNoLibraryIsAnError) {
    const TemporaryDirectory directory;
    const auto file = directory.path() / "libnvrtc.so.13";
    write_text(file, "not a library");
    const ScopedVariable variable("KILN_NVRTC", file.string());
    EXPECT_THAT(rejected<BuildError>([] { make_nvrtc_compiler()->identity(); }), HasSubstr("no ELF library"));
}

TEST(NvrtcMissing, AnotherLibraryIsAnError) {
    Dl_info info{};  // some library that is surely there
    ASSERT_NE(dladdr(reinterpret_cast<void*>(&std::strlen), &info), 0);
    const ScopedVariable variable("KILN_NVRTC", std::filesystem::canonical(info.dli_fname).string());
    EXPECT_THAT(rejected<BuildError>([] { make_nvrtc_compiler()->compile(scale_source(), cuda("sm_80")); }),
                HasSubstr("nvrtc"));
}

}  // namespace
}  // namespace kiln
