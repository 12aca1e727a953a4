// SPDX-License-Identifier: Apache-2.0
//
// Adds sizes without overflow.
#include "run/memory_limit.h"

#include <kiln/error.h>
#include <kiln/timing.h>

#include <limits>
#include <vector>

#include "base/words.h"
#include "format/format.h"
#include "run/check.h"
#include "run/guarded_tensor.h"

namespace kiln {
namespace {

constexpr std::uint64_t kTooMany = std::numeric_limits<std::uint64_t>::max();

std::uint64_t add(std::uint64_t a, std::uint64_t b) { return a > kTooMany - b ? kTooMany : a + b; }

std::uint64_t bytes_of(const Tensor& tensor) {
    try {
        return tensor.size_bytes();
    } catch (const VariantError&) {
        return kTooMany;
    }
}

std::string amount(std::uint64_t bytes) {
    return bytes == kTooMany ? "more bytes than 64 bits can count"
                             : formatted("{} bytes ({})", bytes, bytes_text(bytes));
}

void check(const Problem& problem, std::uint64_t needed, std::uint64_t available, const std::string& where) {
    if (needed <= available) return;
    std::vector<std::string> sizes, tensors;
    for (const auto& [name, value] : problem.sizes) sizes.push_back(formatted("{}={}", name, value));
    for (const Tensor& tensor : problem.tensors)
        tensors.push_back(tensor.name + " " + bytes_text(bytes_of(tensor)));
    throw UsageError((sizes.empty() ? "the problem" : join(sizes, " ")) + " needs " + amount(needed) + " (" +
                     join(tensors) + "), but " + where + " " + amount(available) +
                     " free. Give smaller sizes.");
}

}  // namespace

void check_fits(const Device& device, const Problem& problem, const RunOptions& options, bool checking,
                const std::set<std::string>& copied) {
    const DeviceInfo& info = device.info();
    std::uint64_t on_device = options.cold_l2 && options.time ? CacheFlusher::buffer_bytes(info) : 0;
    std::uint64_t on_host = add(GuardedTensor::kPieceBytes, checking ? check_bytes() : 0);
    for (const Tensor& tensor : problem.tensors) {
        const std::uint64_t bytes = bytes_of(tensor);
        on_device = add(on_device, add(bytes, GuardedTensor::kMostAddedBytes));
        if (copied.contains(tensor.name)) on_host = add(on_host, bytes);
        const bool kept =
            options.keep_results && (tensor.role == TensorRole::output || tensor.role == TensorRole::inout);
        if (kept) on_host = add(on_host, bytes);
    }
    if (info.backend == Backend::host) {
        check(problem, add(on_device, on_host), device.free_bytes(), "this machine has");
        return;
    }
    check(problem, on_device, device.free_bytes(), info.name + " has");
    check(problem, on_host, Device::open(Backend::host).free_bytes(),
          "this machine, which prepares and checks the data, has");
}

}  // namespace kiln
