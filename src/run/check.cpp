// SPDX-License-Identifier: Apache-2.0
//
// Expected values are computed in chunks, whatever the output's size, and compared on all cores.
#include "run/check.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <numeric>
#include <vector>

#include "base/parallel.h"
#include "base/stopwatch.h"
#include "format/format.h"
#include "run/element.h"
#include "run/error_statistics.h"
#include "run/sample.h"

namespace kiln {
namespace {

constexpr double kMostFullMs = 5000;
constexpr double kMostSampleMs = 10000;
constexpr std::size_t kLeastSample = 1024;
constexpr std::int64_t kCheckGrain = 1 << 15;

std::vector<std::int64_t> index_of(std::int64_t element, const std::vector<std::int64_t>& extents) {
    std::vector<std::int64_t> index(extents.size());
    for (std::size_t i = extents.size(); i-- > 0;) {
        index[i] = element % extents[i];
        element /= extents[i];
    }
    return index;
}

/// Compares one element of type T.
template <class T>
ComparedElement judged(double found, double expected, double bound, bool exact) {
    ComparedElement result{found, expected, bound, false, 0, 0};
    if (bound == INFINITY) return result;
    if (std::isnan(bound) || bound < 0) {  // the bound is no number, or the reference leaves the element out
        result.wrong = true;
        result.error = std::isnan(found - expected) ? INFINITY : std::abs(found - expected);
        result.ratio = INFINITY;
        return result;
    }
    if (exact) {
        result.expected = expected = rounded<T>(expected);
        bound = result.bound = 0;
    }
    const bool same = found == expected || (std::isnan(found) && std::isnan(expected));
    // Beyond the largest finite value, infinity is the correct rounding.
    const bool overflow = std::isinf(found) && std::isfinite(expected) &&
                          rounded<T>(expected + std::copysign(bound, found)) == found;
    if (same || overflow) return result;
    const double difference = std::abs(found - expected);
    result.error = std::isnan(difference) ? INFINITY : difference;
    // The bound applies before the rounding to the output's type.
    const double computed_error = std::max(0.0, result.error - half_gap<T>(found, expected));
    if (computed_error == 0) return result;
    result.ratio = bound > 0 ? computed_error / bound : INFINITY;
    result.wrong = computed_error > bound;
    return result;
}

template <class T>
class Comparison {
  public:
    Comparison(const GuardedTensor& output, const Reference& reference, const CheckRequest& request)
        : output_(output),
          reference_(reference),
          exact_(request.exact),
          tolerance_(request.tolerance),
          expected_(kCheckChunk),
          bound_(kCheckChunk) {}

    /// found[i] is element which[i]; at most kCheckChunk elements.
    void compare(std::span<const std::int64_t> which, const T* found) {
        // Cleared, in case the reference skips an element.
        std::fill_n(expected_.begin(), which.size(), NAN);
        std::fill_n(bound_.begin(), which.size(), NAN);
        reference_.evaluate(which, expected_.data(), bound_.data());
        std::mutex mutex;
        parallel_for(
            static_cast<std::int64_t>(which.size()), kCheckGrain, [&](std::int64_t begin, std::int64_t end) {
                ErrorStatistics tally;
                std::uint64_t unwritten = 0;
                for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
                    if (!is_told_by_double<T>(expected_[i], exact_ ? 0 : bound_[i]))
                        refuse(which[i], expected_[i]);
                    const auto each = judged<T>(wide(found[i]), expected_[i],
                                                bound_[i] < 0 ? bound_[i] : bound_[i] + tolerance_, exact_);
                    tally.add(which[i], each);
                    unwritten += each.wrong && is_surely_poison(found[i]) ? 1U : 0U;
                }
                const std::lock_guard lock(mutex);
                tally_.merge(tally);
                unwritten_ += unwritten;
            });
    }

    /// Throws: a comparison would call wrong integers right.
    [[noreturn]] void refuse(std::int64_t element, double expected) const {
        std::string index;
        for (const std::int64_t i : index_of(element, output_.tensor().extents))
            index += (index.empty() ? "" : ", ") + std::to_string(i);
        throw UsageError(
            formatted("the output {} can't be checked: {:.0f} is expected at [{}], and references give "
                      "doubles, which hold "
                      "integers only below 2^53. Declare it as unsigned int, with two elements for each of "
                      "these, or give such "
                      "elements a bound of at least {:g}, without 'exact'",
                      output_.tensor().name, expected, index, std::ldexp(1.0, std::ilogb(expected) - 52)));
    }

    void sample(const std::vector<std::int64_t>& which) {
        const auto found = std::make_unique_for_overwrite<T[]>(which.size());
        std::size_t next = 0;
        // The elements are sorted, so that each part of the output is read once.
        output_.read_all([&](std::int64_t first, std::span<const std::byte> bytes) {
            const T* const values = reinterpret_cast<const T*>(bytes.data());
            const auto end = first + static_cast<std::int64_t>(bytes.size() / sizeof(T));
            for (; next < which.size() && which[next] < end; ++next)
                found[next] = values[which[next] - first];
            count_unwritten(values, end - first);
        });
        for (std::size_t begin = 0; begin < which.size(); begin += kCheckChunk) {
            const std::size_t count = std::min<std::size_t>(kCheckChunk, which.size() - begin);
            compare(std::span(which).subspan(begin, count), found.get() + begin);
        }
    }

    void full() {
        const std::int64_t count = output_.tensor().count();
        const auto most = static_cast<std::size_t>(std::min(kCheckChunk, count));
        const auto found = std::make_unique_for_overwrite<T[]>(most);
        std::vector<std::int64_t> which(most);
        for (std::int64_t first = 0; first < count; first += kCheckChunk) {
            const auto elements = static_cast<std::size_t>(std::min(kCheckChunk, count - first));
            output_.read(first, std::as_writable_bytes(std::span(found.get(), elements)));
            std::iota(which.begin(), which.end(), first);
            count_unwritten(found.get(), static_cast<std::int64_t>(elements));
            compare(std::span(which).first(elements), found.get());
        }
    }

    /// The time that an element's expected value takes, from those of a sample.
    double element_ms(std::span<const std::int64_t> sample) {
        sample = sample.first(std::min<std::size_t>(kCheckChunk, sample.size()));
        for (std::size_t count = std::min<std::size_t>(1024, sample.size());; count = sample.size()) {
            double took_ms = INFINITY;
            // What else the machine does only adds to a time.
            for (int i = 0; i < 3 && took_ms > 5; ++i) {
                const Stopwatch watch;
                reference_.evaluate(sample.first(count), expected_.data(), bound_.data());
                took_ms = std::min(took_ms, watch.elapsed_ms());
                if (took_ms > 100) break;
            }
            if (took_ms > 5 || count == sample.size()) return took_ms / static_cast<double>(count);
        }
    }

    /// A wrong integer of 32 or 64 bits that equals the poison is unwritten: that is hardly chance.
    static bool is_surely_poison(const T& value) {
        return !kPoisonIsTelling<T> && sizeof(T) >= 4 && is_poison(value);
    }

    void count_unwritten(const T* values, std::int64_t count) {
        if (kPoisonIsTelling<T>)
            unwritten_ += static_cast<std::uint64_t>(std::count_if(values, values + count, is_poison<T>));
    }

    const ErrorStatistics& tally() const { return tally_; }
    std::uint64_t unwritten() const { return unwritten_; }

  private:
    const GuardedTensor& output_;
    const Reference& reference_;
    const bool exact_;
    const double tolerance_;
    std::vector<double> expected_, bound_;
    ErrorStatistics tally_;
    std::uint64_t unwritten_ = 0;
};

template <class T>
void compare(const GuardedTensor& output, const Reference& reference, CheckRequest& request,
             OutputCheck& result) {
    Comparison<T> comparison(output, reference, request);
    const Tensor& tensor = output.tensor();
    const auto count = static_cast<double>(tensor.count());
    std::vector<std::int64_t> sample;
    if (request.how != Check::full) sample = sample_elements(tensor.extents, request.sample, request.seed);
    if (!sample.empty() && (!request.how || sample.size() > kLeastSample)) {
        const double each_ms = comparison.element_ms(sample);
        if (!request.how) request.how = each_ms * count <= kMostFullMs ? Check::full : Check::sample;
        const double affordable = kMostSampleMs / std::max(each_ms, 1e-9);
        if (affordable < static_cast<double>(sample.size()))
            sample.resize(
                std::min(sample.size(), std::max(kLeastSample, static_cast<std::size_t>(affordable))));
    }
    // A sample that has every element is a full check.
    if (sample.size() == static_cast<std::size_t>(tensor.count())) request.how = Check::full;
    if (request.how == Check::sample) {
        std::sort(sample.begin(), sample.end());
        comparison.sample(sample);
    } else {
        comparison.full();
    }
    const ErrorStatistics& tally = comparison.tally();
    result.checked = tally.checked;
    result.wrong = tally.wrong;
    result.not_finite = tally.not_finite;
    result.worst = tally.worst;
    result.max_abs_error = tally.max_abs_error;
    result.unwritten = comparison.unwritten();
    if (tally.first >= 0)
        result.first_wrong = {index_of(tally.first, tensor.extents), tally.first_wrong.found,
                              tally.first_wrong.expected, tally.first_wrong.bound};
}

template <class T>
std::uint64_t unwritten(const GuardedTensor& output) {
    std::uint64_t count = 0;
    if (kPoisonIsTelling<T>)
        output.read_all([&](std::int64_t, std::span<const std::byte> bytes) {
            const T* const values = reinterpret_cast<const T*>(bytes.data());
            count += static_cast<std::uint64_t>(
                std::count_if(values, values + bytes.size() / sizeof(T), is_poison<T>));
        });
    return count;
}

}  // namespace

std::uint64_t check_bytes() {
    return GuardedTensor::kPieceBytes + static_cast<std::uint64_t>(kCheckChunk) * 4 * sizeof(double);
}

OutputCheck check_output(const GuardedTensor& output, const Reference* reference, CheckRequest& request) {
    OutputCheck result;
    result.tensor = output.tensor().name;
    result.elements = static_cast<std::uint64_t>(output.tensor().count());
    if (result.elements == 0) return result;
    with_element(output.tensor().type, [&]<class T>(T) {
        if (reference != nullptr)
            compare<T>(output, *reference, request, result);
        else
            result.unwritten = unwritten<T>(output);
    });
    // Tensors of role inout are not poisoned.
    if (output.is_filled()) result.unwritten = 0;
    return result;
}

std::uint64_t count_wrong(const std::string& type, std::span<const std::byte> found,
                          std::span<const double> expected, std::span<const double> bound) {
    std::uint64_t wrong = 0;
    with_element(type, [&]<class T>(T) {
        const T* const values = reinterpret_cast<const T*>(found.data());
        for (std::size_t i = 0; i < expected.size(); ++i)
            if (judged<T>(wide(values[i]), expected[i], bound[i], false).wrong) ++wrong;
    });
    return wrong;
}

}  // namespace kiln
