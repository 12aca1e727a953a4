// SPDX-License-Identifier: Apache-2.0
//
// Operation: the calls. What a shape needs is chosen and built in shape_builder; this file launches.
#include <kiln/error.h>
#include <kiln/operation.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "base/fork.h"
#include "base/no_cancel.h"
#include "base/words.h"
#include "device/driver.h"
#include "format/format.h"
#include "operation/shape_builder.h"
#include "operation/workspace.h"
#include "service/argument_types.h"
#include "service/service_access.h"

namespace kiln {
namespace {

/// The two parts of a workspace (workspace.h).
struct Scratch {
    std::byte* zero = nullptr;
    std::byte* plain = nullptr;
};

Wisdom usual_wisdom(const Service& service) {
    std::string problem;
    Wisdom wisdom = Wisdom::usual(&problem);
    if (!problem.empty()) ServiceAccess::warn_once(service, problem);
    return wisdom;
}

}  // namespace

struct Operation::State {
    State(Service& service_, Template of_, Values fixed_, OperationOptions options_)
        : service(service_),
          of(std::move(of_)),
          fixed(std::move(fixed_)),
          options(std::move(options_)),
          device(service.device()),
          workspaces(device, options.allocator, options.max_streams),
          shapes(
              service, of, fixed, options.wisdom ? *options.wisdom : usual_wisdom(service),
              {options.when_missing == WhenMissing::substitute, options.reproducible, options.max_shapes}) {}

    bool is_of_this_process() const { return generation == fork_generation(); }
    const Signature& signature() const { return shapes.signature(); }

    void launch(const LaunchPlan& plan, StreamRef stream, void* const* arguments, const ShapeKey& key) {
        const ArgumentPlan& how = plan.arguments;
        if (how.is_as_passed) return plan.kernel->launch(stream, arguments, how.grid);
        std::optional<Workspaces::Lease> lease;
        Scratch memory;
        if (!how.scratch.empty()) {
            if (uses_workspace_of_caller(plan, stream.options())) {
                memory = of_the_caller(plan, stream, key);
            } else {
                lease.emplace(workspaces.lease(stream, how.zero_bytes, how.plain_bytes, signature(), key));
                memory = {lease->zero(), lease->plain()};
                // A replay on the host may fail half-way, and the next one would find what it left.
                if (is_on_host && how.zero_bytes != 0 && device.is_capturing(stream))
                    workspaces.clear(*lease, stream);
            }
        }
        std::array<void*, kMostArguments> all;
        std::array<void*, kMostArguments> scratch;
        std::size_t count = 0;
        for (const ArgumentSource source : how.sources) {
            switch (source.kind) {
                case ArgumentSource::Kind::passed:
                    all[count] = arguments[source.index];
                    break;
                case ArgumentSource::Kind::size:
                    all[count] = const_cast<std::int64_t*>(&key[source.index]);
                    break;
                case ArgumentSource::Kind::scratch: {
                    const ScratchPart& part = how.scratch[source.index];
                    scratch[source.index] = (part.is_zero ? memory.zero : memory.plain) + part.offset;
                    all[count] = &scratch[source.index];
                    break;
                }
            }
            ++count;
        }
        try {
            plan.kernel->launch(stream, all.data(), how.grid);
        } catch (const DeviceError&) {
            if (lease && how.zero_bytes != 0)
                workspaces.clear(*lease, stream);  // a part of the launch may have run
            throw;
        }
    }

    /// Not where another variant than the best is launched and needs more than the caller gave: workspace_bytes() may not have
    /// counted it.
    static bool uses_workspace_of_caller(const LaunchPlan& plan, const LaunchOptions* options) {
        if (options == nullptr || options->workspace == nullptr) return false;
        return !plan.is_substitute || options->workspace_bytes >= plan.arguments.scratch_bytes();
    }

    /// LaunchOptions::workspace. Whatever is in it, kernels find zero what has to be. Throws UsageError.
    Scratch of_the_caller(const LaunchPlan& plan, StreamRef stream, const ShapeKey& key) {
        const LaunchOptions& given = *stream.options();
        const std::size_t zero_bytes = plan.arguments.zero_bytes, bytes = plan.arguments.scratch_bytes();
        const std::string what = shapes.name() + ": the workspace of LaunchOptions ";
        if (given.workspace_bytes < bytes)
            throw UsageError(formatted(
                "{}has {} bytes, and {} needs {} for {}; Operation::workspace_bytes() says how many", what,
                given.workspace_bytes, plan.kernel->variant().template_name(), bytes, signature().text(key)));
        if (const auto address = reinterpret_cast<std::uintptr_t>(given.workspace);
            address % kWorkspaceAlignment != 0) {
            std::ostringstream place;
            place << given.workspace;
            throw UsageError(formatted("{}is at {}, and has to be at a multiple of {} bytes", what,
                                       place.str(), kWorkspaceAlignment));
        }
        auto* const memory = static_cast<std::byte*>(given.workspace);
        if (zero_bytes != 0) device.driver()->queue_fill(memory, 0, zero_bytes, stream.handle());
        return {memory, memory + zero_bytes};
    }

    void launch_unknown(StreamRef stream, void* const* arguments, const ShapeKey& key) {
        const NoCancel no_cancel;
        const bool is_captured = device.is_capturing(stream);
        if (is_captured || options.when_missing == WhenMissing::fail) {
            shapes.note(key);
            throw NotReadyError(
                shapes.name() + ": the variant for " + signature().text(key) + " is not built, and " +
                    (is_captured
                         ? "nothing is compiled or loaded while a stream is being captured: call prepare() "
                           "with this shape and this stream before the capture begins"
                         : "WhenMissing::fail forbids to build it in a call: call prepare() with this shape"),
                signature().sizes(key));
        }
        if (options.when_missing == WhenMissing::substitute)
            if (const auto plan = shapes.substitute(key)) return launch(*plan, stream, arguments, key);
        launch(*shapes.build(key), stream, arguments, key);
    }

    const unsigned generation = fork_generation();
    Service& service;
    const Template of;
    const Values fixed;
    const OperationOptions options;
    const Device device;
    const bool is_on_host = device.info().backend == Backend::host;
    Workspaces workspaces;
    ShapeBuilder shapes;  // the last: its thread ends first
};

Operation::Operation(Service& service, std::string_view name, Values fixed, OperationOptions options)
    : Operation(service, find_family(service, name), std::move(fixed), std::move(options)) {}

Operation::Operation(Service& service, const Template& of, Values fixed, OperationOptions options)
    : state_(nullptr) {
    const NoCancel no_cancel;
    if (options.reproducible && options.when_missing == WhenMissing::substitute)
        throw UsageError(
            of.name() +
            ": an operation that is reproducible can't substitute variants, since what is built when "
            "differs from run to run; use WhenMissing::build or WhenMissing::fail");
    state_ = std::make_unique<State>(service, of, std::move(fixed), std::move(options)).release();
}

Operation::~Operation() {
    const NoCancel no_cancel;
    end_state_of_this_process(state_);
}

Operation::Operation(Operation&& other) noexcept : state_(other.state_.exchange(nullptr)) {}
Operation& Operation::operator=(Operation&& other) noexcept {
    Operation old(std::move(other));
    old.state_ = state_.exchange(old.state_);
    return *this;
}

Operation::State& Operation::state() const {
    if (state_.load(std::memory_order_relaxed) == nullptr)
        throw UsageError("this operation is empty: it was moved from");
    return state_of_this_process(state_, [](const State& parent) {
        const NoCancel no_cancel;
        return std::make_unique<State>(parent.service, parent.of, parent.fixed, parent.options);
    });
}

const std::vector<OperationArgument>& Operation::arguments() const { return state().signature().arguments(); }

void Operation::check_arguments(std::span<const ArgumentType> types) const {
    const auto& declared = arguments();
    std::vector<std::string> words;
    for (const OperationArgument& argument : declared) words.push_back(argument.type + " " + argument.name);
    const std::string declaration = state().shapes.name() + "(" + join(words) + ")";
    if (types.size() != declared.size())
        throw UsageError(formatted("TypedOperation<Fn>: Fn has {} arguments and the operation has {}: {}",
                                   types.size(), declared.size(), declaration));
    for (std::size_t i = 0; i < types.size(); ++i)
        if (!fits(types[i], declared[i].type))
            throw UsageError(
                formatted("TypedOperation<Fn>: argument {} of Fn is {}, and the operation has {}: {}", i + 1,
                          text_of(types[i]), words[i], declaration));
}

void Operation::launch(StreamRef stream, void* const* arguments) const {
    State& state = this->state();
    const ShapeKey key = state.signature().key(arguments);
    {
        const ShapeTable::Reader reader(state.shapes.table());
        if (const ShapeEntry* const entry = state.shapes.table().find(key))
            if (const LaunchPlan* const plan = entry->plan.load(std::memory_order_acquire))
                return state.launch(*plan, stream, arguments, key);
    }
    state.launch_unknown(stream, arguments, key);
}

void Operation::operator()(StreamRef stream, const Sizes& sizes, const TensorPointers& tensors) const {
    const Signature& signature = state().signature();
    ShapeKey key = signature.key(sizes);
    std::array<const void*, kMostArguments> addresses{};
    std::array<void*, kMostArguments> pointers{};
    std::size_t count = 0, found = 0;
    for (const OperationArgument& argument : arguments()) {
        if (argument.is_size) {
            pointers[count] = &key[*signature.size_index(argument.name)];
        } else if (const auto tensor = tensors.find(argument.name); tensor != tensors.end()) {
            addresses[count] = tensor->second;
            pointers[count] = &addresses[count];
            ++found;
        } else {
            // One whose name is misspelt is missing, too.
            const auto unknown = std::ranges::find_if(
                tensors, [&](const auto& one) { return !signature.argument_index(one.first); });
            throw UsageError(state().shapes.name() + ": the tensor " + argument.name + " is missing" +
                             (unknown == tensors.end() ? "" : ", and there is no tensor " + unknown->first));
        }
        ++count;
    }
    if (found != tensors.size()) {
        std::vector<std::string> names;
        for (const OperationArgument& argument : arguments())
            if (!argument.is_size) names.push_back(argument.name);
        for (const auto& [name, address] : tensors)
            if (std::ranges::find(names, name) == names.end())
                throw UsageError(state().shapes.name() + " has no tensor " + name +
                                 did_you_mean(name, names) + " (its tensors: " + join(names) + ")");
    }
    launch(stream, pointers.data());
}

void Operation::prepare(std::span<const Sizes> shapes) const {
    const NoCancel no_cancel;
    static_cast<void>(state().shapes.prepare(shapes));
}

void Operation::prepare(std::span<const Sizes> shapes, StreamRef stream) const {
    const NoCancel no_cancel;
    const auto plans = state().shapes.prepare(shapes);
    std::size_t zero_bytes = 0, plain_bytes = 0;
    for (const auto& plan : plans) {
        zero_bytes = std::max(zero_bytes, plan->arguments.zero_bytes);
        plain_bytes = std::max(plain_bytes, plan->arguments.plain_bytes);
    }
    if (zero_bytes + plain_bytes == 0) return;
    const ShapeKey key = state().signature().key(shapes.front());
    static_cast<void>(state().workspaces.lease(stream, zero_bytes, plain_bytes, state().signature(), key));
}

std::size_t Operation::workspace_bytes(const Sizes& sizes) const { return explain(sizes).workspace_bytes; }

OperationPlan Operation::explain(const Sizes& sizes) const {
    const NoCancel no_cancel;
    return state().shapes.explain(sizes);
}

void Operation::wait() const {
    const NoCancel no_cancel;
    state().shapes.wait();
}

Wisdom Operation::tune_pending(std::chrono::duration<double> budget) const {
    const NoCancel no_cancel;
    return state().shapes.tune_pending(budget.count());
}

OperationUsage Operation::usage() const {
    OperationUsage usage = state().shapes.usage();
    usage.streams = state().workspaces.streams();
    usage.workspace_bytes = state().workspaces.bytes();
    return usage;
}

void Operation::release() const {
    state().shapes.release();
    state().workspaces.release();
}

std::string OperationPlan::text() const {
    std::string text = choice.variant.text() + "\n  " + choice.text();
    if (best_ms) text += formatted(", {:.4g} ms per launch with cold L2", *best_ms);
    text += std::string("\n  ") + (built ? "built" : "not built");
    if (launched) text += "; launched meanwhile: " + launched->text();
    if (workspace_bytes > 0) text += "\n  workspace " + bytes_text(workspace_bytes);
    if (!failure.empty()) text += "\n  it could not be built: " + failure;
    return text + "\n";
}

}  // namespace kiln
