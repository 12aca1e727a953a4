// SPDX-License-Identifier: Apache-2.0
//
// Kernels are most often wrong at edges: of the tensor, of its rows, of tiles, of the range of an index.
#include "run/sample.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "run/inputs.h"

namespace kiln {
namespace {

constexpr std::int64_t kEnds = 64;        // at the start and at the end of the memory
constexpr std::size_t kMostCorners = 10;  // extents for which all corners are sampled

class Sample {
  public:
    explicit Sample(std::int64_t count) : count_(count) {}

    void add(std::int64_t element) {
        if (element >= 0 && element < count_ && seen_.insert(element).second) elements_.push_back(element);
    }
    std::vector<std::int64_t>& elements() { return elements_; }

  private:
    std::int64_t count_;
    std::unordered_set<std::int64_t> seen_;
    std::vector<std::int64_t> elements_;
};

/// A position along an extent: an end, next to a multiple of 16 to 128 or a power of two, or anywhere.
std::int64_t place(std::uint64_t word, std::int64_t extent) {
    const auto anywhere =
        static_cast<std::int64_t>(below(word * 0x9e3779b97f4a7c15ULL, std::uint64_t(extent)));
    const std::int64_t side = static_cast<std::int64_t>((word >> 3) & 1);
    switch (word & 7) {
        case 0:
            return 0;
        case 1:
            return extent - 1;
        case 2: {
            const std::int64_t tile = std::int64_t{16} << ((word >> 4) & 3);
            return std::max<std::int64_t>(anywhere / tile * tile - side, 0);
        }
        case 3: {
            const std::int64_t power = std::int64_t{1} << ((word >> 4) % 63);
            return std::min(power, extent) - side;
        }
        default:
            return anywhere;
    }
}

}  // namespace

std::vector<std::int64_t> sample_elements(std::span<const std::int64_t> extents, std::size_t wanted,
                                          std::uint64_t seed) {
    const std::int64_t count =
        std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
    if (std::cmp_less_equal(count, wanted)) {
        std::vector<std::int64_t> all(static_cast<std::size_t>(count));
        std::iota(all.begin(), all.end(), std::int64_t{0});
        return all;
    }
    Sample sample(count);
    sample.add(0);
    sample.add(count - 1);
    for (std::size_t corner = 0; corner < std::size_t{1} << std::min(extents.size(), kMostCorners);
         ++corner) {
        std::int64_t element = 0;
        for (std::size_t i = 0; i < extents.size(); ++i)
            element = element * extents[i] + ((corner >> i & 1) != 0 ? extents[i] - 1 : 0);
        sample.add(element);
    }
    for (int bit = 0; bit < 62; ++bit)
        for (std::int64_t side = -1; side <= 1; ++side) sample.add((std::int64_t{1} << bit) + side);
    for (std::int64_t i = 0; i < kEnds; ++i) {
        sample.add(i);
        sample.add(count - 1 - i);
    }
    // In a small tensor many positions coincide, so the number of tries is limited.
    for (std::uint64_t i = 0; sample.elements().size() < wanted && i < 4 * wanted; ++i) {
        std::int64_t element = 0;
        for (std::size_t axis = 0; axis < extents.size(); ++axis)
            element = element * extents[axis] + place(random_word(random_word(seed, axis), i), extents[axis]);
        sample.add(element);
    }
    return std::move(sample.elements());
}

}  // namespace kiln
