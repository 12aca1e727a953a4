// SPDX-License-Identifier: Apache-2.0
//
// Calibrations: fitted to recorded times of an H200, kept in files, used by the model.
#include <gmock/gmock.h>
#include <kiln/calibration.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "rejected.h"
#include "tune/model.h"
#include "tune/regression_trees.h"
#include "tune_support.h"

namespace kiln::test {
namespace {

using testing::HasSubstr;

/// Lines of "values | sizes | variant | microseconds".
std::vector<MeasuredTime> recorded_times(const std::string& name) {
    std::ifstream file(std::string(std::getenv("KILN_TEST_SOURCE_DIR")) + "/tests/tune/data/" + name);
    std::vector<MeasuredTime> times;
    for (std::string line; std::getline(file, line);) {
        if (line.empty() || line.front() == '#') continue;
        std::vector<std::string> fields;
        for (std::size_t at = 0; at != std::string::npos;) {
            const std::size_t end = line.find(" | ", at);
            fields.push_back(line.substr(at, end - at));
            at = end == std::string::npos ? end : end + 3;
        }
        MeasuredTime time{fields.at(0) + " | " + fields.at(1), fields.at(2), {}, std::stod(fields.at(3))};
        std::istringstream sizes(fields.at(1));
        for (std::string word; sizes >> word;)
            time.sizes.emplace(word.substr(0, word.find('=')), std::stoll(word.substr(word.find('=') + 1)));
        times.push_back(std::move(time));
    }
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
        EXPECT_THAT(rejected<UsageError>([&] { trees.add(line, 3); }), HasSubstr(wanted)) << line;
        EXPECT_TRUE(trees.empty());
        EXPECT_EQ(trees.predict(std::vector<float>{1, 2, 3}), 0);
    }
}

TEST(Calibration, ChoosesBetterOnProblemsThatWereHeldOut) {
    CalibrationReport report;
    const Calibration found =
        Calibration::fit(hopper(), "NVIDIA H200", recorded_times("h200_drawn.txt"), &report);
    EXPECT_GT(report.problems, 20U);
    EXPECT_GT(report.held_out, 6U);
    EXPECT_LT(report.calibrated.mean, report.by_model.mean);
    EXPECT_FALSE(found.empty());
    EXPECT_EQ(found.device(), "NVIDIA H200");
    EXPECT_EQ(found.arch(), "sm_90a");
}

TEST(Calibration, NeedsEnoughTimesAndADevice) {
    EXPECT_THAT(
        rejected<UsageError>([] { static_cast<void>(Calibration::fit(hopper(), "NVIDIA H200", {})); }),
        HasSubstr("needs 100 times of 6 problems or more, and there are 0 of 0"));
    CalibrationReport report;
    std::vector<MeasuredTime> times = recorded_times("h200_drawn.txt");
    times.push_back({"gone", "no_such_template A=1", {{"m", 1}}, 5});
    times.push_back({"gone", "gemm_tiled NO_SUCH=1", {{"m", 1}}, 5});
    static_cast<void>(Calibration::fit(hopper(), "NVIDIA H200", times, &report));
    EXPECT_GE(report.left_out, 2U);
}

/// The time of the variant that the model puts first over the best, geometric mean over the problems of a file.
double loss(const std::string& file, bool calibrated) {
    const Machine machine(hopper().target(), "NVIDIA H200");
    const Model model(machine);
    struct Best {
        double model = INFINITY, chosen = 0, us = INFINITY;
    };
    std::map<std::string, Best> problems;
    std::map<std::string, Template> templates;
    for (const MeasuredTime& time : recorded_times(file)) {
        std::istringstream words(time.variant);
        std::string name;
        words >> name;
        const Template& of =
            templates.try_emplace(name, hopper().find(name).for_target(hopper().target())).first->second;
        Values values;
        for (std::string word; words >> word;) {
            const Parameter* const parameter = of.parameter(word.substr(0, word.find('=')));
            if (parameter != nullptr)
                values.emplace(parameter->name, parameter->parse(word.substr(word.find('=') + 1)));
        }
        const Variant variant = of.variant(values);
        const Problem problem = variant.problem(time.sizes);
        Model::Features features{};
        const auto estimate =
            calibrated ? model.estimate(variant, problem) : model.uncalibrated(variant, problem, features);
        if (!estimate) continue;
        Best& best = problems[time.problem];
        best.us = std::min(best.us, time.us);
        if (estimate->ms >= best.model) continue;
        best.model = estimate->ms;
        best.chosen = time.us;
    }
    double sum = 0;
    for (const auto& [name, best] : problems) sum += std::log(best.chosen / best.us);
    return std::exp(sum / static_cast<double>(problems.size()));
}

// The shipped one is fitted to other problems, drawn from other seeds.
TEST(Calibration, TheShippedOneServesProblemsThatItHasNotSeen) {
    EXPECT_FALSE(Calibration::usual("NVIDIA H200", "sm_90a").empty());
    EXPECT_TRUE(Calibration::usual("NVIDIA GeForce", "sm_89").empty());
    const double calibrated = loss("h200_drawn.txt", true), alone = loss("h200_drawn.txt", false);
    RecordProperty("calibrated", std::to_string(calibrated));
    RecordProperty("alone", std::to_string(alone));
    EXPECT_LT(calibrated, 1.06);
    EXPECT_LT(calibrated, alone);
}

TEST(Calibration, FilesKeepOnePerDevice) {
    const TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "deeper" / "calibration.txt";
    const std::vector<MeasuredTime> times = recorded_times("h200_drawn.txt");
    const Calibration one = Calibration::fit(hopper(), "Device A", times);
    one.store(file);
    Calibration::fit(hopper(), "Device B", times).store(file);
    one.store(file);
    const std::vector<Calibration> all = Calibration::load(file);
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].device(), "Device B");
    EXPECT_EQ(all[1].text(), one.text());
    EXPECT_TRUE(Calibration::load(file.string() + ".none").empty());
}

TEST(Calibration, SaysWhatIsWrongWithAFile) {
    const auto message = [](const std::string& text) {
        return rejected<UsageError>([&] { static_cast<void>(Calibration::parse(text, "mine.txt")); });
    };
    const std::string head = "# kiln calibration 1\n";
    EXPECT_THAT(message("device A\n"), HasSubstr("mine.txt:1: a file of calibrations begins with the line"));
    EXPECT_THAT(message(head + "arch sm_90a\n"),
                HasSubstr("mine.txt:2: a calibration begins with 'device NAME'"));
    EXPECT_THAT(message(head + "device A\nmodel 0\n"), HasSubstr("version 0 of the model"));
    EXPECT_THAT(message(head + "device A\nkind wgmma-tms\n"), HasSubstr("did you mean wgmma-tma"));
    EXPECT_THAT(message(head + "device A\nkind streamed\n99<1 2 3\n"),
                HasSubstr("mine.txt:4: '99<1' names no feature"));
    EXPECT_THAT(message(head + "device A\n0<1 2 3\n"),
                HasSubstr("is none of device, arch, model, date and kind"));
}

}  // namespace
}  // namespace kiln::test
