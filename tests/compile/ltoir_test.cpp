// SPDX-License-Identifier: Apache-2.0
//
// Functions of callers as LTO-IR: linked without a GPU, as fast as the same in C++, and one front-end compile for all.
#include <gmock/gmock.h>
#include <kiln/kiln.h>
#include <kiln/tools/resources.h>

#include "base/file.h"
#include "compile/compiler.h"
#include "require.h"
#include "scoped_variable.h"

namespace kiln {
namespace {

using test::ScopedVariable;
using testing::AllOf;
using testing::HasSubstr;

/// As another program would make it: for an older architecture.
std::string ltoir_of(const std::string& function) {
    Source source;
    source.file_name = "function.cu";
    source.entry = "function";
    source.text = "extern \"C\" __device__ " + function;
    source.to_ltoir = true;
    const Binary binary = make_nvrtc_compiler()->compile(source, {Backend::cuda, "sm_80", {}});
    EXPECT_EQ(binary.kind, BinaryKind::ltoir);
    return {reinterpret_cast<const char*>(binary.bytes.data()), binary.bytes.size()};
}

class Ltoir : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string missing;
        try {
            (void)make_nvrtc_compiler()->linker_identity();
        } catch (const BuildError& error) {
            missing = error.what();
        }
        KILN_REQUIRE_OR_SKIP("nvjitlink", missing.empty(), missing);
    }

    ServiceOptions options(Backend backend = Backend::cuda, const std::string& arch = "sm_90a") const {
        ServiceOptions result;
        result.backend = backend;
        result.arch = arch;
        result.compile_only = true;
        result.cache.directory = directory_.path() / "cache";
        return result;
    }

    /// Registers and instructions of the code as LTO-IR and as C++.
    void expect_inlined(const std::string& name, const std::string& parameter, const Code& ltoir) const {
        Service service(options());
        const Template of = service.find(name);
        const Compiled linked = service.compile(of.variant({{parameter, ltoir}}));
        const Compiled source = service.compile(of.variant({{parameter, ltoir.body()}}));
        EXPECT_EQ(linked.binary.kind, BinaryKind::cubin);
        const Resources a = resources_of(linked.binary), b = resources_of(source.binary);
        ASSERT_TRUE(a.registers && b.registers);
        EXPECT_EQ(a.registers, b.registers) << name;
        EXPECT_EQ(a.stack_bytes, b.stack_bytes);
        EXPECT_NEAR(a.instructions.at("total"), b.instructions.at("total"), 0.02 * b.instructions.at("total"))
            << name;
        RecordProperty(name + "_instructions", std::to_string(a.instructions.at("total")) + " linked, " +
                                                   std::to_string(b.instructions.at("total")) + " of C++");
    }

  private:
    TemporaryDirectory directory_;
};

TEST_F(Ltoir, AnEpilogueIsInlined) {
    const std::string body = "return x > 0 ? x + 0.5f * row : 0.01f * x - column;";
    expect_inlined(
        "gemm_mma", "EPILOGUE",
        Code::ltoir(ltoir_of("float leaky(float x, int row, int column) { " + body + " }"), "leaky", body));
}

TEST_F(Ltoir, ATermOfAReductionIsInlined) {
    const std::string body = "return i % 2 == 0 ? x * x : -x;";
    expect_inlined("sum_shuffle", "TERM",
                   Code::ltoir(ltoir_of("float term(float x, long long i) { " + body + " }"), "term", body));
}

TEST_F(Ltoir, OneFrontEndCompileServesAllFunctionsOfAName) {
    Service service(options());
    const Template of = service.find("sum_shuffle");
    const auto build = [&](const std::string& body) {
        return service.compile(of.variant(
            {{"TERM", Code::ltoir(ltoir_of("float term(float x, long long i) { " + body + " }"), "term")}}));
    };
    const Compiled twice = build("return 2 * x;"), third = build("return x / 3;");
    EXPECT_EQ(service.counters().compiles, 1u);
    EXPECT_NE(twice.key.digest, third.key.digest);
    EXPECT_EQ(build("return 2 * x;").origin, Origin::disk);
    EXPECT_EQ(service.counters().compiles, 1u);
    EXPECT_THAT(third.key.text, AllOf(HasSubstr("link term "), HasSubstr("linker nvjitlink ")));
}

TEST_F(Ltoir, APackServesAMachineWithoutTheLinker) {
    const Code term = Code::ltoir(ltoir_of("float term(float x, long long i) { return 2 * x; }"), "term");
    ServiceOptions shipped = options();
    const auto pack = shipped.cache.directory->parent_path() / "term.pack";
    const auto compiled = [&](const ServiceOptions& with) {
        Service service(with);
        return service.compile(service.find("sum_shuffle").variant({{"TERM", term}}));
    };
    const Compiled made = compiled(shipped);
    Cache(shipped.cache).pack(pack);
    const test::ScopedVariable no_linker("KILN_NVJITLINK", "/nowhere/libnvJitLink.so");
    shipped.cache.directory = *shipped.cache.directory / "empty";
    EXPECT_THROW(compiled(shipped), BuildError);
    shipped.cache.seed_packs = {pack};
    for (const bool cached_only : {false, true}) {
        shipped.cached_only = cached_only;
        const Compiled found = compiled(shipped);
        EXPECT_EQ(found.origin, Origin::seed);
        EXPECT_EQ(found.binary.bytes, made.binary.bytes);
    }
}

TEST_F(Ltoir, OptionsHoldForTheCodeThatIsLinked) {
    const std::string ir = ltoir_of("float term(float x, long long i) { return x / (i + 1.5f); }");
    const auto built = [&](const std::vector<std::string>& given) {
        ServiceOptions with = options();
        with.compile_options = given;
        Service service(with);
        return service.compile(service.find("sum_shuffle").variant({{"TERM", Code::ltoir(ir, "term")}}));
    };
    const auto total = [](const Compiled& of) { return resources_of(of.binary).instructions.at("total"); };
    const Compiled plain = built({}), approximate = built({"--prec-div=false --ftz=true"});
    EXPECT_LT(total(approximate), total(plain));
    EXPECT_THAT(approximate.key.text, AllOf(HasSubstr("link -prec-div=0"), HasSubstr("link -ftz=1")));
    EXPECT_THAT(plain.key.text, AllOf(HasSubstr("link -O3"), HasSubstr("link -lineinfo")));
    EXPECT_THAT(
        built({"--fmad=false --prec-sqrt=true -Xptxas -dlcm=cg"}).key.text,
        AllOf(HasSubstr("link -fma=0"), HasSubstr("link -prec-sqrt=1"), HasSubstr("link -Xptxas=-dlcm=cg")));
    const Compiled debug = built({"-G"});
    EXPECT_THAT(debug.key.text, HasSubstr("link -g"));
    EXPECT_GT(total(debug), total(plain));
}

TEST_F(Ltoir, OtherBackendsTakeTheBody) {
    const std::string ir = ltoir_of("float term(float x, long long) { return 2 * x; }");
    Service service(options(Backend::host, {}));
    const Template of = service.find("sum_shuffle");
    const Variant both = of.variant({{"TERM", Code::ltoir(ir, "term", "return 2 * x;")}});
    EXPECT_EQ(service.source(both).text, service.source(of.variant({{"TERM", "return 2 * x;"}})).text);
    EXPECT_NE(both, of.variant({{"TERM", "return 2 * x;"}}));
    try {
        (void)service.source(of.variant({{"TERM", Code::ltoir(ir, "term")}}));
        ADD_FAILURE() << "no error";
    } catch (const VariantError& error) {
        EXPECT_THAT(error.what(),
                    HasSubstr("TERM is LTO-IR, the function term, which only CUDA links; for host"));
    }
}

TEST_F(Ltoir, ErrorsNameTheFunction) {
    Service service(options());
    const Template of = service.find("sum_shuffle");
    const auto message = [&](const Code& code) -> std::string {
        try {
            (void)service.compile(of.variant({{"TERM", code}}));
        } catch (const Error& error) {
            return error.what();
        }
        return {};
    };
    const std::string ir = ltoir_of("float term(float x, long long) { return 2 * x; }");
    EXPECT_THAT(message(Code::ltoir(ir, "trem")),
                AllOf(HasSubstr("nvJitLink could not link sum_shuffle.cu with the LTO-IR of trem"),
                      HasSubstr("trem")));
    EXPECT_THAT(message(Code::ltoir("no ir", "term")),
                HasSubstr("its bytes are neither LTO-IR nor a fatbin"));
    EXPECT_THAT(message(Code::ltoir(ir, "a b")), HasSubstr("\"a b\" is not the name of a function"));
    EXPECT_THAT(message(Code::ltoir(ir, "term", "return (")), HasSubstr("this ( has no )"));
    EXPECT_THAT(message(Code::ltoir(ir.substr(0, ir.size() / 2), "term")), HasSubstr("could not link"));
    const std::string text = of.variant({{"TERM", Code::ltoir(ir, "term")}}).text();
    EXPECT_THAT(text, HasSubstr(" TERM=@ltoir:term:"));
    EXPECT_THROW(of.variant({{"TERM", text.substr(text.find('@'))}}), VariantError);
}

}  // namespace
}  // namespace kiln
