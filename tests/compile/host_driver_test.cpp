// SPDX-License-Identifier: Apache-2.0
//
// The host compiler's identity: which drivers are remembered and which are asked each time, and that it changes with
// every program and file behind the driver. Trees of links and copies stand for other installations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/file.h"
#include "base/host_arch.h"
#include "base/process.h"
#include "base/words.h"
#include "compile/compiler.h"
#include "compile/identity_memory.h"
#include "compiler_fixtures.h"
#include "require.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using test::ScopedVariable;
using test::TextStore;
using testing::HasSubstr;
using testing::Not;

constexpr std::chrono::milliseconds kUntilSettled{3100};  // files that are younger are not remembered

ProcessRequest request_of(std::vector<std::string> arguments) {
    ProcessRequest request;
    request.arguments = std::move(arguments);
    return request;
}

// Remembered answers hold by the stamps of files, and a file that a wrapper reads is none of those that are known.
// make: writes the wrapper, which adds what is in the file of that name.
void expect_options_to_be_read(const fs::path& wrapper, const std::function<void(const fs::path&)>& make) {
    const TemporaryDirectory elsewhere;
    const auto options = elsewhere.path() / "options";
    make(options);
    write_text(options, "-O1\n");
    const ScopedVariable chosen("KILN_HOST_CXX", wrapper.string());
    const auto store = std::make_shared<TextStore>();
    const auto memory = std::make_shared<IdentityMemory>(store);
    const auto compiler = make_host_compiler({}, HostBuild::fast, memory);
    std::string first;
    try {
        first = compiler->identity();
    } catch (const BuildError&) {
        KILN_REQUIRE_OR_SKIP("host", false, "no C++ compiler on this machine");
    }
    std::this_thread::sleep_for(kUntilSettled);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(compiler->identity(), first);
    EXPECT_THAT(first, Not(HasSubstr(elsewhere.path().string())));
    EXPECT_THAT(first, Not(HasSubstr(wrapper.parent_path().string())));
    const int writes = store->writes;
    EXPECT_GT(writes, 0);
    EXPECT_EQ(compiler->identity(), first);
    EXPECT_EQ(store->writes, writes) << "the content of its files is remembered";

    write_text(options, "-O2\n");
    EXPECT_NE(compiler->identity(), first);
    const auto later = make_host_compiler({}, HostBuild::fast, std::make_shared<IdentityMemory>(store));
    EXPECT_NE(later->identity(), first);
    write_text(options, "-O1\n");
    EXPECT_EQ(later->identity(), first);
}

void write_script(const fs::path& file, const std::string& text) {
    write_text(file, "#!/bin/bash\n" + text + "\n");
    fs::permissions(file, fs::perms::owner_all);
}

void expect_script_to_be_asked(const fs::path& wrapper, const std::string& command) {
    expect_options_to_be_read(wrapper, [&](const fs::path& options) {
        write_script(wrapper, "exec " + command + " $(cat " + options.string() + ") \"$@\"");
    });
}

// A program that gives the driver its own name, as the wrappers of Nix do.
void expect_program_to_be_asked(const fs::path& wrapper, const std::string& driver,
                                const std::string& option) {
    expect_options_to_be_read(wrapper, [&](const fs::path& options) {
        const auto code = wrapper.parent_path() / "wrapper.cpp";
        write_text(code,
                   "#include <fstream>\n#include <string>\n#include <vector>\n#include <unistd.h>\n"
                   "int main(int, char** words) {\nstd::string read, option = \"" +
                       option +
                       "\";\n"
                       "std::getline(std::ifstream(\"" +
                       options.string() +
                       "\"), read);\n"
                       "std::vector<char*> all = {*words, &read[0], &option[0]};\n"
                       "while (*words) all.push_back(*++words);\n"
                       "return execv(\"" +
                       driver + "\", all.data());\n}\n");
        const auto result = run_process(request_of({driver, "-o", wrapper.string(), code.string()}));
        ASSERT_TRUE(result.succeeded()) << result.error;
    });
}

TEST(HostDriver, OptionsThatAWrapperReadsAreAnotherCompiler) {
    const TemporaryDirectory directory;
    expect_script_to_be_asked(directory.path() / "wrapped", "c++");
}

// GCC then says that the wrapper is what ran, and finds its programs from there.
void link_what_gcc_needs(const fs::path& directory) {
    fs::create_directory(directory / "bin");
    fs::create_directory_symlink("/usr/lib", directory / "lib");
    fs::create_directory_symlink("/usr/include", directory / "include");
}

TEST(HostDriver, AScriptThatGivesGccItsOwnNameIsAWrapper) {
    if (!fs::exists("/usr/bin/g++") || !fs::exists("/usr/lib/gcc")) GTEST_SKIP() << "no g++, or elsewhere";
    const TemporaryDirectory directory;
    link_what_gcc_needs(directory.path());
    expect_script_to_be_asked(directory.path() / "bin/g++", "-a \"$0\" /usr/bin/g++");
}

TEST(HostDriver, AProgramThatGivesGccItsOwnNameIsAWrapper) {
    if (!fs::exists("/usr/bin/g++") || !fs::exists("/usr/lib/gcc")) GTEST_SKIP() << "no g++, or elsewhere";
    const TemporaryDirectory directory;
    link_what_gcc_needs(directory.path());
    expect_program_to_be_asked(directory.path() / "bin/g++", "/usr/bin/g++", "-O1");
}

// Clang finds out which file it is, unless it is asked not to.
TEST(HostDriver, AProgramThatGivesClangItsOwnNameIsAWrapper) {
    if (!fs::exists("/usr/bin/clang++")) GTEST_SKIP() << "no clang++ on this machine";
    const TemporaryDirectory directory;
    expect_program_to_be_asked(directory.path() / "clang++", "/usr/bin/clang++", "-no-canonical-prefixes");
}

// Clang prints the directory that it runs in, by the name that the system has for it.
TEST(HostDriver, AWrapperOfClangIsTheSameCompilerWhereTemporaryFilesLieBehindALink) {
    if (!fs::exists("/usr/bin/clang++")) GTEST_SKIP() << "no clang++ on this machine";
    const TemporaryDirectory directory;
    const auto wrapper = directory.path() / "wrapped", link = directory.path() / "link";
    write_script(wrapper, "exec /usr/bin/clang++ \"$@\"");
    fs::create_directory(directory.path() / "there");
    fs::create_symlink(directory.path() / "there", link);
    const ScopedVariable chosen("KILN_HOST_CXX", wrapper.string()), temporary("TMPDIR", link.string() + "/");
    const auto compiler = make_host_compiler({}, HostBuild::fast,
                                             std::make_shared<IdentityMemory>(std::make_shared<TextStore>()));
    const std::string first = compiler->identity();
    EXPECT_EQ(compiler->identity(), first);
}

TEST(HostDriver, ADriverIsNotAskedAgain) {
    // c++ leads through links to the driver.
    const auto store = std::make_shared<TextStore>();
    try {
        (void)make_host_compiler({}, HostBuild::fast, std::make_shared<IdentityMemory>(store))->identity();
    } catch (const BuildError&) {
        KILN_REQUIRE_OR_SKIP("host", false, "no C++ compiler on this machine");
    }
    EXPECT_THAT(store->text, HasSubstr("\ndriver\n"));
    EXPECT_THAT(store->text, Not(HasSubstr("\nwrapper\n")));
}

// A compiler whose identity is remembered, so that what is not watched does not count.
class Remembered {
  public:
    explicit Remembered(const fs::path& driver) : chosen_("KILN_HOST_CXX", driver.string()) {}
    /// When its files are settled.
    void expect_to_be_remembered() {
        first_ = identity();
        EXPECT_EQ(identity(), first_);  // a wrapper's is remembered from here on
        EXPECT_GT(store_->writes, 0);
        const int writes = store_->writes;
        EXPECT_EQ(identity(), first_);
        EXPECT_EQ(store_->writes, writes);
    }
    void expect_another(const std::string& what) {
        const std::string now = identity();
        EXPECT_NE(now, first_) << what;
        first_ = now;
    }

  private:
    std::string identity() { return compiler_->identity(); }

    const ScopedVariable chosen_;
    const std::shared_ptr<TextStore> store_ = std::make_shared<TextStore>();
    const std::unique_ptr<Compiler> compiler_ =
        make_host_compiler({}, HostBuild::fast, std::make_shared<IdentityMemory>(store_));
    std::string first_;
};

#ifdef __aarch64__
const std::string kGccTarget = "aarch64-linux-gnu";
#else
const std::string kGccTarget = "x86_64-linux-gnu";
#endif

// A copy of GCC's driver, which finds its programs next to itself: links to those of this machine.
class GccTree : public testing::Test {
  protected:
    void SetUp() override {
        const auto found = run_process(request_of({"/usr/bin/g++", "-print-libgcc-file-name"}));
        const fs::path own = fs::path(trimmed(found.output)).parent_path();
        if (!own.string().starts_with("/usr/lib/gcc/" + kGccTarget)) GTEST_SKIP() << "no g++, or elsewhere";
        fs::create_directories(driver_.parent_path());
        fs::copy_file("/usr/bin/g++", driver_);
        programs_ = tree_.path() / "lib/gcc" / kGccTarget / own.filename();
        fs::create_directories(programs_);
        for (const auto& entry : fs::directory_iterator(own))
            fs::create_symlink(entry.path(), programs_ / entry.path().filename());
    }

    const TemporaryDirectory tree_;
    const fs::path driver_ = tree_.path() / "bin/g++";
    fs::path programs_;
};

TEST_F(GccTree, ACopyOfTheDriverIsNotAskedAgain) {
    const ScopedVariable chosen("KILN_HOST_CXX", driver_.string());
    std::this_thread::sleep_for(kUntilSettled);
    const auto store = std::make_shared<TextStore>();
    (void)make_host_compiler({}, HostBuild::fast, std::make_shared<IdentityMemory>(store))->identity();
    EXPECT_THAT(store->text, HasSubstr("\ndriver\n"));
}

TEST_F(GccTree, WhatIsLinkedForFastMathCounts) {
    const auto file = programs_ / "crtfastmath.o";
    if (!fs::exists(file)) GTEST_SKIP() << "no crtfastmath.o";
    const ScopedVariable chosen("KILN_HOST_CXX", driver_.string());
    const std::string before = make_host_compiler({})->identity();
    const std::string content = read_text_if_exists(file).value_or("");
    fs::remove(file);
    write_text(file, content + "x");
    EXPECT_NE(make_host_compiler({})->identity(), before);
}

TEST_F(GccTree, ALinkerThatIsPreferredCountsWhereverItComesToBe) {
    std::this_thread::sleep_for(kUntilSettled);
    Remembered gcc(driver_);
    gcc.expect_to_be_remembered();
    const auto tools = tree_.path() / kGccTarget / "bin";
    fs::create_directories(tools);
    write_script(tools / "collect-ld", "exec ld \"$@\"");
    gcc.expect_another("collect-ld");
    write_script(programs_ / "real-ld", "exec ld \"$@\"");
    gcc.expect_another("real-ld");
}

// The wrapper reads PATH from a file, so that nothing but the wrapper itself knows it.
TEST_F(GccTree, AProgramInThePathThatAWrapperSetsCounts) {
    const fs::path wrapper = tree_.path() / "wrapped", list = tree_.path() / "list";
    for (const char* name : {"one", "two"}) {
        fs::create_directory(tree_.path() / name);
        write_script(tree_.path() / name / "as", std::string("exec /usr/bin/as \"$@\" # ") + name);
    }
    write_text(list, (tree_.path() / "one").string());
    write_script(wrapper, "PATH=$(cat " + list.string() + "):$PATH exec /usr/bin/g++ \"$@\"");
    std::this_thread::sleep_for(kUntilSettled);
    Remembered gcc(wrapper);
    gcc.expect_to_be_remembered();
    write_text(list, (tree_.path() / "two").string());
    gcc.expect_another("a directory");
    write_script(tree_.path() / "two/as", "exec /usr/bin/as \"$@\" # changed");
    gcc.expect_another("a program");
}

// In one tree there is nothing yet where it looks, in the other a directory that is not complete.
TEST(HostDriver, AnInstallationOfGccThatClangComesToFindIsNoticed) {
    if (!fs::exists("/usr/bin/clang++")) GTEST_SKIP() << "no clang++ on this machine";
    for (const bool begun : {false, true}) {
        const TemporaryDirectory tree;
        const fs::path driver = tree.path() / "bin/clang++",
                       installation = tree.path() / "lib/gcc" / kGccTarget / "99";
        fs::create_directory(tree.path() / "bin");
        fs::copy_file("/usr/bin/clang++", driver);
        if (begun) fs::create_directories(installation);
        std::this_thread::sleep_for(kUntilSettled);
        Remembered clang(driver);
        clang.expect_to_be_remembered();
        fs::create_directories(installation);
        write_text(installation / "crtbegin.o", "");
        clang.expect_another(begun ? "crtbegin.o" : "a directory");
    }
}

}  // namespace
}  // namespace kiln
