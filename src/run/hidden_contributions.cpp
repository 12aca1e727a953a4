// SPDX-License-Identifier: Apache-2.0
//
// A contribution is left out by a zero in the input: all elements with the same place in their sum are zeroed together, so that every
// element of the output misses at most one.
#include "run/hidden_contributions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/stopwatch.h"
#include "run/inputs.h"

namespace kiln {
namespace {

constexpr std::size_t kElements = 64;    // of the output
constexpr std::size_t kPlaces = 8;       // of an input's sums
constexpr std::size_t kLeastPlaces = 3;  // however long that takes
constexpr double kEnoughMs = 2000;

/// Up to so many different numbers below `count`, ascending, the first and the last among them.
std::vector<std::int64_t> some(std::int64_t count, std::size_t most, std::uint64_t seed) {
    std::vector<std::int64_t> numbers;
    if (static_cast<std::uint64_t>(count) <= most) {
        numbers.resize(static_cast<std::size_t>(count));
        std::iota(numbers.begin(), numbers.end(), 0);
        return numbers;
    }
    numbers = {0, count - 1};
    for (std::uint64_t i = 2; i < most; ++i)
        numbers.push_back(
            static_cast<std::int64_t>(below(random_word(seed, i), static_cast<std::uint64_t>(count))));
    std::ranges::sort(numbers);
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    return numbers;
}

/// Where an input has the elements of its sums: element (before, place, behind) of this shape is contribution number `place`.
struct Sums {
    std::int64_t before = 1, places = 1, behind = 1;
};

std::vector<Sums> sums_of(const Tensor& input) {
    std::vector<Sums> found;
    const auto product = [&](std::size_t from, std::size_t to) {
        std::int64_t all = 1;
        for (std::size_t i = from; i < to; ++i) all *= input.extents[i];
        return all;
    };
    const std::size_t rank = input.extents.size();
    for (std::size_t from = 0; from < rank; ++from)
        for (std::size_t to = from + 1; to <= rank; ++to)
            if (product(from, to) == input.pattern_size)
                found.push_back({product(0, from), input.pattern_size, product(to, rank)});
    return found;
}

/// Zeroes contribution number `place` of all sums, as long as it lives.
class LeftOut {
  public:
    LeftOut(std::byte* data, std::size_t element_bytes, const Sums& sums, std::int64_t place)
        : run_(static_cast<std::size_t>(sums.behind) * element_bytes),
          step_(run_ * static_cast<std::size_t>(sums.places)),
          first_(data + run_ * static_cast<std::size_t>(place)),
          kept_(run_ * static_cast<std::size_t>(sums.before)) {
        for (std::size_t i = 0; i * run_ < kept_.size(); ++i) {
            std::memcpy(kept_.data() + i * run_, first_ + i * step_, run_);
            std::memset(first_ + i * step_, 0, run_);
        }
    }
    ~LeftOut() {
        for (std::size_t i = 0; i * run_ < kept_.size(); ++i)
            std::memcpy(first_ + i * step_, kept_.data() + i * run_, run_);
    }
    LeftOut(const LeftOut&) = delete;
    LeftOut& operator=(const LeftOut&) = delete;

  private:
    std::size_t run_, step_;
    std::byte* first_;
    std::vector<std::byte> kept_;
};

}  // namespace

std::optional<Contributions> hidden_contributions(const Reference& reference, const Problem& problem,
                                                  const Tensor& output, const HostTensors& inputs,
                                                  std::uint64_t seed) {
    if (output.count() == 0) return std::nullopt;
    const std::vector<std::int64_t> which = some(output.count(), kElements, seed);
    std::vector<double> expected(which.size()), bound(which.size()), without(which.size()),
        unused(which.size());
    reference.evaluate(which, expected.data(), bound.data());
    if (std::ranges::all_of(bound, [](double one) { return one == 0; })) return std::nullopt;
    Contributions all;
    const Stopwatch watch;
    for (const Tensor& input : problem.tensors) {
        const auto data = inputs.find(input.name);
        if ((input.pattern != Pattern::factor && input.pattern != Pattern::term) || data == inputs.end())
            continue;
        for (const Sums& sums : sums_of(input)) {
            std::vector<std::int64_t> places = some(sums.places, kPlaces, random_word(seed, 1));
            std::ranges::reverse(places);
            for (std::size_t i = 0; i < places.size(); ++i) {
                if (i >= kLeastPlaces && watch.elapsed_ms() > kEnoughMs) break;
                const LeftOut left_out(data->second.data(), input.element_bytes, sums, places[i]);
                reference.evaluate(which, without.data(), unused.data());
                for (std::size_t e = 0; e < which.size(); ++e) {
                    const double change = std::abs(without[e] - expected[e]);
                    if (change == 0 || std::isinf(bound[e])) continue;  // not of this sum; not checked
                    ++all.tried;
                    if (!(change <= bound[e])) continue;
                    ++all.hidden;
                    if (all.hidden > 1 && bound[e] * all.change <= all.bound * change) continue;
                    all.input = input.name;
                    all.change = change;
                    all.bound = bound[e];
                }
            }
        }
    }
    return all.tried == 0 ? std::nullopt : std::optional(all);
}

}  // namespace kiln
