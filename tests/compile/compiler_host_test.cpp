// SPDX-License-Identifier: Apache-2.0
//
// The host's C++ compiler: shared objects that load, logs, determinism, errors, a missing compiler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/dynamic_library.h"
#include "base/file.h"
#include "base/host_arch.h"
#include "base/output_file.h"
#include "compile/compiler.h"
#include "compiler_fixtures.h"
#include "rejected.h"
#include "require.h"

namespace kiln {
namespace {
using namespace std::chrono_literals;
using test::rejected;
using test::ScopedVariable;
using test::within;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

Target host(std::string arch = host_arch()) { return {Backend::host, std::move(arch), {}}; }

// The registration that the prelude would do, here only a C function that calls the kernel.
Source answer_source(const std::string& body = "return kAnswer;") {
    return {"answer.cu",
            "answer",
            "#define KILN_HOST_KERNEL(entry) \\\n"
            "    extern \"C\" __attribute__((visibility(\"default\"))) int kiln_host_kernel() { return "
            "entry(); }\n"
            "#line 1 \"answer.cu\"\n#include \"part/value.h\"\nextern \"C\" int answer() {\n" +
                body + "\n}",
            {{"part/value.h", "constexpr int kAnswer = 42;\n"}}};
}

class HostCompilerTest : public testing::Test {
  protected:
    void SetUp() override {
        bool found = true;
        try {
            compiler_->identity();
        } catch (const BuildError&) {
            found = false;
        }
        KILN_REQUIRE_OR_SKIP("host", found, "no C++ compiler on this machine");
    }
    std::unique_ptr<Compiler> compiler_ = make_host_compiler({});
};

TEST_F(HostCompilerTest, SaysWhatToDoWithInlinePtx) {
    for (const std::string body : {"int x = 1; asm(\"mov.u32 %0, %%laneid;\" : \"=r\"(x)); return x;",
                                   "double x = 1; asm(\"add.f64 %0, %0, %0;\" : \"+f\"(x)); return int(x);"})
        EXPECT_THAT(rejected<BuildError>([&] { compiler_->compile(answer_source(body), host()); }),
                    HasSubstr("write `//@ backend cuda`"))
            << body;
    EXPECT_THAT(rejected<BuildError>([&] { compiler_->compile(answer_source("return nothing;"), host()); }),
                Not(HasSubstr("PTX")));
}

TEST_F(HostCompilerTest, MakesASharedObjectThatExportsTheKernel) {
    const Binary binary = compiler_->compile(answer_source(), host());
    EXPECT_EQ(binary.kind, BinaryKind::shared_object);
    const TemporaryDirectory directory;
    const auto file = directory.path() / "kernel.so";
    write_output_file(file, binary.bytes);
    const auto library = DynamicLibrary::open({file.string()});
    int (*kernel)() = nullptr;
    ASSERT_TRUE(library.resolve(kernel, "kiln_host_kernel"));
    EXPECT_EQ(kernel(), 42);
    EXPECT_EQ(library.symbol("answer"), nullptr) << "only the registration is exported";
}

TEST_F(HostCompilerTest, EqualInputGivesEqualBytesWithNoPathInThem) {
    const auto first = compiler_->compile(answer_source(), host()).bytes;
    const TemporaryDirectory elsewhere;
    const ScopedVariable variable("TMPDIR", elsewhere.path().string());
    const auto second = make_host_compiler({})->compile(answer_source(), host()).bytes;
    EXPECT_EQ(first, second);
    const std::string text(reinterpret_cast<const char*>(second.data()), second.size());
    EXPECT_THAT(text, Not(HasSubstr("kiln-")));
    EXPECT_TRUE(std::filesystem::is_empty(elsewhere.path())) << "temporary files stay behind";
}

TEST_F(HostCompilerTest, ALinkToTheTemporaryDirectoryChangesNoByte) {
    const TemporaryDirectory elsewhere;
    const auto link = elsewhere.path() / "link";
    std::filesystem::create_directory(elsewhere.path() / "real");
    std::filesystem::create_directory_symlink("real", link);
    const auto direct = compiler_->compile(answer_source(), host()).bytes;
    const ScopedVariable variable("TMPDIR", link.string());
    EXPECT_EQ(make_host_compiler({})->compile(answer_source(), host()).bytes, direct);
}

// GCC compares sizes, times and contents of files that have the pragma, and takes equal ones for one.
TEST_F(HostCompilerTest, HeadersWithEqualContentAreTwo) {
    Source source = answer_source(
        "\n#include \"a/part.h\"\n#include \"b/part.h\"\n#ifndef TWICE\n#error left out\n#endif\nreturn 1;");
    for (const char* name : {"a/part.h", "b/part.h"})
        source.headers.push_back(
            {name, "#pragma once\n#ifdef ONCE\n#define TWICE\n#else\n#define ONCE\n#endif\n"});
    EXPECT_FALSE(compiler_->compile(source, host()).bytes.empty());
}

TEST_F(HostCompilerTest, AnErrorCarriesTheTemplatesLineAndNoPath) {
    const std::string error =
        rejected<BuildError>([&] { compiler_->compile(answer_source("return nothing;"), host()); });
    EXPECT_THAT(error, AllOf(HasSubstr("answer.cu:3:"), HasSubstr("nothing"), HasSubstr("status 1")));
    EXPECT_THAT(error, Not(HasSubstr(std::filesystem::temp_directory_path().string() + "/")));
}

TEST_F(HostCompilerTest, AMissingFunctionIsFoundWhenLinking) {
    const std::string error = rejected<BuildError>(
        [&] { compiler_->compile(answer_source("extern int elsewhere(); return elsewhere();"), host()); });
    EXPECT_THAT(error, AllOf(HasSubstr("elsewhere"), HasSubstr("undefined reference")));
    EXPECT_THAT(error, Not(HasSubstr(std::filesystem::temp_directory_path().string() + "/kiln-")));
}

TEST_F(HostCompilerTest, AProgramThatIgnoresSigchldGetsItsBinaryOrTheError) {
    const auto before = ::signal(SIGCHLD, SIG_IGN);
    const Binary good = compiler_->compile(answer_source(), host());
    const std::string error =
        rejected<BuildError>([&] { compiler_->compile(answer_source("return nothing;"), host()); });
    ::signal(SIGCHLD, before);
    EXPECT_FALSE(good.bytes.empty());
    EXPECT_THAT(error, HasSubstr("exited with status 1"));
}

TEST_F(HostCompilerTest, WarningsAreInTheLog) {
    const Binary binary = compiler_->compile(answer_source("\n#warning look here\nreturn 1;"), host());
    EXPECT_THAT(binary.log, AllOf(HasSubstr("answer.cu:4:"), HasSubstr("look here")));
}

TEST_F(HostCompilerTest, NamesThatLeaveTheDirectoryAreRejected) {
    for (const char* name : {"../up.h", "part/../../up.h", "/elsewhere/up.h", "", "part/", "-o", "@file"}) {
        Source source = answer_source();
        source.headers.push_back({name, "\n"});
        EXPECT_THAT(rejected<BuildError>([&] { compiler_->compile(source, host()); }),
                    HasSubstr("\"" + std::string(name) + "\""));
    }
}

TEST_F(HostCompilerTest, AHeaderFromTheUsersVariablesIsNotTaken) {
    const TemporaryDirectory directory;
    write_text(directory.path() / "stray.h", "\n");
    const ScopedVariable variable("CPATH", directory.path().string());
    Source source = answer_source();
    source.text = "#include \"stray.h\"\n" + source.text;
    EXPECT_THAT(rejected<BuildError>([&] { compiler_->compile(source, host()); }), HasSubstr("stray.h"));
}

TEST_F(HostCompilerTest, AVariableOfTheLinkerDoesNotReachIt) {
    const ScopedVariable variable("GNUTARGET", "no-such-format");
    EXPECT_FALSE(compiler_->compile(answer_source(), host()).bytes.empty());
}

TEST_F(HostCompilerTest, AFileFromElsewhereIsNoBuild) {
    const TemporaryDirectory directory;
    const auto wrapper = directory.path() / "wrapped", header = directory.path() / "elsewhere.h";
    write_text(header, "constexpr int kElsewhere = 1;\n");
    write_text(wrapper, "#!/bin/sh\nexec c++ -include " + header.string() + " \"$@\"\n");
    std::filesystem::permissions(wrapper, std::filesystem::perms::owner_all);
    const ScopedVariable variable("KILN_HOST_CXX", wrapper.string());
    EXPECT_THAT(
        test::rejected<BuildError>([&] { (void)make_host_compiler({})->compile(answer_source(), host()); }),
        testing::HasSubstr(header.string()));
}

TEST_F(HostCompilerTest, AWrapperScriptIsPartOfTheIdentity) {
    const TemporaryDirectory directory;
    const auto wrapper = directory.path() / "wrapped";
    const auto identity = [&](const std::string& option) {
        write_text(wrapper, "#!/bin/sh\nexec c++ " + option + " \"$@\"\n");
        std::filesystem::permissions(wrapper, std::filesystem::perms::owner_all);
        const ScopedVariable variable("KILN_HOST_CXX", wrapper.string());
        return make_host_compiler({})->identity();
    };
    EXPECT_NE(identity("-O1"), identity("-O2"));
    EXPECT_EQ(identity("-O1"), identity("-O1"));
}

TEST_F(HostCompilerTest, ACompilerThatIsReplacedMeanwhileIsNoticed) {
    const TemporaryDirectory directory;
    const auto wrapper = directory.path() / "wrapped";
    const auto write = [&](const std::string& option) {
        write_text(wrapper, "#!/bin/sh\nexec c++ " + option + " \"$@\"\n");
        std::filesystem::permissions(wrapper, std::filesystem::perms::owner_all);
    };
    write("-O1");
    const ScopedVariable variable("KILN_HOST_CXX", wrapper.string());
    const auto compiler = make_host_compiler({});
    const std::string before = compiler->identity();
    EXPECT_EQ(compiler->identity(), before);
    write("-O2");
    EXPECT_NE(compiler->identity(), before);
}

TEST_F(HostCompilerTest, TheProgramsBehindTheDriverAreInTheIdentity) {
    // GCC runs cc1plus, as, collect2 and ld; Clang itself and ld.
    const std::string identity = compiler_->identity();
    int builds = 0;
    for (std::size_t at = 0; (at = identity.find("build ", at)) != std::string::npos; ++at) ++builds;
    EXPECT_GE(builds, 3) << identity;
    EXPECT_THAT(identity, HasSubstr(" kiln-host-"));
}

TEST_F(HostCompilerTest, TheMemoryLimitReachesTheCompilerBehindTheDriver) {
    WorkerLimits limits;
    limits.memory_bytes = 48 << 20;
    EXPECT_THAT(rejected<BuildError>([&] {
                    make_host_compiler(limits)->compile(
                        answer_source("static int big[] = {\n#define A 1,1,1,1,1,1,1,1,1,1,\n"
                                      "#define B A A A A A A A A A A\n#define C B B B B B B B B B B\n"
                                      "#define D C C C C C C C C C C\n#define E D D D D D D D D D D\n"
                                      "E E E E E E E E E E 0};\nreturn big[kAnswer];"),
                        host());
                }),
                AllOf(HasSubstr("48.0 MiB"), HasSubstr("memory limit")));
    limits.memory_bytes = std::uint64_t{4} << 30;
    EXPECT_FALSE(make_host_compiler(limits)->compile(answer_source(), host()).bytes.empty());
}

TEST_F(HostCompilerTest, TheArchitectureReachesTheOptionsAndTheCode) {
    EXPECT_THAT(compiler_->supported_archs(), Contains(host_arch()));
    EXPECT_THAT(rejected<BuildError>([&] { compiler_->compile(answer_source(), host("sm_90")); }),
                AllOf(HasSubstr("\"sm_90\""), HasSubstr(host_arch())));
#ifdef __x86_64__
    EXPECT_THAT(compiler_->options(host("x86-64-v2"), answer_source()), Contains("-march=x86-64-v2"));
    const Source source = answer_source("\n#ifdef __AVX2__\n#warning has avx2\n#endif\nreturn 0;");
    EXPECT_THAT(compiler_->compile(source, host("x86-64-v3")).log, HasSubstr("has avx2"));
    EXPECT_THAT(compiler_->compile(source, host("x86-64-v2")).log, Not(HasSubstr("has avx2")));
#endif
}

TEST_F(HostCompilerTest, TheIdentityIsTheBuildAndNotThePlace) {
    const std::string identity = compiler_->identity();
    EXPECT_EQ(identity, make_host_compiler({})->identity());
    EXPECT_THAT(identity, AllOf(HasSubstr("version "), HasSubstr(" for "), HasSubstr("-linux")));
    EXPECT_THAT(identity, Not(HasSubstr("/usr")));
    const ScopedVariable variable("LC_ALL", "de_DE.UTF-8");
    EXPECT_EQ(identity, make_host_compiler({})->identity());
}

TEST_F(HostCompilerTest, TwoCompilersHaveTwoIdentities) {
    std::vector<std::string> identities;
    for (const char* name : {"g++", "clang++"}) {
        const ScopedVariable variable("KILN_HOST_CXX", name);
        try {
            const auto compiler = make_host_compiler({});
            identities.push_back(compiler->identity());
            EXPECT_FALSE(compiler->compile(answer_source(), host()).bytes.empty()) << name;
        } catch (const BuildError& error) {
            GTEST_SKIP() << "needs both g++ and clang++: " << error.what();
        }
    }
    EXPECT_NE(identities[0], identities[1]);
}

TEST_F(HostCompilerTest, ACompilerThatHangsIsKilled) {
    const TemporaryDirectory directory;
    const auto file = directory.path() / "slow-c++";
    for (const std::string hangs : {"-fPIC", "-print-prog-name=as"}) {
        write_text(file, "#!/bin/sh\ncase \"$*\" in *" + hangs + "*) sleep 60;; esac\nexec c++ \"$@\"\n");
        std::filesystem::permissions(file, std::filesystem::perms::owner_all);
        const ScopedVariable variable("KILN_HOST_CXX", file.string());
        const auto start = std::chrono::steady_clock::now();
        EXPECT_THAT(
            rejected<BuildError>([&] { make_host_compiler(within(1s))->compile(answer_source(), host()); }),
            HasSubstr("1 s"))
            << hangs;
        EXPECT_LT(std::chrono::steady_clock::now() - start, 20s) << hangs;
    }
}

TEST(HostCompilerMissing, SaysHowToGetOne) {
    const TemporaryDirectory empty;
    const ScopedVariable unset("KILN_HOST_CXX", "");
    const ScopedVariable path("PATH", empty.path().string());
    EXPECT_THAT(rejected<BuildError>([] { make_host_compiler(within(1s))->identity(); }),
                AllOf(HasSubstr("clang++"), HasSubstr("apt-get install g++")));
    const ScopedVariable variable("KILN_HOST_CXX", "my-c++");
    EXPECT_THAT(
        rejected<BuildError>([] { make_host_compiler(within(1s))->compile(answer_source(), host()); }),
        AllOf(HasSubstr("KILN_HOST_CXX"), HasSubstr("\"my-c++\"")));
}

TEST(HostArch, IsOneOfTheKnownNames) {
#ifdef __x86_64__
    EXPECT_THAT(host_arch(), testing::MatchesRegex("x86-64(-v[234])?"));
    // The kernel's own list of features must agree.
    std::ifstream file("/proc/cpuinfo");
    std::string line;
    while (std::getline(file, line) && !line.starts_with("flags")) {
    }
    line += ' ';
    const bool v3 = line.find(" avx2 ") != std::string::npos && line.find(" bmi2 ") != std::string::npos &&
                    line.find(" fma ") != std::string::npos && line.find(" movbe ") != std::string::npos;
    if (!line.starts_with("flags")) GTEST_SKIP() << "no processor flags in /proc/cpuinfo";
    EXPECT_EQ(v3, host_arch() >= "x86-64-v3") << line;
#else
    EXPECT_FALSE(host_arch().empty());
#endif
}

}  // namespace
}  // namespace kiln
