// SPDX-License-Identifier: Apache-2.0
//
// kiln warm: what is built, found, failed; bad manifests; progress; and Ctrl-C, which loses nothing.
#include <algorithm>
#include <cstdio>
#include <regex>

#include "cli/progress_bar.h"
#include "kiln_program.h"
#include "require.h"

namespace kiln::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class KilnWarm : public Kiln {
  protected:
    Outcome warm(const std::string& manifest, Arguments more = {}, Environment environment = {}) const {
        Arguments arguments = {"warm", write("manifest.txt", manifest)};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return on_host(std::move(arguments), std::move(environment));
    }

    /// A host compiler that takes its time; what Kiln asks to know it is answered at once.
    std::string slow_compiler(const std::string& seconds) const {
        const std::string file = write("slow_cxx", "#!/bin/sh\ncase \"$*\" in *-std=*) sleep " + seconds +
                                                       " ;; esac\nexec g++ \"$@\"\n");
        std::filesystem::permissions(file, std::filesystem::perms::owner_all);
        return file;
    }
};

TEST_F(KilnWarm, BuildsEachVariantOnceAndThenFindsAll) {
    const std::string manifest = "# for tests\ntiny ADD=1,2,3\ntiny ADD=3 MUL=1  # again\ntiny ADD=4 @host\n";
    const Outcome first = warm(manifest, {"--workers", "2", "--json"});
    ASSERT_EQ(first.status, 0) << first.err;
    const auto built = first.json();
    EXPECT_EQ(built["total"], 4);
    EXPECT_EQ(built["built"], 4);
    EXPECT_TRUE(built["failed"].empty());
    EXPECT_EQ(built["not_reached"], 0);
    EXPECT_GT(built["seconds"], 0);
    EXPECT_GT(built["built_per_second"], 0);
    EXPECT_GT(built["compile_seconds"], 0);
    const auto found = warm(manifest, {"--json"}).json();
    EXPECT_EQ(found["built"], 0);
    EXPECT_EQ(found["already_there"]["disk"], 4);
    EXPECT_EQ(build("4").json()["tier"], "disk");
    const Outcome text = warm(manifest);
    EXPECT_TRUE(std::regex_search(text.out, std::regex("was there +4 \\(disk 4\\)"))) << text.out;
}

TEST_F(KilnWarm, FilesOfEditorsAndSystemsAreNoTemplates) {
    std::filesystem::create_symlink("user@machine.1", std::filesystem::path(templates()) / ".#tiny.cu");
    write_text(std::filesystem::path(templates()) / "._tiny.cu", std::string_view("\0\5\26\7", 4));
    EXPECT_EQ(on_host({"list"}).status, 0);
    EXPECT_EQ(warm("tiny ADD=1\n").status, 0);
}

// A pack of such a directory lacks them.
TEST_F(KilnWarm, ReportsWhatIsInPacksAndNotInTheDirectory) {
    ASSERT_EQ(warm("tiny ADD=1,2\n").status, 0);
    const std::string pack = path("seed.kiln").string();
    ASSERT_EQ(run({"cache", "pack", pack}).status, 0);
    const Outcome outcome =
        warm("tiny ADD=1,2,3\n", {"--seed-pack", pack, "--cache-dir", path("new").string()});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.out, HasSubstr("note       2 variants are in seed packs only"));
    EXPECT_THAT(warm("tiny ADD=1,2\n").out, Not(HasSubstr("note")));
}

// A pack of such a cache would lack what was removed.
TEST_F(KilnWarm, FailsWhereTheCacheDoesNotHoldAll) {
    const std::string manifest = "tiny ADD=1,2,3,4\n";
    ASSERT_EQ(warm(manifest).status, 0);
    std::uintmax_t largest = 0;
    for (const auto& file : std::filesystem::recursive_directory_iterator(path("cache")))
        if (file.is_regular_file()) largest = std::max(largest, file.file_size());
    ASSERT_EQ(run({"cache", "clear", "--yes"}).status, 0);
    const Environment limited = {{"KILN_CACHE_LIMIT", std::to_string(2 * largest + 100)}};
    const Outcome result = warm(manifest, {"--json"}, limited);
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.json()["built"], 4);
    EXPECT_EQ(result.json()["not_kept"], 2);
    EXPECT_THAT(result.err, AllOf(HasSubstr("the cache kept 2 of 4 entries"), HasSubstr("KILN_CACHE_LIMIT")));
    // What is removed for it is of another run.
    const Outcome others = warm("tiny ADD=5,6\n", {"--json"}, limited);
    EXPECT_EQ(others.status, 0) << others.err;
    EXPECT_EQ(others.json()["not_kept"], 0);
    // Not even one fits.
    const Outcome none = warm(manifest, {"--json"}, {{"KILN_CACHE_LIMIT", "1KiB"}});
    EXPECT_EQ(none.status, 1);
    EXPECT_EQ(none.json()["not_kept"], 4);
}

TEST_F(KilnWarm, GoesOnAfterAFailure) {
    const Outcome result = warm("tiny ADD=5,6,7\n", {"--json"});
    EXPECT_EQ(result.status, 1);
    const auto json = result.json();
    EXPECT_EQ(json["built"], 2);
    ASSERT_EQ(json["failed"].size(), 1U);
    EXPECT_EQ(json["failed"][0]["variant"], "tiny ADD=7 MUL=1");
    EXPECT_EQ(json["failed"][0]["backend"], "host");
    EXPECT_THAT(json["failed"][0]["reason"].get<std::string>(), HasSubstr("seven is broken"));
    EXPECT_THAT(result.err, HasSubstr("tiny ADD=7 MUL=1 (host "));
    const Outcome text = warm("tiny ADD=5,6,7\n");
    EXPECT_EQ(text.status, 1);
    EXPECT_THAT(text.out, HasSubstr("seven is broken"));
}

TEST_F(KilnWarm, ReportsOneReasonOnceWhileItWorks) {
    const Outcome result = warm("tiny ADD=7 MUL=*\n", {"--json"});
    EXPECT_EQ(result.json()["failed"].size(), 4U);
    const std::string told = ") failed\n";  // the progress also says how many failed
    EXPECT_NE(result.err.find(told), std::string::npos) << result.err;
    EXPECT_EQ(result.err.find(told), result.err.rfind(told)) << result.err;
}

// What can't be kept is not worth compiling.
TEST_F(KilnWarm, StopsWhereNothingCanBeStored) {
    build("1");
    ASSERT_EQ(run({"cache", "clear", "--yes"}).status, 0);
    for (int i = 0; i < 256; ++i) {
        char name[16];
        std::snprintf(name, sizeof name, "cache/v1/%02x", i);
        std::filesystem::remove(path(name));
        write(name, "not a directory");
    }
    const Outcome result = warm("tiny ADD=1,2,3,4,5,6 MUL=*\n", {"--workers", "1", "--json"});
    EXPECT_EQ(result.status, 1);
    const auto json = result.json();
    EXPECT_GT(json["not_reached"], 12) << result.err;
    EXPECT_TRUE(json["failed"].empty());
    EXPECT_TRUE(json["cache_problem"].is_string());
    EXPECT_THAT(result.err, HasSubstr("could be stored"));
}

// Workers keep precompiled headers, in files of hundreds of megabytes.
TEST_F(KilnWarm, TheWorkersOfATargetEndBeforeTheNextOnesStart) {
    const std::string program = run_in_shell("dirname \"$0\"").out;
    const std::string log = path("workers").string();
    const std::string worker =
        write("worker", "#!/bin/sh\necho start >> " + log + "\n" + program.substr(0, program.find('\n')) +
                            "/kiln-compile-worker \"$@\"\necho end >> " + log + "\n");
    std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
    Environment environment = usual_environment();
    environment.emplace_back("KILN_COMPILE_WORKER", worker);
    const Outcome result =
        warm("tiny ADD=1 @cuda:sm_80 @cuda:sm_90a\n", {"--workers", "1", "--json"}, environment);
    const auto json = result.json();
    for (const auto& failure : json["failed"])
        KILN_REQUIRE_OR_SKIP("nvrtc", failure["backend"] != "cuda", failure["reason"].get<std::string>());
    EXPECT_EQ(json["built"], 2) << result.err;
    EXPECT_EQ(read_text_if_exists(log), "start\nend\nstart\nend\n");
}

TEST_F(KilnWarm, FailFast) {
    const Outcome result =
        warm("tiny ADD=7\ntiny ADD=1,2,3,4,5,6 MUL=*\n", {"--fail-fast", "--workers", "1", "--json"});
    EXPECT_EQ(result.status, 1);
    const auto json = result.json();
    EXPECT_EQ(json["failed"].size(), 1U);
    EXPECT_EQ(json["interrupted"], false);
    EXPECT_GT(json["not_reached"], 10);
}

TEST_F(KilnWarm, SeveralManifestsAndStandardInput) {
    const std::string other = write("other.txt", "tiny ADD=2\n");
    const Outcome result = run_in_shell("echo 'tiny ADD=1' | \"$0\" warm - " + other +
                                        " --backend host --template-dir " + templates() + " --json");
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.json()["built"], 2);
}

TEST_F(KilnWarm, SeveralTargets) {
    const Outcome result = warm("tiny ADD=1 @host @cuda:sm_80 @cuda:sm_90a\n", {"--json"});
    const auto json = result.json();
    for (const auto& failure : json["failed"])
        KILN_REQUIRE_OR_SKIP("nvrtc", failure["backend"] != "cuda", failure["reason"].get<std::string>());
    EXPECT_EQ(json["built"], 3) << result.err;
    const auto entries = run({"cache", "list", "--sort", "name", "--json"}).json()["entries"];
    ASSERT_EQ(entries.size(), 3U);
    EXPECT_EQ(entries[0]["arch"], "sm_80");
    EXPECT_EQ(entries[1]["arch"], "sm_90a");
    EXPECT_EQ(entries[2]["backend"], "host");
}

TEST_F(KilnWarm, BadManifestsBuildNothing) {
    const auto line = [&](int number) {
        return path("manifest.txt").string() + ":" + std::to_string(number);
    };
    expect_error(warm("tiny ADD=1\ntinny ADD=1\n"), 2, {line(2), "tinny", "tiny"});
    expect_error(warm("tiny ADD=1\ntiny ADDD=1\n"), 2, {line(2), "ADDD"});
    expect_error(warm("tiny ADD=1\ntiny ADD=8\n"), 2, {line(2), "8"});
    expect_error(warm("tiny @vulkan\n"), 2, {line(1), "vulkan"});
    expect_error(warm("tiny @cuda:riscy\n"), 2, {line(1), "riscy"});
    expect_error(run({"warm", path("missing.txt").string()}), 2, {"missing.txt"});
    EXPECT_EQ(run({"cache", "stats", "--json"}).json()["entries"], 0);
}

TEST_F(KilnWarm, BadOptions) {
    expect_error(warm("tiny\n", {"--workers", "0"}), 2, {"--workers", "from 1 to 1024"});
    expect_error(warm("tiny\n", {"--no-cache"}), 2, {"--no-cache"});
    expect_error(warm("tiny\n", {"--cache-dir", write("file", "precious")}), 2, {"--cache-dir"});
    const Outcome no_cache = warm("tiny\n", {}, {{"KILN_CACHE_DIR", path("file").string()}});
    expect_error(no_cache, 2, {"no cache to fill", path("file").string()});
    EXPECT_EQ(std::count(no_cache.err.begin(), no_cache.err.end(), '\n'), 1) << "said once: " << no_cache.err;
}

TEST_F(KilnWarm, ProgressOnAPipeIsALineNowAndThen) {
    const Environment environment = {{"KILN_CACHE_DIR", path("cache").string()},
                                     {"KILN_HOST_CXX", slow_compiler("0.6")}};
    const Outcome result = warm("tiny ADD=1,2,3\n", {"--workers", "1"}, environment);
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_TRUE(std::regex_search(result.err, std::regex("kiln: warm: 1/3  33%"))) << result.err;
    EXPECT_THAT(result.err, Not(HasSubstr("\r")));
}

TEST_F(KilnWarm, ProgressOnATerminalIsABar) {
    const bool has_script = run_in_shell("command -v script >/dev/null").status == 0;
    KILN_REQUIRE_OR_SKIP("script", has_script, "the program script, which makes a terminal, is not here");
    const Environment environment = {{"KILN_CACHE_DIR", path("cache").string()},
                                     {"KILN_HOST_CXX", slow_compiler("0.4")}};
    const Outcome result =
        run_in_shell("script -qec \"'$0' warm " + write("list", "tiny ADD=1,2,7 MUL=1\n") +
                         " --workers 1 --backend host --template-dir " + templates() + "\" /dev/null",
                     environment);
    EXPECT_TRUE(
        std::regex_search(result.out, std::regex("\\[#+-+\\]  1/3  33%  [0-9.]+/s  about [0-9]+ s left")))
        << result.out;
    EXPECT_THAT(result.out, HasSubstr("tiny ADD=7 MUL=1 (host "));
}

// Each variant that was reported as built is there afterwards, and the next run builds the others only.
TEST_F(KilnWarm, CtrlCLosesNothing) {
    const Environment environment = {{"KILN_CACHE_DIR", path("cache").string()},
                                     {"KILN_HOST_CXX", slow_compiler("0.3")}};
    const std::string manifest = write("list", "tiny ADD=1,2,3,4,5,6 MUL=1,2\n");
    const std::string arguments =
        "\"$0\" warm " + manifest + " --backend host --template-dir " + templates() + " --workers 2 --json";
    // A shell's background jobs ignore SIGINT, which env undoes.
    const Outcome first = run_in_shell("env --default-signal=INT " + arguments + " & job=$!\n" +
                                           "tries=0; while [ \"$(\"$0\" cache list | grep -c tiny)\" -lt 3 ] "
                                           "&& [ $((tries += 1)) -lt 400 ]; do "
                                           "sleep 0.05; done\n" +
                                           "kill -INT $job; wait $job; exit $?",
                                       environment);
    EXPECT_EQ(first.status, 130) << first.err;
    const auto interrupted = first.json();
    EXPECT_EQ(interrupted["interrupted"], true);
    EXPECT_EQ(interrupted["total"], 12);
    EXPECT_TRUE(interrupted["failed"].empty()) << interrupted["failed"];
    const int built = interrupted["built"];
    EXPECT_GE(built, 3);
    EXPECT_LT(built, 12);
    EXPECT_THAT(first.err, HasSubstr("what is built is kept: " + std::to_string(built) + " of 12"));

    const int entries = run({"cache", "stats", "--json"}).json()["entries"];
    EXPECT_GE(entries, built);
    EXPECT_EQ(run({"cache", "verify"}).status, 0);
    const auto rest = run_in_shell(arguments, environment).json();
    EXPECT_EQ(rest["already_there"]["disk"], entries);
    EXPECT_EQ(rest["built"], 12 - entries);
}

TEST(KilnProgress, Text) {
    EXPECT_EQ(cli::progress_text({12, 64, 1, 3.2}), "12/64  19%  3.2/s  about 16 s left  1 failed");
    EXPECT_EQ(cli::progress_text({0, 4, 0, 0}), "0/4  0%");
    EXPECT_EQ(cli::progress_text({7, 0, 0, 2}), "7  2/s");
    EXPECT_EQ(cli::progress_text({0, 100000, 0, 2}), "0/100000  0%  2/s  about 13.9 h left");
    EXPECT_EQ(cli::progress_text({0, 100000, 0, 2, 12.3}), "0/100000  0%  2/s  about 12 s left");
    EXPECT_EQ(cli::bar_text({1, 4, 0, 0}, 10), "[##------]");
    EXPECT_EQ(cli::bar_text({4, 4, 0, 0}, 100), "[" + std::string(30, '#') + "]");
    EXPECT_EQ(cli::bar_text({1, 4, 0, 0}, 4), "");
    EXPECT_EQ(cli::bar_text({1, 0, 0, 0}, 40), "");
}

}  // namespace
}  // namespace kiln::test
