// SPDX-License-Identifier: Apache-2.0
//
// One thread chooses for the shapes that wait, and has the service's worker processes compile for all of them at once;
// what is compiled it loads and publishes.
#include "operation/shape_builder.h"

#include <kiln/error.h>
#include <kiln/tune.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <future>
#include <system_error>
#include <utility>

#include "base/blocked_signals.h"
#include "service/background.h"
#include "tune/problem_space.h"

namespace kiln {
namespace {

constexpr std::size_t kMostBuilt = 64;        // variants that may serve as substitutes
constexpr std::size_t kMostSubstitutes = 16;  // of them, those that are tried for one shape
constexpr std::chrono::milliseconds kPoll{2};
constexpr double kLeastSecondsPerShape = 1;  // of tuning: a candidate is compiled, timed and verified

double distance(const ShapeKey& a, const ShapeKey& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        sum += std::abs(std::log2((static_cast<double>(a[i]) + 1) / (static_cast<double>(b[i]) + 1)));
    return sum;
}

}  // namespace

ShapeBuilder::ShapeBuilder(Service& service, const Template& of, Values fixed, Wisdom wisdom, Options options)
    : service_(service),
      of_(of),
      name_(of.name()),
      fixed_(std::move(fixed)),
      options_(options),
      is_recorded_(!service.options().record.empty()),
      signature_(some_variant(of.for_target(service.target()), fixed_)),
      table_(signature_.size_count()),
      chooser_(std::make_shared<const Chooser>(service, std::move(wisdom))) {
    templates_ = chooser_->candidates(of.for_target(service.target()), fixed_);
    if (templates_.empty())
        throw VariantError(name_ + ": no template computes this on " + service.target().arch);
}

ShapeBuilder::~ShapeBuilder() {
    {
        const std::lock_guard lock(mutex_);
        worker_.request_stop();
    }
    changed_.notify_all();
}

std::shared_ptr<const Chooser> ShapeBuilder::chooser() const {
    const std::lock_guard lock(mutex_);
    return chooser_;
}

Choice ShapeBuilder::choose(const ShapeKey& key) const {
    return chooser()->choose(templates_, fixed_, signature_.sizes(key));
}

ShapeBuilder::Known& ShapeBuilder::known(const ShapeKey& key) {
    const auto [place, is_new] = known_.try_emplace(key);
    if (is_new) {
        place->second.number = next_number_++;
        if (is_recorded_) unrecorded_.push_back(key);
    }
    return place->second;
}

void ShapeBuilder::record_new() {
    if (!is_recorded_) return;
    std::vector<ShapeKey> keys;
    {
        const std::lock_guard lock(mutex_);
        keys.swap(unrecorded_);
    }
    for (const ShapeKey& key : keys) service_.record(of_, fixed_, signature_.sizes(key));
}

void ShapeBuilder::note(const ShapeKey& key) {
    {
        const std::lock_guard lock(mutex_);
        if (known_.size() < 2 * options_.max_shapes) static_cast<void>(known(key));
    }
    record_new();
}

ShapeBuilder::Plan ShapeBuilder::best_plan(const ShapeKey& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(key);
    return found != known_.end() && found->second.plan && !found->second.plan->is_substitute
               ? found->second.plan
               : nullptr;
}

ShapeBuilder::Plan ShapeBuilder::publish(const ShapeKey& key, std::optional<Choice> choice, AnyKernel kernel,
                                         bool replaces) {
    const bool is_substitute = !choice;
    auto plan = std::make_shared<const LaunchPlan>(
        LaunchPlan{kernel, &LoadedKernel::of(kernel),
                   argument_plan(signature_, kernel.variant(), signature_.sizes(key)), is_substitute});
    {
        const std::lock_guard lock(mutex_);
        Known& of = known(key);
        if (of.plan && !(replaces || (of.plan->is_substitute && !is_substitute)))
            plan = of.plan;
        else
            keep(of, key, plan, std::move(choice), std::move(kernel));
    }
    record_new();
    return plan;
}

void ShapeBuilder::keep(Known& of, const ShapeKey& key, const Plan& plan, std::optional<Choice> choice,
                        AnyKernel kernel) {
    ShapeEntry& entry = table_.insert(key, options_.max_shapes);
    entry.plans.push_back(plan);
    entry.plan.store(plan.get(), std::memory_order_release);
    of.plan = plan;
    of.failure.clear();
    if (choice) of.choice = std::move(choice);
    std::erase_if(built_, [&](const Built& one) { return one.kernel.variant() == kernel.variant(); });
    built_.push_front({key, std::move(kernel)});
    if (built_.size() > kMostBuilt) built_.pop_back();
    forget_evicted();
}

// Shapes that the table let go of.
void ShapeBuilder::forget_evicted() {
    if (known_.size() <= options_.max_shapes) return;
    std::erase_if(known_,
                  [&](const auto& one) { return one.second.plan && table_.find(one.first) == nullptr; });
}

ShapeBuilder::Plan ShapeBuilder::build(const ShapeKey& key) {
    if (Plan plan = best_plan(key)) return plan;
    Choice choice = choose(key);
    const Variant best = choice.variant;
    return publish_best(key, std::move(choice), [&] { return service_.build(best); });
}

template <class Kernel>
ShapeBuilder::Plan ShapeBuilder::publish_best(const ShapeKey& key, Choice&& choice, const Kernel& kernel) {
    try {
        return publish(key, std::move(choice), kernel(), false);
    } catch (const BuildError& error) {
        if (!service_.options().cached_only || options_.reproducible) throw;
        return publish_stored(key, error.what());
    }
}

ShapeBuilder::Plan ShapeBuilder::publish_stored(const ShapeKey& key, const std::string& why) {
    for (const bool again : {false, true}) {
        for (const Variant& variant : chooser()->ranked(stored(again), signature_.sizes(key))) {
            try {
                Plan plan = publish(key, std::nullopt, service_.build(variant), false);
                const std::lock_guard lock(mutex_);
                known(key).failure = why;
                return plan;
            } catch (const BuildError&) {
                // its entry is damaged
            }
        }
    }
    throw NotReadyError(
        name_ +
            ": nothing may be compiled (ServiceOptions::cached_only), and no tier of the cache has "
            "a variant for " +
            signature_.text(key) + ": pack one for this shape (`kiln cache pack --for` a record). " + why,
        signature_.sizes(key));
}

std::vector<Variant> ShapeBuilder::stored(bool again) {
    {
        const std::lock_guard lock(mutex_);
        if (stored_ && !again) return *stored_;
    }
    std::vector<Variant> found;
    for (const Template& of : templates_) {
        Values values = problem_values(service_, of, fixed_);
        // Another function than the caller's, or than the default, is another operation.
        for (const Parameter& parameter : of.parameters())
            if (parameter.kind == ParameterKind::code && !values.contains(parameter.name))
                values.emplace(parameter.name, of.default_of(parameter.name, values));
        for (Variant& variant : service_.stored(of))
            if (std::ranges::all_of(values,
                                    [&](const auto& one) { return variant.value(one.first) == one.second; }))
                found.push_back(std::move(variant));
    }
    const std::lock_guard lock(mutex_);
    stored_ = found;
    return found;
}

ShapeBuilder::Plan ShapeBuilder::substitute(const ShapeKey& key) {
    std::vector<Built> built;
    {
        const std::lock_guard lock(mutex_);
        if (built_.empty() || !has_worker()) return nullptr;
        built.assign(built_.begin(), built_.end());
    }
    std::ranges::stable_sort(built, {}, [&](const Built& one) { return distance(one.key, key); });
    if (built.size() > kMostSubstitutes) built.resize(kMostSubstitutes);
    for (const Built& one : built) {
        Plan plan;
        try {
            plan = publish(key, std::nullopt, one.kernel, false);
        } catch (const VariantError&) {
            continue;  // this shape is not for it
        }
        if (!plan->is_substitute) return plan;
        {
            const std::lock_guard lock(mutex_);
            Known& of = known(key);
            if (of.is_awaited) return plan;
            pending_.push_back(key);
            of.is_awaited = true;
        }
        changed_.notify_all();
        return plan;
    }
    return nullptr;
}

bool ShapeBuilder::has_worker() {
    if (worker_.joinable()) return true;
    const BlockedSignals blocked;
    try {
        worker_ = std::jthread([this](std::stop_token stop) { work(std::move(stop)); });
        return true;
    } catch (const std::system_error&) {
        return false;  // the limit of threads or processes
    }
}

void ShapeBuilder::work(std::stop_token stop) {
    struct Compiling {
        ShapeKey key;
        Choice choice;
        std::future<Compiled> binary;
    };
    std::vector<Compiling> compiling;
    const auto failed = [&](const ShapeKey& key, const std::string& why) {
        const std::lock_guard lock(mutex_);
        known(key).failure = why;
        --in_flight_;
    };
    for (;;) {
        std::deque<ShapeKey> keys;
        {
            std::unique_lock lock(mutex_);
            const auto has_work = [&] { return !pending_.empty() || stop.stop_requested(); };
            if (compiling.empty())
                changed_.wait(lock, has_work);
            else
                changed_.wait_for(lock, kPoll, has_work);
            if (stop.stop_requested()) return;  // what compiles has the same stop, and belongs to the service
            keys.swap(pending_);
            in_flight_ += keys.size();
        }
        for (const ShapeKey& key : keys) {
            try {
                Choice choice = choose(key);
                auto binary = service_.compile_async(choice.variant, stop);
                compiling.push_back({key, std::move(choice), std::move(binary)});
            } catch (const std::exception& error) {
                failed(key, error.what());
            }
        }
        std::erase_if(compiling, [&](Compiling& one) {
            if (one.binary.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
            try {
                static_cast<void>(one.binary.get());
                AnyKernel kernel = service_.build(one.choice.variant);
                static_cast<void>(publish(one.key, std::move(one.choice), std::move(kernel), false));
                const std::lock_guard lock(mutex_);
                --in_flight_;
            } catch (const std::exception& error) {
                failed(one.key, error.what());
            }
            return true;
        });
        changed_.notify_all();
    }
}

std::vector<ShapeBuilder::Plan> ShapeBuilder::prepare(std::span<const Sizes> shapes) {
    struct Wanted {
        ShapeKey key;
        Plan plan;
        std::optional<Choice> choice;
        std::future<Compiled> binary;
    };
    const bool in_parallel = !Background::is_in_task();
    std::vector<Wanted> wanted;
    std::exception_ptr first;
    const auto attempt = [&](const auto& work) {
        try {
            work();
        } catch (...) {
            if (!first) first = std::current_exception();
        }
    };
    for (const Sizes& sizes : shapes) {
        attempt([&] {
            Wanted one{signature_.key(sizes), nullptr, std::nullopt, {}};
            one.plan = best_plan(one.key);
            if (!one.plan) {
                one.choice = choose(one.key);
                if (in_parallel) one.binary = service_.compile_async(one.choice->variant);
            }
            wanted.push_back(std::move(one));
        });
    }
    std::vector<Plan> plans;
    for (Wanted& one : wanted) {
        attempt([&] {
            if (!one.plan) {
                const Variant best = one.choice->variant;
                one.plan = publish_best(one.key, std::move(*one.choice), [&] {
                    if (in_parallel) static_cast<void>(one.binary.get());
                    return service_.build(best);
                });
            }
            plans.push_back(one.plan);
        });
    }
    if (first) std::rethrow_exception(first);
    return plans;
}

OperationPlan ShapeBuilder::explain(const Sizes& sizes) const {
    const ShapeKey key = signature_.key(sizes);
    Known known;
    {
        const std::lock_guard lock(mutex_);
        if (const auto found = known_.find(key); found != known_.end()) known = found->second;
    }
    if (!known.choice) known.choice = choose(key);
    const ArgumentPlan arguments = argument_plan(signature_, known.choice->variant, sizes);
    OperationPlan plan{std::move(*known.choice), {}, false, {}, 0, std::move(known.failure)};
    if (plan.choice.origin == ChoiceOrigin::wisdom) plan.best_ms = plan.choice.entry->median_ms;
    plan.built = known.plan && !known.plan->is_substitute;
    if (known.plan && known.plan->is_substitute) plan.launched = known.plan->handle.variant();
    plan.workspace_bytes = arguments.scratch_bytes();
    if (known.plan)
        plan.workspace_bytes = std::max(plan.workspace_bytes, known.plan->arguments.scratch_bytes());
    return plan;
}

Wisdom ShapeBuilder::tune_pending(double budget_seconds) {
    if (options_.reproducible)
        throw UsageError(
            name_ + ": an operation that is reproducible can't be tuned, since its choices must not change");
    const std::lock_guard one_at_a_time(tuning_);
    std::vector<std::pair<std::uint64_t, ShapeKey>> unknown;
    {
        const std::lock_guard lock(mutex_);
        for (const auto& [key, of] : known_)
            if (!of.choice || of.choice->origin != ChoiceOrigin::wisdom || of.choice->stale)
                unknown.emplace_back(of.number, key);
    }
    std::ranges::sort(unknown);
    TuneOptions options;
    options.fixed = fixed_;
    options.budget_seconds = budget_seconds;
    for (const auto& [number, key] : unknown) {
        // What is not called has nothing to be timed.
        if (std::ranges::none_of(signature_.sizes(key), [](const auto& size) { return size.second == 0; }))
            options.shapes.push_back(signature_.sizes(key));
    }
    if (options.shapes.empty()) return {};
    // The others have their turn in a later call: each shape takes a while, however small its part of the budget is.
    const double most = std::max(1.0, budget_seconds / kLeastSecondsPerShape);
    if (most < static_cast<double>(options.shapes.size()))
        options.shapes.resize(static_cast<std::size_t>(most));
    const TuneReport report = tune(service_, templates_, options);
    Wisdom all = chooser()->wisdom();
    all.merge(report.wisdom);
    const auto chooser = std::make_shared<const Chooser>(service_, std::move(all));
    {
        const std::lock_guard lock(mutex_);
        chooser_ = chooser;
    }
    for (const TunedShape& tuned : report.shapes) {
        if (tuned.best.empty()) continue;
        const ShapeKey key = signature_.key(tuned.sizes);
        Choice choice = choose(key);
        AnyKernel kernel = service_.build(choice.variant);
        static_cast<void>(publish(key, std::move(choice), std::move(kernel), true));
    }
    return report.wisdom;
}

void ShapeBuilder::wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return pending_.empty() && in_flight_ == 0; });
}

OperationUsage ShapeBuilder::usage() const {
    OperationUsage usage;
    const std::lock_guard lock(mutex_);
    for (const auto& [key, of] : known_)
        if (of.plan) {
            ++usage.shapes;
            if (of.plan->is_substitute) ++usage.substituted;
        }
    usage.pending = pending_.size() + in_flight_;
    return usage;
}

void ShapeBuilder::release() {
    const std::lock_guard lock(mutex_);
    table_.clear();
    known_.clear();
    built_.clear();
}

}  // namespace kiln
