// SPDX-License-Identifier: Apache-2.0
//
// Calibration::fit: regression trees for the errors of the model's estimates, and how well variants are chosen with them, judged
// by problems that a trial fit has not seen.
#include <kiln/calibration.h>
#include <kiln/error.h>
#include <kiln/manifest.h>
#include <kiln/wisdom.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/words.h"
#include "format/format.h"
#include "tune/calibration_content.h"
#include "tune/model_launch.h"
#include "tune/wisdom_line.h"

namespace kiln {
namespace {

constexpr double kLeastUs = 1e-3, kMostUs = 1e12;  // of a time that can be one
constexpr std::size_t kLeastTimes = 100;           // of a kind of kernel, or it is not calibrated
constexpr std::size_t kLeastProblems = 6;
/// One tree for so many times, 100 to 600 trees, with more leaves where there are many trees. Fitted to 34,608 times of 1,340
/// problems on an H100, 600 trees of 30 leaves chose 1.037 times the best for 119 other RMS norms, 1.033 for 60 layer norms, 1.052 for
/// 63 column sums, 1.047 for 64 transposes; 400 trees of 16 leaves 1.043, 1.056, 1.066, 1.060; 1600 trees of 32 leaves hardly less.
constexpr std::size_t kTimesOfATree = 40, kLeastTrees = 100, kMostTrees = 600;
constexpr int kTreesOfALeaf = 20, kLeastLeaves = 10, kMostLeaves = 30;
constexpr std::size_t kHeldOut = 3;  // every third problem
// How much less a slow variant counts than the fastest of its problem: what is slow is never chosen.
constexpr double kSlowCounts = 3;
// What the model is wrong by for all variants of a problem does not decide between them, so a part of it is not fitted to.
// Not all of it, since kinds of kernels that are compared with each other have trees of their own.
constexpr double kCommonPart = 0.4;
/// A correction has fewer problems to learn from than what it corrects, so it learns less from each, and nothing of what a problem's
/// variants have in common. Fitted to 14,032 times of 707 problems of kernels that stream on an H200 (29 November 2026), it chose 1.033
/// times the best for 236 problems held out, trees of a first calibration's size 1.036, and what it corrected 1.037.
constexpr RegressionTrees::Options kCorrection = {
    .trees = 300, .leaves = 10, .rate = 0.03, .least_weight = 30, .ridge = 50};
constexpr double kCommonPartOfCorrection = 1;
constexpr double kNinth = 0.9;

/// A time with what the model makes of it.
struct Sample {
    std::size_t problem = 0;
    KernelKind kind = KernelKind::plain;
    Model::Features features{};
    double us = 0, model_us = 0;  ///< measured; as estimated so far
    double slower = 0;            ///< the logarithm of its time over the problem's best
};

/// Variants are named by text; each is read once.
class VariantReader {
  public:
    VariantReader(const Service& service, Target target) : service_(service), target_(std::move(target)) {}
    /// nullopt: the templates do not have or allow it.
    const std::optional<Variant>& read(const std::string& text) {
        const auto [at, is_new] = variants_.try_emplace(text);
        if (is_new) at->second = parsed(text);
        return at->second;
    }

  private:
    std::optional<Variant> parsed(const std::string& text) {
        try {
            const Manifest manifest = Manifest::parse(text, "");  // a variant's text is a line of one
            if (manifest.lines.size() != 1) return std::nullopt;
            const std::string& name = manifest.lines[0].template_name;
            auto of = templates_.find(name);
            if (of == templates_.end())
                of = templates_.emplace(name, service_.find(name).for_target(target_)).first;
            const std::vector<Variant> variants = manifest.lines[0].variants(of->second, "");
            return variants.size() == 1 ? std::optional(variants[0]) : std::nullopt;
        } catch (const UsageError&) {
            return std::nullopt;
        } catch (const TemplateError&) {
            return std::nullopt;
        }
    }

    const Service& service_;
    const Target target_;
    std::map<std::string, Template> templates_;
    std::map<std::string, std::optional<Variant>> variants_;
};

/// Sorted by problem; of problems with two times or more.
std::vector<Sample> samples_of(const Service& service, const std::string& device,
                               std::span<const MeasuredTime> times, const CalibrationTrees& before,
                               const std::set<std::string>& fitted_before, std::set<std::string>& new_ones,
                               CalibrationReport& report) {
    const Machine machine(service.target(), device);
    const Model model(machine);
    VariantReader reader(service, machine.target);
    std::map<std::string, std::vector<Sample>> problems;
    for (const MeasuredTime& time : times) {
        const std::optional<Variant>& variant = reader.read(time.variant);
        std::optional<Estimate> estimate;
        Sample sample;
        if (variant && time.us >= kLeastUs && time.us <= kMostUs) {
            try {
                estimate = model.uncalibrated(*variant, variant->problem(time.sizes), sample.features);
            } catch (const VariantError&) {
                // It takes these sizes no more.
            }
        }
        if (!estimate || !(estimate->ms > 0)) {
            ++report.left_out;
            continue;
        }
        sample.kind = estimate->kind;
        sample.us = time.us;
        sample.model_us = estimate->ms * 1000 *
                          std::exp(before[static_cast<std::size_t>(sample.kind)].predict(sample.features));
        problems[time.problem].push_back(sample);
    }
    std::vector<Sample> samples;
    for (auto& [name, of_problem] : problems) {
        if (of_problem.size() < 2) continue;
        if (fitted_before.contains(problem_digest(name))) {
            ++report.fitted_before;
            continue;
        }
        new_ones.insert(problem_digest(name));
        const double best = std::ranges::min(of_problem, {}, &Sample::us).us;
        for (Sample& sample : of_problem) {
            sample.problem = report.problems;
            sample.slower = std::log(sample.us / best);
            samples.push_back(sample);
        }
        ++report.problems;
    }
    report.times = samples.size();
    return samples;
}

double weight_of(const Sample& sample) { return 1 / (1 + kSlowCounts * sample.slower); }
double error_of(const Sample& sample) { return std::log(sample.us / sample.model_us); }

/// The mean error of each problem's variants.
std::vector<double> common_errors(const std::vector<Sample>& samples, std::size_t problems) {
    std::vector<double> errors(problems), weights(problems);
    for (const Sample& sample : samples) {
        errors[sample.problem] += weight_of(sample) * error_of(sample);
        weights[sample.problem] += weight_of(sample);
    }
    for (std::size_t i = 0; i < problems; ++i) errors[i] /= weights[i];
    return errors;
}

RegressionTrees::Options options_for(std::size_t times) {
    RegressionTrees::Options options;
    options.trees = static_cast<int>(std::clamp(times / kTimesOfATree, kLeastTrees, kMostTrees));
    options.leaves = std::clamp(options.trees / kTreesOfALeaf, kLeastLeaves, kMostLeaves);
    return options;
}

CalibrationTrees fitted(const std::vector<Sample>& samples, std::size_t problems, bool is_trial,
                        bool is_correction) {
    const std::vector<double> common = common_errors(samples, problems);
    const double common_part = is_correction ? kCommonPartOfCorrection : kCommonPart;
    CalibrationTrees result;
    for (std::size_t kind = 0; kind < kKernelKinds; ++kind) {
        std::vector<float> features, values, weights;
        for (const Sample& sample : samples) {
            if (static_cast<std::size_t>(sample.kind) != kind) continue;
            if (is_trial && sample.problem % kHeldOut == 0) continue;
            features.insert(features.end(), sample.features.begin(), sample.features.end());
            values.push_back(static_cast<float>(error_of(sample) - common_part * common[sample.problem]));
            weights.push_back(static_cast<float>(weight_of(sample)));
        }
        if (values.size() >= kLeastTimes)
            result[kind] = RegressionTrees::fit(features, values, weights,
                                                is_correction ? kCorrection : options_for(values.size()));
    }
    return result;
}

/// Over the problems that a trial holds out. trees: nullptr for the model alone.
ChoiceLoss loss_of(const std::vector<Sample>& samples, const CalibrationTrees* trees) {
    std::vector<double> losses;
    for (std::size_t i = 0; i < samples.size();) {
        const std::size_t problem = samples[i].problem;
        double least = INFINITY, slower = 0;
        for (; i < samples.size() && samples[i].problem == problem; ++i) {
            const Sample& sample = samples[i];
            double us = sample.model_us;
            if (trees != nullptr)
                us *= calibrated_factor((*trees)[static_cast<std::size_t>(sample.kind)], sample.features);
            if (us >= least) continue;
            least = us;
            slower = sample.slower;
        }
        if (problem % kHeldOut == 0) losses.push_back(slower);
    }
    if (losses.empty()) return {};
    double sum = 0;
    for (const double loss : losses) sum += loss;
    std::ranges::sort(losses);
    const auto ninth = static_cast<std::size_t>(std::ceil(kNinth * static_cast<double>(losses.size()))) - 1;
    return {std::exp(sum / static_cast<double>(losses.size())), std::exp(losses[ninth])};
}

}  // namespace

inline namespace KILN_ABI {

Calibration Calibration::fit(const Service& service, const std::string& device,
                             std::span<const MeasuredTime> times, CalibrationReport* report,
                             const Calibration& before) {
    if (service.backend() == Backend::host)
        throw UsageError("the model of the host is not calibrated; it knows only how variants differ.");
    CalibrationReport own;
    CalibrationReport& told = report != nullptr ? *report : own;
    told = {};
    std::set<std::string> problems;
    const std::vector<Sample> samples =
        samples_of(service, device, times, before.content_->trees, before.content_->fitted, problems, told);
    std::string left_out;
    if (told.left_out > 0)
        left_out += formatted(", and {} of variants or sizes that the templates don't have", told.left_out);
    if (told.fitted_before > 0)
        left_out += formatted(", and {} problems that the calibration to correct was fitted to already",
                              told.fitted_before);
    if (told.problems < kLeastProblems || told.times < kLeastTimes)
        throw UsageError(
            formatted("a calibration needs {} times of {} problems or more, and there are {} of {}{}.",
                      kLeastTimes, kLeastProblems, told.times, told.problems, left_out));
    const CalibrationTrees trial = fitted(samples, told.problems, true, !before.empty());
    told.held_out = (told.problems + kHeldOut - 1) / kHeldOut;
    told.by_model = loss_of(samples, nullptr);
    told.calibrated = loss_of(samples, &trial);
    auto content = std::make_shared<Content>();
    content->device = as_field(device);
    content->arch = service.target().arch;
    content->date = utc_now();
    content->trees = before.content_->trees;
    content->fitted = std::move(problems);
    content->fitted.insert(before.content_->fitted.begin(), before.content_->fitted.end());
    const CalibrationTrees more = fitted(samples, told.problems, false, !before.empty());
    if (std::ranges::all_of(more, &RegressionTrees::empty))
        throw UsageError(
            formatted("a calibration needs {} times of one kind of kernel or more, and of none there are "
                      "so many.",
                      kLeastTimes));
    for (std::size_t kind = 0; kind < kKernelKinds; ++kind) content->trees[kind].append(more[kind]);
    return Calibration(std::move(content));
}

}  // namespace KILN_ABI
}  // namespace kiln
