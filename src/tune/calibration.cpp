// SPDX-License-Identifier: Apache-2.0
//
// The text of a calibration: "device NAME", "arch ARCH", "model VERSION", "date DATE", then for each kind of kernel
// "kind NAME" and a line per tree (tune/regression_trees.h). The next "device" begins another one. Behind the last one
// stands "end", so that a file that was cut off does not read as a calibration with fewer trees.
#include <kiln/calibration.h>
#include <kiln/error.h>

#include <algorithm>
#include <cmath>
#include <deque>
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
#include "tune/settings_lock.h"
#include "tune/shipped_texts.h"
#include "tune/wisdom_line.h"

namespace kiln {
namespace {

constexpr std::string_view kCalibrationHead = "# kiln calibration 2";
constexpr std::string_view kHeadWithoutEnd = "# kiln calibration 1";  // of files that have no last line
constexpr std::string_view kCalibrationEnd = "end";
// A comment for older versions: the problems whose times it was fitted to, which can't judge a correction of it.
constexpr std::string_view kFittedTo = "# fitted to";
constexpr std::uint64_t kMostCalibrationBytes = 64 << 20;
constexpr std::string_view kKindNames[kKernelKinds] = {
    "plain",          "streamed",        "fma-registers", "fma-async", "mma-staged",  "mma-direct",
    "wgmma-tma",      "wgmma-registers", "fma-direct",    "fused",     "staged-rows", "persistent-pipeline",
    "streamed-strips"};
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

/// How far two devices of an architecture are from each other: the logarithm of the ratio of their bandwidths. One that is
/// not known counts as the first one of its architecture that is.
double distance(const std::string& device, const std::string& other, const std::string& arch) {
    const Chip *const a = find_chip(arch, device), *const b = find_chip(arch, other);
    if (a == nullptr || b == nullptr || !(a->memory_gbps > 0) || !(b->memory_gbps > 0)) return 0;
    return std::abs(std::log(a->memory_gbps / b->memory_gbps));
}

bool is_same_device(const Calibration& a, const Calibration& b) {
    return a.device() == b.device() && a.arch() == b.arch();
}

/// The first one for a device; with an empty name of any device of the architecture. nullptr: there is none.
const Calibration* find_calibration(std::span<const Calibration> all, const std::string& device,
                                    const std::string& arch) {
    const auto found = std::ranges::find_if(all, [&](const Calibration& one) {
        return (device.empty() || one.device() == device) && one.arch() == arch;
    });
    return found == all.end() ? nullptr : &*found;
}

/// A device's name as calibrations have it.
std::string device_field(const std::string& device) { return device.empty() ? device : as_field(device); }

/// Those for the device of `one`.
std::string texts_for(const Calibration& one, std::span<const Calibration> all) {
    std::string texts;
    for (const Calibration& other : all)
        if (is_same_device(other, one)) texts += other.text();
    return texts;
}

/// earlier: nullopt where it does not matter what the file has for this device.
void store_calibration(const Calibration& one, const std::filesystem::path& file,
                       const std::optional<std::span<const Calibration>>& earlier) {
    try {
        if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
        const OutputPlace place(file);
        std::optional<FileLock> lock;
        std::vector<Calibration> all;
        if (!place.is_stream()) {
            lock = locked_settings(place.path(), "calibrations");
            all = Calibration::load(file);
            if (earlier && texts_for(one, all) != texts_for(one, *earlier))
                throw UsageError(
                    formatted("another run has changed the calibration of {} in {} since this one began; run "
                              "'kiln calibrate' again, with --times FILE so that the times are kept.",
                              one.device(), file.string()));
        }
        std::erase_if(all, [&](const Calibration& other) { return is_same_device(other, one); });
        all.push_back(one);
        std::string text = std::string(kCalibrationHead) + "\n";
        for (const Calibration& each : all) text += each.text();
        text += std::string(kCalibrationEnd) + "\n";
        write_output_file(file, text);
    } catch (const FileError& error) {
        throw UsageError("the calibration can't be written to " + file.string() + ": " + error.reason() +
                         ".");
    } catch (const std::system_error& error) {
        throw UsageError("the calibration can't be written to " + file.string() + ": " + error.what());
    }
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
std::size_t Calibration::fitted_problems() const { return content_->fitted.size(); }

std::string Calibration::text() const {
    std::string text =
        formatted("device {}\narch {}\nmodel {}\ndate {}\n", device(), arch(), kModelVersion, date());
    if (!content_->fitted.empty()) {
        text += kFittedTo;
        for (const std::string& problem : content_->fitted) text += " " + problem;
        text += "\n";
    }
    for (std::size_t kind = 0; kind < kKernelKinds; ++kind)
        if (!content_->trees[kind].empty())
            text += "kind " + std::string(kKindNames[kind]) + "\n" + content_->trees[kind].text();
    return text;
}

std::vector<Calibration> Calibration::parse(std::string_view text, const std::string& file) {
    std::vector<Content> found;
    std::size_t kind = kKernelKinds;  // none yet
    int number = 0;
    bool headed = false, has_end = false, ended = true, has_model = false, is_behind_end = false;
    const auto check_complete = [&] {
        if (found.empty()) return;
        const char* const lacks = found.back().arch.empty() ? "arch" : has_model ? nullptr : "model";
        if (lacks != nullptr)
            throw UsageError(
                formatted("the calibration of device {} has no line '{}'", found.back().device, lacks));
    };
    const auto read = [&](std::string_view line) {
        const std::size_t space = std::min(line.find(' '), line.size());
        const std::string_view word = line.substr(0, space);
        const std::string rest(line.substr(std::min(space + 1, line.size())));
        if (word == "device") {
            check_complete();
            has_model = false;
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
            has_model = true;
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
        if (line.starts_with(kFittedTo) && !found.empty()) {
            std::istringstream problems{std::string(line.substr(kFittedTo.size()))};
            for (std::string problem; problems >> problem;) found.back().fitted.insert(problem);
        }
        if (line == kCalibrationHead || line == kHeadWithoutEnd)
            is_behind_end = false;  // of a file behind another
        if (line.front() == '#') continue;
        try {
            if (is_behind_end)
                throw UsageError(formatted("a line stands behind the last one, '{}'", kCalibrationEnd));
            if (line == kCalibrationEnd) {
                check_complete();
                ended = is_behind_end = true;
                continue;
            }
            read(line);
        } catch (const UsageError& error) {
            throw UsageError(with_full_stop(where + error.what()));
        }
    }
    if (!ended)
        throw UsageError(
            formatted("{}: its last line is not '{}', so that a part of the file is missing; remove "
                      "it, and run 'kiln calibrate' again.",
                      file, kCalibrationEnd));
    try {
        check_complete();
    } catch (const UsageError& error) {
        throw UsageError(with_full_stop(formatted("{}:{}: {}", file, number, error.what())));
    }
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
    const std::string name = device_field(device);
    const std::filesystem::path file = user_file();
    try {
        const auto text = file.empty() ? std::nullopt : read_text_if_exists(file, kMostCalibrationBytes);
        const std::vector<Calibration> own = text ? parse(*text, file.string()) : std::vector<Calibration>();
        if (const Calibration* const found = find_calibration(own, name, arch))
            return Shipped::completed(*found, Shipped::of_arch(arch, name));
    } catch (const std::exception& error) {
        if (problem != nullptr) *problem = "the calibration is ignored: " + std::string(error.what());
    }
    const std::vector<Shipped*> near = Shipped::of_arch(arch, name);
    return near.empty() ? Calibration() : Shipped::completed(near[0]->calibration(), near);
}

Calibration Calibration::usual(std::span<const Calibration> own, const std::string& device,
                               const std::string& arch, std::string* problem) {
    const std::string name = device_field(device);
    const Calibration* const found = find_calibration(own, name, arch);
    return found == nullptr ? usual(device, arch, problem)
                            : Shipped::completed(*found, Shipped::of_arch(arch, name));
}

std::vector<Calibration::Shipped*> Calibration::Shipped::of_arch(const std::string& arch,
                                                                 const std::string& device) {
    // Never destroyed, since threads may work while a program ends.
    static std::deque<Shipped>& all =
        *new std::deque<Shipped>(shipped_calibrations().begin(), shipped_calibrations().end());
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
    store_calibration(*this, file, std::nullopt);
}
void Calibration::store(const std::filesystem::path& file, std::span<const Calibration> earlier) const {
    store_calibration(*this, file, earlier);
}

}  // namespace KILN_ABI
}  // namespace kiln
