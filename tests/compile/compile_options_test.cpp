// SPDX-License-Identifier: Apache-2.0
//
// Options that are given to a compile: what each becomes for a backend's compiler, and which are errors.
#include "compile/compile_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>

#include "compile/compiler.h"
#include "compiler_fixtures.h"
#include "require.h"

namespace kiln {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const Target kCuda{Backend::cuda, "sm_90a", {}}, kHip{Backend::hip, "gfx90a:xnack-", {}},
    kHost{Backend::host, "x86-64-v3", {}};

Source with(std::vector<std::string> options) {
    Source source;
    source.text =
        "#include \"kiln/device.h\"\nconstexpr int BM = 64;\nusing T = kiln::half;\n#line 1 \"k.cu\"\n";
    for (std::string& option : options) source.options.push_back({std::move(option)});
    return source;
}

std::vector<std::string> on(const Target& target, const std::string& option) {
    return compile_options(target, with({option})).others;
}

std::string error_on(const Target& target, const std::string& option) {
    try {
        (void)compile_options(target, with({option}));
    } catch (const UsageError& error) {
        return error.what();
    }
    return "no error";
}

TEST(Options, OfAllCompilersAreTranslated) {
    for (const Target& target : {kCuda, kHip, kHost}) {
        EXPECT_THAT(on(target, "-DA -D B=2 --define-macro=C=3 -UD"),
                    ElementsAre("-DA", "-DB=2", "-DC=3", "-UD"));
        EXPECT_THAT(on(target, "-D'E=a b'"), ElementsAre("-DE=a b"));
        EXPECT_EQ(compile_options(target, with({"--std=c++23"})).standard, "c++23");
        EXPECT_EQ(compile_options(target, with({})).standard, "c++20");
        EXPECT_TRUE(compile_options(target, with({"-G"})).debug);
        EXPECT_THAT(on(target, "-lineinfo"), IsEmpty()) << "all builds have lines";
    }
    EXPECT_THAT(on(kCuda, "-use_fast_math -w"), ElementsAre("--use_fast_math", "--disable-warnings"));
    EXPECT_THAT(on(kHip, "--use_fast_math -w"), ElementsAre("-ffast-math", "-fno-finite-math-only", "-w"));
    EXPECT_THAT(on(kHost, "--use_fast_math -w"), ElementsAre("-ffast-math", "-fno-finite-math-only", "-w"));
}

TEST(Options, OfOneCompilerHaveItsNames) {
    EXPECT_THAT(on(kCuda, "-maxrregcount 64 --ftz=true"), ElementsAre("--maxrregcount=64", "--ftz=true"));
    EXPECT_THAT(on(kCuda, "-Xptxas -dlcm=cg -Xptxas -v"), ElementsAre("--ptxas-options=-dlcm=cg"));
    EXPECT_THAT(on(kHip, "-O2 -munsafe-fp-atomics"), ElementsAre("-O2", "-munsafe-fp-atomics"));
    EXPECT_THAT(on(kHost, "-funroll-loops -Wall"), ElementsAre("-funroll-loops", "-Wall"));
}

TEST(Options, AScopeLimitsThem) {
    EXPECT_THAT(on(kCuda, "cuda: --ftz=true"), ElementsAre("--ftz=true"));
    EXPECT_THAT(on(kHip, "cuda: --ftz=true"), IsEmpty());
    EXPECT_THAT(on(kHip, "cuda, gfx90a: -DA"), ElementsAre("-DA"));
    EXPECT_THAT(on(kCuda, "sm_80+: -DA"), ElementsAre("-DA"));
    EXPECT_THAT(on({Backend::cuda, "sm_75", {}}, "sm_80+: -DA"), IsEmpty());
    EXPECT_THAT(on(kCuda, "sm_90: -DA"), IsEmpty()) << "sm_90a is another";
    EXPECT_THAT(on(kHost, "-DA=b:c"), ElementsAre("-DA=b:c"));
    EXPECT_THAT(on(kHost, "'-DA=b:c'"), ElementsAre("-DA=b:c"));
    EXPECT_THAT(on(kHost, "\"-DA=host:c\" -DB"), ElementsAre("-DA=host:c", "-DB"));
    EXPECT_THAT(on(kHost, "host: '-DA=cuda:c'"), ElementsAre("-DA=cuda:c"));
    EXPECT_THAT(error_on(kCuda, "cuad: -DA"), HasSubstr("did you mean cuda?"));
}

TEST(Options, AMacroOnlyHasToBeInTheKey) {
    for (const std::string macro :
         {"F=my__TIME__x", "G=s.include", "H=<my.include/x.h>", R"(S="built before __DATE__")",
          R"(S="see System.Include")", "F=a=b==.include", "__TIME__x=1"})
        EXPECT_THAT(on(kHost, "'-D" + macro + "'"), ElementsAre("-D" + macro));
    for (const std::string value : {"a/**/__DATE__", R"("a" __TIME__)", R"(asm("nop\n.incbin f"))",
                                    R"(".inc" "bin")", "__has_include(\"/etc/x\")"})
        EXPECT_THAT(error_on(kHost, "'-DF=" + value + "'"), HasSubstr("part of the build's key")) << value;
}

TEST(Options, RecordedKernelsKeepTheirTranslation) {
    const Source source = with({"-DA --use_fast_math -funroll-loops -O3 -G -std=c++23"});
    const CompileOptions options = compile_options(kHost, source, OptionUse::language);
    EXPECT_THAT(options.others, ElementsAre("-DA"));
    EXPECT_EQ(options.standard, "c++23");
    EXPECT_FALSE(options.debug);
}

TEST(Options, ErrorsSayWhatIsWrong) {
    EXPECT_THAT(error_on(kHip, "--ftz=true"),
                HasSubstr("hip has no option --ftz; limit it to those that have it: "
                          "\"cuda: --ftz=true\""));
    EXPECT_THAT(error_on(kCuda, "-O2"), HasSubstr("\"hip, host: -O2\""));
    EXPECT_THAT(error_on(kCuda, "--maxregcount=64"), HasSubstr("did you mean --maxrregcount?"));
    EXPECT_THAT(error_on(kCuda, "--ftz"), HasSubstr("needs a value"));
    EXPECT_THAT(error_on(kCuda, "--restrict=1"), HasSubstr("takes no value"));
    EXPECT_THAT(error_on(kCuda, "A=1"), HasSubstr("a macro is -DA=1"));
    EXPECT_THAT(error_on(kCuda, "-DF=(__TIME__[7]%2?2:3)"),
                HasSubstr("__TIME__: it changes from one compile to the next"));
    EXPECT_THAT(error_on(kHost, "-D'F=__DATE__'"), HasSubstr("not part of the build's key"));
    EXPECT_THAT(error_on(kHost, R"(-D'F=".inc\142in f"')"),
                HasSubstr("the assembler's .incbin reads a file"));
    for (const std::string option : {"-mwavefrontsize64", "-mno-wavefrontsize64"})
        EXPECT_THAT(error_on(kHip, option), HasSubstr("written for the warp size of the architecture"));
    EXPECT_THAT(error_on(kHost, "-mpc32"), HasSubstr("x87"));
    EXPECT_THAT(error_on(kHost, "-fbasic-block-sections=list=/x"), HasSubstr("it names a file"));
    EXPECT_THAT(error_on(kHost, "-fbasic-block-sections=list=x"), HasSubstr("it names a file"));
    EXPECT_THAT(error_on(kHip, "-funknown=/x"), HasSubstr("it names a file"));
    EXPECT_THAT(error_on(kCuda, "-D1=2"), HasSubstr("not NAME or NAME=VALUE"));
    EXPECT_THAT(error_on(kCuda, "-DBM=2"), HasSubstr("BM is a parameter"));
    EXPECT_THAT(error_on(kCuda, "-UT"), HasSubstr("T is a parameter"));
    EXPECT_THAT(error_on(kCuda, "-DKILN_HOST_RECORD"), HasSubstr("Kiln's own"));
    EXPECT_THAT(error_on(kCuda, "-std=c++11"), HasSubstr("c++17, c++20, c++23"));
    EXPECT_THAT(error_on(kHost, "-std=c++17"), HasSubstr("\"cuda, hip: -std=c++17\""));
    EXPECT_THAT(error_on(kCuda, "-D'A"), HasSubstr("a quote is not closed"));
    EXPECT_THAT(error_on(kCuda, "  "), HasSubstr("names no option"));
    Source source;
    source.options.push_back({"--ftz", "gemm.cu", 7, 12});
    try {
        (void)compile_options(kCuda, source);
        FAIL() << "no error";
    } catch (const TemplateError& error) {
        EXPECT_THAT(error.what(), testing::StartsWith("gemm.cu:7:12: "));
    }
}

// What reads files that are not in the key, writes any, or makes something else than a kernel.
TEST(Options, ThatKilnSetsAreErrors) {
    for (const char* option :
         {"-I/x", "-I /x", "--include-path=/x", "-include x.h", "--pre-include=x.h", "-arch=sm_80",
          "--gpu-architecture=sm_80", "-dlto", "-rdc=true", "--pch", "--create-pch=x", "--time=x",
          "-Xptxas -O1", "-Xptxas -optf=x", "--ptxas-options=--options-file=x", "--ptxas-options=-o=x",
          "--fdevice-time-trace=x", "-optix-ir", "@file"})
        EXPECT_THAT(error_on(kCuda, option), Not("no error")) << option;
    for (const Target& target : {kHip, kHost})
        for (const char* option : {"-I/x",
                                   "-march=native",
                                   "-mcpu=native",
                                   "-fplugin=x.so",
                                   "-Wl,-rpath,/x",
                                   "-Wp,-MD,x",
                                   "-fsanitize=address",
                                   "-fprofile-use=/x",
                                   "-flto",
                                   "-foptimization-record-file=x",
                                   "-fproc-stat-report=x",
                                   "-frandomize-layout-seed-file=x",
                                   "-fdeps-file=x",
                                   "-fmemory-profile-use=x",
                                   "-fpack-struct",
                                   "-fdump-tree-all",
                                   "-o x",
                                   "-shared",
                                   "-x c",
                                   "-lm",
                                   "-L/x",
                                   "-specs=x",
                                   "-B/x",
                                   "-wrapper x",
                                   "-mllvm -x",
                                   "-gsplit-dwarf",
                                   "-fdebug-prefix-map=a=b",
                                   "-isystem /x",
                                   "-save-temps",
                                   "-MD",
                                   "-Xlinker x",
                                   "-c",
                                   "-E"})
            EXPECT_THAT(error_on(target, option), Not("no error"))
                << option << " for " << name(target.backend);
}

Source kernel(std::string body, std::vector<std::string> options) {
    Source source = with(std::move(options));
    source.file_name = "k.cu";
    source.entry = "k";
    source.text = std::move(body);
    return source;
}

// Concepts, and a lambda as a template's argument, are C++20's.
constexpr const char* kCxx20 =
    "template <class T> concept Small = sizeof(T) <= 4;\n"
    "template <auto F> __device__ Small auto twice(float x) { return F(x) + F(x); }\n"
    "extern \"C\" __global__ void k(float* y) { y[0] = twice<[](float x) { return x * 2; }>(y[1]); }\n";

TEST(Options, NvrtcCompilesCxx20AndHeedsThem) {
    KILN_REQUIRE_OR_SKIP("nvrtc", test::missing_nvrtc().empty(), test::missing_nvrtc());
    const auto compiler = make_nvrtc_compiler();
    EXPECT_NO_THROW((void)compiler->compile(kernel(kCxx20, {}), kCuda));
    EXPECT_THROW((void)compiler->compile(kernel(kCxx20, {"-std=c++17"}), kCuda), BuildError);
    const char* const many =
        "extern \"C\" __global__ void k(float* y) { float v[64]; for (int i = 0; i < 64; ++i) v[i] = y[i * "
        "77];\n"
        "__syncthreads(); for (int i = 0; i < 64; ++i) y[i * N] = v[i]; }\n";
    const auto log = [&](std::vector<std::string> options) {
        return compiler->compile(kernel(many, std::move(options)), kCuda).log;
    };
    EXPECT_THAT(log({"-DN=5", "--maxrregcount=32"}), HasSubstr("Used 32 registers"));
    EXPECT_THAT(log({"-DN=5"}), Not(HasSubstr("Used 32 registers")));
    EXPECT_THROW((void)log({}), BuildError) << "N is not defined";
}

TEST(Options, HiprtcCompilesCxx20) {
    const auto make = [] { return make_hiprtc_compiler(test::workers()); };
    KILN_REQUIRE_OR_SKIP("hiprtc", test::why_missing(make).empty(), test::why_missing(make));
    const auto compiler = make();
    EXPECT_NO_THROW((void)compiler->compile(kernel(kCxx20, {"-O2"}), {Backend::hip, "gfx90a", {}}));
}

TEST(Options, AllAreInTheList) {
    const auto compiler = make_nvrtc_compiler();
    EXPECT_THAT(compiler->options(kCuda, with({"-DA=1"})), Contains("-DA=1"));
    EXPECT_THAT(compiler->options(kCuda, with({"-G"})), Contains("--device-debug"));
    EXPECT_THAT(compiler->options(kCuda, with({"-G"})), Not(Contains("--generate-line-info")));
    EXPECT_THAT(compiler->options(kCuda, with({"-std=c++17"})), Contains("--std=c++17"));
}

}  // namespace
}  // namespace kiln
