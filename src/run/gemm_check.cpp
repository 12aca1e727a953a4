// SPDX-License-Identifier: Apache-2.0
//
// C is read in bands of rows. To compare every element, bands are processed in blocks that fit a core's cache, and
// the inner loop has a fixed number of columns, so that the compiler vectorises it.
#include "run/gemm_check.h"

#include <kiln/types.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>
#include <mutex>
#include <vector>

#include "base/parallel.h"
#include "run/element.h"
#include "run/error_statistics.h"
#include "run/inputs.h"
#include "run/sample.h"

namespace kiln {
namespace {

constexpr double kUnit = 0x1p-24;                           // unit roundoff of FP32
constexpr double kLargestExact = 1 << 24;                   // integers up to this are exact in FP32
constexpr std::int64_t kExactSums = std::int64_t{1} << 29;  // of numbers up to 2^24, in FP64
constexpr std::int64_t kBandElements = std::int64_t{1} << 23;
constexpr std::int64_t kChunk = 4096;  // elements of a row widened at a time
constexpr std::int64_t kRows = 64, kColumns = 128, kDepth = 128, kUnroll = 4;

/// The library's own conversion is a call per element; these loops are vectorised. Exact for every finite
/// value: the shift makes the exponent 112 too small, and the multiplication corrects that.
double widened(half value) {
    const std::uint32_t sign = (value.bits & 0x8000U) << 16;
    const float magnitude = std::bit_cast<float>((value.bits & 0x7fffU) << 13) * 0x1p112F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
}
double widened(bfloat16 value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }
double widened(float value) { return value; }

/// Four accumulators let the processor overlap the additions.
double dot(const double* x, const double* y, std::int64_t count) {
    std::array<double, 4> sums{};
    std::int64_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (std::size_t lane = 0; lane < 4; ++lane)
            sums[lane] += x[i + std::int64_t(lane)] * y[i + std::int64_t(lane)];
    for (; i < count; ++i) sums[0] += x[i] * y[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// Random signs, one byte each: there may be 2^31 of them.
std::vector<signed char> random_signs(std::int64_t count, std::uint64_t seed) {
    std::vector<signed char> signs(static_cast<std::size_t>(count));
    parallel_for(count, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t j = begin; j < end; ++j) {
            const std::uint64_t word = random_word(~seed, static_cast<std::uint64_t>(j) / 64);
            signs[static_cast<std::size_t>(j)] = ((word >> (j % 64)) & 1) != 0 ? 1 : -1;
        }
    });
    return signs;
}

/// matrix * x; squares[i], if requested: the sum of squares of row i. fill_x(from, count, out): elements of
/// x.
template <class FillX>
std::vector<double> times_vector(const GemmOperand& matrix, const FillX& fill_x,
                                 std::vector<double>& squares) {
    const std::int64_t rows = matrix.rows(), columns = matrix.columns();
    std::vector<double> product(static_cast<std::size_t>(rows));
    squares.assign(static_cast<std::size_t>(rows), 0);
    parallel_for(rows, 16, [&](std::int64_t begin, std::int64_t end) {
        std::vector<double> values(kChunk), x(kChunk);
        for (std::int64_t from = 0; from < columns; from += kChunk) {
            const std::int64_t count = std::min(kChunk, columns - from);
            fill_x(from, count, x.data());
            for (std::int64_t i = begin; i < end; ++i) {
                matrix.widen(i, from, count, values.data());
                product[std::size_t(i)] += dot(values.data(), x.data(), count);
                squares[std::size_t(i)] += dot(values.data(), values.data(), count);
            }
        }
    });
    return product;
}

/// One thread's working set. Elements outside the matrices are zero, or never read.
struct Block {
    std::vector<double> a = std::vector<double>(kRows * kDepth);
    std::vector<double> b = std::vector<double>(kDepth * kColumns);
    std::vector<double> sum = std::vector<double>(kRows * kColumns);
    std::vector<double> magnitude = std::vector<double>(kRows * kColumns);
};

/// sum += a b and magnitude += |a||b| for one row of the block.
void accumulate(const double* a, const double* b, double* sum, double* magnitude) {
    for (std::int64_t p = 0; p < kDepth; p += kUnroll) {
        for (std::int64_t j = 0; j < kColumns; ++j) {
            double s = sum[j], g = magnitude[j];
            for (std::int64_t q = 0; q < kUnroll; ++q) {
                const double product = a[p + q] * b[(p + q) * kColumns + j];
                s += product;
                g += std::abs(product);
            }
            sum[j] = s;
            magnitude[j] = g;
        }
    }
}

/// magnitude: (|A||B|) of the element.
ComparedElement compared(float found, double expected, double magnitude, std::int64_t k, bool exact) {
    const double bound = exact ? 0 : kUnit * (double(k) * magnitude + std::abs(expected));
    const double error = std::isfinite(found) ? std::abs(double(found) - expected) : INFINITY;
    return {found, expected, bound, !(error <= bound), error, error == 0 ? 0 : error / bound};
}

}  // namespace

GemmOperand::GemmOperand(std::string type, std::int64_t rows, std::int64_t columns, const std::byte* data)
    : type_(std::move(type)), rows_(rows), columns_(columns), data_(data) {}

template <class F>
void GemmOperand::with_data(F&& f) const {
    if (type_ == "half") return f(reinterpret_cast<const half*>(data_));
    if (type_ == "bfloat16") return f(reinterpret_cast<const bfloat16*>(data_));
    f(reinterpret_cast<const float*>(data_));
}

void GemmOperand::widen(std::int64_t row, std::int64_t column, std::int64_t count, double* out) const {
    with_data([&](const auto* data) {
        const auto* const from = data + row * columns_ + column;
        for (std::int64_t i = 0; i < count; ++i) out[i] = widened(from[i]);
    });
}

double GemmOperand::at(std::int64_t row, std::int64_t column) const {
    double value = 0;
    widen(row, column, 1, &value);
    return value;
}

std::optional<double> GemmOperand::largest_integer() const {
    double largest = 0;
    bool integers = true;
    std::mutex mutex;
    parallel_for(rows_, 16, [&](std::int64_t begin, std::int64_t end) {
        double most = 0;
        bool all = true;
        std::vector<double> values(kChunk);
        for (std::int64_t i = begin; i < end && all; ++i)
            for (std::int64_t from = 0; from < columns_ && all; from += kChunk) {
                const std::int64_t count = std::min(kChunk, columns_ - from);
                widen(i, from, count, values.data());
                for (std::int64_t j = 0; j < count; ++j) {
                    most = std::max(most, std::abs(values[std::size_t(j)]));
                    all = all && values[std::size_t(j)] == std::nearbyint(values[std::size_t(j)]);
                }
            }
        const std::lock_guard lock(mutex);
        largest = std::max(largest, most);
        integers = integers && all;
    });
    return integers ? std::optional(largest) : std::nullopt;
}

/// The results of all threads so far.
struct GemmCheck::Totals {
    std::mutex mutex;
    ErrorStatistics tally;
    std::uint64_t unwritten = 0, wrong_rows = 0;

    void merge(const ErrorStatistics& other) {
        const std::lock_guard lock(mutex);
        tally.merge(other);
    }
    OutputCheck result(std::int64_t m, std::int64_t n) const {
        OutputCheck check;
        check.elements = static_cast<std::uint64_t>(m) * static_cast<std::uint64_t>(n);
        check.checked = tally.checked;
        check.wrong = tally.wrong;
        check.worst = tally.worst;
        check.max_abs_error = tally.max_abs_error;
        check.unwritten = unwritten;
        if (tally.first >= 0)
            check.first_wrong = {{tally.first / n, tally.first % n},
                                 tally.first_wrong.found,
                                 tally.first_wrong.expected,
                                 tally.first_wrong.bound};
        return check;
    }
};

GemmCheck::GemmCheck(GemmOperand a, GemmOperand b) : a_(std::move(a)), b_(std::move(b)) {
    const std::optional<double> largest_a = a_.largest_integer();
    const std::optional<double> largest_b = largest_a ? b_.largest_integer() : std::nullopt;
    exact_ = largest_b && *largest_a * *largest_b * double(k()) <= kLargestExact;
}

void GemmCheck::each_band(const ReadRows& c, Totals& totals,
                          const std::function<void(std::int64_t, std::int64_t, const float*)>& use) const {
    if (m() == 0 || n() == 0) return;
    std::int64_t step = std::clamp<std::int64_t>(kBandElements / n(), 1, m());
    if (step > kRows) step -= step % kRows;
    const auto band = std::make_unique_for_overwrite<float[]>(std::size_t(step) * std::size_t(n()));
    for (std::int64_t first = 0; first < m(); first += step) {
        const std::int64_t rows = std::min(step, m() - first);
        const std::span<float> elements(band.get(), std::size_t(rows) * std::size_t(n()));
        c(first, elements);
        totals.unwritten += static_cast<std::uint64_t>(std::ranges::count_if(elements, is_poison<float>));
        use(first, rows, band.get());
    }
}

/// Rows [i, i + rows) times columns [j, j + columns), over all of k. c: the address of element (i, 0).
void GemmCheck::check_block(std::int64_t i, std::int64_t rows, std::int64_t j, std::int64_t columns,
                            const float* c, Totals& totals) const {
    Block block;
    for (std::int64_t from = 0; from < k(); from += kDepth) {
        const std::int64_t depth = std::min<std::int64_t>(kDepth, k() - from);
        if (depth < kDepth) std::fill(block.a.begin(), block.a.end(), 0.0);
        for (std::int64_t r = 0; r < rows; ++r) a_.widen(i + r, from, depth, block.a.data() + r * kDepth);
        for (std::int64_t p = 0; p < depth; ++p)
            b_.widen(from + p, j, columns, block.b.data() + p * kColumns);
        for (std::int64_t r = 0; r < rows; ++r)
            accumulate(block.a.data() + r * kDepth, block.b.data(), block.sum.data() + r * kColumns,
                       block.magnitude.data() + r * kColumns);
    }
    ErrorStatistics tally;
    for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t s = 0; s < columns; ++s) {
            const auto at = static_cast<std::size_t>(r * kColumns + s);
            tally.add((i + r) * n() + j + s,
                      compared(c[r * n() + j + s], block.sum[at], block.magnitude[at], k(), exact_));
        }
    totals.merge(tally);
}

OutputCheck GemmCheck::full(const ReadRows& c) const {
    Totals totals;
    each_band(c, totals, [&](std::int64_t first, std::int64_t rows, const float* band) {
        const std::int64_t across = (n() + kColumns - 1) / kColumns, down = (rows + kRows - 1) / kRows;
        parallel_for(across * down, 1, [&](std::int64_t index, std::int64_t) {
            const std::int64_t i = index / across * kRows, j = index % across * kColumns;
            check_block(first + i, std::min(kRows, rows - i), j, std::min(kColumns, n() - j), band + i * n(),
                        totals);
        });
    });
    return totals.result(m(), n());
}

/// The bounds of Freivalds' test, per row of C.
struct GemmCheck::RowTest {
    std::vector<signed char> signs;
    std::vector<double> expected, bound;  ///< of each row's signed sum

    bool is_right(std::int64_t row, const float* elements, double& ratio) const {
        double sum = 0;
        for (std::size_t j = 0; j < signs.size(); ++j) sum += double(elements[j]) * signs[j];
        const double error =
            std::abs(sum - expected[std::size_t(row)]);  // NaN if the element is not an integer
        ratio = error == 0 ? 0 : std::isfinite(error) ? error / bound[std::size_t(row)] : INFINITY;
        return error <= bound[std::size_t(row)];
    }
};

GemmCheck::RowTest GemmCheck::row_test(std::uint64_t seed) const {
    RowTest test;
    test.signs = random_signs(n(), seed);
    std::vector<double> squares;
    const std::vector<double> bx = times_vector(
        b_,
        [&](std::int64_t from, std::int64_t count, double* x) {
            std::copy_n(test.signs.begin() + from, count, x);
        },
        squares);
    double b_norm = 0;
    for (const double square : squares) b_norm += square;
    b_norm = std::sqrt(b_norm);
    test.expected = times_vector(
        a_,
        [&](std::int64_t from, std::int64_t count, double* x) { std::copy_n(bx.begin() + from, count, x); },
        squares);
    constexpr double kLambda = 4;
    const bool exact = exact_ && n() <= kExactSums;
    const double factor = exact ? 0 : 6 * kLambda * std::sqrt(double(k())) * kUnit * b_norm;
    for (const double square : squares) test.bound.push_back(factor * std::sqrt(square));
    return test;
}

OutputCheck GemmCheck::sampled(const ReadRows& c, std::size_t sample, std::uint64_t seed,
                               bool freivalds) const {
    Totals totals;
    const std::array<std::int64_t, 2> extents = {m(), n()};
    std::vector<std::int64_t> which = sample_elements(extents, sample, seed);
    std::ranges::sort(which);
    const RowTest test = freivalds ? row_test(seed) : RowTest();
    each_band(c, totals, [&](std::int64_t first, std::int64_t rows, const float* band) {
        const auto begin = std::ranges::lower_bound(which, first * n());
        const auto end = std::ranges::lower_bound(which, (first + rows) * n());
        parallel_for(end - begin, 64, [&](std::int64_t from, std::int64_t to) {
            ErrorStatistics tally;
            std::vector<double> row(static_cast<std::size_t>(std::min(k(), kChunk)));
            for (auto element = begin + from; element != begin + to; ++element) {
                const std::int64_t i = *element / n(), j = *element % n();
                double sum = 0, magnitude = 0;
                for (std::int64_t p = 0; p < k(); p += kChunk) {
                    const std::int64_t count = std::min(kChunk, k() - p);
                    a_.widen(i, p, count, row.data());
                    for (std::int64_t q = 0; q < count; ++q) {
                        const double product = row[std::size_t(q)] * b_.at(p + q, j);
                        sum += product;
                        magnitude += std::abs(product);
                    }
                }
                tally.add(*element, compared(band[*element - first * n()], sum, magnitude, k(), exact_));
            }
            totals.merge(tally);
        });
        if (!freivalds) return;
        parallel_for(rows, 16, [&](std::int64_t from, std::int64_t to) {
            double worst = 0, ratio = 0;
            std::uint64_t wrong = 0;
            for (std::int64_t i = from; i < to; ++i) {
                wrong += !test.is_right(first + i, band + i * n(), ratio);
                worst = std::max(worst, ratio);
            }
            const std::lock_guard lock(totals.mutex);
            totals.wrong_rows += wrong;
            totals.tally.worst = std::max(totals.tally.worst, worst);
        });
    });
    OutputCheck check = totals.result(m(), n());
    if (freivalds) check.wrong_rows = totals.wrong_rows;
    return check;
}

}  // namespace kiln
