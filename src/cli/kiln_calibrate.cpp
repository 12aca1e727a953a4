// SPDX-License-Identifier: Apache-2.0
//
// kiln calibrate: measures variants of drawn problems on the device, and fits the model that chooses variants to them.
#include <kiln/calibration.h>
#include <kiln/error.h>
#include <kiln/tools/bench.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>

#include "cli/command_line.h"
#include "cli/kiln_command.h"
#include "cli/option_values.h"
#include "cli/output_file.h"
#include "cli/progress_bar.h"
#include "cli/text_format.h"
#include "cli/timed_variants.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

constexpr int kUsualSeconds = 60, kMostSeconds = 1'000'000;
constexpr double kProblemsPerSecond = 1.5;  // that are drawn: a few more than there is time for
constexpr int kLeastProblems = 8;           // of a part, of which no template may compute some

/// A part of the suite of drawn problems, and its part of the time.
struct Part {
    const char* name;
    double share;
};
constexpr Part kParts[] = {{"gemm-f16", 0.38},         {"gemm-f32", 0.15},  {"softmax", 0.06},
                           {"layer-norm", 0.06},       {"rms-norm", 0.04},  {"transpose", 0.09},
                           {"reduction", 0.03},        {"attention", 0.06}, {"decode", 0.04},
                           {"column-reduction", 0.06}, {"histogram", 0.03}};

/// With a colon before it; empty: nothing failed.
std::string first_failure(const BenchReport& report) {
    for (const BenchSuite& suite : report.suites) {
        if (!suite.failures.empty()) return ": " + suite.failures.front();
        for (const BenchRow& row : suite.rows)
            if (!row.failures.empty()) return ": " + row.problem + ": " + row.failures.front();
    }
    return "";
}

/// With those that the file had, which gets the new ones too. before: the calibration to correct, or an empty one.
std::vector<MeasuredTime> measured_times(const Call& call, Warnings& warnings, int seconds,
                                         const std::optional<std::string>& file, const Calibration& before) {
    std::optional<TimedVariantFile> lines;
    if (file) lines.emplace("--times", *file);
    std::vector<MeasuredTime> times = lines ? lines->earlier() : std::vector<MeasuredTime>();
    BenchOptions options;
    options.service = service_options(call.options, warnings, call.interrupts.token());
    options.service.cache = cache_options(call.options);
    options.compare.emplace();
    options.stop = call.interrupts.token();
    options.child = {"/proc/self/exe", "bench", "measure-here"};
    options.seed = next_seed(times.size(), before);
    std::optional<Progress> progress;
    options.on_phase = [&](std::string_view suite, std::string_view what) {
        progress.emplace(call.terminal, std::string(suite) + ": " + std::string(what));
    };
    options.on_variant = [&](const BenchTimedVariant& one) {
        times.push_back(measured(one));
        if (lines) lines->add(one);
    };
    warnings.release();
    for (const Part& part : kParts) {
        const double share = part.share * seconds;
        options.suites = {"unseen." + std::string(part.name)};
        options.part_limit = std::chrono::seconds(std::max(1, static_cast<int>(share)));
        options.draws = std::max(kLeastProblems, static_cast<int>(share * kProblemsPerSecond));
        const std::size_t earlier = times.size();
        const BenchReport report = run_bench(options);
        if (options.stop.stop_requested()) break;
        if (times.size() == earlier)
            call.terminal.note(options.suites[0] + ": nothing was timed" + first_failure(report));
    }
    if (lines) lines->close();
    return times;
}

Calibration fitted(const Service& service, const std::string& device, std::span<const MeasuredTime> times,
                   CalibrationReport& report, const Calibration& before, bool measures) {
    try {
        return Calibration::fit(service, device, times, &report, before);
    } catch (const UsageError& error) {
        throw UsageError(std::string(error.what()) +
                         (measures ? " Measure for longer (--seconds)."
                                   : " Name a file that has times of other problems too (--times)."));
    }
}

std::string loss_text(const ChoiceLoss& loss) {
    return formatted("{:.3f} times the best, 90th percentile {:.3f}", loss.mean, loss.percentile90);
}

std::string measured_text(const CalibrationReport& report) {
    std::string text = formatted("{} times of {} problems", report.times, report.problems);
    if (report.left_out > 0)
        text += formatted(", and {} of variants that are no longer there", report.left_out);
    if (report.fitted_before > 0)
        text += formatted(", and {} problems left out that the calibration of before was fitted to",
                          report.fitted_before);
    return text;
}

Json loss_json(const ChoiceLoss& loss) { return {{"mean", loss.mean}, {"percentile90", loss.percentile90}}; }

}  // namespace

int calibrate(const Call& call) {
    const int seconds =
        call.has("seconds")
            ? static_cast<int>(parse_whole("--seconds", call.value("seconds"), 0, kMostSeconds))
            : kUsualSeconds;
    const std::optional<std::string> file =
        call.has("times") ? std::optional(call.value("times")) : std::nullopt;
    if (seconds == 0 && !file)
        throw UsageError("--seconds 0 measures nothing; name the file of earlier times with --times FILE.");
    Warnings warnings(call.terminal);
    ServiceOptions options = service_options(call.options, warnings, call.interrupts.token());
    options.compile_only = seconds == 0;
    options.cache.enabled = false;
    const Service service(options);
    if (service.backend() == Backend::host)
        throw UsageError(
            "the host is not calibrated; name a GPU's backend, where 'kiln doctor' finds one. Times of a "
            "file are fitted without one: --seconds 0 --times FILE --backend cuda --arch sm_90a --for-device "
            "NAME.");
    std::string device = call.has("for-device") ? call.value("for-device") : std::string();
    if (device.empty()) {
        for (const DeviceInfo& one : Device::list(service.backend()))
            if (one.ordinal == call.options.device && one.arch == service.target().arch) device = one.name;
    }
    if (device.empty())
        throw UsageError(
            formatted("there is no device of {} here; name the one that the times are of with --for-device.",
                      service.target().arch));
    // Before a directory is made.
    std::vector<MeasuredTime> times;
    if (seconds == 0) times = load_timed_variants(*file);
    const Output output = settings_output(call, "the calibration", Calibration::user_file());
    // Another kind of file is better found before a minute of measuring.
    const std::vector<Calibration> stored =
        output.is_stream() ? std::vector<Calibration>() : Calibration::load(output.path());
    const bool is_correction = call.flag("correct");
    std::string problem;
    const Calibration before =
        is_correction ? Calibration::usual(stored, device, service.target().arch, &problem) : Calibration();
    if (!problem.empty()) throw UsageError("there is nothing to correct: " + problem);
    if (seconds > 0) times = measured_times(call, warnings, seconds, file, before);
    warnings.release();
    if (call.interrupts.signal() != 0) return 128 + call.interrupts.signal();
    CalibrationReport report;
    const Calibration found = fitted(service, device, times, report, before, seconds > 0);
    // Judged by problems that neither the trial fit nor the calibration of before has seen.
    const bool is_kept = !is_correction || report.calibrated.mean < report.by_model.mean;
    if (is_kept && is_correction)
        found.store(output.path(), stored);
    else if (is_kept)
        found.store(output.path());
    if (output.is_standard_output()) {
        if (!is_kept) call.terminal.note("the correction chose no better than before, and is not written");
        return kPassed;
    }
    const bool corrects = !before.empty();
    const std::string file_text = output.path().string();
    const bool is_there = is_kept || std::filesystem::exists(status_of(output.path()));
    call.print({{"calibration", is_there ? Json(file_text) : Json()},
                {"device", found.device()},
                {"arch", found.arch()},
                {"date", found.date()},
                {"times", report.times},
                {"left_out", report.left_out},
                {"problems", report.problems},
                {"fitted_before", report.fitted_before},
                {"held_out", report.held_out},
                {"by_model", loss_json(report.by_model)},
                {"calibrated", loss_json(report.calibrated)},
                {"kept", is_kept}},
               line("device", found.device() + ", " + found.arch()) +
                   line("measured", measured_text(report)) +
                   line(corrects ? "before" : "model", "chose " + loss_text(report.by_model)) +
                   line(corrects ? "corrected" : "calibrated",
                        formatted("chose {}, on {} problems held out", loss_text(report.calibrated),
                                  report.held_out)) +
                   (is_kept ? line("kept in", file_text)
                            : line("not kept", "the correction chose no better than before, so that " +
                                                   (is_there ? file_text + " stays as it is"
                                                             : std::string("no file was written")))));
    return kPassed;
}

}  // namespace kiln::cli
