// SPDX-License-Identifier: Apache-2.0
//
// Templates with several kernels and with kernels that are C++ templates: they run, compile for every backend, and share
// the variables of their module.
#include <kiln/kiln.h>

#include <cstdlib>
#include <fstream>

#include "kiln_program.h"
#include "require.h"

namespace kiln::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class KilnKernels : public Kiln {
  protected:
    static std::string examples() {
        return std::string(std::getenv("KILN_TEST_SOURCE_DIR")) + "/examples/templates";
    }
    Outcome of_example(Arguments arguments) const {
        for (const std::string& more : {std::string("--template-dir"), examples()}) arguments.push_back(more);
        return run(std::move(arguments), usual_environment());
    }
    /// y = 2 x[0] x, where the first kernel leaves the factor in a variable. `name`: of the second kernel.
    void with_variable(const std::string& name = "apply") const {
        (void)with_template(
            "set_factor",
            "// set_factor: y = 2 * x[0] * x\n//@ kernel set_factor\n//@ block 1\n//@ grid 1\n//@ kernel " +
                name +
                "\n//@ block 64\n//@ grid ceil_div(n, 64)\n"
                "#include \"kiln/device.h\"\n__device__ float factor;\n"
                "extern \"C\" __global__ void set_factor(const float* x) { factor = 2 * x[0]; }\n"
                "extern \"C\" __global__ void " +
                name +
                "(int n, const float* x, float* y) {\n"
                "    const int i = blockIdx.x * 64 + threadIdx.x;\n"
                "    if (i < n) y[i] = factor * x[i];\n}\n");
    }
    ServiceOptions on_host_here() const {
        ServiceOptions options;
        options.backend = Backend::host;
        options.template_directories = {templates()};
        options.cache.directory = path("cache");
        return options;
    }
};

TEST_F(KilnKernels, RunInOrderWithWorkspaceBetween) {
    for (const char* n : {"n=1", "n=100003", "n=0"}) {
        const Outcome counted = of_example(
            {"run", "histogram_two_pass", "--backend", "host", "--size", n, "--no-time", "--json"});
        EXPECT_EQ(counted.status, 0) << counted.err << counted.out;
    }
    const Outcome filtered = of_example({"run", "sobel", "--backend", "host", "--test-sizes", "--no-time"});
    EXPECT_EQ(filtered.status, 0) << filtered.err << filtered.out;
    for (const char* type : {"T=half", "T=float"}) {
        const Outcome summed = of_example({"run", "reduce_template", type, "BLOCKS=132", "--backend", "host",
                                           "--size", "n=5001", "--no-time", "--json"});
        EXPECT_EQ(summed.status, 0) << summed.err << summed.out;
    }
}

TEST_F(KilnKernels, AreCheckedTogether) {
    for (const char* name : {"histogram_two_pass", "reduce_template"}) {
        const Outcome checked = of_example({"check", name, "--size", "n=2003"});
        EXPECT_EQ(checked.status, 0) << checked.err << checked.out;
    }
}

TEST_F(KilnKernels, ShareTheVariablesOfTheirModule) {
    with_variable();
    Service service(on_host_here());
    const auto kernel = service.build<void(const float*, int, float*)>(service.find("set_factor").variant());
    const int n = 77;
    std::vector<float> x(n, 1.5f), y(n, -1.0f);
    auto from = service.device().allocate(n * sizeof(float)),
         to = service.device().allocate(n * sizeof(float));
    from.copy_from(std::as_bytes(std::span(x)));
    to.copy_from(std::as_bytes(std::span(y)));
    const auto launched = [&](int count) {
        kernel(service.stream(), from.as<const float>(), count, to.as<float>());
        service.stream().synchronize();
        to.copy_to(std::as_writable_bytes(std::span(y)));
        return y;
    };
    EXPECT_EQ(launched(0), std::vector<float>(n, -1.0f)) << "the second kernel's grid is empty";
    EXPECT_EQ(launched(n), std::vector<float>(n, 4.5f));
}

TEST_F(KilnKernels, ComeBackFromTheDisk) {
    for (const char* tier : {"compiled", "disk"}) {
        const Outcome built = of_example({"build", "reduce_template", "--backend", "host", "--json"});
        ASSERT_EQ(built.status, 0) << built.err;
        EXPECT_EQ(built.json()["tier"], tier);
    }
    const Outcome ran =
        of_example({"run", "reduce_template", "--backend", "host", "--size", "n=777", "--no-time", "--json"});
    EXPECT_EQ(ran.status, 0) << ran.err << ran.out;
    const auto key = [&](const std::string& name) {
        with_variable(name);
        const Service service(on_host_here());
        return service.key(service.find("set_factor").variant());
    };
    const BuildKey one = key("apply"), other = key("bring");
    EXPECT_NE(one.digest, other.digest);
    EXPECT_THAT(one.text, HasSubstr("\nentry 10\nset_factor\nentry 5\napply\n"));
}

TEST_F(KilnKernels, CompileForGpus) {
    for (const char* arch : {"sm_80", "sm_90a", "gfx90a"}) {
        for (const char* name : {"histogram_two_pass", "reduce_template", "stencil", "sobel", "equalize"}) {
            const Outcome outcome = of_example({"build", name, "--arch", arch, "--json"});
            KILN_REQUIRE_OR_SKIP("nvrtc", outcome.err.find("NVRTC was not found") == std::string::npos,
                                 outcome.err);
            KILN_REQUIRE_OR_SKIP("hiprtc", outcome.err.find("hipRTC was not found") == std::string::npos,
                                 outcome.err);
            EXPECT_EQ(outcome.status, 0) << outcome.err;
        }
    }
}

TEST_F(KilnKernels, WithTexturesAreForCudaAlone) {
    for (const char* arch : {"sm_80", "sm_90a"}) {
        const Outcome built = of_example({"build", "texture_blur", "--arch", arch, "--json"});
        KILN_REQUIRE_OR_SKIP("nvrtc", built.err.find("NVRTC library") == std::string::npos, built.err);
        EXPECT_EQ(built.status, 0) << built.err;
    }
    for (const auto& [option, value] : {std::pair("--arch", "gfx90a"), std::pair("--backend", "host")}) {
        const Outcome rejected = of_example({"build", "texture_blur", option, value});
        EXPECT_EQ(rejected.status, 2);
        EXPECT_THAT(rejected.err, HasSubstr("texture_blur is written for cuda only"));
    }
    const Outcome shown = of_example({"show", "texture_blur"});
    EXPECT_EQ(shown.status, 0) << shown.err;
}

TEST_F(KilnKernels, AreShown) {
    const Outcome text = of_example({"show", "histogram_two_pass"});
    EXPECT_THAT(text.out,
                HasSubstr("histogram_two_pass with 256 x 1 x 1 threads, then add_partial_counts with 64"))
        << text.err;
    const Outcome json = of_example({"show", "histogram_two_pass", "--json"});
    ASSERT_EQ(json.status, 0) << json.err;
    const auto kernels = json.json()["example"]["kernels"];
    ASSERT_EQ(kernels.size(), 2u);
    EXPECT_EQ(kernels[1]["name"], "add_partial_counts");
    EXPECT_THAT(kernels[1]["arguments"], ElementsAre("partial", "counts"));
    EXPECT_EQ(kernels[0]["static_shared_bytes"], 1024);
}

TEST_F(KilnKernels, AreAnalysedEach) {
    const Outcome json = of_example(
        {"analyze", "reduce_template", "--arch", "sm_90a", "--no-record", "--test-sizes", "--json"});
    KILN_REQUIRE_OR_SKIP("nvrtc", json.status != 3, json.err);
    ASSERT_EQ(json.status, 0) << json.err;
    const auto more = json.json()["analyses"][0]["more_kernels"];
    ASSERT_EQ(more.size(), 1u);
    EXPECT_EQ(more[0]["name"], "add_partial_sums");
    EXPECT_GT(more[0]["registers"].get<int>(), 0);
    EXPECT_EQ(more[0]["static_shared_bytes"], 1024);
    const Outcome text =
        of_example({"analyze", "reduce_template", "--arch", "sm_90a", "--no-record", "--test-sizes"});
    EXPECT_THAT(text.out, HasSubstr("add_partial_sums: 1024 shared bytes per block"));
}

TEST_F(KilnKernels, AreExported) {
    const Outcome outcome = of_example(
        {"export", write("manifest.txt", "histogram_two_pass THREADS=256 BLOCKS=264 @cuda:sm_80\n"),
         "--output", path("exported").string()});
    KILN_REQUIRE_OR_SKIP("nvrtc", outcome.status != 3, outcome.err);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::ifstream file(path("exported/kiln_histogram_two_pass.c"));
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    EXPECT_THAT(text, HasSubstr("{\"histogram_two_pass\", {256u, 1u, 1u}"));
    EXPECT_THAT(text, HasSubstr("{\"add_partial_counts\", {64u, 1u, 1u}"));
}

TEST_F(KilnKernels, AreNotExportedWhereTheLaunchNeedsMore) {
    const std::pair<const char*, const char*> others[] = {
        {"stencil", "copy tensors to variables of its module"}, {"equalize", "its launches are cooperative"}};
    for (const auto& [name, why] : others) {
        const Outcome refused =
            of_example({"export", write("manifest.txt", std::string(name) + " @cuda:sm_80\n"), "--output",
                        path("exported").string()});
        KILN_REQUIRE_OR_SKIP("nvrtc", refused.status != 3, refused.err);
        EXPECT_EQ(refused.status, 2) << refused.err;
        EXPECT_THAT(refused.err, HasSubstr(why));
    }
}

}  // namespace
}  // namespace kiln::test
