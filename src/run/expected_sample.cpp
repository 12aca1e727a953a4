// SPDX-License-Identifier: Apache-2.0
//
// Half of a run is before the sampled element, which may be the last of a tile or a row.
#include "run/expected_sample.h"

#include <algorithm>
#include <limits>

#include "run/check.h"
#include "run/sample.h"

namespace kiln {
namespace {

constexpr std::int64_t kAllElements = 16384;  // outputs up to this are checked completely
constexpr std::size_t kRuns = 128;
constexpr std::int64_t kRunElements = 64;

}  // namespace

ExpectedSample::ExpectedSample(const Tensor& output, std::uint64_t seed) {
    const std::int64_t count = output.count();
    if (count <= kAllElements) {
        runs_.emplace_back(0, count);
        return;
    }
    std::vector<std::int64_t> centres = sample_elements(output.extents, kRuns, seed);
    std::ranges::sort(centres);
    std::int64_t next = 0;
    for (const std::int64_t centre : centres) {
        const std::int64_t first = std::max(next, centre - kRunElements / 2);
        const std::int64_t last = std::min(count, first + kRunElements);
        if (first < last) runs_.emplace_back(first, last - first);
        next = std::max(next, last);
    }
}

ExpectedSample::Values ExpectedSample::compute(const Reference& reference) const {
    std::vector<std::int64_t> which;
    for (const auto& [first, elements] : runs_)
        for (std::int64_t i = 0; i < elements; ++i) which.push_back(first + i);
    const std::vector<double> unknown(which.size(), std::numeric_limits<double>::quiet_NaN());
    Values values{unknown, unknown};
    reference.evaluate(which, values.expected.data(), values.bound.data());
    return values;
}

std::uint64_t ExpectedSample::wrong(const GuardedTensor& output) const {
    std::vector<std::byte> found(count() * output.tensor().element_bytes);
    std::size_t at = 0;
    for (const auto& [first, elements] : runs_) {
        const std::size_t bytes = static_cast<std::size_t>(elements) * output.tensor().element_bytes;
        output.read(first, std::span(found).subspan(at, bytes));
        at += bytes;
    }
    return count_wrong(output.tensor().type, found, values_.expected, values_.bound);
}

}  // namespace kiln
