// SPDX-License-Identifier: Apache-2.0
//
// Templates that include headers of other directories: what is found, by which option, and that a header's content is
// part of the key.
#include <kiln/kiln.h>

#include <cstdlib>

#include "kiln_program.h"
#include "require.h"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class KilnIncludes : public Kiln {
  protected:
    KilnIncludes() {
        std::filesystem::create_directories(path("lib/my/detail"));
        (void)write("lib/my/factor.h",
                    "#include \"detail/two.h\"\n__device__ inline float factor() { return kTwo; }\n");
        set_factor("2.0f");
    }

    void set_factor(const std::string& value) const {
        (void)write("lib/my/detail/two.h", "constexpr float kTwo = " + value + ";\n");
    }
    /// One that multiplies by factor(); `directive`: a //@ line more.
    void with_scaled(const std::string& directive = "") const {
        (void)with_template("scaled",
                            "// scaled: y = factor() * x\n//@ kernel scaled\n" + directive +
                                "//@ block 64\n//@ grid ceil_div(n, 64)\n//@ size n = 77 \"elements\"\n"
                                "//@ input x [n]\n//@ output y [n]\n#include <my/factor.h>\n"
                                "extern \"C\" __global__ void scaled(int n, const float* x, float* y) {\n"
                                "    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                                "    if (i < n) y[i] = factor() * x[i];\n}\n");
    }
    std::string library() const { return path("lib").string(); }
    Outcome build_scaled(Arguments more = {}) const {
        Arguments arguments = {"build", "scaled", "--json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return on_host(std::move(arguments));
    }
    Outcome with_library() const { return build_scaled({"--include-dir", library()}); }
};

std::string origin(const Outcome& outcome) {
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0 ? outcome.json()["tier"].get<std::string>() : "";
}

TEST_F(KilnIncludes, AHeaderIsPartOfTheKeyByItsContent) {
    with_scaled();
    EXPECT_EQ(origin(with_library()), "compiled");
    EXPECT_EQ(origin(with_library()), "disk");
    set_factor("2.0f");
    EXPECT_EQ(origin(with_library()), "disk") << "it was only touched";
    set_factor("3.0f");
    const Outcome explained = on_host({"explain", "scaled", "--include-dir", library()});
    EXPECT_THAT(explained.out, HasSubstr("headers of include directories"));
    EXPECT_EQ(origin(with_library()), "compiled");
    set_factor("2.0f");
    EXPECT_EQ(origin(with_library()), "disk");
    // One that newly hides another.
    std::filesystem::create_directories(path("first/my"));
    const Arguments both = {"--include-dir", path("first").string(), "--include-dir", library()};
    EXPECT_EQ(origin(build_scaled(both)), "disk");
    (void)write("first/my/factor.h", "__device__ inline float factor() { return 5.0f; }\n");
    EXPECT_EQ(origin(build_scaled(both)), "compiled");
}

TEST_F(KilnIncludes, DirectoriesComeFromTheTemplateAndTheEnvironmentToo) {
    with_scaled("//@ include_dir \"../lib\"\n");
    const Outcome own = build_scaled();
    EXPECT_EQ(origin(own), "compiled");
    with_scaled();
    Environment environment = usual_environment();
    environment.emplace_back("KILN_INCLUDE_PATH", "/nowhere:" + library());
    EXPECT_EQ(origin(on_host({"build", "scaled", "--json"}, environment)), "compiled");
    EXPECT_EQ(origin(with_library()), "disk") << "the same header by another way";
    const Outcome bad = on_host({"build", "scaled", "--include-dir", path("nowhere").string()});
    expect_error(bad, 2, {"--include-dir", "nowhere", "there is no such directory"});
}

TEST_F(KilnIncludes, WhatIsMissingIsReportedWithWhereItWasLookedFor) {
    with_scaled();
    const Outcome outcome = build_scaled({"--include-dir", path(".").string()});
    EXPECT_EQ(outcome.status, 3);
    EXPECT_THAT(outcome.err, HasSubstr("the header my/factor.h was not found"));
    EXPECT_THAT(outcome.err,
                HasSubstr("the template's directory and " + path(".").parent_path().string() + ". More"));
    EXPECT_THAT(outcome.err, HasSubstr("--include-dir"));
}

TEST_F(KilnIncludes, TheHostComputesWithThem) {
    with_scaled("//@ include_dir \"../lib\"\n");
    ServiceOptions options;
    options.backend = Backend::host;
    options.template_directories = {templates()};
    options.cache.directory = path("cache");
    Service service(options);
    auto kernel = service.build<void(int, const float*, float*)>(service.find("scaled").variant());
    const int n = 77;
    std::vector<float> x(n, 1.5f), y(n, -1.0f);
    auto from = service.device().allocate(n * sizeof(float)),
         to = service.device().allocate(n * sizeof(float));
    from.copy_from(std::as_bytes(std::span(x)));
    kernel(service.stream(), n, from.as<const float>(), to.as<float>());
    service.stream().synchronize();
    to.copy_to(std::as_writable_bytes(std::span(y)));
    EXPECT_EQ(y, std::vector<float>(n, 3.0f));
}

// Kernels that include what kernels of today include.
TEST_F(KilnIncludes, TheExamplesCompileForGpus) {
    const std::string examples = std::string(std::getenv("KILN_TEST_SOURCE_DIR")) + "/examples/templates";
    for (const char* arch : {"sm_80", "sm_90a"}) {
        for (const char* name : {"cub_row_scan", "cooperative_sum"}) {
            const Outcome outcome = run({"build", name, "--template-dir", examples, "--arch", arch, "--json"},
                                        usual_environment());
            KILN_REQUIRE_OR_SKIP("nvrtc", outcome.err.find("NVRTC") == std::string::npos, outcome.err);
            KILN_REQUIRE_OR_SKIP("cuda-headers", outcome.err.find("was not found") == std::string::npos,
                                 outcome.err);
            ASSERT_EQ(outcome.status, 0) << outcome.err;
            EXPECT_GT(outcome.json()["shared_bytes"].get<int>(), 0)
                << "static memory that no //@ line declares";
        }
    }
}

// CUTLASS belongs to no toolkit: its headers come from a directory that the command names.
class KilnCutlass : public Program, public testing::WithParamInterface<const char*> {
  protected:
    KilnCutlass() : Program("kiln") {}
    static std::string source_directory() { return std::getenv("KILN_TEST_SOURCE_DIR"); }
    Outcome build(Arguments more) const {
        Arguments arguments = {
            "build",  "cute_gemm", "--template-dir", source_directory() + "/examples/templates",
            "--arch", GetParam(),  "--json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run(std::move(arguments), usual_environment());
    }
};

TEST_P(KilnCutlass, CompilesTheExample) {
    const Outcome without = build({});
    KILN_REQUIRE_OR_SKIP("nvrtc", without.err.find("NVRTC library") == std::string::npos, without.err);
    KILN_REQUIRE_OR_SKIP("cuda-headers", without.err.find("cuda_fp16.h was not found") == std::string::npos,
                         without.err);
    EXPECT_EQ(without.status, 3);
    EXPECT_THAT(without.err, HasSubstr("cute/tensor.hpp belongs to CUTLASS"));
    const std::string headers = source_directory() + "/.deps/cutlass/include";
    KILN_REQUIRE_OR_SKIP(
        "cutlass", std::filesystem::exists(headers + "/cute/tensor.hpp"),
        "there are no headers of CUTLASS in .deps/cutlass/include; scripts/setup --tests fetches them");
    const Outcome outcome = build({"--include-dir", headers});
    KILN_REQUIRE_OR_SKIP("cuda-headers", outcome.err.find("was not found") == std::string::npos, outcome.err);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const int registers = outcome.json()["registers"].get<int>();
    EXPECT_GT(registers, 128) << "the results of a thread are not in registers";
    EXPECT_LT(registers, 255) << "they don't fit";
}

INSTANTIATE_TEST_SUITE_P(Architectures, KilnCutlass, testing::Values("sm_80", "sm_90a"),
                         [](const auto& test) { return std::string(test.param); });

// A machine without these headers and without a compiler takes what was packed.
TEST_F(KilnIncludes, APackServesWhereTheHeadersAreMissing) {
    with_scaled();
    EXPECT_EQ(origin(with_library()), "compiled");
    const std::string pack = path("app.pack").string();
    ASSERT_EQ(run({"cache", "pack", pack}).status, 0);
    ServiceOptions options;
    options.backend = Backend::host;
    options.compile_only = true;
    options.cached_only = true;
    options.template_directories = {templates()};
    options.cache.directory = path("empty");
    options.cache.seed_packs = {pack};
    Service shipped(options);
    EXPECT_EQ(shipped.compile(shipped.find("scaled").variant()).origin, Origin::seed);
}

}  // namespace
}  // namespace kiln::test
