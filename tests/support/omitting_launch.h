// SPDX-License-Identifier: Apache-2.0
//
// A right kernel made a wrong one by its inputs: a slice of them is changed so that it contributes nothing, and the
// results are held to the reference of the inputs as they were. That is what a kernel gives that leaves the slice out.
#pragma once

#include <kiln/run.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "run/check.h"
#include "run/element.h"
#include "run/guarded_tensor.h"
#include "run/inputs.h"
#include "run/problem_launch.h"
#include "run/reference.h"
#include "run/sample.h"

namespace kiln::test {

/// Elements of an input whose index along `axis` is from begin to end - 1 are set to `value`; the last ones of their
/// rows to `last`, where that is not the same.
struct Loss {
    std::string tensor;
    std::size_t axis = 0;
    std::int64_t begin = 0, end = 0;
    double value = 0;
    double last = 0;
};

/// What is compared: a sample of each output, but for elements with an index in this range along an axis, which are
/// about the slice themselves.
struct Compared {
    std::size_t but_axis = 0;
    std::int64_t but_begin = 0, but_end = 0;
};

/// A problem in device memory with Data::contributions.
class OmittingLaunch {
  public:
    /// host: for the reference. adjust: may change what tensors hold.
    OmittingLaunch(Service& service, Service& host, const Variant& variant, const Sizes& sizes,
                   bool test_sizes, std::uint64_t seed = 1, const std::function<void(Problem&)>& adjust = {})
        : launch_(service, service.build(variant),
                  [&] {
                      Problem problem = variant.problem(sizes, test_sizes);
                      if (adjust) adjust(problem);
                      set_patterns(host, variant, problem);
                      return problem;
                  }(),
                  {Data::contributions, seed}) {
        HostTensors inputs;
        for (const Tensor& output : problem().tensors) {
            if (output.reference.empty()) continue;
            Reference reference(host, variant, problem(), output);
            for (const std::string& input : reference.inputs())
                if (!inputs.contains(input)) inputs.emplace(input, launch_.tensor(input).initial());
            reference.bind(inputs);
            Expected expected{
                output.name, sample_elements(output.extents, kCompared, random_word(seed, 1)), {}, {}};
            std::ranges::sort(expected.which);
            expected.values.assign(expected.which.size(), NAN);
            expected.bounds = expected.values;
            reference.evaluate(expected.which, expected.values.data(), expected.bounds.data());
            expected_.push_back(std::move(expected));
        }
    }

    const Problem& problem() const { return launch_.problem(); }

    /// How many of the compared elements a launch with this loss gets wrong.
    std::uint64_t wrong(const std::vector<Loss>& losses, const Compared& compared = {}) {
        launch_.refill_results();
        std::vector<Saved> saved;
        for (const Loss& loss : losses) saved.push_back(apply(loss));
        launch_.launch_and_wait();
        for (const Saved& one : saved) restore(one);
        std::uint64_t wrong = 0;
        for (const Expected& expected : expected_) wrong += wrong_in(expected, compared);
        return wrong;
    }

  private:
    static constexpr std::size_t kCompared = 4096;      // elements of an output
    static constexpr std::int64_t kMostPieces = 16384;  // that are changed one by one

    struct Expected {
        std::string output;
        std::vector<std::int64_t> which;  ///< in order
        std::vector<double> values, bounds;
    };

    /// What a change overwrote: pieces of elements at these numbers, one after the other.
    struct Saved {
        GuardedTensor* memory;
        std::vector<std::int64_t> firsts;
        std::vector<std::byte> bytes;
    };

    Saved apply(const Loss& loss) {
        GuardedTensor& memory = launch_.tensor(loss.tensor);
        const auto& extents = memory.tensor().extents;
        std::int64_t inner = 1, outer = 1;
        for (std::size_t i = 0; i < extents.size(); ++i) (i < loss.axis ? outer : inner) *= extents[i];
        inner /= extents[loss.axis];
        const std::int64_t count = (loss.end - loss.begin) * inner, row = extents.back();
        Saved saved{&memory, {}, {}};
        for (std::int64_t o = 0; o < outer; ++o)
            saved.firsts.push_back((o * extents[loss.axis] + loss.begin) * inner);
        with_element(memory.tensor().type, [&]<class T>(T) {
            const auto made = [](double value) {
                if constexpr (is_small_float<T>)
                    return T(static_cast<float>(value));
                else
                    return static_cast<T>(value);
            };
            const std::size_t size = static_cast<std::size_t>(count);
            const auto slice = std::make_unique<T[]>(size);
            std::fill_n(slice.get(), size, made(loss.value));
            if (loss.last != loss.value)
                for (std::int64_t i = row - 1; i < count; i += row)
                    slice[static_cast<std::size_t>(i)] = made(loss.last);
            const auto bytes = std::as_bytes(std::span(slice.get(), size));
            if (outer <= kMostPieces) {
                saved.bytes.resize(saved.firsts.size() * bytes.size());
                for (std::size_t o = 0; o < saved.firsts.size(); ++o) {
                    memory.read(saved.firsts[o],
                                std::span(saved.bytes).subspan(o * bytes.size(), bytes.size()));
                    memory.write(saved.firsts[o], bytes);
                }
                return;
            }
            // Many small pieces: all of it at once is faster.
            saved.firsts.clear();
            const HostBytes all = memory.initial();
            for (std::int64_t o = 0; o < outer; ++o)
                std::memcpy(
                    all.data() +
                        static_cast<std::size_t>((o * extents[loss.axis] + loss.begin) * inner) * sizeof(T),
                    bytes.data(), bytes.size());
            memory.write(0, all.span().first(memory.tensor().size_bytes()));
        });
        return saved;
    }

    static void restore(const Saved& saved) {
        if (saved.firsts.empty()) return saved.memory->refill();
        const std::size_t piece = saved.bytes.size() / saved.firsts.size();
        for (std::size_t o = 0; o < saved.firsts.size(); ++o)
            saved.memory->write(saved.firsts[o], std::span(saved.bytes).subspan(o * piece, piece));
    }

    std::uint64_t wrong_in(const Expected& expected, const Compared& compared) {
        const GuardedTensor& output = launch_.tensor(expected.output);
        const auto& extents = output.tensor().extents;
        std::int64_t inner = 1;
        for (std::size_t i = compared.but_axis + 1; i < extents.size(); ++i) inner *= extents[i];
        const std::int64_t extent = compared.but_axis < extents.size() ? extents[compared.but_axis] : 1;
        const std::size_t size = output.tensor().element_bytes;
        std::vector<std::byte> found;
        std::vector<double> values, bounds;
        std::size_t next = 0;
        output.read_all([&](std::int64_t first, std::span<const std::byte> bytes) {
            const auto end = first + static_cast<std::int64_t>(bytes.size() / size);
            for (; next < expected.which.size() && expected.which[next] < end; ++next) {
                const std::int64_t element = expected.which[next], index = element / inner % extent;
                if (index >= compared.but_begin && index < compared.but_end) continue;
                const auto from = bytes.subspan(static_cast<std::size_t>(element - first) * size, size);
                found.insert(found.end(), from.begin(), from.end());
                values.push_back(expected.values[next]);
                bounds.push_back(expected.bounds[next]);
            }
        });
        return count_wrong(output.tensor().type, found, values, bounds);
    }

    ProblemLaunch launch_;
    std::vector<Expected> expected_;
};

/// A loss, and what of the results is not about it.
struct Mutation {
    std::string what;
    std::vector<Loss> losses;
    Compared compared = {};
};

/// What a kernel of this problem may lose: the first, the last and a middle part of everything that its reference
/// calls a factor, a term, a peak or a key, and the values of keys. step: of the parts along k, keys and columns.
inline std::vector<Mutation> mutations(const Problem& problem, std::int64_t step) {
    std::vector<Mutation> all;
    const auto add = [&](const std::string& what, const Tensor& tensor, std::size_t axis, double value,
                         double last, std::int64_t part, bool not_itself = false) {
        const std::int64_t extent = tensor.extents[axis];
        part = std::clamp<std::int64_t>(part, 1, extent);
        const std::int64_t middle = std::min(extent / 2 / part * part, extent - part);
        for (const auto& [where, begin] :
             {std::pair{"first ", std::int64_t{0}}, {"middle ", middle}, {"last ", extent - part}}) {
            Mutation one{where + std::to_string(part) + what,
                         {{tensor.name, axis, begin, begin + part, value, last}}};
            if (not_itself) one.compared = {axis, begin, begin + part};
            all.push_back(std::move(one));
        }
    };
    for (const Tensor& tensor : problem.tensors) {
        const std::size_t axes = tensor.extents.size();
        switch (tensor.pattern) {
            case Pattern::none:
                break;
            case Pattern::factor:
                if (tensor.name != "a") break;
                for (std::size_t axis = axes - 2; axis < axes; ++axis)
                    if (tensor.extents[axis] == problem.sizes.at("k"))
                        for (const std::int64_t part : {std::int64_t{1}, step})
                            add(" of k", tensor, axis, 0, 0, part);
                break;
            case Pattern::term:
                for (const std::int64_t part :
                     {tensor.extents[0] / 1024, tensor.extents[0] / 4, tensor.extents[0]})
                    add(" of the terms", tensor, 0, 0, 0, part);
                break;
            case Pattern::peaks:
            case Pattern::shifted_peaks:
                for (const std::int64_t part : {std::int64_t{1}, step})
                    add(" of the columns", tensor, 1, problem.tensors.size() > 2 ? 0 : -1000, 0, part, true);
                break;
            case Pattern::key: {
                // Keys lie in [.., keys, HEAD_DIM], or in pages [pages, heads, PAGE_SIZE, HEAD_DIM].
                const std::size_t axis = tensor.name == "k_cache" ? 0 : axes - 2;
                const Tensor& values = *(&tensor + 1);
                add(axis == 0 ? " of the pages" : " of the keys", tensor, axis, 0, -1, step);
                add(axis == 0 ? " of the pages' values" : " of the keys' values", values, axis, 0, 0, step);
                break;
            }
            case Pattern::query:
                break;
        }
    }
    return all;
}

}  // namespace kiln::test
