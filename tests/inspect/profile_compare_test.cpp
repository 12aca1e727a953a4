// SPDX-License-Identifier: Apache-2.0
//
// An analysis compared with a profiler's measurements, and the thresholds.
#include <gmock/gmock.h>
#include <kiln/tools/profile.h>

#include <optional>
#include <string>
#include <vector>

namespace kiln::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Half a chip of a kernel with 5% excess.
Analysis an_analysis() {
    Analysis analysis;
    analysis.variant = "transpose_tiled T=float";
    analysis.recording.emplace();
    analysis.shared_wavefronts = 105, analysis.shared_ideal = 100;
    analysis.global_sectors = 200, analysis.global_ideal = 200;
    analysis.static_shared_bytes = 4096, analysis.dynamic_shared_bytes = 128;
    analysis.resources.registers = 32;
    analysis.occupancy.emplace();
    analysis.occupancy->blocks = 8;
    analysis.waves = Waves{2112, 1056, 2, 1, 0.9};
    return analysis;
}

Measured a_measurement() {
    Measured measured;
    measured.shared_wavefronts = 105, measured.shared_ideal = 100;
    measured.warps_active = 0.8;
    measured.registers = 33;
    return measured;
}

std::vector<std::optional<bool>> verdicts(const Analysis& analysis, const Measured& measured,
                                          std::optional<double> times_naive) {
    std::vector<std::optional<bool>> met;
    for (const ThresholdCheck& check : check_thresholds(analysis, measured, times_naive))
        met.push_back(check.met);
    return met;
}

TEST(CompareWithMeasured, PutsBothSidesNextToEachOther) {
    const auto figures = compare_with_measured(an_analysis(), a_measurement(), 2.5);
    const auto of = [&](const std::string& name) {
        for (const ComparedFigure& figure : figures)
            if (figure.name == name) return figure;
        ADD_FAILURE() << name;
        return ComparedFigure();
    };
    EXPECT_EQ(of("shared wavefronts").predicted, 105);
    EXPECT_EQ(of("shared wavefronts").measured, 105);
    EXPECT_NEAR(of("shared excess").predicted.value(), 0.05, 1e-12);
    EXPECT_TRUE(of("shared excess").is_share);
    EXPECT_TRUE(of("warps active").is_bound);
    EXPECT_EQ(of("warps active").predicted, 0.9);
    EXPECT_EQ(of("registers").measured, 33);
    EXPECT_EQ(of("shared bytes").predicted, 4224);
    EXPECT_FALSE(of("shared bytes").measured);
    EXPECT_EQ(of("blocks per SM").predicted, 8);
    EXPECT_EQ(of("time in ms").measured, 2.5);
    EXPECT_FALSE(of("time in ms").predicted) << "there is no roofline";
    for (const ComparedFigure& figure : figures)
        EXPECT_NE(figure.name, "LDS cycles") << "neither side has it";
}

TEST(CompareWithMeasured, NothingRecordedIsNoPredictionOfNothing) {
    Analysis analysis = an_analysis();
    analysis.recording.reset();
    EXPECT_FALSE(compare_with_measured(analysis, a_measurement())[0].predicted);
}

TEST(CheckThresholds, DistinguishesEach) {
    Analysis analysis = an_analysis();
    Measured measured = a_measurement();
    EXPECT_THAT(verdicts(analysis, measured, 2.0), ElementsAre(false, true, true));
    measured.shared_wavefronts = 101;
    EXPECT_THAT(verdicts(analysis, measured, 1.5), ElementsAre(true, true, true))
        << "the limits themselves are met";
    measured.shared_wavefronts = 102;
    measured.warps_active = 0.49;
    EXPECT_THAT(verdicts(analysis, measured, 1.49), ElementsAre(false, false, false));
}

TEST(CheckThresholds, WhatIsNotKnownOrDoesNotApplyIsNoVerdict) {
    Analysis analysis = an_analysis();
    Measured measured = a_measurement();
    analysis.waves->waves = 0.97;
    measured.shared_ideal = measured.shared_wavefronts = 0;
    const auto checks = check_thresholds(analysis, measured, {});
    for (const ThresholdCheck& check : checks) EXPECT_FALSE(check.met) << check.name;
    EXPECT_EQ(checks[0].found, "no shared memory is accessed");
    EXPECT_EQ(checks[1].found, "the problem does not fill the chip");
    analysis.waves.reset();
    EXPECT_THAT(check_thresholds(analysis, measured, {})[1].found, HasSubstr("not known"));
    measured.shared_wavefronts.reset();
    measured.shared_ideal.reset();
    EXPECT_EQ(check_thresholds(analysis, measured, {})[0].found, "not measured");
}

}  // namespace
}  // namespace kiln::test
