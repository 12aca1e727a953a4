// SPDX-License-Identifier: Apache-2.0
//
// The steps of a run. Invalid options are rejected before any work, memory is checked before any is allocated,
// and results are checked after the first launch, before any other. Later ones must give the same, on what the first left
// in scratch and elsewhere, and on other poisons. The launch on inputs that make each contribution visible comes last, so
// that times are those of random data.
#include <kiln/error.h>
#include <kiln/run.h>

#include <algorithm>
#include <set>

#include "base/no_cancel.h"
#include "base/number_range.h"
#include "run/inputs.h"
#include "run/isolated.h"
#include "run/launch_timer.h"
#include "run/memory_limit.h"
#include "run/problem_launch.h"
#include "run/result_check.h"

namespace kiln {
namespace {

constexpr int kIterations = 20;
constexpr int kWarmUp = 5;
constexpr int kMostLaunches = 1'000'000;

/// The plan of a run, made before anything is built or allocated.
struct Plan {
    Problem problem;
    std::optional<ResultCheck> check;  ///< not set: nothing is compared
    bool has_patterns = false;         ///< of inputs, for Data::contributions
};

void append(auto& list, const auto& more) {
    for (const auto& one : more)
        if (std::ranges::find(list, one) == list.end()) list.push_back(one);
}

void add(const SideEffects& found, RunResult& result) {
    append(result.overrun, found.overrun);
    append(result.changed, found.changed);
    append(result.not_zeroed, found.not_zeroed);
}

void keep_results(const ProblemLaunch& launch, RunResult& result) {
    for (const auto& memory : launch.tensors()) {
        if (!is_result(memory->tensor())) continue;
        std::vector<std::byte> bytes(memory->tensor().size_bytes());
        memory->read(0, bytes);
        result.outputs.emplace_back(memory->tensor().name, std::move(bytes));
    }
}

/// Whether the bits of an output are. Without a reference they may differ from launch to launch, such as a time.
bool is_compared(const RunResult& result, const std::string& output) {
    const auto tensor = std::ranges::find(result.problem.tensors, output, &Tensor::name);
    if (tensor != result.problem.tensors.end() && tensor->any_order) return false;
    return std::ranges::any_of(result.outputs_checked, [&](const OutputCheck& check) {
        return check.tensor == output && check.checked > 0;
    });
}

/// Notes how a launch differs that began with this poison.
void add(const Differences& found, ProblemLaunch& launch, const Results& before, Poison poison,
         const ReportPhase& tell, RunResult& result) {
    const bool passed = result.pass();
    for (OutputCheck& check : result.outputs_checked)
        if (const auto count = found.unwritten.find(check.tensor); count != found.unwritten.end())
            check.unwritten += count->second;
    std::vector<std::string> names = found.other_bits;
    std::erase_if(names, [&](const std::string& name) { return !is_compared(result, name); });
    // The results of a wrong kernel may depend on much.
    if (passed && !names.empty()) result.dependent = launch.dependences(before, names, poison, tell);
    for (const Dependence& one : result.dependent) std::erase(names, one.output);
    append(result.unstable, names);
}

/// Holds outputs of any order to their references after later launches, since their bits may be others.
class AnyOrderCheck {
  public:
    /// check: not set: does nothing. Must outlive it.
    AnyOrderCheck(std::optional<ResultCheck>& check, const CheckRequest& request)
        : check_(check), request_(request) {}

    void operator()(const ProblemLaunch& launch, const ReportPhase& tell, RunResult& result) const {
        if (!check_ || std::ranges::none_of(result.problem.tensors, &Tensor::any_order)) return;
        tell("checking");
        for (const auto& memory : launch.tensors()) {
            if (!memory->tensor().any_order) continue;
            CheckRequest request = request_;
            OutputCheck later = check_->output(launch, *memory, request);
            OutputCheck& kept =
                *std::ranges::find(result.outputs_checked, later.tensor, &OutputCheck::tensor);
            if (kept.wrong > 0 || later.wrong == 0) continue;
            later.later_launch = true;
            later.unwritten = kept.unwritten;
            kept = std::move(later);
        }
        check_->release();
    }

  private:
    std::optional<ResultCheck>& check_;
    const CheckRequest& request_;
};

/// Whether the timed launches are compared with the first one. They can't be if an inout makes each launch different.
bool compares_timed(const ProblemLaunch& launch, const RunOptions& options) {
    return options.time && options.check != Check::none && !launch.has_inout();
}

/// Launches again, from other poisons, until something differs from `before`, the results of the first launch. A maximum
/// shows with the high poison, a minimum with the low one. The timed launches begin with high poison; where they are not
/// compared, two more are made here: one on what the first launch left in scratch, and one on scratch with high poison. That
/// on low poison runs threads in another order, on shared memory with another poison in each block; where there is one block,
/// it does so twice, so that a variable there has been high and low.
void launch_again(ProblemLaunch& launch, const RunOptions& options, const Results& before,
                  const AnyOrderCheck& check_any_order, const ReportPhase& tell, RunResult& result) {
    const auto& target = launch.variant().target();
    const int orders = target && target->backend == Backend::host && launch.fewest_blocks() == 1 ? 2 : 1;
    std::vector<Start> starts;
    for (int order = 1; order <= orders; ++order) starts.push_back({Poison::low, true, order});
    if (!compares_timed(launch, options)) {
        starts.insert(starts.begin(), {Poison::high});
        if (launch.has_poisoned_scratch()) starts.push_back({Poison::high, true});
    }
    for (const Start& start : starts) {
        const Differences found = launch.launch_again(before, start, tell);
        add(launch.side_effects(false), result);
        add(found, launch, before, start.poison, tell, result);
        if (result.pass()) check_any_order(launch, tell, result);
        if (!result.pass()) return;
    }
}

/// Times launches, and checks that later launches give the bits of the first one. before: its results, if they are right.
void time_and_compare(Service& service, ProblemLaunch& launch, const RunOptions& options,
                      std::optional<Results> before, double one_launch_ms,
                      const AnyOrderCheck& check_any_order, const ReportPhase& tell, RunResult& result) {
    const bool comparing = compares_timed(launch, options) && (result.pass() || !before);
    constexpr Start kStart{Poison::high, true};
    if (comparing && before) {
        tell("filling");
        launch.refill(kStart);
    } else if (comparing) {
        before = launch.results();
    }
    tell("timing");
    const bool on_host = service.backend() == Backend::host;
    const int iterations =
        options.iterations.value_or(on_host ? host_iterations(one_launch_ms) : kIterations);
    const int warm_up = options.warm_up.value_or(on_host ? 0 : kWarmUp);
    const auto queue = [&] { launch.launch(); };
    LaunchTimer timer(service, options.cold_l2);
    result.time = summarise(timer.times_ms(queue, warm_up, iterations));
    if (options.graph && !launch.is_empty()) result.graph_time = summarise(timer.graph_ms(queue, iterations));
    if (!comparing) return;
    tell("checking");
    add(launch.differences(*before), launch, *before, kStart.poison, tell, result);
    if (result.pass()) check_any_order(launch, tell, result);
}

}  // namespace

struct Runner::State {
    Service& service;
    ReferenceService references{service};

    Problem problem(const Variant& variant, const RunOptions& options) {
        if (!options.gemm && options.check == Check::freivalds)
            throw UsageError("Freivalds' test is for GEMMs (RunOptions::gemm); check full or a sample.");
        if (options.sample_elements == 0)
            throw UsageError(
                "RunOptions::sample_elements is 0: such a sample checks nothing; Check::none says so.");
        if (options.iterations) check_range("RunOptions::iterations", *options.iterations, 1, kMostLaunches);
        if (options.warm_up) check_range("RunOptions::warm_up", *options.warm_up, 0, kMostLaunches);
        if (!options.gemm) return variant.problem(options.sizes, options.test_sizes);
        if (auto problem = gemm_problem(variant, options.sizes, options.test_sizes))
            return *std::move(problem);
        throw UsageError(
            variant.template_name() +
            " is not C = A * B of row-major matrices with C in float, which is what Kiln can check "
            "without a reference; choose another check.");
    }

    Plan plan(const Variant& variant, const RunOptions& options) {
        Plan plan{problem(variant, options), {}, false};
        const bool checking = options.check != Check::none;
        if (checking) plan.check.emplace(references, variant, plan.problem, options.gemm);
        // Without a check, such data is used to compare bits, but its patterns come from the references.
        if (checking || options.data == Data::contributions)
            plan.has_patterns = set_patterns(references, variant, plan.problem, options.gemm);
        check_fits(service.device(), plan.problem, options, checking,
                   checking ? plan.check->copied() : std::set<std::string>{});
        return plan;
    }

    RunResult run(const AnyKernel& kernel, Plan plan, const RunOptions& options) {
        // A child process can't build.
        if (plan.check) plan.check->build();
        return isolated(service, kernel.variant().template_name(), options.on_phase,
                        [&](const ReportPhase& tell) { return launch(kernel, plan, options, tell); });
    }

    RunResult launch(const AnyKernel& kernel, Plan& plan, const RunOptions& options,
                     const ReportPhase& tell) {
        RunResult result;
        result.problem = plan.problem;
        result.origin = kernel.origin();
        result.build = kernel.info();
        tell("filling");
        ProblemLaunch launch(service, kernel, plan.problem, {options.data, options.seed, options.skew});
        if (options.on_tensor)
            for (const auto& memory : launch.tensors())
                options.on_tensor({reinterpret_cast<std::uint64_t>(memory->data()),
                                   memory->tensor().size_bytes(), memory->tensor().name,
                                   memory->tensor().role == TensorRole::input});
        const CheckRequest request{options.check, false, random_word(options.seed, 1),
                                   static_cast<std::size_t>(options.sample_elements)};
        const auto check = [&](std::vector<OutputCheck>& checks) {
            tell("checking");
            // Whoever asks where tensors are looks for wrong accesses.
            SideEffects found = launch.side_effects(plan.check.has_value() || options.on_tensor);
            if (!plan.check) found.not_zeroed.clear();
            add(found, result);
            if (!plan.check) return;
            checks = plan.check->outputs(launch, request, result.check);
            plan.check->release();
        };
        const AnyOrderCheck check_any_order(plan.check, request);
        tell("running");
        const double one_launch_ms = launch.launch_and_wait();
        check(result.outputs_checked);
        const Check done = result.check;
        if (options.keep_results) keep_results(launch, result);
        std::optional<Results> before;
        if (plan.check && result.pass()) {
            before = launch.results();
            launch_again(launch, options, *before, check_any_order, tell, result);
        }
        if (options.time)
            time_and_compare(service, launch, options, before, one_launch_ms, check_any_order, tell, result);
        if (!plan.check || options.data != Data::random || !plan.has_patterns ||
            !options.check_contributions || !result.pass())
            return result;
        tell("filling");
        launch.refill(Data::contributions);
        tell("running");
        launch.launch_and_wait();
        check(result.contributions_checked);
        if (done != Check::full) result.check = done;
        return result;
    }
};

Runner::Runner(Service& service) : state_(std::make_unique<State>(State{service})) {
    static_cast<void>(service.device());
}
Runner::~Runner() = default;

RunResult Runner::run(const Variant& variant, const RunOptions& options) {
    const NoCancel no_cancel;
    Plan plan = state_->plan(variant, options);
    if (options.on_phase) options.on_phase("building");
    return state_->run(state_->service.build(variant), std::move(plan), options);
}

RunResult Runner::run(const AnyKernel& kernel, const RunOptions& options) {
    const NoCancel no_cancel;
    return state_->run(kernel, state_->plan(kernel.variant(), options), options);
}

Sizes Runner::shared_sizes(const Variant& variant, const Sizes& sizes) {
    Sizes shared;
    const Template of = variant.origin();
    for (const SizeArgument& size : of.sizes())
        if (const auto found = sizes.find(size.name); found != sizes.end()) shared.insert(*found);
    return shared;
}

std::optional<Variant> Runner::naive(const Variant& variant) const {
    const std::string name = variant.origin().naive();
    if (name.empty()) return std::nullopt;
    const Template naive = state_->service.find(name);
    Values values;
    for (const auto& [parameter, value] : variant.values())
        if (const Parameter* const same = naive.parameter(parameter); same != nullptr && same->allows(value))
            values.emplace(parameter, value);
    return naive.variant(values);
}

}  // namespace kiln
