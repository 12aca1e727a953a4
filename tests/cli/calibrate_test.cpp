// SPDX-License-Identifier: Apache-2.0
//
// kiln calibrate without a GPU: fits to times of a file, and says what is wrong with one.
#include "cli/timed_variants.h"
#include "kiln_program.h"
#include "recorded_times.h"
#include "rejected.h"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;

/// The times that the tests of the model have, as `kiln bench --timed-variants` writes them.
std::string timed_lines() {
    std::string lines;
    for (const auto& [values, sizes, variant, us] : recorded_times("h200_drawn.txt"))
        lines += "drawn\t" + values + "\t" + sizes + "\t" + variant + "\tother\t0\t" + us + "\n";
    return lines;
}

class KilnCalibrate : public Kiln {
  protected:
    Outcome calibrate(Arguments more) const {
        Arguments arguments = {"calibrate", "--backend", "cuda", "--arch", "sm_90a"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run(std::move(arguments));
    }
    /// Of these times alone.
    Outcome fit(const std::string& times, Arguments more = {}) const {
        Arguments arguments = {"--seconds", "0", "--times", times, "--for-device", "NVIDIA H200"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return calibrate(std::move(arguments));
    }
};

TEST_F(KilnCalibrate, FitsToTimesOfAFileAndJudgesTheFit) {
    const std::string times = write("times.tsv", timed_lines()), output = path("calibration.txt").string();
    const Outcome outcome = fit(times, {"--output", output, "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const auto json = outcome.json();
    EXPECT_EQ(json["device"], "NVIDIA H200");
    EXPECT_EQ(json["arch"], "sm_90a");
    EXPECT_GT(json["problems"], 20);
    EXPECT_LT(json["calibrated"]["mean"], json["by_model"]["mean"]);
    EXPECT_EQ(json["calibration"], output);
    EXPECT_THAT(read_text_if_exists(output).value_or(""), HasSubstr("NVIDIA H200"));

    // A run that was killed has left a part of a line: as if it were not there.
    const std::string cut =
        write("cut.tsv", timed_lines() + "drawn\tT=half\tm=8 n=8 k=8\tgemm_tiled T=half\tother\t0\t1");
    const Outcome without = fit(cut, {"--output", path("cut.txt").string(), "--json"});
    ASSERT_EQ(without.status, 0) << without.err;
    EXPECT_EQ(without.json()["times"], json["times"]);
    EXPECT_EQ(without.json()["problems"], json["problems"]);
}

TEST_F(KilnCalibrate, MakesTheDirectoryOfTheUsersFile) {
    const Outcome outcome = fit(write("times.tsv", timed_lines()));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(read_text_if_exists(path("config/kiln/calibration.txt")).value_or(""),
                HasSubstr("device NVIDIA H200"));
    const std::string named = path("new/directory/calibration.txt").string();
    ASSERT_EQ(fit(path("times.tsv").string(), {"--output", named}).status, 0);
    EXPECT_TRUE(std::filesystem::exists(named));
}

TEST_F(KilnCalibrate, SaysWhereItCantBeKept) {
    const std::string times = write("times.tsv", timed_lines());
    expect_error(fit(times, {"--output", write("plain", "x") + "/calibration.txt"}), 2,
                 {"the calibration can't be written to", "plain/calibration.txt: Not a directory"});
    expect_error(
        run({"calibrate", "--seconds", "0", "--times", times, "--backend", "cuda", "--arch", "sm_90a",
             "--for-device", "NVIDIA H200"},
            {{"HOME", ""}, {"XDG_CONFIG_HOME", ""}, {"KILN_WISDOM", ""}}),
        2,
        {"there is no file for the calibration: none of KILN_WISDOM, XDG_CONFIG_HOME and HOME is set",
         "--output FILE"});
}

// A new version of the model makes files of before useless, but must not stand in the way of a new calibration.
TEST_F(KilnCalibrate, ReplacesWhatWasMadeForAnotherModel) {
    const std::string times = write("times.tsv", timed_lines());
    const std::string output = write("calibration.txt",
                                     "# kiln calibration 2\ndevice Other\narch sm_90a\nmodel 0\n"
                                     "date 2026-11-01T00:00:00Z\nkind plain\n999<1 2 3\nend\n");
    const Outcome outcome = fit(times, {"--output", output});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const std::string text = read_text_if_exists(output).value();
    EXPECT_THAT(text, HasSubstr("device NVIDIA H200"));
    EXPECT_THAT(text, ::testing::Not(HasSubstr("Other")));
}

TEST_F(KilnCalibrate, SaysWhatIsWrong) {
    expect_error(calibrate({"--seconds", "0"}), 2, {"--seconds 0 measures nothing", "--times FILE"});
    expect_error(fit(path("none.tsv").string()), 2, {"none.tsv", "No such file"});
    EXPECT_FALSE(std::filesystem::exists(path("config"))) << "nothing was found out that goes there";
    expect_error(fit(write("few.tsv", "drawn\tT=half\tm=8\tgemm_tiled\tother\t0\t1\n")), 2,
                 {"needs 100 times of 6 problems or more"});
    expect_error(fit(write("fields.tsv", "# times\ndrawn\tT=half\tm=8\n")), 2,
                 {"fields.tsv:2: a line has 7 fields", "this one 3"});
    expect_error(fit(write("sizes.tsv", "drawn\tT=half\tm\tgemm_tiled\tother\t0\t1\n")), 2,
                 {"sizes.tsv:1: 'm' is not NAME=SIZE"});
    expect_error(fit(write("us.tsv", "drawn\tT=half\tm=8\tgemm_tiled\tother\t0\tfast\n")), 2,
                 {"us.tsv:1: 'fast' is not a number"});
    for (const std::string us : {"inf", "nan", "-1", "0"})
        expect_error(fit(write("us.tsv", "drawn\tT=half\tm=8\tgemm_tiled\tother\t0\t" + us + "\n")), 2,
                     {"us.tsv:1: '" + us + "' is not a time in microseconds"});
    expect_error(fit(write("gone.tsv", "drawn\tT=half\tm=8\tno_such\tother\t0\t1\n")), 2,
                 {"and 1 of variants or sizes that the templates don't have"});
    expect_error(fit(write("times.tsv", timed_lines()), {"--output", write("other.txt", "my notes\n")}), 2,
                 {"other.txt:1: a file of calibrations begins with"});
    if (Device::list(Backend::cuda).empty())
        expect_error(calibrate({"--seconds", "0", "--times", write("times.tsv", timed_lines())}), 2,
                     {"no device of sm_90a here", "--for-device"});
    expect_error(run({"calibrate", "--backend", "host"}), 2, {"the host is not calibrated", "--for-device"});
    EXPECT_FALSE(std::filesystem::exists(path("calibration.txt")));
}

TEST_F(KilnCalibrate, AddsToAFileBehindItsLastWholeLine) {
    const std::string file = write("times.tsv", "a\tb\tm=1\tv\tother\t0\t1.5\na\tb\tm=1\tv\tot");
    cli::TimedVariantFile lines("--times", file);
    lines.add({"a", "b", {{"m", 2}}, "w", true, 1, 2.25});
    lines.close();
    EXPECT_EQ(read_text_if_exists(file).value_or(""),
              "a\tb\tm=1\tv\tother\t0\t1.5\na\tb\tm=2\tw\tchosen\t1.000\t2.250\n");
    const std::vector<MeasuredTime> times = cli::load_timed_variants(file);
    ASSERT_EQ(times.size(), 2U);
    EXPECT_EQ(times[1].problem, "a b m=2");
    EXPECT_EQ(times[1].sizes.at("m"), 2);
    EXPECT_EQ(times[1].us, 2.25);
    EXPECT_THAT(rejected<UsageError>([&] { cli::TimedVariantFile("--times", path("no/such/file")); }),
                HasSubstr("can't be written to"));
}

TEST_F(KilnCalibrate, LeavesFilesOfAnotherKindAsTheyAre) {
    for (const char* content :
         {"my notes\twith a tab and no newline", "my notes", "a\tb\tm=1\tv\tot", "x\ty\n"}) {
        const std::string file = write("notes.txt", content);
        EXPECT_THAT(rejected<UsageError>([&] { cli::TimedVariantFile("--timed-variants", file); }),
                    HasSubstr("notes.txt"));
        EXPECT_EQ(read_text_if_exists(file), content);
    }
}

TEST_F(KilnCalibrate, CorrectsWithTimesOfOtherProblemsOnly) {
    const std::string times = write("times.tsv", timed_lines()), output = path("calibration.txt").string();
    const Environment user = {{"KILN_WISDOM", path("wisdom.txt").string()}};
    const auto correct = [&] {
        return run({"calibrate", "--backend", "cuda", "--arch", "sm_90a", "--seconds", "0", "--times", times,
                    "--for-device", "NVIDIA H200", "--correct", "--output", output, "--json"},
                   user);
    };
    ASSERT_EQ(fit(times, {"--output", output}).status, 0);
    const std::string before = read_text_if_exists(output).value_or("");
    const Outcome again = correct();
    EXPECT_EQ(again.status, 2);
    EXPECT_THAT(again.err, HasSubstr("problems that the calibration to correct was fitted to already"));
    EXPECT_THAT(again.err, HasSubstr("Name a file that has times of other problems too (--times)."));
    EXPECT_THAT(again.err, ::testing::Not(HasSubstr("longer")));
    // A run that measures draws others.
    const std::vector<Calibration> fitted = Calibration::load(output);
    ASSERT_EQ(fitted.size(), 1U);
    EXPECT_GT(fitted[0].fitted_problems(), 0U);
    EXPECT_NE(cli::next_seed(0, fitted[0]), cli::next_seed(0, Calibration()));
    EXPECT_NE(cli::next_seed(7, fitted[0]), cli::next_seed(0, fitted[0]));
    EXPECT_EQ(read_text_if_exists(output), before);
    // Of the shipped one they are held out; it is corrected, or stays where that is no better.
    std::filesystem::remove(output);
    const Outcome first = correct();
    ASSERT_EQ(first.status, 0) << first.err;
    const auto json = first.json();
    EXPECT_EQ(json["kept"], json["calibrated"]["mean"] < json["by_model"]["mean"]);
    EXPECT_EQ(std::filesystem::exists(output), json["kept"] == true);
}

// Also where it is not the one that this machine uses.
TEST_F(KilnCalibrate, CorrectsWhatTheOutputHas) {
    // Every other problem; variants take longer by their tile, so that a correction chooses better than before.
    std::vector<std::string> problems, halves(2);
    for (const auto& [values, sizes, variant, us] : recorded_times("h200_drawn.txt")) {
        const std::string problem = values + sizes;
        if (std::ranges::find(problems, problem) == problems.end()) problems.push_back(problem);
        const auto half = (std::ranges::find(problems, problem) - problems.begin()) % 2;
        const std::size_t tile = variant.find("BM=");
        const int way = tile == std::string::npos ? 3 : std::stoi(variant.substr(tile + 3)) * 7 % 13;
        halves[half] += "drawn\t" + values + "\t" + sizes + "\t" + variant + "\tother\t0\t" +
                        std::to_string(100 + 20 * way) + "\n";
    }
    const std::string first = write("first.tsv", halves[0]), second = write("second.tsv", halves[1]),
                      output = path("calibration.txt").string();
    const Arguments correct = {"--correct", "--output", output, "--json"};
    for (const std::string& times : {first, second}) {
        const Outcome outcome = fit(times, correct);
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        ASSERT_EQ(outcome.json()["kept"], true) << outcome.out;
    }
    EXPECT_FALSE(std::filesystem::exists(path("config"))) << "what this machine uses is the shipped one";
    for (const std::string& times : {first, second})
        expect_error(fit(times, {"--correct", "--output", output}), 2,
                     {"problems that the calibration to correct was fitted to already"});
}

// Where all variants take the same time no choice is better than another.
TEST_F(KilnCalibrate, SaysWhereACorrectionIsNotKept) {
    std::string lines;
    for (const auto& [values, sizes, variant, us] : recorded_times("h200_drawn.txt"))
        lines += "drawn\t" + values + "\t" + sizes + "\t" + variant + "\tother\t0\t5\n";
    const std::string times = write("same.tsv", lines), output = path("calibration.txt").string();
    const Outcome outcome = fit(times, {"--correct", "--output", output});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("chose no better than before, so that no file was written"));
    const auto json = fit(times, {"--correct", "--output", output, "--json"}).json();
    EXPECT_EQ(json["kept"], false);
    EXPECT_EQ(json["calibration"], nullptr);
    EXPECT_FALSE(std::filesystem::exists(output));
    const std::string old = "# kiln calibration 2\nend\n";
    (void)write("calibration.txt", old);
    EXPECT_THAT(fit(times, {"--correct", "--output", output}).out, HasSubstr(output + " stays as it is"));
    EXPECT_EQ(fit(times, {"--correct", "--output", output, "--json"}).json()["calibration"], output);
    EXPECT_EQ(read_text_if_exists(output).value_or(""), old);
}

}  // namespace
}  // namespace kiln::test
