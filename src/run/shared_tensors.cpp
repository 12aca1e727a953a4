// SPDX-License-Identifier: Apache-2.0
//
// All launches must have ended before memory is freed.
#include "run/shared_tensors.h"

#include <algorithm>

#include "format/format.h"

namespace kiln {
namespace {

constexpr std::uint64_t kMostSpareBytes = std::uint64_t{256} << 20;

bool has_data(const Tensor& tensor) {
    return tensor.role == TensorRole::input || tensor.role == TensorRole::inout;
}

}  // namespace

std::string identity_of(const Tensor& tensor, Data data) {
    std::string text = formatted("{} {} {} {} {} {}", tensor.name, tensor.type, static_cast<int>(tensor.role),
                                 static_cast<int>(tensor.fill), tensor.low, tensor.high);
    for (const std::int64_t extent : tensor.extents) text += formatted(" {}", extent);
    if (data == Data::contributions && has_data(tensor))
        text += formatted(" pattern {} {}", static_cast<int>(tensor.pattern), tensor.pattern_size);
    return text;
}

GuardedTensors SharedTensors::of(const Problem& problem, Data data) {
    const auto is_spare = [&](const Tensor& tensor) {
        return tensor.role == TensorRole::scratch &&
               std::ranges::none_of(problem.tensors, [&](const Tensor& needed) {
                   return identity_of(needed, data) == identity_of(tensor, data);
               });
    };
    std::uint64_t spare_bytes = 0;
    for (const auto& [identity, memory] : tensors_)
        if (is_spare(memory->tensor())) spare_bytes += memory->tensor().size_bytes();
    if (spare_bytes > kMostSpareBytes) {
        service_.stream().synchronize();
        std::erase_if(tensors_, [&](const auto& one) { return is_spare(one.second->tensor()); });
    }
    GuardedTensors tensors;
    for (const Tensor& tensor : problem.tensors) {
        const std::string identity = identity_of(tensor, data);
        auto found = tensors_.find(identity);
        if (found == tensors_.end())
            found = tensors_
                        .emplace(identity,
                                 std::make_shared<GuardedTensor>(service_.device(), tensor, data, seed_))
                        .first;
        tensors.push_back(found->second);
    }
    return tensors;
}

std::uint64_t SharedTensors::missing_bytes(const Problem& problem, Data data) const {
    std::uint64_t bytes = 0;
    for (const Tensor& tensor : problem.tensors)
        if (has_data(tensor) && !tensors_.contains(identity_of(tensor, data)))
            bytes += tensor.size_bytes() + GuardedTensor::kMostAddedBytes;
    return bytes;
}

void SharedTensors::drop_scratch() {
    service_.stream().synchronize();
    std::erase_if(tensors_, [](const auto& one) { return one.second->tensor().role == TensorRole::scratch; });
}

void SharedTensors::clear() {
    service_.stream().synchronize();
    tensors_.clear();
}

std::uint64_t SharedTensors::held_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& [identity, memory] : tensors_) bytes += memory->tensor().size_bytes();
    return bytes;
}

}  // namespace kiln
