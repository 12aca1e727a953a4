// SPDX-License-Identifier: Apache-2.0
//
// Calibrations: fitted to recorded times of an H200, kept in files, used by the model.
#include <gmock/gmock.h>
#include <kiln/calibration.h>
#include <kiln/occupancy.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <tuple>

#include "choice_losses.h"
#include "rejected.h"
#include "tune/calibration_content.h"
#include "tune/model_launch.h"
#include "tune/regression_trees.h"

namespace kiln::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

std::vector<MeasuredTime> measured_times(const std::string& name) {
    std::vector<MeasuredTime> times;
    for (const auto& [values, sizes, variant, us] : recorded_times(name))
        times.push_back({values + " | " + sizes, variant, sizes_of(sizes), std::stod(us)});
    return times;
}

TEST(RegressionTrees, FindStepsAndTheirProduct) {
    std::vector<float> features, values, weights;
    const auto truth = [](float x, float y) {
        return (x > 3 ? 1.0F : -1.0F) + (x > 3 && y <= 5 ? 0.5F : 0.0F);
    };
    for (int x = 0; x < 10; ++x)
        for (int y = 0; y < 10; ++y) {
            features.insert(features.end(), {static_cast<float>(x), 7.0F, static_cast<float>(y)});
            values.push_back(truth(static_cast<float>(x), static_cast<float>(y)));
            weights.push_back(1);
        }
    const RegressionTrees trees = RegressionTrees::fit(features, values, weights, {});
    for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(trees.predict(std::span(features).subspan(3 * i, 3)), values[i], 0.05) << i;
    // Beyond what was measured it stays as at the edge.
    EXPECT_NEAR(trees.predict(std::vector<float>{1000, 7, -1000}), 1.5, 0.05);

    RegressionTrees again;
    std::istringstream lines(trees.text());
    for (std::string line; std::getline(lines, line);) again.add(line, 3);
    EXPECT_EQ(again.text(), trees.text());
    for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_EQ(again.predict(std::span(features).subspan(3 * i, 3)),
                  trees.predict(std::span(features).subspan(3 * i, 3)));
}

TEST(RegressionTrees, SayWhatIsWrongWithALine) {
    for (const auto& [line, wanted] :
         std::map<std::string, std::string>{{"0<1 2", "ends before its last leaf"},
                                            {"", "ends before its last leaf"},
                                            {"0<1 2 3 4", "'4' follows a tree that is complete"},
                                            {"9<1 2 3", "'9<1' names no feature: they are 0 to 2"},
                                            {"-1<1 2 3", "names no feature"},
                                            {"0<x 2 3", "'x' is neither a number nor FEATURE<NUMBER"},
                                            {"nan", "'nan' is neither"}}) {
        RegressionTrees trees;
        EXPECT_THAT(rejected<UsageError>([&, line = line] { trees.add(line, 3); }), HasSubstr(wanted))
            << line;
        EXPECT_TRUE(trees.empty());
        EXPECT_EQ(trees.predict(std::vector<float>{1, 2, 3}), 0);
    }
}

// An estimate that is cut by too much is chosen, one that is too long only passed over.
TEST(Calibration, ShortensAnEstimateLittle) {
    for (const auto& [leaf, factor] : std::map<std::string, double>{{"-3", 0.6}, {"3", 4}, {"0", 1}}) {
        RegressionTrees trees;
        trees.add(leaf, Model::kFeatures);
        EXPECT_EQ(calibrated_factor(trees, {}), factor) << leaf;
    }
}

TEST(Calibration, ChoosesBetterOnProblemsThatWereHeldOut) {
    CalibrationReport report;
    const Calibration found =
        Calibration::fit(hopper(), "NVIDIA H200", measured_times("h200_drawn.txt"), &report);
    EXPECT_GT(report.problems, 20U);
    EXPECT_GT(report.held_out, 6U);
    EXPECT_LT(report.calibrated.mean, report.by_model.mean);
    EXPECT_FALSE(found.empty());
    EXPECT_EQ(found.device(), "NVIDIA H200");
    EXPECT_EQ(found.arch(), "sm_90a");
}

// What times disagree with is corrected; what none of them is like stays.
TEST(Calibration, CorrectsOneOfBefore) {
    const std::vector<MeasuredTime> times = measured_times("h200_drawn.txt");
    const Calibration before = Calibration::usual("NVIDIA H200", "sm_90a");
    CalibrationReport report, again;
    const Calibration found = Calibration::fit(hopper(), "NVIDIA H200", times, &report, before);
    EXPECT_LT(report.calibrated.mean, 1.1);
    const std::string streamed = "kind streamed\n";
    const auto trees_of = [&](const Calibration& one) {
        const std::string text = one.text();
        const std::size_t at = text.find(streamed);
        return text.substr(at, text.find("\nkind ", at + 1) - at);
    };
    EXPECT_EQ(trees_of(found), trees_of(before)) << "none of the times is of a kernel that streams";
    // These problems can't judge it any more.
    const auto corrected_again = [&](const Calibration& one) {
        return rejected<UsageError>(
            [&] { static_cast<void>(Calibration::fit(hopper(), "NVIDIA H200", times, &again, one)); });
    };
    EXPECT_THAT(corrected_again(found),
                HasSubstr(" problems that the calibration to correct was fitted to already"));
    EXPECT_EQ(again.fitted_before, report.problems);
    // As in a file.
    const TemporaryDirectory directory;
    found.store(directory.path() / "calibration.txt");
    const std::vector<Calibration> read = Calibration::load(directory.path() / "calibration.txt");
    ASSERT_EQ(read.size(), 1U);
    EXPECT_EQ(read[0].text(), found.text());
    EXPECT_EQ(corrected_again(read[0]), corrected_again(found));
    EXPECT_EQ(found.fitted_problems(), before.fitted_problems() + report.problems);
    EXPECT_EQ(read[0].fitted_problems(), found.fitted_problems());
}

TEST(Calibration, NeedsEnoughTimesAndADevice) {
    EXPECT_THAT(
        rejected<UsageError>([] { static_cast<void>(Calibration::fit(hopper(), "NVIDIA H200", {})); }),
        HasSubstr("needs 100 times of 6 problems or more, and there are 0 of 0"));
    CalibrationReport report;
    std::vector<MeasuredTime> times = measured_times("h200_drawn.txt");
    times.push_back({"gone", "no_such_template A=1", {{"m", 1}}, 5});
    times.push_back({"gone", "gemm_tiled NO_SUCH=1", {{"m", 1}}, 5});
    static_cast<void>(Calibration::fit(hopper(), "NVIDIA H200", times, &report));
    EXPECT_GE(report.left_out, 2U);
}

double loss(const std::string& file, const std::string& device, const Calibration& calibration) {
    return geometric_mean(losses_of_choosing(file, device, calibration));
}

// The shipped ones are fitted to other problems, drawn from other seeds.
TEST(Calibration, TheShippedOnesServeProblemsThatTheyHaveNotSeen) {
    for (const auto& [name, device, file] : {std::tuple("h200", "NVIDIA H200", "h200_drawn.txt"),
                                             std::tuple("h100", "NVIDIA H100 80GB HBM3", "h100_drawn.txt")}) {
        SCOPED_TRACE(name);
        const Calibration own = Calibration::usual(device, "sm_90a");
        EXPECT_EQ(own.device(), device);
        const double calibrated = loss(file, device, own), alone = loss(file, device, Calibration());
        RecordProperty(std::string(name) + "_calibrated", std::to_string(calibrated));
        RecordProperty(std::string(name) + "_alone", std::to_string(alone));
        EXPECT_LT(calibrated, 1.06);
        EXPECT_LT(calibrated, alone);
    }
    EXPECT_TRUE(Calibration::usual("NVIDIA GeForce", "sm_89").empty());
}

// Better than none: the H100's times, with the H200's factors.
TEST(Calibration, DevicesOfWhichNoneIsShippedTakeTheNearestOnes) {
    const auto device_of = [](const std::string& device) {
        return Calibration::usual(device, "sm_90a").device();
    };
    EXPECT_EQ(device_of("NVIDIA H100 PCIe"),
              "NVIDIA H100 80GB HBM3");  // 2039 GB/s; the other two have 3352 and 4800
    EXPECT_EQ(device_of(""), find_chip("sm_90a")->name);
    EXPECT_FALSE(device_of("a device of tomorrow").empty());
    for (const char* device : {"NVIDIA H200", "NVIDIA H100 80GB HBM3", "a device of tomorrow"})
        EXPECT_THAT(Calibration::usual(device, "sm_90a").text(), HasSubstr("\nkind fma-direct\n"))
            << device << ": where its own lacks a kind, that of the nearest is taken";
    const Calibration other = Calibration::usual("NVIDIA H200", "sm_90a");
    const double nearest = loss("h100_drawn.txt", "NVIDIA H100 80GB HBM3", other);
    RecordProperty("nearest", std::to_string(nearest));
    EXPECT_LT(nearest, loss("h100_drawn.txt", "NVIDIA H100 80GB HBM3", Calibration()));
}

TEST(Calibration, FilesKeepThoseOfSimultaneousWriters) {
    const TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "calibration.txt";
    std::string text = "# kiln calibration 2\n";
    for (const char* device : {"A", "B", "C", "D", "E", "F", "G", "H"})
        text += "device " + std::string(device) + "\narch sm_90a\nmodel " + std::to_string(kModelVersion) +
                "\nkind streamed\n0<1 2 3\n";
    const std::vector<Calibration> calibrations = Calibration::parse(text + "end\n", "");
    std::vector<std::jthread> writers;
    for (const Calibration& one : calibrations)
        writers.emplace_back([&] {
            try {
                one.store(file);
            } catch (const std::exception& error) {
                ADD_FAILURE() << one.device() << ": " << error.what();
            }
        });
    writers.clear();
    EXPECT_EQ(Calibration::load(file).size(), calibrations.size());
}

// A correction of what the file had must not undo one that another run has stored since.
TEST(Calibration, OneThatDependsOnWhatAFileHadReplacesNothingNewer) {
    const TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "calibration.txt";
    const auto made = [](const std::string& device, const std::string& tree) {
        return Calibration::parse("# kiln calibration 1\ndevice " + device + "\narch sm_90a\nmodel " +
                                      std::to_string(kModelVersion) + "\nkind streamed\n" + tree + "\n",
                                  "")
            .at(0);
    };
    const std::vector<Calibration> nothing = Calibration::load(file);
    made("A", "0<1 2 3").store(file, nothing);
    const std::vector<Calibration> first = Calibration::load(file);
    ASSERT_EQ(first.size(), 1U);
    made("B", "0<1 2 3").store(file, first);
    made("A", "1<1 2 3").store(file, first);  // one of another device does not matter
    const std::string text = read_text_if_exists(file).value_or("");
    for (const std::vector<Calibration>& earlier : {nothing, first})
        EXPECT_THAT(
            rejected<UsageError>([&] { made("A", "2<1 2 3").store(file, earlier); }),
            testing::AllOf(HasSubstr("another run has changed the calibration of A in " + file.string()),
                           HasSubstr("--times FILE")));
    EXPECT_EQ(read_text_if_exists(file).value_or(""), text);
    made("A", "2<1 2 3").store(file, Calibration::load(file));
    EXPECT_NE(read_text_if_exists(file).value_or(""), text);
}

TEST(Calibration, FilesKeepOnePerDevice) {
    const TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "deeper" / "calibration.txt";
    const std::vector<MeasuredTime> times = measured_times("h200_drawn.txt");
    const Calibration one = Calibration::fit(hopper(), "Device A", times);
    one.store(file);
    Calibration::fit(hopper(), "Device B", times).store(file);
    one.store(file);
    const std::vector<Calibration> all = Calibration::load(file);
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].device(), "Device B");
    EXPECT_EQ(all[1].text(), one.text());
    EXPECT_TRUE(Calibration::load(file.string() + ".none").empty());
    EXPECT_TRUE(read_text_if_exists(file).value_or("").ends_with("\nend\n"));
}

// Cut off behind any of its lines it would read as one with fewer trees.
TEST(Calibration, APartOfAFileIsRejected) {
    const std::string head = "# kiln calibration 2\n",
                      model = "model " + std::to_string(kModelVersion) + "\n",
                      one = "device A\narch sm_90a\n" + model + "kind streamed\n0<1 2 3\n";
    const std::string whole =
        head + one + "device B\narch sm_90a\n" + model + "kind streamed\n0<1 2 3\n1<1 2 3\nend\n";
    const auto parsed = [](const std::string& text) { return Calibration::parse(text, "mine.txt"); };
    EXPECT_EQ(parsed(whole).size(), 2U);
    for (std::size_t end = whole.find('\n') + 1; end < whole.size(); end = whole.find('\n', end) + 1)
        EXPECT_THAT(rejected<UsageError>([&] { static_cast<void>(parsed(whole.substr(0, end))); }),
                    HasSubstr("mine.txt: its last line is not 'end'"))
            << whole.substr(0, end);
    EXPECT_EQ(parsed("").size(), 0U);
    EXPECT_EQ(parsed(head + one + "end\n" + whole).size(), 3U) << "two files, one behind the other";
    EXPECT_EQ(parsed("# kiln calibration 1\n" + one).size(), 1U) << "files of before have no such line";
}

TEST(Calibration, SaysWhatIsWrongWithAFile) {
    const auto message = [](const std::string& text) {
        return rejected<UsageError>([&] { static_cast<void>(Calibration::parse(text, "mine.txt")); });
    };
    const std::string head = "# kiln calibration 2\n";
    EXPECT_THAT(message("device A\n"), HasSubstr("mine.txt:1: a file of calibrations begins with the line"));
    EXPECT_THAT(message(head + "arch sm_90a\n"),
                HasSubstr("mine.txt:2: a calibration begins with 'device NAME'"));
    EXPECT_THAT(message(head + "device A\nmodel 0\n"), HasSubstr("version 0 of the model"));
    EXPECT_THAT(message(head + "device A\nkind wgmma-tms\n"), EndsWith("did you mean wgmma-tma?"));
    EXPECT_THAT(message(head + "device A\nkind streamed\n99<1 2 3\n"),
                HasSubstr("mine.txt:4: '99<1' names no feature"));
    EXPECT_THAT(message(head + "device A\n0<1 2 3\n"),
                HasSubstr("is none of device, arch, model, date and kind"));
    const std::string model = "model " + std::to_string(kModelVersion) + "\n";
    EXPECT_THAT(message(head + "device A\narch sm_90a\nend\n"),
                HasSubstr("mine.txt:4: the calibration of device A has no line 'model'"));
    EXPECT_THAT(message(head + "device A\n" + model + "device B\n"),
                HasSubstr("mine.txt:4: the calibration of device A has no line 'arch'"));
    EXPECT_THAT(message(head + "device A\narch sm_90a\n" + model + "end\nkind plain\n"),
                HasSubstr("mine.txt:6: a line stands behind the last one, 'end'"));
    const std::string old_head = "# kiln calibration 1\n";  // of files without a last line
    EXPECT_THAT(message(old_head + "device A\n"),
                HasSubstr("mine.txt:2: the calibration of device A has no line 'arch'"));
    EXPECT_THAT(message(old_head + "device A\narch sm_90a\n# a comment\n"),
                HasSubstr("mine.txt:4: the calibration of device A has no line 'model'"));
}

// What is stored is read again, with what the file had.
TEST(Calibration, AFileThatIsNotWholeStaysAsItIs) {
    const TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "calibration.txt";
    const std::string old = "# kiln calibration 1\ndevice A\n";
    write_text(file, old);
    const Calibration one = Calibration::usual("NVIDIA H200", "sm_90a");
    EXPECT_THAT(rejected<UsageError>([&] { one.store(file); }), HasSubstr("calibration.txt:2: "));
    EXPECT_EQ(read_text_if_exists(file).value_or(""), old);
}

}  // namespace
}  // namespace kiln::test
