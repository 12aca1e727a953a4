// SPDX-License-Identifier: Apache-2.0
//
// A run, step by step: what can be refused without work is refused first, memory is checked before any is
// taken, and results are checked after the first launch, before any other. The launch on inputs that make each
// contribution visible comes last, so that times are those of random data.
#include <kiln/error.h>
#include <kiln/run.h>

#include <algorithm>
#include <list>
#include <map>
#include <set>

#include "base/kernel_watch.h"
#include "base/stopwatch.h"
#include "run/check.h"
#include "run/graph_timing.h"
#include "run/guarded_tensor.h"
#include "run/inputs.h"
#include "run/isolated.h"
#include "run/launch_arguments.h"
#include "run/problem_memory.h"
#include "run/reference.h"

namespace kiln {
namespace {

constexpr int kIterations = 20;
constexpr int kWarmUp = 5;

bool is_result(const Tensor& tensor) {
    return tensor.role == TensorRole::output || tensor.role == TensorRole::inout;
}

/// What is known before anything is built or allocated.
struct Plan {
    Problem problem;
    std::map<std::string, Reference> references;  ///< by output
    std::set<std::string> copied;                 ///< tensors that they read
    bool has_patterns = false;                    ///< of inputs, for Data::contributions
};

/// One launch's memory and arguments.
class Launcher {
  public:
    Launcher(const Service& service, const AnyKernel& kernel, const Problem& problem,
             const RunOptions& options)
        : service_(service), kernel_(kernel) {
        tensors_.reserve(problem.tensors.size());
        for (const Tensor& tensor : problem.tensors)
            tensors_.emplace_back(service.device(), tensor, options.data, options.seed, options.skew);
        forget_watched_memories();
        for (const GuardedTensor& memory : tensors_)
            watch_memory(memory.tensor().name.c_str(), memory.data(), memory.tensor().size_bytes());
        arguments_.emplace(kernel.variant(), problem, tensors_);
        if (!options.on_tensor) return;
        for (const GuardedTensor& memory : tensors_)
            options.on_tensor({reinterpret_cast<std::uint64_t>(memory.data()), memory.tensor().size_bytes(),
                               memory.tensor().name});
    }

    /// Whether there is nothing to launch, the grid being empty.
    bool is_empty() const { return kernel_.variant().grid(arguments_->pointers()).count() == 0; }
    void launch() const { kernel_.launch(service_.stream(), arguments_->pointers()); }
    /// The time that it took as seen from here.
    double launch_and_wait() const {
        const Stopwatch watch;
        launch();
        service_.stream().synchronize();
        return watch.elapsed_ms();
    }
    const std::vector<GuardedTensor>& tensors() const { return tensors_; }
    /// Everything as before the first launch, but for the data of inputs.
    void refill(Data data) {
        for (GuardedTensor& memory : tensors_) memory.refill(data);
    }

  private:
    const Service& service_;
    const AnyKernel& kernel_;
    std::vector<GuardedTensor> tensors_;
    std::optional<LaunchArguments> arguments_;
};

/// What a launch did besides its results.
void look_around(const Launcher& launcher, const RunOptions& options, RunResult& result) {
    const auto add = [](std::vector<std::string>& names, const std::string& name) {
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    };
    for (const GuardedTensor& memory : launcher.tensors()) {
        const Tensor& tensor = memory.tensor();
        for (const Overrun& place : memory.overruns())
            if (std::ranges::find(result.overrun, place) == result.overrun.end()) result.overrun.push_back(place);
        if (options.check == Check::none) continue;
        if (tensor.role == TensorRole::input && !memory.is_unchanged()) add(result.changed, tensor.name);
        if (tensor.role == TensorRole::scratch && tensor.fill == Fill::zero && !memory.is_zero())
            add(result.not_zeroed, tensor.name);
    }
}

std::vector<OutputCheck> check_results(const Launcher& launcher, Plan& plan, const RunOptions& options,
                                       Data data, RunResult& result) {
    std::vector<OutputCheck> checks;
    HostTensors inputs;
    for (const GuardedTensor& memory : launcher.tensors())
        if (plan.copied.count(memory.tensor().name) != 0)
            inputs.emplace(memory.tensor().name, memory.initial());
    for (const GuardedTensor& memory : launcher.tensors()) {
        const Tensor& tensor = memory.tensor();
        if (!is_result(tensor)) continue;
        const auto reference = plan.references.find(tensor.name);
        if (reference != plan.references.end()) reference->second.bind(inputs);
        CheckRequest request{options.check, tensor.exact && data == Data::integers,
                             random_word(options.seed, 1)};
        checks.push_back(
            check_output(memory, reference == plan.references.end() ? nullptr : &reference->second, request));
        checks.back().data = data;
        if (request.how == Check::sample) result.check = Check::sample;
    }
    return checks;
}

void keep_results(const Launcher& launcher, RunResult& result) {
    for (const GuardedTensor& memory : launcher.tensors()) {
        if (!is_result(memory.tensor())) continue;
        std::vector<std::byte> bytes(memory.tensor().size_bytes());
        memory.read(0, bytes);
        result.outputs.emplace_back(memory.tensor().name, std::move(bytes));
    }
}

/// Of the outputs; none where an inout makes each launch a different one.
std::vector<std::pair<std::string, std::uint64_t>> fingerprints(const Launcher& launcher) {
    std::vector<std::pair<std::string, std::uint64_t>> prints;
    for (const GuardedTensor& memory : launcher.tensors()) {
        if (memory.tensor().role == TensorRole::inout) return {};
        if (memory.tensor().role == TensorRole::output)
            prints.emplace_back(memory.tensor().name, memory.fingerprint());
    }
    return prints;
}

void time(Service& service, const Launcher& launcher, const RunOptions& options, double one_launch_ms,
          RunResult& result) {
    const bool on_host = service.backend() == Backend::host;
    const int iterations =
        options.iterations.value_or(on_host ? host_iterations(one_launch_ms) : kIterations);
    const int warm_up = options.warm_up.value_or(on_host ? 0 : kWarmUp);
    std::optional<CacheFlusher> flusher;
    std::function<void()> before_each;
    if (options.cold_l2) {
        flusher.emplace(service);
        before_each = [&] { flusher->flush(service.stream()); };
    }
    const auto launch = [&] { launcher.launch(); };
    result.time = summarise(
        time_launches(service.device(), service.stream(), warm_up, iterations, launch, before_each));
    if (options.graph && !launcher.is_empty())
        result.graph_time = summarise(time_graph(service.device(), service.stream(), iterations, launch));
}

}  // namespace

struct Runner::State {
    Service& service;
    ReferenceService references{service};

    Plan plan(const Variant& variant, const RunOptions& options) {
        Plan plan{variant.problem(options.sizes, options.test_sizes), {}, {}};
        const bool checking = options.check != Check::none;
        for (const Tensor& tensor : plan.problem.tensors) {
            if (!checking || !is_result(tensor) || tensor.reference.empty()) continue;
            const auto& reference =
                plan.references.try_emplace(tensor.name, references.get(), variant, plan.problem, tensor)
                    .first->second;
            plan.copied.insert(reference.inputs().begin(), reference.inputs().end());
        }
        // Data of this kind without a check is for comparing bits; it needs the references as well.
        if (checking || options.data == Data::contributions)
            plan.has_patterns = set_patterns(references.get(), variant, plan.problem);
        check_fits(service.device(), plan.problem, options, checking, plan.copied);
        return plan;
    }

    RunResult run(const AnyKernel& kernel, Plan plan, const RunOptions& options) {
        // A child may not build.
        for (auto& [output, reference] : plan.references) reference.build();
        return isolated(service, kernel.variant().template_name(), options.on_phase,
                        [&](const TellPhase& on_phase) { return launch(kernel, plan, options, on_phase); });
    }

    RunResult launch(const AnyKernel& kernel, Plan& plan, const RunOptions& options,
                     const TellPhase& on_phase) {
        const auto tell = [&](std::string_view phase) {
            if (on_phase) on_phase(phase);
        };
        RunResult result;
        result.problem = plan.problem;
        result.origin = kernel.origin();
        result.build = kernel.info();
        tell("filling");
        Launcher launcher(service, kernel, plan.problem, options);
        tell("running");
        const double one_launch_ms = launcher.launch_and_wait();
        tell("checking");
        look_around(launcher, options, result);
        const bool checking = options.check != Check::none;
        if (checking) {
            result.check = Check::full;
            result.outputs_checked = check_results(launcher, plan, options, options.data, result);
        }
        if (options.keep_results) keep_results(launcher, result);
        if (options.time) time_and_compare(launcher, options, one_launch_ms, tell, result);
        if (!checking || options.data != Data::random || !plan.has_patterns || !options.check_contributions ||
            !result.pass())
            return result;
        tell("filling");
        launcher.refill(Data::contributions);
        tell("running");
        launcher.launch_and_wait();
        tell("checking");
        look_around(launcher, options, result);
        result.contributions_checked = check_results(launcher, plan, options, Data::contributions, result);
        return result;
    }

    /// Later launches give the bits of the first one.
    void time_and_compare(const Launcher& launcher, const RunOptions& options, double one_launch_ms,
                          const std::function<void(std::string_view)>& tell, RunResult& result) {
        const bool comparing = options.check != Check::none;
        const auto before = comparing ? fingerprints(launcher) : decltype(fingerprints(launcher)){};
        tell("timing");
        time(service, launcher, options, one_launch_ms, result);
        if (!comparing) return;
        const auto after = fingerprints(launcher);
        for (std::size_t i = 0; i < before.size(); ++i)
            if (before[i] != after[i]) result.unstable.push_back(before[i].first);
    }
};

Runner::Runner(Service& service) : state_(std::make_unique<State>(State{service})) {
    static_cast<void>(service.device());
}
Runner::~Runner() = default;

RunResult Runner::run(const Variant& variant, const RunOptions& options) {
    Plan plan = state_->plan(variant, options);
    if (options.on_phase) options.on_phase("building");
    return state_->run(state_->service.build(variant), std::move(plan), options);
}

RunResult Runner::run(const AnyKernel& kernel, const RunOptions& options) {
    return state_->run(kernel, state_->plan(kernel.variant(), options), options);
}

Sizes Runner::shared_sizes(const Variant& variant, const Sizes& sizes) {
    Sizes shared;
    for (const SizeArgument& size : variant.origin().sizes())
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
