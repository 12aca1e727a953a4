// SPDX-License-Identifier: Apache-2.0
//
// The text of a calibration: "device NAME", "arch ARCH", "model VERSION", "date DATE", then for each kind of kernel
// "kind NAME" and a line per tree (tune/regression_trees.h). The next "device" begins another one. Behind the last one
// stands "end", so that a file that was cut off does not read as a calibration with fewer trees.
#include <kiln/calibration.h>
#include <kiln/error.h>
#include <kiln/manifest.h>
#include <kiln/occupancy.h>
#include <kiln/wisdom.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/config.h"
#include "base/file.h"
#include "base/file_name.h"
#include "base/output_file.h"
#include "base/words.h"
#include "format/format.h"
#include "tune/calibration_content.h"
#include "tune/model_launch.h"
#include "tune/shipped_texts.h"
#include "tune/wisdom_line.h"

namespace kiln {
namespace {

constexpr std::string_view kCalibrationHead = "# kiln calibration 2";
constexpr std::string_view kHeadWithoutEnd = "# kiln calibration 1";  // of files that have no last line
constexpr std::string_view kCalibrationEnd = "end";
constexpr std::uint64_t kMostCalibrationBytes = 64 << 20;
constexpr std::string_view kKindNames[kKernelKinds] = {"plain",     "streamed",        "fma-registers",
                                                       "fma-async", "mma-staged",      "mma-direct",
                                                       "wgmma-tma", "wgmma-registers", "fma-direct"};
constexpr double kLeastUs = 1e-3, kMostUs = 1e12;  // of a time that can be one
constexpr std::size_t kLeastTimes = 100;           // of a kind of kernel, or it is not calibrated
constexpr std::size_t kLeastProblems = 6;
constexpr std::size_t kHeldOut = 3;  // every third problem
// How much less a slow variant counts than the fastest of its problem: what is slow is never chosen.
constexpr double kSlowCounts = 3;
// What the model is wrong by for all variants of a problem does not decide between them, so a part of it is not fitted to.
// Not all of it, since kinds of kernels that are compared with each other have trees of their own.
constexpr double kCommonPart = 0.4;
constexpr double kNinth = 0.9;

/// The text of a file, with empty lines in place of calibrations for other versions of the model.
std::string without_old(const std::string& text) {
    const std::string current = formatted("model {}", kModelVersion);
    std::string result, section;
    bool is_old = false;
    const auto end_section = [&] {
        if (is_old) std::erase_if(section, [](char c) { return c != '\n'; });
        result += std::exchange(section, {});
        is_old = false;
    };
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.ends_with('\r')) line.pop_back();
        if (line.starts_with("device ") || line == kCalibrationEnd) end_section();
        if (line.starts_with("model ") && line != current) is_old = true;
        section += line + "\n";
    }
    end_section();
    return result;
}

/// A time with what the model makes of it.
struct Sample {
    std::size_t problem = 0;
    KernelKind kind = KernelKind::plain;
    Model::Features features{};
    double us = 0, model_us = 0;
    double slower = 0;  ///< the logarithm of its time over the problem's best
};

/// Variants are named by text; each is read once.
class VariantReader {
  public:
    explicit VariantReader(const Service& service) : service_(service) {}
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
                of = templates_.emplace(name, service_.find(name).for_target(service_.target())).first;
            const std::vector<Variant> variants = manifest.lines[0].variants(of->second, "");
            return variants.size() == 1 ? std::optional(variants[0]) : std::nullopt;
        } catch (const UsageError&) {
            return std::nullopt;
        } catch (const TemplateError&) {
            return std::nullopt;
        }
    }

    const Service& service_;
    std::map<std::string, Template> templates_;
    std::map<std::string, std::optional<Variant>> variants_;
};

/// Sorted by problem; of problems with two times or more.
std::vector<Sample> samples_of(const Service& service, const std::string& device,
                               std::span<const MeasuredTime> times, CalibrationReport& report) {
    const Machine machine(service.target(), device);
    const Model model(machine);
    VariantReader reader(service);
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
        sample.model_us = estimate->ms * 1000;
        problems[time.problem].push_back(sample);
    }
    std::vector<Sample> samples;
    for (auto& [name, of_problem] : problems) {
        if (of_problem.size() < 2) continue;
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

CalibrationTrees fitted(const std::vector<Sample>& samples, std::size_t problems, bool is_trial) {
    const std::vector<double> common = common_errors(samples, problems);
    CalibrationTrees result;
    for (std::size_t kind = 0; kind < kKernelKinds; ++kind) {
        std::vector<float> features, values, weights;
        for (const Sample& sample : samples) {
            if (static_cast<std::size_t>(sample.kind) != kind) continue;
            if (is_trial && sample.problem % kHeldOut == 0) continue;
            features.insert(features.end(), sample.features.begin(), sample.features.end());
            values.push_back(static_cast<float>(error_of(sample) - kCommonPart * common[sample.problem]));
            weights.push_back(static_cast<float>(weight_of(sample)));
        }
        if (values.size() >= kLeastTimes) result[kind] = RegressionTrees::fit(features, values, weights, {});
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

/// How far two devices of an architecture are from each other: the logarithm of the ratio of their bandwidths. One that is
/// not known counts as the first one of its architecture that is.
double distance(const std::string& device, const std::string& other, const std::string& arch) {
    const Chip *const a = find_chip(arch, device), *const b = find_chip(arch, other);
    if (a == nullptr || b == nullptr || !(a->memory_gbps > 0) || !(b->memory_gbps > 0)) return 0;
    return std::abs(std::log(a->memory_gbps / b->memory_gbps));
}

}  // namespace

inline namespace KILN_ABI {

/// A file of cache/calibration, which holds one calibration; read when it is first used, since that takes a millisecond.
struct __attribute__((visibility("hidden"))) Calibration::Shipped {
    explicit Shipped(const ShippedText& of) : file(of), device(field("device ")), arch(field("arch ")) {}

    std::string field(const std::string& name) const {
        const std::size_t at = file.text.find("\n" + name);
        if (at == std::string_view::npos) return "";
        const std::string_view rest = file.text.substr(at + 1 + name.size());
        return std::string(rest.substr(0, rest.find('\n')));
    }
    bool has(std::string_view kind) const {
        return file.text.find("\nkind " + std::string(kind) + "\n") != std::string_view::npos;
    }
    /// Those of an architecture, that of the device first, then the nearest.
    static std::vector<Shipped*> of_arch(const std::string& arch, const std::string& device);
    /// With the trees of the first of the others that has them, for each kind that this one lacks.
    static Calibration completed(const Calibration& one, std::span<Shipped* const> others);

    const Calibration& calibration() {
        std::call_once(once, [&] {
            parsed = Calibration::parse(file.text, "cache/calibration/" + std::string(file.name)).at(0);
        });
        return parsed;
    }

    ShippedText file;
    std::string device, arch;
    std::once_flag once;
    Calibration parsed;
};

Calibration::Calibration() : Calibration(nullptr) {}
Calibration::Calibration(std::shared_ptr<const Content> content) : content_(std::move(content)) {
    static const auto kNone = std::make_shared<const Content>();
    if (content_ == nullptr) content_ = kNone;
}

bool Calibration::empty() const { return std::ranges::all_of(content_->trees, &RegressionTrees::empty); }
const std::string& Calibration::device() const { return content_->device; }
const std::string& Calibration::arch() const { return content_->arch; }
const std::string& Calibration::date() const { return content_->date; }

Calibration Calibration::fit(const Service& service, const std::string& device,
                             std::span<const MeasuredTime> times, CalibrationReport* report) {
    if (service.backend() == Backend::host)
        throw UsageError("the model of the host is not calibrated; it knows only how variants differ.");
    CalibrationReport own;
    CalibrationReport& told = report != nullptr ? *report : own;
    told = {};
    const std::vector<Sample> samples = samples_of(service, device, times, told);
    const std::string left_out =
        told.left_out == 0
            ? ""
            : formatted(", and {} of variants or sizes that the templates don't have", told.left_out);
    if (told.problems < kLeastProblems || told.times < kLeastTimes)
        throw UsageError(formatted(
            "a calibration needs {} times of {} problems or more, and there are {} of {}{}; measure "
            "for longer.",
            kLeastTimes, kLeastProblems, told.times, told.problems, left_out));
    const CalibrationTrees trial = fitted(samples, told.problems, true);
    told.held_out = (told.problems + kHeldOut - 1) / kHeldOut;
    told.by_model = loss_of(samples, nullptr);
    told.calibrated = loss_of(samples, &trial);
    auto content = std::make_shared<Content>();
    content->device = as_field(device);
    content->arch = service.target().arch;
    content->date = utc_now();
    content->trees = fitted(samples, told.problems, false);
    if (std::ranges::all_of(content->trees, &RegressionTrees::empty))
        throw UsageError(
            formatted("a calibration needs {} times of one kind of kernel or more, and of none there are "
                      "so many; measure for longer.",
                      kLeastTimes));
    return Calibration(std::move(content));
}

std::string Calibration::text() const {
    std::string text =
        formatted("device {}\narch {}\nmodel {}\ndate {}\n", device(), arch(), kModelVersion, date());
    for (std::size_t kind = 0; kind < kKernelKinds; ++kind)
        if (!content_->trees[kind].empty())
            text += "kind " + std::string(kKindNames[kind]) + "\n" + content_->trees[kind].text();
    return text;
}

std::vector<Calibration> Calibration::parse(std::string_view text, const std::string& file) {
    std::vector<Content> found;
    std::size_t kind = kKernelKinds;  // none yet
    int number = 0;
    bool headed = false, has_end = false, ended = true;
    const auto read = [&](std::string_view line) {
        const std::size_t space = std::min(line.find(' '), line.size());
        const std::string_view word = line.substr(0, space);
        const std::string rest(line.substr(std::min(space + 1, line.size())));
        if (word == "device") {
            found.emplace_back().device = rest;
            kind = kKernelKinds;
            ended = !has_end;
            return;
        }
        if (found.empty()) throw UsageError("a calibration begins with 'device NAME'");
        if (word == "arch") {
            found.back().arch = rest;
        } else if (word == "date") {
            found.back().date = rest;
        } else if (word == "model") {
            if (rest != std::to_string(kModelVersion))
                throw UsageError(
                    formatted("it was made for version {} of the model, and this is version {}; run 'kiln "
                              "calibrate' again",
                              rest, kModelVersion));
        } else if (word == "kind") {
            const auto at = std::ranges::find(kKindNames, rest);
            if (at == std::end(kKindNames))
                throw UsageError("there is no kind of kernel '" + rest + "'" +
                                 did_you_mean(rest, {std::begin(kKindNames), std::end(kKindNames)}));
            kind = static_cast<std::size_t>(at - std::begin(kKindNames));
        } else if (kind < kKernelKinds) {
            found.back().trees[kind].add(line, Model::kFeatures);
        } else {
            throw UsageError("'" + std::string(word) + "' is none of device, arch, model, date and kind");
        }
    };
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        ++number;
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
        const std::string where = formatted("{}:{}: ", file, number);
        if (!headed && line != kCalibrationHead && line != kHeadWithoutEnd)
            throw UsageError(where + "a file of calibrations begins with the line '" +
                             std::string(kCalibrationHead) + "', and this one with '" +
                             std::string(line.substr(0, 60)) + "'.");
        if (!headed) {
            has_end = line == kCalibrationHead;
            ended = !has_end;
            headed = true;
        }
        if (line.front() == '#') continue;
        if (line == kCalibrationEnd) {
            ended = true;
            continue;
        }
        try {
            read(line);
        } catch (const UsageError& error) {
            throw UsageError(where + error.what() + ".");
        }
    }
    if (!ended)
        throw UsageError(
            formatted("{}: its last line is not '{}', so that a part of the file is missing; remove "
                      "it, and run 'kiln calibrate' again.",
                      file, kCalibrationEnd));
    std::vector<Calibration> result;
    for (Content& one : found) result.push_back(Calibration(std::make_shared<const Content>(std::move(one))));
    return result;
}

std::vector<Calibration> Calibration::load(const std::filesystem::path& file) {
    try {
        const auto text = read_text_if_exists(file, kMostCalibrationBytes);
        return text ? parse(without_old(*text), file.string()) : std::vector<Calibration>();
    } catch (const std::system_error& error) {
        throw UsageError("the calibration can't be read: " + std::string(error.what()));
    }
}

std::filesystem::path Calibration::user_file() {
    const auto wisdom = config::wisdom_file();
    return wisdom ? wisdom->parent_path() / "calibration.txt" : std::filesystem::path();
}

Calibration Calibration::usual(const std::string& device, const std::string& arch, std::string* problem) {
    const std::string name = device.empty() ? device : as_field(device);
    const std::filesystem::path file = user_file();
    try {
        const auto text = file.empty() ? std::nullopt : read_text_if_exists(file, kMostCalibrationBytes);
        const std::vector<Calibration> own = text ? parse(*text, file.string()) : std::vector<Calibration>();
        const auto found = std::ranges::find_if(own, [&](const Calibration& one) {
            return (name.empty() || one.device() == name) && one.arch() == arch;
        });
        if (found != own.end()) return Shipped::completed(*found, Shipped::of_arch(arch, name));
    } catch (const std::exception& error) {
        if (problem != nullptr) *problem = "the calibration is ignored: " + std::string(error.what());
    }
    const std::vector<Shipped*> near = Shipped::of_arch(arch, name);
    return near.empty() ? Calibration() : Shipped::completed(near[0]->calibration(), near);
}

std::vector<Calibration::Shipped*> Calibration::Shipped::of_arch(const std::string& arch,
                                                                 const std::string& device) {
    static std::deque<Shipped> all(shipped_calibrations().begin(), shipped_calibrations().end());
    std::vector<Shipped*> found;
    for (Shipped& one : all)
        if (one.arch == arch) found.push_back(&one);
    std::ranges::stable_sort(found, {}, [&](const Shipped* one) {
        return std::pair(one->device != device, distance(device, one->device, arch));
    });
    return found;
}

Calibration Calibration::Shipped::completed(const Calibration& one, std::span<Shipped* const> others) {
    auto content = std::make_shared<Content>(*one.content_);
    for (std::size_t kind = 0; kind < kKernelKinds; ++kind)
        for (Shipped* const other : others)
            if (content->trees[kind].empty() && other->has(kKindNames[kind]))
                content->trees[kind] = other->calibration().content_->trees[kind];
    return Calibration(std::move(content));
}

void Calibration::store(const std::filesystem::path& file) const {
    try {
        if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
        std::vector<Calibration> all;
        if (!OutputPlace(file).is_stream()) all = load(file);
        std::erase_if(
            all, [&](const Calibration& one) { return one.device() == device() && one.arch() == arch(); });
        all.push_back(*this);
        std::string text = std::string(kCalibrationHead) + "\n";
        for (const Calibration& one : all) text += one.text();
        text += std::string(kCalibrationEnd) + "\n";
        write_output_file(file, text);
    } catch (const FileError& error) {
        throw UsageError("the calibration can't be written to " + file.string() + ": " + error.reason() +
                         ".");
    } catch (const std::system_error& error) {
        throw UsageError("the calibration can't be written to " + file.string() + ": " + error.what());
    }
}

}  // namespace KILN_ABI
}  // namespace kiln
