// SPDX-License-Identifier: Apache-2.0
//
// Problems that nobody has tuned for: drawn from a seed, computed by what an application gets from the chooser, and
// compared with the others' own choice. Next to the chosen variant others are timed (drawn_choices.h), so that the loss
// of choosing is told apart from the loss of kernels. A problem that no template computes has a row without times, which says so.
#include <kiln/error.h>
#include <kiln/tune.h>

#include <algorithm>
#include <chrono>
#include <span>

#include "bench/bare_cuda.h"
#include "bench/comparator_run.h"
#include "bench/cub_comparators.h"
#include "bench/cublas.h"
#include "bench/drawn_choices.h"
#include "bench/helper/sources.h"
#include "bench/suites.h"
#include "bench/torch.h"
#include "bench/variant_times.h"
#include "format/format.h"

namespace kiln::bench {
namespace {

constexpr std::size_t kBuiltTogether = 4;   // problems whose variants are compiled before the first of them
constexpr std::size_t kTorchTogether = 16;  // the same of torch.compile, which takes seconds for each
constexpr std::chrono::seconds kTorchLimit{120};
constexpr double kLessWithoutWisdom = 0.03;
constexpr const char* kBestKnown = "best known variant";
constexpr const char* k95OfACopy = "0.95 of a copy";
constexpr std::uint64_t kTuneSeed = 7;

/// The rows of one family.
class Family {
  public:
    Family(Benchmark& bench, BenchSuite& suite, const DrawnFamily& family)
        : bench_(bench), suite_(suite), family_(family) {}

    void run();

  private:
    std::size_t most_others() const { return static_cast<std::size_t>(bench_.options().others); }
    void build(std::span<const DrawnChoice* const> problems);
    void compile_torch(std::span<const DrawnChoice* const> problems);
    void measure(BenchRow& row, const DrawnChoice& one);
    void add_peers(BenchRow& row, const DrawnChoice& one, ComparatorRun& run);
    void add_library(BenchRow& row, ComparatorRun& run);
    void add_memory(const DrawnChoice& one, ComparatorRun& run);
    void add_copy(ComparatorRun& run, std::string_view with, double times = 1);
    std::optional<Variant> tuned(BenchRow& row, const DrawnChoice& one);
    void add_choice(BenchRow& row, const DrawnChoice& one, const VariantTimes& times,
                    const std::optional<Variant>& tuned);

    Benchmark& bench_;
    BenchSuite& suite_;
    const DrawnFamily& family_;
    std::optional<CubFunction> cub_;
    Buffer counts_, copy_from_, copy_to_;
    std::vector<DrawnChoice> all_;
};

bool is_of_shard(std::size_t number, const BenchOptions& options) {
    return number % options.shards == options.shard;
}

void Family::run() {
    const BenchOptions& options = bench_.options();
    all_ = choices_of(bench_.service(), bench_.chooser(), family_, options.seed, options.draws);
    std::vector<const DrawnChoice*> missing;
    for (std::size_t i = 0; i < all_.size(); ++i) {
        const std::string& problem = all_[i].problem.text;
        if (!bench_.measures(suite_, family_.part, problem)) continue;
        if (is_of_shard(i, options))
            missing.push_back(&all_[i]);
        else
            bench_.leave_out(problem);
    }
    if (missing.empty()) return;
    if (family_.peer == Peer::memory && bench_.wants("cub") && bench_.on_cuda()) {
        if (family_.part == "reduction") cub_.emplace(bench_, kCubSum, "kiln_cub_sum");
        if (family_.part == "histogram") cub_.emplace(bench_, kCubHistogram, "kiln_cub_histogram");
    }
    for (std::size_t i = 0; i < missing.size(); ++i) {
        if (i % kBuiltTogether == 0)
            build(std::span(missing).subspan(i, std::min(kBuiltTogether, missing.size() - i)));
        if (i % kTorchTogether == 0)
            compile_torch(std::span(missing).subspan(i, std::min(kTorchTogether, missing.size() - i)));
        bench_.row(suite_, missing[i]->problem.text, [&](BenchRow& row) { measure(row, *missing[i]); });
    }
    const double less = options.no_wisdom ? kLessWithoutWisdom : 0;
    for (const DrawnAim& aim : family_.aims) {
        BenchMean mean;
        mean.with = aim.with;
        mean.part = family_.part;
        mean.percent = aim.percent;
        if (aim.must) mean.must = *aim.must - less;
        mean.aim = aim.aim;
        if (aim.low_must) mean.low_must = *aim.low_must - less;
        mean.low_aim = aim.low_aim;
        add_mean(suite_, std::move(mean));
    }
}

/// All variants that these problems need at once, so that as many compile as there are processors. Those of all problems
/// of a family may take longer than a run has: a run that ends early has measured the first problems.
void Family::build(std::span<const DrawnChoice* const> problems) {
    if (bench_.time_left().count() == 0) return;
    bench_.begin(suite_, "building");
    bench_.build(variants_of(all_, problems, most_others()));
    if (cub_) cub_->wait();
}

/// In half of the time that is left at most; a failure is reported by the row that it concerns.
void Family::compile_torch(std::span<const DrawnChoice* const> problems) {
    if (family_.peer != Peer::torch && family_.peer != Peer::memory) return;
    if (bench_.time_left().count() == 0) return;
    std::vector<std::string> wanted;
    for (const DrawnChoice* const one : problems)
        if (one->choice && !one->problem.torch.empty()) wanted.push_back(one->problem.torch);
    TorchProcess* const torch = wanted.empty() ? nullptr : bench_.torch(suite_);
    if (torch == nullptr) return;
    bench_.begin(suite_, "compiling by torch.compile");
    try {
        torch->compile_ahead(wanted,
                             std::min<std::chrono::milliseconds>(kTorchLimit, bench_.time_left() / 2));
    } catch (const Stopped&) {
        throw;
    } catch (const Error&) {
        // Reported by the rows.
    }
}

void Family::measure(BenchRow& row, const DrawnChoice& one) {
    if (one.templates.empty()) {
        row.sizes = one.problem.sizes;
        row.notes.push_back(why_none(bench_.service(), family_, one.problem.fixed));
        return;
    }
    if (!one.choice)
        static_cast<void>(bench_.chooser().choose(one.templates, one.problem.fixed, one.problem.sizes));
    for (Buffer* const memory : {&counts_, &copy_from_, &copy_to_}) *memory = Buffer();
    const std::optional<Variant> by_tuner = tuned(row, one);
    SharedTensors shared(bench_.service(), kInputSeed);
    ComparatorRun run(bench_, row,
                      {with_overlap(one.choice->variant, false), std::string(name(one.choice->origin))},
                      one.problem.sizes, fill_lengths, &shared);
    add_peers(row, one, run);
    std::vector<Variant> others = others_of(all_, one, most_others());
    if (by_tuner) others.insert(others.begin(), *by_tuner);
    VariantTimes times = time_variants(bench_, run.kernel(), shared, others, fill_lengths);
    run.time();
    for (const std::string& failure : times.failures) row.failures.push_back(failure);
    const Problem& problem = run.kernel().problem();
    if (family_.in_flops)
        set_flops_rate(row, problem);
    else
        set_bytes_rate(row, problem);
    if (family_.peer == Peer::copy)
        if (const double rate = bench_.ceilings(suite_).copy_bytes_per_us; rate > 0)
            row.comparisons.push_back(share_of(row, "copy", static_cast<double>(problem.bytes) / rate));
    add_choice(row, one, times, by_tuner);
}

void Family::add_peers(BenchRow& row, const DrawnChoice& one, ComparatorRun& run) {
    switch (family_.peer) {
        case Peer::cublas_half:
        case Peer::cublas_float:
            add_library(row, run);
            return;
        case Peer::copy:
            add_copy(run, kCopyOfAsManyBytes.with);
            return;
        case Peer::memory:
            attempt(row, "CUB", [&] { add_memory(one, run); });
            add_copy(run, k95OfACopy, 1 / 0.95);
            break;
        case Peer::torch:
            add_copy(run, kCopyOfAsManyBytes.with);
            break;
        case Peer::attention:
        case Peer::flash:
            break;
    }
    if (TorchProcess* const torch = one.problem.torch.empty() ? nullptr : bench_.torch(suite_))
        run.add_torch(*torch, one.problem.torch, {});
    if (family_.peer == Peer::attention)
        run.join("cuDNN or FlashAttention", {"cuDNN", "FlashAttention"}, {});
    else if (family_.peer == Peer::torch)
        run.join("PyTorch", {"eager", "torch.compile"}, {});
    else if (family_.peer == Peer::memory)
        run.join("best of the others", {"eager", "torch.compile", "CUB", k95OfACopy}, {});
}

void Family::add_library(BenchRow& row, ComparatorRun& run) {
    Cublas* const library = bench_.cublas(suite_);
    if (library == nullptr) return;
    VerifiedLaunch& kernel = run.kernel();
    const ProductPlan plan = product_plan(kernel);
    const void* const a = kernel.tensor("a").data();
    const void* const b = kernel.tensor("b").data();
    const bool is_float = family_.peer == Peer::cublas_float;
    attempt(row, "cublasLt", [&] {
        const GuardedTensor& result = run.result_like("c");
        const LibraryChoices choices = library->choices(plan, a, b, result.data());
        if (!is_float)
            run.add("cublasLt first heuristic", choices.first.detail, choices.first.launch, result, {},
                    plan.tolerance);
        run.add(is_float ? "cublasLt" : "cublasLt best of 8", choices.best.detail, choices.best.launch,
                result, {}, plan.tolerance);
    });
    if (is_float) add_single_precision(*library, row, run, {});
}

void Family::add_memory(const DrawnChoice& one, ComparatorRun& run) {
    if (!cub_) return;
    if (family_.part == "histogram")
        add_cub_histogram(bench_, suite_, *cub_, run, counts_, {});
    else if (one.problem.fixed.at("T").text() == "float")
        add_cub_sum(bench_, suite_, *cub_, run, {});
}

/// The driver's copy that moves as many bytes as the problem. It reads half of them and writes half.
void Family::add_copy(ComparatorRun& run, std::string_view with, double times) {
    if (!bench_.on_cuda()) return;
    const auto bytes = static_cast<std::size_t>(run.kernel().problem().bytes / 2 / 16 * 16);
    copy_from_ = bench_.service().device().allocate(std::max<std::size_t>(bytes, 256));
    copy_to_ = bench_.service().device().allocate(std::max<std::size_t>(bytes, 256));
    copy_from_.fill(0x5a5a5a5a);
    run.add_verified(
        std::string(with), "the driver's, of as many bytes",
        [this, bytes, driver = BareCuda(bench_.service().device().info().ordinal)] {
            driver.copy(copy_to_.data(), copy_from_.data(), bytes, bench_.stream().handle());
        },
        true, {}, times);
}

/// What the tuner finds in the time that is given; nullopt: it is not asked, or finds nothing.
std::optional<Variant> Family::tuned(BenchRow& row, const DrawnChoice& one) {
    if (bench_.options().tune_seconds <= 0) return std::nullopt;
    std::optional<Variant> found;
    attempt(row, "tuning", [&] {
        TuneOptions options;
        options.fixed = one.problem.fixed;
        options.shapes = {one.problem.sizes};
        options.budget_seconds = bench_.options().tune_seconds;
        options.seed = kTuneSeed;
        options.stop = bench_.options().stop;
        std::vector<Template> able;
        for (const Template& of : one.templates) {
            try {
                static_cast<void>(bench_.chooser().choose(of, one.problem.fixed, one.problem.sizes));
                able.push_back(of);
            } catch (const VariantError&) {
                // It does not take these sizes.
            }
        }
        const TuneReport report = tune(bench_.service(), able, options);
        const std::vector<WisdomEntry>& best = report.shapes.at(0).best;
        if (best.empty()) throw Error("no variant was timed");
        const auto of = std::ranges::find_if(
            able, [&](const Template& one_of) { return one_of.name() == best.front().template_name; });
        Values values;
        for (const auto& [name, value] : best.front().values)
            values.emplace(name, of->parameter(name)->parse(value.text()));
        found = with_overlap(of->variant(values), false);
    });
    return found;
}

/// Compares the chosen variant with the fastest that is known, and after tuning with the others.
void Family::add_choice(BenchRow& row, const DrawnChoice& one, const VariantTimes& times,
                        const std::optional<Variant>& tuned) {
    const VariantTime* best = &times.chosen;
    if (!times.others.empty() && times.others.front().us < best->us) best = &times.others.front();
    BenchComparison comparison;
    comparison.with = kBestKnown;
    comparison.detail = best == &times.chosen ? "the chosen one" : best->variant.text();
    comparison.time = BenchSpread{best->us, best->us, best->us, 1};
    comparison.ratio = best->us / times.chosen.us;
    row.comparisons.push_back(comparison);
    const auto us_of = [&](const Variant& variant) {
        if (variant == times.chosen.variant) return times.chosen.us;
        const auto found = std::ranges::find(times.others, variant, &VariantTime::variant);
        return found == times.others.end() ? times.chosen.us : found->us;
    };
    if (tuned) {
        const std::vector<BenchComparison> before = row.comparisons;
        for (const BenchComparison& peer : before) {
            if (peer.with == kBestKnown || std::ranges::none_of(family_.aims, [&](const DrawnAim& aim) {
                    return aim.with == peer.with;
                }))
                continue;
            BenchComparison after = peer;
            after.with += ", after tuning";
            after.detail = tuned->text();
            after.ratio = peer.ratio * times.chosen.us / us_of(*tuned);
            row.comparisons.push_back(std::move(after));
        }
    }
    if (!bench_.options().on_variant) return;
    const auto estimate_us = [&](const Variant& variant) {
        const auto found = std::ranges::find(one.considered, variant, &ConsideredVariant::variant);
        return found == one.considered.end() ? 0 : found->ms * 1000;
    };
    const auto tell = [&](const VariantTime& of, bool is_chosen) {
        bench_.options().on_variant({std::string(family_.part), fixed_text(one.problem.fixed),
                                     one.problem.sizes, of.variant.text(), is_chosen, estimate_us(of.variant),
                                     of.us});
    };
    tell(times.chosen, true);
    for (const VariantTime& other : times.others) tell(other, false);
}

}  // namespace

void run_unseen(Benchmark& bench, BenchSuite& suite) {
    for (const DrawnFamily& family : drawn_families())
        if (bench.is_part(family.part)) Family(bench, suite, family).run();
}

std::vector<Variant> unseen_variants(const Service& service, const Chooser& chooser, std::string_view part,
                                     const BenchOptions& options) {
    std::vector<DrawnChoice> all;
    for (const DrawnFamily& family : drawn_families())
        if (family.part == part) all = choices_of(service, chooser, family, options.seed, options.draws);
    std::vector<const DrawnChoice*> problems;
    for (std::size_t i = 0; i < all.size(); ++i)
        if (is_of_shard(i, options)) problems.push_back(&all[i]);
    return variants_of(all, problems, static_cast<std::size_t>(options.others));
}

}  // namespace kiln::bench
