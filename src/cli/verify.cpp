// SPDX-License-Identifier: Apache-2.0
//
// What full and sampled verification share: the bound and the tally. Then the sample.
#include "cli/verify.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <vector>

#include "cli/parallel.h"
#include "cli/tally.h"

namespace kiln::cli {

void Tally::add(std::int64_t row, std::int64_t column, float found, double expected, double magnitude) {
    const double bound = exact_ ? 0 : kUnit * (double(k_) * magnitude + std::abs(expected));
    const double difference = std::abs(double(found) - expected);
    const double error = std::isfinite(found) ? difference : INFINITY;
    ++verdict_.checked;
    verdict_.max_abs_error = std::max(verdict_.max_abs_error, error);
    verdict_.max_error_over_bound = std::max(verdict_.max_error_over_bound, error == 0 ? 0 : error / bound);
    if (error <= bound) return;
    ++verdict_.wrong;
    keep_first({row, column, found, expected, bound});
}

void Tally::merge(const Tally& other) {
    verdict_.max_abs_error = std::max(verdict_.max_abs_error, other.verdict_.max_abs_error);
    verdict_.max_error_over_bound =
        std::max(verdict_.max_error_over_bound, other.verdict_.max_error_over_bound);
    verdict_.checked += other.verdict_.checked;
    verdict_.wrong += other.verdict_.wrong;
    if (other.verdict_.first_wrong) keep_first(*other.verdict_.first_wrong);
}

void Tally::keep_first(const Verdict::Wrong& wrong) {
    std::optional<Verdict::Wrong>& first = verdict_.first_wrong;
    if (!first || std::pair(wrong.row, wrong.column) < std::pair(first->row, first->column)) first = wrong;
}

bool is_exact(const Matrix& a, const Matrix& b) {
    return a.holds_integers() && b.holds_integers() && a.columns() <= kExactSum;
}

namespace {

constexpr std::int64_t kExactSums = std::int64_t{1} << 29;  // of elements up to 2^24, in double
constexpr int kSamples = 4096;
constexpr std::int64_t kChunk = 4096;  // elements of a row widened at a time

/// Dot products of runs; four sums let the processor overlap the additions.
double dot(const double* x, const double* y, std::int64_t count) {
    std::array<double, 4> sums{};
    std::int64_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (std::size_t lane = 0; lane < 4; ++lane)
            sums[lane] += x[i + std::int64_t(lane)] * y[i + std::int64_t(lane)];
    for (; i < count; ++i) sums[0] += x[i] * y[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// Where sample number `index` lies along an extent: an end, beside a tile edge, or anywhere.
std::int64_t sample_position(std::uint64_t word, std::uint64_t kind, std::int64_t extent) {
    const auto anywhere = static_cast<std::int64_t>((word >> 8) % static_cast<std::uint64_t>(extent));
    if (kind == 0) return 0;
    if (kind == 1) return extent - 1;
    if (kind == 2) {  // both sides of a multiple of 16, 32, 64 or 128
        const std::int64_t tile = std::int64_t{16} << (word & 3);
        const std::int64_t edge = anywhere / tile * tile;
        return (word & 4) != 0 && edge > 0 ? edge - 1 : edge;
    }
    return anywhere;
}

Tally check_elements(const Matrix& a, const Matrix& b, std::span<const float> c, std::uint64_t seed) {
    const std::int64_t m = a.rows(), n = b.columns(), k = a.columns();
    const bool exact = is_exact(a, b);
    Tally total(k, exact);
    if (c.empty()) return total;
    std::mutex mutex;
    parallel_for(kSamples, 64, [&](std::int64_t begin, std::int64_t end) {
        Tally tally(k, exact);
        std::vector<double> row(static_cast<std::size_t>(std::min(k, kChunk)));
        for (std::int64_t index = begin; index < end; ++index) {
            const auto counter = static_cast<std::uint64_t>(index);
            // The first four are the corners; of the others, a quarter each at the ends and at tile edges.
            const std::uint64_t pick = random_word(seed, 3 * counter);
            const std::uint64_t row_kind = index < 4 ? counter & 1 : pick & 7;
            const std::uint64_t column_kind = index < 4 ? counter >> 1 : (pick >> 3) & 7;
            const std::int64_t i = sample_position(random_word(seed, 3 * counter + 1), row_kind, m);
            const std::int64_t j = sample_position(random_word(seed, 3 * counter + 2), column_kind, n);
            double sum = 0, magnitude = 0;
            for (std::int64_t from = 0; from < k; from += kChunk) {
                const std::int64_t count = std::min(kChunk, k - from);
                a.widen(i, from, count, row.data());
                for (std::int64_t p = 0; p < count; ++p) {
                    const double product = row[static_cast<std::size_t>(p)] * b.at(from + p, j);
                    sum += product;
                    magnitude += std::abs(product);
                }
            }
            tally.add(i, j, c[static_cast<std::size_t>(i * n + j)], sum, magnitude);
        }
        const std::lock_guard lock(mutex);
        total.merge(tally);
    });
    return total;
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

struct RowSums {
    std::vector<double> product;  ///< matrix * x
    std::vector<double> squares;  ///< of each row
};

/// matrix * x, and the squared norm of each row, in one pass. at(j): x's elements j and following.
template <class FillX>
RowSums row_sums(const Matrix& matrix, const FillX& fill_x) {
    const std::int64_t rows = matrix.rows(), columns = matrix.columns();
    RowSums sums{std::vector<double>(std::size_t(rows)), std::vector<double>(std::size_t(rows))};
    parallel_for(rows, 16, [&](std::int64_t begin, std::int64_t end) {
        std::vector<double> values(kChunk), x(kChunk);
        for (std::int64_t from = 0; from < columns; from += kChunk) {
            const std::int64_t count = std::min(kChunk, columns - from);
            fill_x(from, count, x.data());
            for (std::int64_t i = begin; i < end; ++i) {
                matrix.widen(i, from, count, values.data());
                sums.product[std::size_t(i)] += dot(values.data(), x.data(), count);
                sums.squares[std::size_t(i)] += dot(values.data(), values.data(), count);
            }
        }
    });
    return sums;
}

void check_whole(const Matrix& a, const Matrix& b, std::span<const float> c, std::uint64_t seed,
                 Verdict& verdict) {
    const std::int64_t m = a.rows(), n = b.columns(), k = a.columns();
    const std::vector<signed char> signs = random_signs(n, seed);
    const RowSums bx = row_sums(b, [&](std::int64_t from, std::int64_t count, double* x) {
        std::copy_n(signs.begin() + from, count, x);
    });
    const RowSums abx = row_sums(a, [&](std::int64_t from, std::int64_t count, double* x) {
        std::copy_n(bx.product.begin() + from, count, x);
    });
    double b_norm = 0;
    for (const double square : bx.squares) b_norm += square;
    b_norm = std::sqrt(b_norm);

    constexpr double kLambda = 4;
    const bool exact = is_exact(a, b) && n <= kExactSums;
    const double factor = exact ? 0 : 6 * kLambda * std::sqrt(double(k)) * Tally::kUnit * b_norm;
    std::mutex mutex;
    parallel_for(m, 16, [&](std::int64_t begin, std::int64_t end) {
        double worst = 0;
        std::uint64_t not_finite = 0, wrong_rows = 0;
        for (std::int64_t i = begin; i < end; ++i) {
            const float* const row = c.data() + i * n;
            double sum = 0;
            std::uint64_t bad = 0;
            for (std::int64_t j = 0; j < n; ++j) {
                bad += !std::isfinite(row[j]);
                sum += double(row[j]) * signs[std::size_t(j)];
            }
            not_finite += bad;
            if (bad > 0) {
                worst = INFINITY;
                continue;
            }
            const double error = std::abs(sum - abx.product[std::size_t(i)]);
            const double bound = factor * std::sqrt(abx.squares[std::size_t(i)]);
            worst = std::max(worst, error == 0 ? 0 : error / bound);
            wrong_rows += error > bound;
        }
        const std::lock_guard lock(mutex);
        verdict.max_error_over_bound = std::max(verdict.max_error_over_bound, worst);
        verdict.not_finite += not_finite;
        verdict.wrong_rows += wrong_rows;
    });
}

}  // namespace

Verdict verify_sample(const Matrix& a, const Matrix& b, std::span<const float> c, std::uint64_t seed) {
    Verdict verdict = check_elements(a, b, c, seed).verdict();
    check_whole(a, b, c, seed, verdict);
    return verdict;
}

}  // namespace kiln::cli
