// SPDX-License-Identifier: Apache-2.0
//
// What an identity covers (every library that the loader takes for a compiler, by content), and how long it is
// remembered.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <sys/stat.h>
#include <time.h>

#include <filesystem>
#include <fstream>

#include "base/dynamic_library.h"
#include "base/file.h"
#include "base/host_arch.h"
#include "base/output_file.h"
#include "compile/compiler.h"
#include "compile/identity_memory.h"
#include "compile/loaded_objects.h"
#include "compiler_fixtures.h"
#include "require.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using test::ScopedVariable;
using test::TextStore;
using test::workers;
using testing::HasSubstr;
using testing::Not;

struct Memory : testing::Test {
    TemporaryDirectory directory;
    std::shared_ptr<TextStore> store = std::make_shared<TextStore>();
    int derived = 0;

    // Times of change can't be set back, so that a new file is settled only after a while; this one is.
    static constexpr const char* kOld = "/bin/sh";

    std::string ask(IdentityMemory& memory, const std::string& question = "q",
                    const std::string& watched = kOld) {
        return memory.ask(question, [&]() -> IdentityMemory::Answer {
            ++derived;
            return {{"value " + std::to_string(derived)}, {watched}};
        })[0];
    }
};

TEST_F(Memory, AnswersAreRememberedInTheProcessAndBeyond) {
    IdentityMemory one(store);
    EXPECT_EQ(ask(one), "value 1");
    EXPECT_EQ(ask(one), "value 1");
    EXPECT_EQ(ask(one, "another"), "value 2");
    EXPECT_EQ(store->writes, 2);
    IdentityMemory next(store);
    EXPECT_EQ(ask(next), "value 1");
    EXPECT_EQ(ask(next, "another"), "value 2");
    EXPECT_EQ(derived, 2);
}

TEST_F(Memory, DamageIsNothing) {
    IdentityMemory one(store);
    ask(one);
    const std::string whole = store->text;
    for (std::size_t i = 0; i < whole.size(); i += 7) {
        store->text = whole;
        store->text[i] ^= 1;
        IdentityMemory other(store);
        const int before = derived;
        ask(other);
        EXPECT_EQ(derived, before + 1) << "byte " << i;
        store->text = whole.substr(0, i);
        IdentityMemory shorter(store);
        ask(shorter);
        EXPECT_EQ(derived, before + 2) << "of " << i << " bytes";
    }
}

TEST_F(Memory, WhatChangedAMomentAgoIsNotRemembered) {
    const auto young = directory.path() / "young";
    write_text(young, "1");
    IdentityMemory memory(store);
    ask(memory, "q", young.string());
    ask(memory, "q", young.string());
    EXPECT_EQ(derived, 2);
    EXPECT_EQ(store->writes, 0);
}

TEST_F(Memory, WhatChangedWhileItWasReadIsNotRemembered) {
    const auto watched = directory.path() / "library";
    write_text(watched, "one");
    const auto slowly = [&]() -> IdentityMemory::Answer {
        ++derived;
        write_text(watched, "two");
        struct timespec wait {
            3, 100000000
        };
        ::nanosleep(&wait, nullptr);
        return {{"of one"}, {watched.string()}};
    };
    IdentityMemory memory(store);
    memory.ask("q", slowly);
    EXPECT_EQ(store->writes, 0);
    EXPECT_EQ(ask(memory, "q", watched.string()), "value 2");
}

// A record of a file that has the size and the time of modification that it had.
TEST_F(Memory, AReplacedFileWithTheSameSizeAndTimeIsNoticed) {
    const auto watched = directory.path() / "library";
    write_text(watched, "one");
    timespec long_ago[2] = {{1000000000, 5}, {1000000000, 5}};
    ASSERT_EQ(::utimensat(AT_FDCWD, watched.c_str(), long_ago, 0), 0);
    struct timespec wait {
        3, 100000000
    };
    ::nanosleep(&wait, nullptr);  // until its time of change is settled
    IdentityMemory memory(store);
    ask(memory, "q", watched.string());
    ask(memory, "q", watched.string());
    ASSERT_EQ(derived, 1);
    write_text(watched, "two");
    ASSERT_EQ(::utimensat(AT_FDCWD, watched.c_str(), long_ago, 0), 0);
    ask(memory, "q", watched.string());
    EXPECT_EQ(derived, 2);
    IdentityMemory next(store);
    ask(next, "q", watched.string());
    EXPECT_EQ(derived, 3);
}

TEST_F(Memory, AFailureIsNotRemembered) {
    IdentityMemory memory(store);
    EXPECT_THROW(memory.ask("q", []() -> IdentityMemory::Answer { throw BuildError("none"); }), BuildError);
    EXPECT_EQ(ask(memory), "value 1");
}

TEST(Objects, TheCLibrarysOwnAreLeftOut) {
    for (const char* name : {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "libpthread.so.0", "crti.o"})
        EXPECT_TRUE(is_of_c_library(name)) << name;
    for (const char* name : {"libstdc++.so.6", "libLLVM-15.so.1", "crtbeginS.o", "libcrypto.so.3", "cc1plus"})
        EXPECT_FALSE(is_of_c_library(name)) << name;
}

TEST(Objects, ContentCountsWhateverTheBuildIdSays) {
    const TemporaryDirectory directory;
    const auto copy = directory.path() / "copy";
    fs::copy_file("/proc/self/exe", copy);
    const auto before = content_identity(copy);
    ASSERT_TRUE(before);
    EXPECT_EQ(content_identity("/proc/self/exe"), before);
    std::fstream stream(copy, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(fs::file_size(copy) / 2));
    stream.put('\x5a').put('\xa5').put('\x5a');
    stream.close();
    EXPECT_NE(content_identity(copy), before);
}

// A copy of the library with another byte at its end, first in LD_LIBRARY_PATH.
void plant(const fs::path& library, const fs::path& directory) {
    const auto copy = directory / library.filename();
    fs::copy_file(library, copy, fs::copy_options::overwrite_existing);
    std::ofstream(copy, std::ios::app | std::ios::binary) << 'x';
}

std::vector<fs::path> libraries_of(const fs::path& file) {
    CompilerObjects objects(CompilerKind::host);
    objects.add(file);
    std::vector<fs::path> libraries;
    for (const auto& path : objects.watched())
        if (fs::is_regular_file(path) && path.string().find(".so") != std::string::npos)
            libraries.push_back(path);
    return libraries;
}

TEST(Objects, APatchedLibraryOfClangIsAnotherCompiler) {
    const ScopedVariable chosen("KILN_HOST_CXX", "clang++");
    KILN_REQUIRE_OR_SKIP("clang", test::why_missing([] { return make_host_compiler({}); }).empty(),
                         "no clang++");
    const std::string before = make_host_compiler({})->identity();
    EXPECT_THAT(before, Not(HasSubstr("/")));
    EXPECT_EQ(make_host_compiler({})->identity(), before);
    fs::path library;
    for (const auto& path : libraries_of("/usr/bin/clang++"))
        if (path.filename().string().starts_with("libLLVM")) library = path;
    if (library.empty()) GTEST_SKIP() << "this Clang lies elsewhere, or is linked statically";
    const TemporaryDirectory directory;
    plant(library, directory.path());
    const ScopedVariable path("LD_LIBRARY_PATH", directory.path().string());
    EXPECT_NE(make_host_compiler({})->identity(), before);
}

TEST(Objects, APatchedLibraryBehindGccIsAnotherCompiler) {
    const ScopedVariable chosen("KILN_HOST_CXX", "g++");
    KILN_REQUIRE_OR_SKIP("host", test::why_missing([] { return make_host_compiler({}); }).empty(), "no g++");
    const std::string before = make_host_compiler({})->identity();
    fs::path library = "/usr/lib/x86_64-linux-gnu/libisl.so.23";
    if (!fs::exists(library)) GTEST_SKIP() << "another GCC";
    const TemporaryDirectory directory;
    plant(library, directory.path());
    {
        const ScopedVariable path("LD_LIBRARY_PATH", directory.path().string());
        EXPECT_NE(make_host_compiler({})->identity(), before);
    }
    EXPECT_EQ(make_host_compiler({})->identity(), before);
}

TEST(Objects, PatchedLibrariesOfHiprtcAreAnotherCompiler) {
    KILN_REQUIRE_OR_SKIP("hiprtc", test::why_missing([] { return make_hiprtc_compiler(workers()); }).empty(),
                         "no hipRTC");
    const std::string before = make_hiprtc_compiler(workers())->identity();
    const std::string description = make_hiprtc_compiler(workers())->description();
    const fs::path hip = description.substr(description.rfind(", ") + 2);
    EXPECT_THAT(before, HasSubstr("libLLVM"));
    int planted = 0;
    for (const auto& entry : fs::directory_iterator(hip.parent_path())) {
        const std::string name = entry.path().filename().string();
        if (!name.starts_with("libLLVM-15.so.") && name != "libhiprtc-builtins.so.5") continue;
        const TemporaryDirectory directory;
        plant(entry.path(), directory.path());
        // Named, so that the library itself is the one that it was.
        const ScopedVariable chosen("KILN_HIPRTC", hip.string());
        const ScopedVariable path("LD_LIBRARY_PATH", directory.path().string());
        EXPECT_NE(make_hiprtc_compiler(workers())->identity(), before) << name;
        ++planted;
    }
    if (planted == 0) GTEST_SKIP() << "another ROCm";
}

TEST(Objects, BuiltinsThatNvrtcWouldTakeFromLdLibraryPathCount) {
    KILN_REQUIRE_OR_SKIP("nvrtc", test::missing_nvrtc().empty(), "no NVRTC");
    const std::string description = make_nvrtc_compiler()->description();
    const fs::path library = description.substr(description.rfind(", ") + 2);
    // Alone in a directory, without builtins next to it.
    const TemporaryDirectory alone, others;
    fs::copy_file(library, alone.path() / library.filename());
    const ScopedVariable chosen("KILN_NVRTC", (alone.path() / library.filename()).string());
    // All names that it has there: which of them the library asks for is its own affair.
    std::vector<fs::path> builtins;
    for (const auto& entry : fs::directory_iterator(fs::canonical(library).parent_path()))
        if (entry.path().filename().string().starts_with("libnvrtc-builtins.so."))
            builtins.push_back(entry.path());
    ASSERT_FALSE(builtins.empty());
    for (const fs::path& one : builtins)
        fs::copy_file(one, others.path() / one.filename(), fs::copy_options::overwrite_existing);
    const ScopedVariable path("LD_LIBRARY_PATH", others.path().string());
    const std::string before = make_nvrtc_compiler()->identity();
    EXPECT_THAT(before, HasSubstr("libnvrtc-builtins"));
    for (const fs::path& one : builtins) plant(one, others.path());
    EXPECT_NE(make_nvrtc_compiler()->identity(), before);
}

}  // namespace
}  // namespace kiln
