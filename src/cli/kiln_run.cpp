// SPDX-License-Identifier: Apache-2.0
//
// kiln run: a template on its own declared problem, checked against its reference and timed.
#include <kiln/error.h>
#include <kiln/run.h>

#include <limits>
#include <optional>

#include "cli/command_line.h"
#include "cli/kiln_command.h"
#include "cli/option_values.h"
#include "cli/run_report.h"

namespace kiln::cli {
namespace {

constexpr int kMostLaunches = 1'000'000;

int launches(const Call& call, const char* option, std::uint64_t least) {
    return static_cast<int>(
        parse_whole(std::string("--") + option, call.value(option), least, kMostLaunches));
}

RunOptions run_options(const Call& call) {
    RunOptions options;
    options.sizes = given_sizes(call);
    options.test_sizes = call.flag("test-sizes");
    if (call.has("data"))
        options.data = static_cast<Data>(
            parse_choice("--data", call.value("data"), {"random", "integers", "contributions"}));
    if (call.has("seed"))
        options.seed =
            parse_whole("--seed", call.value("seed"), 0, std::numeric_limits<std::uint64_t>::max());
    if (call.has("check"))
        options.check = static_cast<Check>(
            parse_choice("--check", call.value("check"), {"full", "sample", "none", "freivalds"}));
    options.gemm = options.check == Check::freivalds;
    if (call.has("iterations")) options.iterations = launches(call, "iterations", 1);
    if (call.has("warm-up")) options.warm_up = launches(call, "warm-up", 0);
    options.cold_l2 = call.flag("cold-l2");
    options.graph = call.flag("graph");
    options.time = !call.flag("no-time");
    for (const char* timing : {"iterations", "warm-up"})
        if (!options.time && call.has(timing))
            throw UsageError(std::string("--") + timing +
                             " is about timing, and --no-time turns it off; leave one out.");
    for (const char* timing : {"cold-l2", "graph", "compare"})
        if (!options.time && call.flag(timing))
            throw UsageError(std::string("--") + timing +
                             " is about timing, and --no-time turns it off; leave one out.");
    return options;
}

}  // namespace

int run_template(const Call& call) {
    RunOptions options = run_options(call);
    Warnings warnings(call.terminal);
    ServiceOptions setup = service_options(call.options, warnings, call.interrupts.token());
    setup.cache = cache_options(call.options);
    Service service(std::move(setup));
    if (call.options.use_cache) check_cache_directory(service, call.options);
    warnings.release();
    say_why_host(service, call.options, call.terminal);

    if (service.backend() == Backend::host) options.test_sizes = true;
    std::optional<Choice> choice;
    if (call.flag("best")) choice = best_choice(service, call, options.test_sizes);
    const Variant variant =
        choice ? choice->variant
               : chosen_variant(service.find(call.words[0]), std::span(call.words).subspan(1));
    Runner runner(service);
    RunReport report{variant, service.backend(), service.device().info().name, service.target().arch,
                     options};
    report.choice = std::move(choice);
    const std::optional<Variant> naive = call.flag("compare") ? runner.naive(variant) : std::nullopt;
    if (call.flag("compare") && !naive)
        throw UsageError(
            variant.template_name() +
            " declares no template to compare with; its front matter would have a line such as '//@ "
            "naive gemm_naive'. Leave --compare out.");
    std::optional<StdoutToStderr> aside(std::in_place);
    std::optional<Progress> progress;
    options.on_phase = [&](std::string_view phase) { progress.emplace(call.terminal, std::string(phase)); };
    report.result = runner.run(variant, options);
    if (naive) {
        RunOptions same = options;
        same.sizes = Runner::shared_sizes(*naive, report.result.problem.sizes);
        same.check = Check::none;
        same.gemm = false;
        report.naive = naive;
        report.naive_result = runner.run(*naive, same);
    }
    progress.reset();
    aside.reset();

    call.print(to_json(report), to_text(report, call.terminal));
    return told(report.result, call.terminal);
}

}  // namespace kiln::cli
