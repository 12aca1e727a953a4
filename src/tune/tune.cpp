// SPDX-License-Identifier: Apache-2.0
//
// Tunes one shape after the other, each with an equal part of the remaining budget.
#include <kiln/error.h>
#include <kiln/tune.h>

#include <algorithm>
#include <future>

#include "base/no_cancel.h"
#include "base/number_range.h"
#include "format/format.h"
#include "run/reference.h"
#include "tune/candidate_runner.h"
#include "tune/candidates.h"
#include "tune/journal.h"
#include "tune/problem_space.h"
#include "tune/variant_search.h"

namespace kiln {
namespace {

constexpr int kMostFinalists = 1'000'000;
constexpr double kMostSeconds = 1e9;  // what a clock counts in nanoseconds ends at nine times as many

void check_templates(std::span<const Template> templates, const TuneOptions& options) {
    if (templates.empty()) throw UsageError("there is no template to tune.");
    check_shard(options.shard, options.shards);
    check_range("TuneOptions::finalists", options.finalists, 1, kMostFinalists);
    if (!(options.budget_seconds <= kMostSeconds))
        throw UsageError(formatted("the budget is {} seconds; it is a number of seconds up to {}.",
                                   options.budget_seconds, kMostSeconds));
    for (const Template& of : templates) {
        // An unknown parameter is reported by the template's own message.
        for (const auto& [name, value] : options.fixed)
            if (!has_parameters(of, {{name, value}})) static_cast<void>(of.variant({{name, value}}));
        if (!of.is_runnable())
            throw UsageError(of.name() +
                             " can't be tuned: it does not declare all of its arguments, so that it "
                             "can't be run.");
        const bool is_checked = std::ranges::any_of(
            of.tensors(), [](const TensorArgument& tensor) { return !tensor.reference.empty(); });
        if (!is_checked)
            throw UsageError(of.name() +
                             " can't be tuned: none of its outputs names a reference ('//@ output c "
                             "[m, n] by gemm_reference'), and a variant whose results are not checked must "
                             "not win.");
    }
}

/// One takes seconds, which may be all of a small budget; so they don't count. What is wrong with one is told by the check
/// of a candidate.
void compile_references(Service& host, std::span<const VariantSpace> spaces, const std::stop_token& stop) {
    std::vector<Variant> references;
    for (const VariantSpace& space : spaces) add_references(host, space.variants.front(), references);
    std::vector<std::future<Compiled>> compiles;
    for (const Variant& reference : references) compiles.push_back(host.compile_async(reference, stop));
    for (const std::future<Compiled>& compile : compiles) compile.wait();
}

std::string work_text(const Service& service, const TuneOptions& options, bool cold_l2) {
    std::string text =
        service.device().info().name + ", " + service.target().arch + (cold_l2 ? ", cold L2" : ", warm L2");
    if (options.shards > 1) text += formatted(", shard {} of {}", options.shard, options.shards);
    return text;
}

}  // namespace

inline namespace KILN_ABI {

TuneReport tune(Service& service, std::span<const Template> templates, const TuneOptions& options) {
    const NoCancel no_cancel;
    check_templates(templates, options);
    std::vector<Sizes> shapes = options.shapes;
    if (shapes.empty()) shapes.emplace_back();
    const std::vector<VariantSpace> spaces = legal_spaces(service, templates, options.fixed);
    // Wrong sizes are reported before the first shape is tuned.
    for (const Sizes& sizes : shapes) {
        for (const auto& [name, size] : sizes)
            if (size == 0)
                throw UsageError("with " + name + "=0 there is nothing to time, and nothing to tune.");
        check_sizes(spaces, sizes, options.test_sizes);
    }
    const auto budget = std::chrono::duration_cast<VariantSearch::Clock::duration>(
        std::chrono::duration<double>(std::max(options.budget_seconds, 0.0)));
    std::map<std::string, std::string> digests;
    for (const Template& of : templates) digests.emplace(of.name(), template_digest(of));

    const bool on_host = service.backend() == Backend::host;
    ReferenceService references(service);
    const bool cold_l2 = options.cold_l2.value_or(!on_host);
    CandidateRunner candidate_runner(service, references.get(), cold_l2, options.seed);
    Runner runner(service);
    Journal journal;
    if (!options.journal.empty())
        journal = Journal(options.journal, work_text(service, options, cold_l2), options.resume);

    compile_references(references.get(), spaces, options.stop);
    const auto start = VariantSearch::Clock::now();
    const Chooser chooser(service);
    TuneReport report;
    for (std::size_t i = 0; i < shapes.size() && !options.stop.stop_requested(); ++i) {
        const auto now = VariantSearch::Clock::now();
        const auto left = std::max(start + budget - now, VariantSearch::Clock::duration::zero());
        TuneProgress progress;
        progress.shape = i;
        progress.shapes = shapes.size();
        VariantSearch search(service, candidate_runner, runner, journal, options, digests, progress);
        report.shapes.push_back(
            search.run(spaces, shapes[i], chooser, now + left / static_cast<long>(shapes.size() - i)));
        report.wisdom.merge(report.shapes.back().best);
        if (options.on_shape) options.on_shape(report.shapes.back());
    }
    report.stopped = options.stop.stop_requested();
    // If candidates are left, another run may resume.
    if (!report.stopped && std::ranges::all_of(report.shapes, &TunedShape::complete)) journal.finish();
    report.seconds = std::chrono::duration<double>(VariantSearch::Clock::now() - start).count();
    return report;
}

}  // namespace KILN_ABI
}  // namespace kiln
