// SPDX-License-Identifier: Apache-2.0
//
// Problems that nobody has tuned for: drawn from a seed, computed by what an application gets from the chooser, and
// compared with the others' own choice. Next to the chosen variant others are timed: those that the chooser considers
// for this problem, and for the other problems of the family. So the loss of choosing is told apart from the loss of
// kernels. A problem that no template computes has a row without times, which says so.
#include <kiln/error.h>
#include <kiln/model.h>
#include <kiln/tune.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "bench/bare_cuda.h"
#include "bench/comparator_run.h"
#include "bench/cub_comparators.h"
#include "bench/cublas.h"
#include "bench/helper/sources.h"
#include "bench/suites.h"
#include "bench/unseen_problems.h"
#include "bench/variant_times.h"
#include "format/format.h"

namespace kiln::bench {
namespace {

constexpr std::size_t kConsidered = 400;   // by the chooser for one problem
constexpr std::size_t kOwn = 6;            // of them that are timed, each with another tile or grid
constexpr std::size_t kSpread = 5;         // of all that it considers, evenly spread
constexpr std::size_t kMostOthers = 60;    // variants that are timed next to the chosen one
constexpr std::size_t kBuiltTogether = 4;  // problems whose variants are compiled before the first of them
constexpr double kLessWithoutWisdom = 0.03;
constexpr const char* kBestKnown = "best known variant";
constexpr std::uint64_t kTuneSeed = 7;

using Considered = std::vector<ConsideredVariant>;

/// A problem and what the chooser makes of it.
struct Prepared {
    DrawnProblem problem;
    std::vector<Template> templates;  ///< empty: none computes it
    std::optional<Choice> choice;     ///< empty: no template takes it
    Considered considered;            ///< the first few of those with different tiles or grids
};

/// Of the templates that stand for the family, those that are there and run on this device.
std::vector<Template> anchors_of(Benchmark& bench, const DrawnFamily& family) {
    std::vector<Template> found;
    for (const std::string_view name : family.templates) {
        try {
            Template of = bench.service().find(name).for_target(bench.service().target());
            if (of.runs_on(bench.service().backend(), bench.service().target().arch))
                found.push_back(std::move(of));
        } catch (const Error&) {
            // Another template stands for the family.
        }
    }
    return found;
}

/// A boolean parameter that the template lacks counts as false, as for Chooser::choose().
bool allows(const Template& of, const std::string& name, const Value& value) {
    const Parameter* const parameter = of.parameter(name);
    return parameter != nullptr ? parameter->allows(value) : value.is_bool() && !value.as_bool();
}

/// Whether it has variants for these values, which its rules may exclude together.
bool computes(const Template& of, const Values& fixed) {
    Values own;
    for (const auto& one : fixed) {
        if (!allows(of, one.first, one.second)) return false;
        if (of.parameter(one.first) != nullptr) own.insert(one);
    }
    return of.first_variant(own).has_value();
}

/// Those that compute the problem, as one of the family's templates does: the most that compute the same.
std::vector<Template> templates_of(Benchmark& bench, const DrawnFamily& family, const Values& fixed) {
    std::vector<Template> most;
    for (const Template& of : anchors_of(bench, family)) {
        if (!computes(of, fixed)) continue;
        std::vector<Template> found = bench.chooser().candidates(of, fixed);
        if (found.size() > most.size()) most = std::move(found);
    }
    return most;
}

std::string fixed_text(const Values& values) {
    std::string text;
    for (const auto& [name, value] : values) text += (text.empty() ? "" : " ") + name + "=" + value.text();
    return text;
}

/// Why there are no templates_of() the problem.
std::string why_none(Benchmark& bench, const DrawnFamily& family, const Values& fixed) {
    const std::vector<Template> anchors = anchors_of(bench, family);
    if (anchors.empty()) return "no template of this family runs on " + bench.service().target().arch;
    Values missing;
    for (const auto& one : fixed)
        if (std::ranges::none_of(anchors,
                                 [&](const Template& of) { return allows(of, one.first, one.second); }))
            missing.insert(one);
    return "no template has " + fixed_text(missing.empty() ? fixed : missing);
}

/// What distinguishes variants most: the template, its tile, and how many blocks there are.
std::string kind_of(const Variant& variant, const Sizes& sizes) {
    const Problem problem = variant.problem(sizes);
    const ModelFacts facts = variant.model(problem.sizes);
    std::string text = formatted("{} {} {}", variant.template_name(), variant.block().count(),
                                 variant.dynamic_shared_bytes());
    if (facts.tiles)
        text = formatted("{} {} {} {:d}", variant.template_name(), facts.tiles->rows, facts.tiles->columns,
                         facts.pingpong);
    return text;
}

Prepared prepared(Benchmark& bench, const DrawnFamily& family, DrawnProblem problem) {
    Prepared one{std::move(problem), {}, {}, {}};
    one.templates = templates_of(bench, family, one.problem.fixed);
    if (one.templates.empty()) return one;
    try {
        one.choice = bench.chooser().choose(one.templates, one.problem.fixed, one.problem.sizes);
        Considered all =
            bench.chooser().considered(one.templates, one.problem.fixed, one.problem.sizes, kConsidered);
        for (ConsideredVariant& considered : all)
            considered.variant = with_overlap(considered.variant, false);
        std::set<std::string> kinds;
        for (const ConsideredVariant& considered : all)
            if (one.considered.size() < kOwn &&
                kinds.insert(kind_of(considered.variant, one.problem.sizes)).second)
                one.considered.push_back(considered);
        // And some that the model does not think much of.
        for (std::size_t i = 0; i < kSpread; ++i) one.considered.push_back(all[all.size() * i / kSpread]);
    } catch (const Error&) {
        // Reported by its row.
    }
    return one;
}

/// The same way to compute another problem; nullopt: that is not allowed there.
std::optional<Variant> for_problem(const Prepared& one, const Variant& variant,
                                   const Values& problem_values) {
    const auto of = std::ranges::find_if(
        one.templates, [&](const Template& own) { return own.name() == variant.template_name(); });
    if (of == one.templates.end()) return std::nullopt;
    Values values = variant.values();
    for (const auto& [name, value] : problem_values)
        if (values.contains(name)) values.insert_or_assign(name, value);
    try {
        Variant other = of->variant(values);
        static_cast<void>(other.problem(one.problem.sizes));
        return other;
    } catch (const VariantError&) {
        return std::nullopt;
    }
}

/// The variants to be timed for a problem: its own, then those of the other problems.
std::vector<Variant> others_of(const std::vector<Prepared>& all, const Prepared& one) {
    std::vector<Variant> list;
    std::set<std::string> seen;
    const auto add = [&](const Variant& variant) {
        if (list.size() < kMostOthers && seen.insert(variant.text()).second) list.push_back(variant);
    };
    for (const ConsideredVariant& considered : one.considered) add(considered.variant);
    for (const Prepared& other : all) {
        if (other.choice)
            if (const auto variant =
                    for_problem(one, with_overlap(other.choice->variant, false), one.problem.fixed))
                add(*variant);
    }
    for (std::size_t place = 0; place < kOwn + kSpread; ++place)
        for (const Prepared& other : all)
            if (place < other.considered.size())
                if (const auto variant = for_problem(one, other.considered[place].variant, one.problem.fixed))
                    add(*variant);
    return list;
}

/// The rows of one family.
class Family {
  public:
    Family(Benchmark& bench, BenchSuite& suite, const DrawnFamily& family)
        : bench_(bench), suite_(suite), family_(family) {}

    void run();

  private:
    void build(std::span<const Prepared* const> problems);
    void measure(BenchRow& row, const Prepared& one);
    void add_peers(BenchRow& row, const Prepared& one, ComparatorRun& run);
    void add_library(BenchRow& row, ComparatorRun& run);
    void add_memory(const Prepared& one, ComparatorRun& run);
    void add_copy(ComparatorRun& run);
    std::optional<Variant> tuned(BenchRow& row, const Prepared& one);
    void add_choice(BenchRow& row, const Prepared& one, const VariantTimes& times,
                    const std::optional<Variant>& tuned);

    Benchmark& bench_;
    BenchSuite& suite_;
    const DrawnFamily& family_;
    std::optional<CubFunction> cub_;
    Buffer counts_, copy_from_, copy_to_;
    std::vector<Prepared> all_;
};

void Family::run() {
    const BenchOptions& options = bench_.options();
    for (DrawnProblem& problem : drawn_problems(family_.part, options.seed, options.draws, !bench_.on_gpu()))
        all_.push_back(prepared(bench_, family_, std::move(problem)));
    std::vector<const Prepared*> missing;
    for (const Prepared& one : all_)
        if (bench_.measures(suite_, family_.part, one.problem.text)) missing.push_back(&one);
    if (missing.empty()) return;
    if (family_.peer == Peer::memory && bench_.wants("cub") && bench_.on_cuda()) {
        if (family_.part == "reduction") cub_.emplace(bench_, kCubSum, "kiln_cub_sum");
        if (family_.part == "histogram") cub_.emplace(bench_, kCubHistogram, "kiln_cub_histogram");
    }
    for (std::size_t i = 0; i < missing.size(); ++i) {
        if (i % kBuiltTogether == 0)
            build(std::span(missing).subspan(i, std::min(kBuiltTogether, missing.size() - i)));
        bench_.row(suite_, missing[i]->problem.text, [&](BenchRow& row) { measure(row, *missing[i]); });
    }
    const double less = options.no_wisdom ? kLessWithoutWisdom : 0;
    for (const DrawnAim& aim : family_.aims) {
        BenchMean mean;
        mean.with = aim.with;
        mean.part = family_.part;
        mean.percent = aim.percent;
        mean.must = aim.must - less;
        mean.aim = aim.aim;
        mean.low_must = aim.low_must - less;
        mean.low_aim = aim.low_aim;
        add_mean(suite_, std::move(mean));
    }
}

/// All variants that these problems need at once, so that as many compile as there are processors. Those of all problems
/// of a family may take longer than a run has: a run that ends early has measured the first problems.
void Family::build(std::span<const Prepared* const> problems) {
    if (bench_.time_left().count() == 0) return;
    std::vector<Variant> variants;
    std::set<std::string> seen;
    const auto add = [&](const Variant& variant) {
        if (seen.insert(variant.text()).second) variants.push_back(variant);
    };
    for (const Prepared* const one : problems) {
        if (one->choice) add(with_overlap(one->choice->variant, false));
        for (const Variant& variant : others_of(all_, *one)) add(variant);
    }
    bench_.begin(suite_, "building");
    bench_.build(variants);
    if (cub_) cub_->wait();
}

void Family::measure(BenchRow& row, const Prepared& one) {
    if (one.templates.empty()) {
        row.sizes = one.problem.sizes;
        row.notes.push_back(why_none(bench_, family_, one.problem.fixed));
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
    std::vector<Variant> others = others_of(all_, one);
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

void Family::add_peers(BenchRow& row, const Prepared& one, ComparatorRun& run) {
    switch (family_.peer) {
        case Peer::cublas_half:
        case Peer::cublas_float:
            add_library(row, run);
            return;
        case Peer::copy:
            return;
        case Peer::memory:
            attempt(row, "CUB", [&] { add_memory(one, run); });
            add_copy(run);
            break;
        case Peer::attention:
        case Peer::torch:
            break;
    }
    if (TorchProcess* const torch = one.problem.torch.empty() ? nullptr : bench_.torch(suite_))
        run.add_torch(*torch, one.problem.torch, {});
    if (family_.peer == Peer::attention)
        run.join("cuDNN or FlashAttention", {"cuDNN", "FlashAttention"}, {});
    else if (family_.peer == Peer::torch)
        run.join("PyTorch", {"eager", "torch.compile"}, {});
    else
        run.join("best of the others", {"eager", "torch.compile", "CUB", "0.95 of a copy"}, {});
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

void Family::add_memory(const Prepared& one, ComparatorRun& run) {
    if (!cub_) return;
    if (family_.part == "histogram")
        add_cub_histogram(bench_, suite_, *cub_, run, counts_, {});
    else if (one.problem.fixed.at("T").text() == "float")
        add_cub_sum(bench_, suite_, *cub_, run, {});
}

/// The driver's copy that moves as many bytes as the problem. It reads half of them and writes half.
void Family::add_copy(ComparatorRun& run) {
    if (!bench_.on_cuda()) return;
    const auto bytes = static_cast<std::size_t>(run.kernel().problem().bytes / 2 / 16 * 16);
    copy_from_ = bench_.service().device().allocate(std::max<std::size_t>(bytes, 256));
    copy_to_ = bench_.service().device().allocate(std::max<std::size_t>(bytes, 256));
    copy_from_.fill(0x5a5a5a5a);
    run.add_verified(
        "0.95 of a copy", "the driver's, of as many bytes",
        [this, bytes, driver = BareCuda(bench_.service().device().info().ordinal)] {
            driver.copy(copy_to_.data(), copy_from_.data(), bytes, bench_.stream().handle());
        },
        true, {}, 1 / 0.95);
}

/// What the tuner finds in the time that is given; nullopt: it is not asked, or finds nothing.
std::optional<Variant> Family::tuned(BenchRow& row, const Prepared& one) {
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
void Family::add_choice(BenchRow& row, const Prepared& one, const VariantTimes& times,
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

}  // namespace kiln::bench
