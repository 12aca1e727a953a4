// SPDX-License-Identifier: Apache-2.0
//
// Templates that include headers of other directories: what is found, by which option, and that a header's content is
// part of the key.
#include <kiln/kiln.h>

#include <cstdlib>
#include <map>

#include "kiln_program.h"
#include "require.h"
#include "scoped_variable.h"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class KilnIncludes : public Kiln {
  protected:
    ServiceOptions cached_only() const {
        ServiceOptions options;
        options.backend = Backend::host;
        options.compile_only = true;
        options.cached_only = true;
        options.template_directories = {templates()};
        options.cache.directory = path("cache");
        return options;
    }
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
    limit_ = std::chrono::seconds(1000);  // half a minute of compiling, where no processor is busy
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
    ServiceOptions options = cached_only();
    options.cache.directory = path("empty");
    options.cache.seed_packs = {pack};
    Service shipped(options);
    EXPECT_EQ(shipped.compile(shipped.find("scaled").variant()).origin, Origin::seed);
}

// Each state of a header has an entry of its own, and a service that compiles nothing chooses among them.
class KilnHeaderStates : public KilnIncludes {
  protected:
    /// Leaves 4.0 in the header, used last.
    void SetUp() override {
        with_scaled();
        for (const char* value : {"2.0f", "3.0f", "4.0f"}) keys_[value] = build(value);
    }
    std::string build(const std::string& value) const {
        set_factor(value);
        const Outcome built = with_library();
        EXPECT_EQ(built.status, 0) << built.err;
        return built.json()["key"].get<std::string>();
    }
    std::string pack() const {
        const std::string file = path("app.pack").string();
        EXPECT_EQ(run({"cache", "pack", file}).status, 0);
        return file;
    }
    ServiceOptions shipped(const std::string& pack) const {
        ServiceOptions options = cached_only();
        options.cache.directory = path("empty");
        options.cache.seed_packs = {pack};
        return options;
    }
    static std::string served(const ServiceOptions& options) {
        Service service(options);
        const Variant variant = service.find("scaled").variant();
        const Explanation why = service.explain(variant);
        const std::string key = service.compile(variant).key.digest;
        EXPECT_EQ(why.nearest_key.empty() ? why.key.digest : why.nearest_key, key);
        return key;
    }

    std::map<std::string, std::string> keys_;
};

TEST_F(KilnHeaderStates, TheOneThatIsHereServesEvenWithoutACompiler) {
    ServiceOptions from_pack = shipped(pack()), from_directory = cached_only();
    from_pack.include_directories = from_directory.include_directories = {library()};
    const auto expect_each = [&] {
        for (const auto& [value, key] : keys_) {
            set_factor(value);
            EXPECT_EQ(served(from_pack), key) << value;
            EXPECT_EQ(served(from_directory), key) << value;
        }
    };
    expect_each();
    const ScopedVariable none("KILN_HOST_CXX", "/nowhere");
    expect_each();
}

TEST_F(KilnHeaderStates, WithoutThemTheLastUsedServes) {
    for (const auto& [value, key] : keys_) {
        EXPECT_EQ(build(value), key);
        EXPECT_EQ(served(cached_only()), key) << value;
        EXPECT_EQ(served(shipped(pack())), key) << value;
    }
    // The same where there is one that is in no entry, with a warning.
    set_factor("5.0f");
    ServiceOptions other = shipped(pack());
    std::string warnings;
    other.on_warning = [&](std::string_view text) { warnings += text; };
    EXPECT_EQ(served(other), keys_["4.0f"]);
    EXPECT_EQ(warnings, "");
    other.include_directories = {library()};
    EXPECT_EQ(served(other), keys_["4.0f"]);
    EXPECT_THAT(warnings, ::testing::HasSubstr(
                              "was made with other headers of include directories than those that are here"));
    // What the application names serves in place of headers that are not here, not of those that are.
    other.cached_only = false;
    EXPECT_EQ(Service(other).compile(Service(other).find("scaled").variant()).origin, Origin::compiled);
    other.include_directories.clear();
    EXPECT_EQ(served(other), keys_["4.0f"]);
}

}  // namespace
}  // namespace kiln::test
