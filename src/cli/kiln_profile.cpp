// SPDX-License-Identifier: Apache-2.0
//
// kiln profile: the vendor's profiler on a child that runs the variant once, what it counted next to the
// prediction, and the thresholds.
#include <kiln/error.h>
#include <kiln/files.h>
#include <kiln/run.h>
#include <kiln/tools/profile.h>

#include <filesystem>
#include <optional>

#include "cli/command_line.h"
#include "cli/kiln_command.h"
#include "cli/option_values.h"
#include "cli/output_file.h"
#include "cli/profile_report.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

// A prediction for a comparison may take longer than one for reading.
constexpr std::uint64_t kRecordedBlocks = 64;
constexpr double kRecordedMs = 2000;
constexpr std::uint64_t kMostBytesOfAPage = 256 << 20;

std::optional<ProfileTool> chosen_tool(const Call& call) {
    if (!call.has("tool")) return std::nullopt;
    const std::size_t choice =
        parse_choice("--tool", call.value("tool"), {"auto", "ncu", "rocprofv3", "rocprof"});
    if (choice == 0) return std::nullopt;
    return static_cast<ProfileTool>(choice - 1);
}

void check_options(const Call& call) {
    if (!call.has("read")) return;
    for (const char* other : {"tool", "keep"})
        if (call.has(other))
            throw UsageError(std::string("--") + other +
                             " is about running a profiler, and --read runs none; "
                             "leave one out.");
}

std::string text_of(const std::string& file) {
    try {
        return read_input(file, kMostBytesOfAPage);
    } catch (const UsageError& error) {
        throw UsageError("--read: " + std::string(error.what()));
    }
}

/// The child's options, so that it runs the same on the same device, from the same cache.
std::vector<std::string> child_command(const Call& call, const Service& service, const Variant& variant,
                                       const Sizes& sizes) {
    std::error_code error;
    const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
    if (error)
        throw DeviceError("/proc/self/exe can't be read, so the program can't run itself: " +
                          error.message());
    std::vector<std::string> command = {self.string(), "run", variant.template_name()};
    for (const auto& [parameter, value] : variant.values()) command.push_back(parameter + "=" + value.text());
    const auto add = [&](const char* option, const std::string& value) {
        command.emplace_back(option);
        command.push_back(value);
    };
    for (const auto& [size, value] : sizes) add("--size", formatted("{}={}", size, value));
    add("--backend", std::string(name(service.backend())));
    add("--device", std::to_string(call.options.device));
    if (!call.options.arch.empty()) add("--arch", call.options.arch);
    add("--check", "none");
    command.emplace_back("--no-time");
    for (const auto& directory : call.options.template_directories) add("--template-dir", directory.string());
    for (const auto& directory : call.options.include_directories) add("--include-dir", directory.string());
    for (const auto& option : call.options.compile_options) command.push_back("--option=" + option);
    if (call.options.debug) command.emplace_back("--debug");
    if (call.options.cache_directory) add("--cache-dir", call.options.cache_directory->string());
    for (const auto& pack : call.options.seed_packs) add("--seed-pack", pack.string());
    if (!call.options.use_cache) command.emplace_back("--no-cache");
    return command;
}

void no_device(const Service& service) {
    if (service.backend() != Backend::host && service.has_device()) return;
    std::string cuda, hip;
    Device::list(Backend::cuda, &cuda);
    Device::list(Backend::hip, &hip);
    throw DeviceError(
        "there is no GPU to profile on (cuda: " + cuda + "; hip: " + hip +
        ").\n'kiln analyze' predicts without one; output that --keep wrote elsewhere is compared "
        "by --read FILE.");
}

std::optional<TimeSummary> timed(Runner& runner, const Variant& variant, const Sizes& sizes) {
    RunOptions options;
    options.sizes = sizes;
    options.check = Check::none;
    return runner.run(variant, options).time;
}

/// Runs the profiler, then times the variant and its naive one.
void measure(const Call& call, Service& service, const Variant& variant, const Sizes& sizes,
             ProfileReport& report) {
    const std::optional<Profiler> profiler = find_profiler(service.backend(), chosen_tool(call));
    if (!profiler)
        throw DeviceError(why_no_profiler(service.backend()) +
                          "\nOutput that --keep wrote elsewhere is compared by --read FILE.");
    // The child then finds it in the cache; otherwise the profiler would also measure the compile.
    service.build(variant);
    const auto keep =
        call.has("keep") ? std::optional<Output>(std::in_place, "--keep", call.value("keep")) : std::nullopt;
    ProfileRequest request;
    request.command = child_command(call, service, variant, sizes);
    request.kernel = variant.kernels().front().name;
    request.stop = call.interrupts.token();
    {
        const Progress progress(call.terminal, "profiling");
        ProfileResult found = run_profiler(*profiler, request);
        if (keep) keep->write(found.page);
        report.tool = profiler->tool;
        report.tool_version = found.version;
        report.source = profiler->program.string();
        report.measured = found.launches.front();
        report.notes = found.notes;
    }
    const Progress progress(call.terminal, "timing");
    Runner runner(service);
    report.time = timed(runner, variant, sizes);
    if (const std::optional<Variant> naive = runner.naive(variant)) {
        report.naive = naive->text();
        report.naive_time = timed(runner, *naive, Runner::shared_sizes(*naive, sizes));
    }
}

void read_page(const Call& call, const Variant& variant, ProfileReport& report) {
    report.source = call.value("read");
    const std::vector<Measured> launches = read_profile_page(text_of(report.source), &report.notes);
    if (launches.empty())
        throw UsageError(
            "--read " + report.source +
            ": there is no launch in it. --read accepts output of --keep, of 'ncu --csv --page raw' "
            "or rocprof's tables.");
    const std::string entry = variant.kernels().front().name;
    for (const Measured& launch : launches) {
        if (launch.kernel != entry) continue;
        report.measured = launch;
        return;
    }
    throw UsageError("--read " + report.source + ": it has no launch of " + entry + ", but of " +
                     launches.front().kernel + ".");
}

}  // namespace

int profile(const Call& call) {
    check_options(call);
    chosen_tool(call);  // a mistyped name is reported before anything is built
    Warnings warnings(call.terminal);
    ServiceOptions setup = service_options(call.options, warnings, call.interrupts.token());
    setup.cache = cache_options(call.options);
    if (call.has("read") && !call.options.arch.empty()) setup.compile_only = true;
    Service service(std::move(setup));
    if (call.options.use_cache) check_cache_directory(service, call.options);
    warnings.release();
    if (service.backend() == Backend::host && call.has("read"))
        throw UsageError(
            "--read is compared with a prediction for a GPU: name it by --arch, such as "
            "--arch sm_90a.");
    if (!call.has("read")) no_device(service);

    const Variant variant = chosen_variant(service.find(call.words[0]), std::span(call.words).subspan(1));
    AnalyzeOptions options;
    options.sizes = given_sizes(call);
    options.test_sizes = call.flag("test-sizes");
    options.most_blocks = kRecordedBlocks;
    options.most_ms = kRecordedMs;
    const Sizes sizes = variant.problem(options.sizes, options.test_sizes).sizes;

    ProfileReport report;
    report.template_name = variant.template_name();
    report.values = variant.values();
    report.backend = service.backend();
    if (service.has_device()) report.device = service.device().info().name;
    if (call.has("read"))
        read_page(call, variant, report);
    else
        measure(call, service, variant, sizes, report);
    {
        const Progress progress(call.terminal, "analysing");
        report.analysis = Analyzer(service).analyze(variant, options);
    }
    call.print(to_json(report), to_text(report, call.terminal));
    if (report.pass()) return kPassed;
    std::string missed;
    for (const ThresholdCheck& check : report.thresholds())
        if (check.met == false)
            missed +=
                (missed.empty() ? "" : "; ") + check.name + " is " + check.found + ", wanted " + check.wanted;
    call.terminal.complain("a threshold is missed: " + missed);
    return kNegative;
}

}  // namespace kiln::cli
