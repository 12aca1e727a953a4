// SPDX-License-Identifier: Apache-2.0
//
// Timing, the choice of variants, comparators, and the handling of errors. Ceilings: ceilings.cpp.
#include "bench/benchmark.h"

#include <kiln/error.h>

#include <algorithm>
#include <cmath>

#include "base/stopwatch.h"
#include "bench/child.h"
#include "bench/cub.h"
#include "bench/cublas.h"
#include "bench/results.h"
#include "bench/torch.h"
#include "format/format.h"

namespace kiln::bench {
namespace {

constexpr std::chrono::seconds kGrace{20}, kTorchStart{120};

struct LaunchBudget {
    double warm_up_us, budget_us;
    int least, most;
};
constexpr LaunchBudget kFull = {60e3, 400e3, 11, 51}, kQuick = {10e3, 60e3, 5, 11}, kHost = {0, 0, 3, 3};

}  // namespace

Wisdom wisdom_of(const BenchOptions& options) {
    std::string problem;
    Wisdom wisdom = options.no_wisdom ? Wisdom() : Wisdom::usual(&problem);
    // Otherwise other variants than usual would be measured silently.
    if (!problem.empty() && options.service.on_warning) options.service.on_warning(problem);
    return wisdom;
}

Benchmark::Benchmark(const BenchOptions& options)
    : options_(options),
      service_(options.service),
      monitor_(service_.backend() == Backend::cuda ? pci_bus_id(service_.device().info().ordinal) : ""),
      references_(service_) {
    const DeviceInfo& device = service_.device().info();
    run_.date = utc_now();
    run_.id = run_identity(run_.date);
    run_.machine = machine_text();
    run_.device = device.name;
    run_.arch = service_.target().arch;
    run_.driver = device.driver + (monitor_.driver().empty() ? "" : ", driver " + monitor_.driver());
    run_.quick = options.quick;
    run_.versions["Kiln"] = version();
}
Benchmark::~Benchmark() = default;

std::vector<std::vector<double>> Benchmark::interleaved_us(const std::vector<Launch>& contenders,
                                                           int rounds) {
    if (!timer_) timer_.emplace(service_, true);
    const LaunchBudget effort = !on_gpu() ? kHost : quick() ? kQuick : kFull;
    for (const Stopwatch watch; on_gpu() && watch.elapsed_us() < effort.warm_up_us; stream().synchronize())
        for (const Launch& launch : contenders) launch();

    if (rounds == 0) rounds = options_.rounds.value_or(0);
    if (rounds == 0 && effort.least == effort.most) rounds = effort.least;
    if (rounds == 0) {
        const Stopwatch watch;
        for (const Launch& launch : contenders) {
            timer_->flush();
            launch();
        }
        stream().synchronize();
        rounds =
            static_cast<int>(std::clamp(effort.budget_us / watch.elapsed_us(),
                                        static_cast<double>(effort.least), static_cast<double>(effort.most)));
    }

    std::vector<std::vector<double>> times = timer_->interleaved_ms(contenders, rounds);
    for (std::vector<double>& of_one : times)
        for (double& time : of_one) time *= 1000;
    return times;
}

bool Benchmark::wants(std::string_view comparator) const {
    return !options_.compare || std::ranges::find(*options_.compare, comparator) != options_.compare->end();
}

void Benchmark::missing(BenchSuite& suite, const std::string& comparator, const std::string& why) const {
    const std::string note = comparator + " is not compared with: " + why;
    std::vector<std::string>& list = options_.compare ? suite.failures : suite.notes;
    if (std::ranges::find(list, note) == list.end()) list.push_back(note);
}

void Benchmark::open_cublas() {
    if (cublas_tried_) return;
    cublas_tried_ = true;
    if (!on_cuda())
        cublas_problem_ = "it needs a CUDA device";
    else
        cublas_ = Cublas::open(*this, cublas_problem_);
}

Cublas* Benchmark::cublas(BenchSuite& suite) {
    if (!wants("cublas")) return nullptr;
    open_cublas();
    if (!cublas_)
        missing(suite, "cublas", cublas_problem_);
    else
        add_version("cuBLAS", cublas_->version());
    return cublas_.get();
}

TorchProcess* Benchmark::torch(BenchSuite& suite) {
    if (!wants("torch")) return nullptr;
    if (!on_cuda()) {
        missing(suite, "torch", "it needs a CUDA device");
        return nullptr;
    }
    open_torch();
    if (!torch_->problem().empty()) {
        missing(suite, "torch", torch_->problem());
        return nullptr;
    }
    for (const auto& [of, version] : torch_->versions()) add_version(of, version);
    return torch_.get();
}

void Benchmark::open_torch() {
    if (torch_) return;
    TorchSetup setup;
    setup.device = service_.device().info().ordinal;
    setup.quick = quick();
    setup.flush_bytes = CacheFlusher::buffer_bytes(service_.device().info());
    setup.stop = options_.stop;
    torch_ = std::make_unique<TorchProcess>(std::move(setup), at_most(kTorchStart));
}

std::string Benchmark::problem_of(std::string_view comparator) {
    if (comparator == "openblas") return openblas_problem(options_);
    if (!on_cuda()) return "it needs a CUDA device";
    if (comparator == "cub") return nvcc_problem();
    if (comparator == "torch") {
        open_torch();
        return torch_->problem();
    }
    open_cublas();
    return cublas_problem_;
}

const Chooser& Benchmark::chooser() {
    if (!chooser_) chooser_.emplace(service_, wisdom_of(options_));
    return *chooser_;
}

Chosen Benchmark::choose(const std::vector<std::string>& templates, const Values& fixed, const Sizes& sizes) {
    const Chooser& chooser = this->chooser();
    std::vector<Template> found;
    std::string why;
    for (const std::string& name : templates) {
        try {
            found.push_back(service_.find(name));
        } catch (const UsageError& error) {
            why = error.what();
        }
    }
    if (found.empty()) throw UsageError(why);
    Choice choice = chooser.choose(found, fixed, sizes);
    if (choice.origin != ChoiceOrigin::model)
        return {with_overlap(choice.variant, false), std::string(name(choice.origin))};
    // The model orders the variants of a template, but the order of templates given here is more reliable.
    for (const Template& preferred : found) {
        try {
            choice = chooser.choose(preferred, fixed, sizes);
            break;
        } catch (const VariantError&) {
            // Try the next one; at least one can.
        }
    }
    return {with_overlap(choice.variant, false), std::string(name(choice.origin))};
}

void Benchmark::prepare(const BenchSuite& suite, const std::vector<Wanted>& list) {
    begin(suite, "building");
    if (service_.cache_directory().empty() || !service_.cache_problem().empty()) return;
    std::vector<Variant> variants;
    for (const Wanted& one : list) {
        try {
            variants.push_back(choose(one.templates, one.fixed, one.sizes).variant);
        } catch (const std::exception&) {
            // Reported by its row.
        }
    }
    build(variants);
}

void Benchmark::build(const std::vector<Variant>& variants) {
    if (service_.cache_directory().empty() || !service_.cache_problem().empty()) return;
    std::vector<std::future<Compiled>> builds;
    std::vector<Variant> references;
    for (const Variant& variant : variants) {
        builds.push_back(service_.compile_async(variant));
        add_references(host(), variant, references);
    }
    for (const Variant& reference : references) builds.push_back(host().compile_async(reference));
    for (std::future<Compiled>& build : builds) {
        try {
            build.get();
        } catch (const Error&) {
            // Reported by the row that needs it.
        }
    }
}

void Benchmark::begin_part(std::string name, std::vector<std::string>* missing) {
    part_ = std::move(name);
    missing_ = missing;
    part_ends_ = Clock::now() + options_.part_limit;
    if (options_.limit) part_ends_ = std::min(part_ends_, began_ + *options_.limit);
}

bool Benchmark::measures(const BenchSuite& suite, std::string_view part, std::string_view problem) const {
    if (part != part_) return false;
    const auto found = std::ranges::find(suite.rows, problem, &BenchRow::problem);
    return found == suite.rows.end() || (found->run != run_.id && !is_good(*found));
}

std::chrono::milliseconds Benchmark::time_left() const {
    if (part_ends_ == Clock::time_point::max()) return std::chrono::hours(1);
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(part_ends_ - Clock::now());
    return std::max(left, std::chrono::milliseconds(0));
}

std::chrono::milliseconds Benchmark::at_most(std::chrono::seconds limit) const {
    return std::min<std::chrono::milliseconds>(limit, time_left() + kGrace);
}

void Benchmark::begin(const BenchSuite& suite, const std::string& what) const {
    if (options_.stop.stop_requested()) throw Stopped();
    if (options_.on_phase) options_.on_phase(suite.name, what);
}

void Benchmark::row(BenchSuite& suite, std::string problem, const std::function<void(BenchRow&)>& measure) {
    if (time_left().count() == 0) return leave_out(std::move(problem));
    begin(suite, problem);
    BenchRow row;
    row.problem = std::move(problem);
    row.unit = "us";
    const Stopwatch watch;
    try {
        measure(row);
    } catch (const std::exception& error) {
        // The failure may be due to the stop, which also ends compilers and processes.
        if (options_.stop.stop_requested()) throw Stopped();
        row.failures.emplace_back(error.what());
    }
    row.seconds = watch.elapsed_ms() / 1000;
    add_row(suite, std::move(row));
}

void Benchmark::leave_out(std::string problem) const {
    if (missing_ != nullptr) missing_->push_back(std::move(problem));
}

void Benchmark::add_row(BenchSuite& suite, BenchRow row) {
    if (!measures(suite, part_, row.problem)) return;
    row.part = part_;
    row.run = run_.id;
    const auto found = std::ranges::find(suite.rows, row.problem, &BenchRow::problem);
    (found != suite.rows.end() ? *found : suite.rows.emplace_back()) = std::move(row);
    if (after_row_) after_row_();
}

Variant with_overlap(const Variant& variant, bool overlap) {
    const std::string parameter = "PDL";
    if (variant.origin().parameter(parameter) == nullptr) return variant;
    Values values = variant.values();
    values.insert_or_assign(parameter, overlap);
    return variant.origin().variant(values);
}

bool attempt(BenchRow& row, const std::string& with, const std::function<void()>& body) {
    try {
        body();
        return true;
    } catch (const std::exception& error) {
        row.notes.push_back(with + " failed: " + error.what());
        return false;
    }
}

BenchComparison compared(const BenchRow& row, std::string with, std::string detail,
                         std::vector<double> samples, std::optional<double> must, std::optional<double> aim) {
    BenchComparison result;
    result.with = std::move(with);
    result.detail = std::move(detail);
    result.time = spread_of(std::move(samples));
    result.ratio = result.time->median / row.kiln->median;
    result.must = must;
    result.aim = aim;
    return result;
}

BenchComparison share_of(const BenchRow& row, std::string with, double least_us, std::optional<double> must,
                         std::optional<double> aim) {
    BenchComparison result;
    result.with = std::move(with);
    result.is_ceiling = true;
    result.ratio = least_us / row.kiln->median;
    result.must = must;
    result.aim = aim;
    return result;
}

std::optional<BenchComparison> roof_share(const BenchRow& row, const Ceilings& ceilings,
                                          const Problem& problem, bool matrix) {
    const double flops_per_us = matrix ? ceilings.matrix_flops_per_us : ceilings.fma_flops_per_us;
    const double copy_us =
        ceilings.copy_bytes_per_us > 0 ? static_cast<double>(problem.bytes) / ceilings.copy_bytes_per_us : 0;
    const double compute_us = flops_per_us > 0 ? static_cast<double>(problem.flops) / flops_per_us : 0;
    if (copy_us <= 0 && compute_us <= 0) return std::nullopt;
    if (copy_us >= compute_us) return share_of(row, "copy", copy_us);
    return share_of(row, matrix ? "matrix" : "FP32", compute_us);
}

std::string product_text(std::int64_t m, std::int64_t n, std::int64_t k) {
    return formatted("{} x {} x {}", m, n, k);
}

}  // namespace kiln::bench
