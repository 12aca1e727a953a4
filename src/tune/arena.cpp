// SPDX-License-Identifier: Apache-2.0
//
// Expected values are computed once, for runs of elements scattered over the output, so that checking a candidate
// costs the device a few small copies.
#include "tune/arena.h"

#include <kiln/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "base/kernel_watch.h"
#include "run/check.h"
#include "run/inputs.h"
#include "run/isolated.h"
#include "run/launch_arguments.h"
#include "run/sample.h"

namespace kiln {
namespace {

constexpr std::int64_t kAllElements = 16384;  // outputs up to this are checked as a whole
constexpr std::size_t kRuns = 128;
constexpr std::int64_t kRunElements = 64;
constexpr std::uint64_t kMostSpareBytes = std::uint64_t{256} << 20;

bool is_scratch(const Tensor& tensor) { return tensor.role == TensorRole::scratch; }

bool is_filled(const Tensor& tensor) {
    return tensor.role == TensorRole::input || tensor.role == TensorRole::inout;
}

bool is_result(const Tensor& tensor) {
    return tensor.role == TensorRole::output || tensor.role == TensorRole::inout;
}

}  // namespace

/// Of one output, by one reference.
struct Arena::Expected {
    std::vector<std::pair<std::int64_t, std::int64_t>> runs;  ///< first element, count; in order
    std::vector<double> values, bounds;
};

/// Tensors of equal names are one, unless they differ otherwise.
std::string Arena::identity(const Tensor& tensor, Data data) {
    std::string text = tensor.name + " " + tensor.type + " " + std::to_string(static_cast<int>(tensor.role)) +
                       " " + std::to_string(static_cast<int>(tensor.fill)) + " " +
                       std::to_string(tensor.low) + " " + std::to_string(tensor.high);
    for (const std::int64_t extent : tensor.extents) text += " " + std::to_string(extent);
    if (data == Data::contributions && is_filled(tensor))
        text += " pattern " + std::to_string(static_cast<int>(tensor.pattern)) + " " +
                std::to_string(tensor.pattern_size);
    return text;
}

Arena::Arena(Service& service, Service& host, bool cold_l2, std::uint64_t seed)
    : service_(service),
      host_(host),
      seed_(seed),
      start_(service.device().event()),
      end_(service.device().event()) {
    if (cold_l2) flusher_.emplace(service);
}
Arena::~Arena() = default;

void Arena::clear() {
    service_.stream().synchronize();
    tensors_.clear();
    expected_.clear();
}

void Arena::drop_scratch() {
    service_.stream().synchronize();
    std::erase_if(tensors_, [](const auto& one) { return is_scratch(one.second->tensor()); });
}

std::uint64_t Arena::held_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& [name, memory] : tensors_) bytes += memory->tensor().size_bytes();
    return bytes;
}

/// Scratch is as large as its candidate likes: that of others is kept, for launches in turn, where it is small.
void Arena::drop_spare_scratch(const Problem& problem) {
    const auto is_spare = [&](const Tensor& tensor) {
        return is_scratch(tensor) && std::ranges::none_of(problem.tensors, [&](const Tensor& needed) {
                   return identity(needed, Data::random) == identity(tensor, Data::random);
               });
    };
    std::uint64_t bytes = 0;
    for (const auto& [name, memory] : tensors_)
        if (is_spare(memory->tensor())) bytes += memory->tensor().size_bytes();
    if (bytes <= kMostSpareBytes) return;
    service_.stream().synchronize();
    std::erase_if(tensors_, [&](const auto& one) { return is_spare(one.second->tensor()); });
}

GuardedTensor& Arena::tensor(const Tensor& tensor, Data data, bool fresh) {
    std::unique_ptr<GuardedTensor>& place = tensors_[identity(tensor, data)];
    if (fresh && tensor.role != TensorRole::input) place.reset();
    if (!place) place = std::make_unique<GuardedTensor>(service_.device(), tensor, data, seed_);
    return *place;
}

/// The same with inputs that make each contribution visible; nullopt: no reference says what these are, or the device
/// has no room for a second set of them.
std::optional<Problem> Arena::with_patterns(const Variant& variant, const Problem& problem) {
    Problem with = problem;
    if (!set_patterns(host_, variant, with)) return std::nullopt;
    std::uint64_t more = 0;
    for (const Tensor& one : with.tensors)
        if (is_filled(one) && !tensors_.contains(identity(one, Data::contributions)))
            more += one.size_bytes() + 2 * GuardedTensor::kGuardBytes;
    // As much again stays free, for the scratch memory of others.
    if (more > service_.device().free_bytes() / 2) return std::nullopt;
    return with;
}

void Arena::launch(const AnyKernel& kernel, const Problem& problem, Data data, bool fresh) {
    drop_spare_scratch(problem);
    std::vector<std::uint64_t> words;
    for (const KernelArgument& argument : kernel.variant().arguments()) {
        if (const auto size = problem.sizes.find(argument.name); size != problem.sizes.end()) {
            words.push_back(packed_integer(argument.type, size->second));
            continue;
        }
        // What is neither is a tensor map, made at the launch.
        const auto found = std::ranges::find(problem.tensors, argument.name, &Tensor::name);
        if (found != problem.tensors.end())
            words.push_back(reinterpret_cast<std::uintptr_t>(tensor(*found, data, fresh).data()));
    }
    std::vector<void*> pointers;
    for (std::uint64_t& word : words) pointers.push_back(&word);
    forget_watched_memories();
    for (const Tensor& one : problem.tensors) {
        const GuardedTensor& memory = tensor(one, data, false);
        watch_memory(one.name.c_str(), memory.data(), one.size_bytes());
    }
    if (flusher_ && !fresh) flusher_->flush(service_.stream());
    start_.record(service_.stream());
    kernel.launch(service_.stream(), pointers.data());
    end_.record(service_.stream());
}

double Arena::time_ms(const AnyKernel& kernel, const Problem& problem) {
    launch(kernel, problem, Data::random, false);
    end_.synchronize();
    return end_.elapsed_ms_since(start_);
}

void Arena::prepare(const Problem& problem) { prepare(problem, Data::random); }

void Arena::prepare(const Problem& problem, Data data) {
    drop_spare_scratch(problem);
    for (const Tensor& one : problem.tensors) tensor(one, data, false);
}

std::vector<double> Arena::times_ms(const AnyKernel& kernel, const Problem& problem, std::size_t most,
                                    double enough_ms) {
    prepare(problem);
    const bool apart = isolates(service_);
    return isolated(service_, kernel.variant().template_name(), {}, [&](const TellPhase&) {
        if (apart) static_cast<void>(time_ms(kernel, problem));
        std::vector<double> times;
        do times.push_back(time_ms(kernel, problem));
        while (times.size() < most && times.back() <= enough_ms && !service_.options().stop.stop_requested());
        return times;
    });
}

const Arena::Expected& Arena::expected(const Variant& variant, const Problem& problem, const Tensor& output,
                                       Data data) {
    std::string name = variant.template_name() + " " + std::to_string(static_cast<int>(data));
    for (const Tensor& one : problem.tensors)
        if (is_filled(one) || one.name == output.name) name += " " + identity(one, data);
    std::unique_ptr<Expected>& place = expected_[name];
    if (place) return *place;
    auto made = std::make_unique<Expected>();
    const std::int64_t count = output.count();
    if (count <= kAllElements) {
        made->runs.emplace_back(0, count);
    } else {
        std::vector<std::int64_t> starts = sample_elements(output.extents, kRuns, random_word(seed_, 1));
        std::ranges::sort(starts);
        std::int64_t next = 0;
        for (const std::int64_t start : starts) {
            // Half of a run lies in front of the element, which may be the last of a tile or a row.
            const std::int64_t first = std::max(next, start - kRunElements / 2);
            const std::int64_t last = std::min(count, first + kRunElements);
            if (first < last) made->runs.emplace_back(first, last - first);
            next = std::max(next, last);
        }
    }
    std::vector<std::int64_t> which;
    for (const auto& [first, elements] : made->runs)
        for (std::int64_t i = 0; i < elements; ++i) which.push_back(first + i);

    Reference reference(host_, variant, problem, output);
    HostTensors inputs;
    for (const Tensor& input : problem.tensors)
        if (std::ranges::find(reference.inputs(), input.name) != reference.inputs().end())
            inputs.emplace(input.name, tensor(input, data, false).initial());
    reference.bind(inputs);
    std::tie(made->values, made->bounds) = isolated(service_, reference.name(), {}, [&](const TellPhase&) {
        std::vector<double> values(which.size(), std::numeric_limits<double>::quiet_NaN());
        std::vector<double> bounds = values;
        reference.evaluate(which, values.data(), bounds.data());
        return std::pair(std::move(values), std::move(bounds));
    });
    place = std::move(made);
    return *place;
}

void Arena::prepare_expected(const Variant& variant, const Problem& problem, Data data) {
    prepare(problem, data);
    for (const Tensor& one : problem.tensors)
        if (is_result(one) && !one.reference.empty())
            static_cast<void>(expected(variant, problem, one, data));
}

std::string Arena::check(const AnyKernel& kernel, const Problem& problem) {
    const std::optional<Problem> patterned = with_patterns(kernel.variant(), problem);
    if (isolates(service_)) {
        prepare_expected(kernel.variant(), problem, Data::random);
        if (patterned) prepare_expected(kernel.variant(), *patterned, Data::contributions);
    }
    return isolated(service_, kernel.variant().template_name(), {}, [&](const TellPhase&) {
        std::string wrong = problem_of(kernel, problem, Data::random);
        if (!wrong.empty() || !patterned) return wrong;
        wrong = problem_of(kernel, *patterned, Data::contributions);
        return wrong.empty() ? wrong : wrong + ", with inputs that make each contribution visible";
    });
}

std::string Arena::problem_of(const AnyKernel& kernel, const Problem& problem, Data data) {
    launch(kernel, problem, data, true);
    service_.stream().synchronize();
    for (const Tensor& one : problem.tensors) {
        const GuardedTensor& memory = tensor(one, data, false);
        if (one.role != TensorRole::input)
            if (const std::vector<Overrun> places = memory.overruns(); !places.empty())
                return "the kernel wrote " + places.front().text();
        if (!is_result(one) || one.reference.empty()) continue;
        const Expected& expect = expected(kernel.variant(), problem, one, data);
        std::vector<std::byte> found(expect.values.size() * one.element_bytes);
        std::size_t at = 0;
        for (const auto& [first, elements] : expect.runs) {
            const std::size_t bytes = static_cast<std::size_t>(elements) * one.element_bytes;
            memory.read(first, std::span(found).subspan(at, bytes));
            at += bytes;
        }
        const std::uint64_t wrong = count_wrong(one.type, found, expect.values, expect.bounds);
        if (wrong > 0)
            return std::to_string(wrong) + " of " + std::to_string(expect.values.size()) + " elements of " +
                   one.name + " are wrong";
    }
    return {};
}

}  // namespace kiln
