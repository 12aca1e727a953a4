// SPDX-License-Identifier: Apache-2.0
//
// scripts/gpu-check without a GPU: with programs that only say that they are one, it runs parts, goes on where it was
// stopped, and merges what several calls left.
#include <kiln/error.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "cli/json.h"
#include "kiln_program.h"

namespace kiln::test {
namespace {

using cli::Json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::string content(const std::filesystem::path& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
}

/// $FAIL names what fails, $LOG is told each call. Merging is kiln's own, and the bench is the host's.
constexpr const char* kFakeKiln = R"(#!/bin/sh
echo "kiln $*" >>"$LOG"
case "$1 $2" in
    "bench merge") exec "$REAL_KILN" "$@" ;;
    "bench "*) suite=$2; shift 4; exec "$REAL_KILN" bench "$suite" --backend host "$@" ;;
    "wisdom export") exec "$REAL_KILN" "$@" ;;
    "run copy") echo ' "arch": "sm_90a",'; exit 0 ;;
    "regress "*) case "$*" in *"${FAIL:-nothing}"*) exit 1 ;; esac; echo '{}' ;;
    *) echo '{}' ;;
esac
)";
constexpr const char* kFakeSanitizer = R"(#!/bin/sh
echo "sanitizer $*" >>"$LOG"
[ -z "$NO_SANITIZER" ] || { echo "========= Error: this device is not supported"; exit 1; }
while [ "$1" != 9 ]; do shift; done
shift
exec "$@"
)";

class GpuCheck : public Kiln {
  protected:
    GpuCheck() {
        std::filesystem::create_directories(path("build/bin"));
        std::filesystem::create_directories(path("path"));
        program("path/nvidia-smi", "#!/bin/sh\necho 'NVIDIA Fake'\n");
        program("path/compute-sanitizer", kFakeSanitizer);
        program("build/bin/kiln", kFakeKiln);
        program("build/bin/jit-gemm", "#!/bin/sh\necho '{}'\n");
    }
    void program(const std::string& name, const std::string& text) const {
        std::filesystem::permissions(write(name, text), std::filesystem::perms::owner_all);
    }
    Outcome check(const std::string& words, Environment more = {}) const {
        more.insert(more.end(), {{"PATH", path("path").string() + ":" + std::getenv("PATH")},
                                 {"LOG", path("log").string()},
                                 {"KILN_CACHE_DIR", path("cache").string()}});
        return run_in_shell("REAL_KILN=$0 " + std::string(std::getenv("KILN_TEST_SOURCE_DIR")) +
                                "/scripts/gpu-check " + words + " --build " + path("build").string(),
                            std::move(more));
    }
    Json report(const std::string& directory) const {
        return Json::parse(content(path(directory) / "gpu-check.json"));
    }
    std::string statuses(const std::string& directory) const {
        std::string text;
        const Json json = report(directory);
        for (const Json& step : json["steps"])
            text += step["name"].get<std::string>() + "=" + step["status"].get<std::string>() + " ";
        return text;
    }
    std::string out(const std::string& name) const { return path(name).string(); }
};

TEST_F(GpuCheck, RunsPartsThatAreNamedAndRejectsOthers) {
    const Outcome list = check("--list-parts");
    for (const char* part : {"tests.gpu\n", "bench.memory\n", "sanitizers.racecheck\n"})
        EXPECT_THAT(list.out, HasSubstr(part));
    const Outcome wrong = check(out("a") + " --part benhc");
    EXPECT_EQ(wrong.status, 2);
    EXPECT_THAT(wrong.err, HasSubstr("there is no part 'benhc'"));

    const Outcome passed = check(out("a") + " --part lab,regress.compare");
    EXPECT_EQ(passed.status, 0) << passed.out << passed.err;
    EXPECT_EQ(statuses("a"), "regress=passed lab.banks=passed ");
    const Json json = report("a");
    EXPECT_EQ(json["pass"], true);
    EXPECT_THAT(json["missing"], Contains("tests.gpu"));
    EXPECT_THAT(json["missing"], Not(Contains("lab")));
    EXPECT_EQ(json["runs"][0]["device"], "NVIDIA Fake");
    EXPECT_EQ(json["steps"][0]["run"], json["runs"][0]["id"]);
}

TEST_F(GpuCheck, GoesOnWithWhatHasNotPassed) {
    EXPECT_EQ(check(out("a") + " --part lab,regress.compare", {{"FAIL", "regress"}}).status, 1);
    EXPECT_EQ(statuses("a"), "regress=failed lab.banks=passed ");
    EXPECT_EQ(report("a")["pass"], false);
    std::filesystem::remove(path("log"));
    EXPECT_EQ(check(out("a") + " --part lab,regress.compare").status, 0);
    EXPECT_EQ(statuses("a"), "regress=passed lab.banks=passed ");
    EXPECT_EQ(report("a")["runs"].size(), 2U);
    EXPECT_THAT(content(path("log")), Not(HasSubstr("lab"))) << "it had passed";
}

TEST_F(GpuCheck, RunsTheExamplesWithWhatTheyNeed) {
    EXPECT_EQ(check(out("a") + " --part examples").status, 1);
    EXPECT_THAT(statuses("a"), HasSubstr("examples=failed ")) << "a build without them";
    for (const char* name : {"example_gemm", "example_user_directory", "example_shipped_kernels"})
        program(std::string("build/bin/") + name,
                "#!/bin/sh\necho \"${0##*/} $*\" >>\"$LOG\"\n[ \"$1\" != run ] || exit 3\n");
    check(out("b") + " --part examples");
    for (const char* name : {"gemm", "user_directory"})
        EXPECT_THAT(statuses("b"), HasSubstr("examples." + std::string(name) + "=passed "));
    const std::string log = content(path("log"));
    for (const char* call :
         {"example_user_directory examples/templates\n", "example_shipped_kernels record ",
          "kiln cache pack ", "example_shipped_kernels run ", "/examples/exported/variants.txt"})
        EXPECT_THAT(log, HasSubstr(call));
}

TEST_F(GpuCheck, RunsPythonsTestsWhereTheMachineHasThePackage) {
    program(
        "path/python3",
        "#!/bin/sh\ncase \"$*\" in\n"
        "    *\"import kiln\"*) [ -z \"$NO_PACKAGE\" ] || { echo \"No module named 'kiln'\"; exit 1; } ;;\n"
        "    *python/tests*) echo \"$PYTHONPATH $*\" >>\"$LOG\" ;;\nesac\n");
    EXPECT_EQ(check(out("a") + " --part python", {{"NO_PACKAGE", "1"}, {"KILN_REQUIRE", ""}}).status, 0);
    EXPECT_EQ(statuses("a"), "python=not run ");
    EXPECT_EQ(check(out("b") + " --part python", {{"NO_PACKAGE", "1"}, {"KILN_REQUIRE", "python"}}).status,
              1);
    EXPECT_EQ(statuses("b"), "python=failed ");
    EXPECT_EQ(check(out("c") + " --part python", {{"KILN_PYTHON_PACKAGE", "/elsewhere"}}).status, 0);
    EXPECT_EQ(statuses("c"), "python.tests=passed python.times=passed ");
    EXPECT_THAT(content(path("log")), AllOf(HasSubstr("/elsewhere"), HasSubstr("python/tests/test_torch.py"),
                                            HasSubstr("python/tests/gpu_times.py")));
}

TEST_F(GpuCheck, AStepWhoseTimeIsUpIsStoppedAndNotDone) {
    program("build/bin/kiln", "#!/bin/sh\nsleep 30\n");
    EXPECT_EQ(check(out("a") + " --part lab --limit 6").status, 1);
    EXPECT_EQ(statuses("a"), "lab.banks=stopped ");
    EXPECT_THAT(report("a")["missing"], Contains("lab"));
}

// What a machine cannot run has neither passed nor failed, unless it is asked for.
TEST_F(GpuCheck, ASanitizerThatCannotRunIsNotRun) {
    const Environment none = {{"NO_SANITIZER", "1"}};
    EXPECT_EQ(check(out("a") + " --part sanitizers.memcheck", none).status, 0);
    EXPECT_EQ(statuses("a"), "sanitizers.memcheck=not run ");
    EXPECT_THAT(report("a")["steps"][0]["detail"].get<std::string>(),
                HasSubstr("this device is not supported"));
    Environment required = none;
    required.emplace_back("KILN_REQUIRE", "compute-sanitizer");
    EXPECT_EQ(check(out("b") + " --part sanitizers.memcheck", required).status, 1);
    EXPECT_EQ(statuses("b"), "sanitizers.memcheck=failed ");
}

TEST_F(GpuCheck, SanitizersSeeAllVariantsUnderTestAndOfTheShippedWisdomInShards) {
    EXPECT_EQ(check(out("a") + " --part sanitizers.racecheck", {{"FAIL", "--shard 3/8"}}).status, 1);
    EXPECT_THAT(statuses("a"), HasSubstr("sanitizers.racecheck.4of8=failed"));
    EXPECT_EQ(check(out("a") + " --part sanitizers.racecheck").status, 0);
    const Json json = report("a");
    EXPECT_EQ(json["steps"].size(), 8U);
    const std::string log = content(path("log"));
    for (int shard = 0; shard < 8; ++shard)
        EXPECT_THAT(log, HasSubstr("--shard " + std::to_string(shard) + "/8"));
    EXPECT_THAT(log, HasSubstr("regress cache/variants.txt "));
    EXPECT_THAT(log, HasSubstr("/wisdom_variants.txt --backend cuda --arch sm_90a"));
}

TEST_F(GpuCheck, BenchmarksGoOnRowByRowAndDirectoriesMerge) {
    ASSERT_EQ(check(out("a") + " --part bench.skinny").status, 0);
    ASSERT_EQ(check(out("b") + " --part bench.gemm-mma,lab").status, 0);
    ASSERT_EQ(check(out("a") + " --part lab", {{"FAIL", "none"}}).status, 0);
    const Outcome merged = check("--merge " + out("a") + " " + out("b"));
    EXPECT_EQ(merged.status, 0) << merged.out << merged.err;
    const Json json = report("a");
    EXPECT_EQ(json["bench"]["suites"].size(), 2U);
    EXPECT_EQ(json["bench"]["runs"].size(), 2U);
    EXPECT_EQ(json["runs"].size(), 3U);
    EXPECT_THAT(statuses("a"), HasSubstr("bench.gemm-mma=passed"));
    EXPECT_THAT(json["missing"], Not(Contains("bench.skinny")));
    EXPECT_THAT(json["missing"], Contains("bench.memory"));
    EXPECT_TRUE(json["lab_banks"].is_object());
    EXPECT_EQ(check("--merge " + out("a") + " " + out("none")).status, 2);
}

}  // namespace
}  // namespace kiln::test
