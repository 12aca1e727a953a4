// SPDX-License-Identifier: Apache-2.0
//
// Every element in FP64: the matrices are walked in blocks that stay in a core's cache, and the inner
// loop runs over columns of fixed number, so that the compiler vectorises it.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <vector>

#include "cli/parallel.h"
#include "cli/tally.h"

namespace kiln::cli {
namespace {

constexpr std::int64_t kRows = 64;
constexpr std::int64_t kColumns = 128;
constexpr std::int64_t kDepth = 128;
constexpr std::int64_t kUnroll = 4;

/// One thread's working set. What lies outside the matrices is zero, or never read.
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

/// Rows [i, i + rows) times columns [j, j + columns), over all of k.
void multiply(const Matrix& a, const Matrix& b, std::int64_t i, std::int64_t rows, std::int64_t j,
              std::int64_t columns, Block& block) {
    std::fill(block.sum.begin(), block.sum.end(), 0.0);
    std::fill(block.magnitude.begin(), block.magnitude.end(), 0.0);
    for (std::int64_t from = 0; from < a.columns(); from += kDepth) {
        const std::int64_t depth = std::min<std::int64_t>(kDepth, a.columns() - from);
        if (depth < kDepth) std::fill(block.a.begin(), block.a.end(), 0.0);
        for (std::int64_t r = 0; r < rows; ++r) a.widen(i + r, from, depth, block.a.data() + r * kDepth);
        for (std::int64_t p = 0; p < depth; ++p) b.widen(from + p, j, columns, block.b.data() + p * kColumns);
        for (std::int64_t r = 0; r < rows; ++r)
            accumulate(block.a.data() + r * kDepth, block.b.data(), block.sum.data() + r * kColumns,
                       block.magnitude.data() + r * kColumns);
    }
}

}  // namespace

Verdict verify_full(const Matrix& a, const Matrix& b, std::span<const float> c) {
    const std::int64_t m = a.rows(), n = b.columns(), k = a.columns();
    const std::int64_t blocks_across = (n + kColumns - 1) / kColumns;
    const std::int64_t blocks_down = (m + kRows - 1) / kRows;
    const bool exact = is_exact(a, b);
    Tally total(k, exact);
    std::mutex mutex;
    parallel_for(blocks_across * blocks_down, 1, [&](std::int64_t index, std::int64_t) {
        const std::int64_t i = index / blocks_across * kRows, j = index % blocks_across * kColumns;
        const std::int64_t rows = std::min(kRows, m - i), columns = std::min(kColumns, n - j);
        Block block;
        multiply(a, b, i, rows, j, columns, block);
        Tally tally(k, exact);
        for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t s = 0; s < columns; ++s) {
                const auto at = static_cast<std::size_t>(r * kColumns + s);
                tally.add(i + r, j + s, c[static_cast<std::size_t>((i + r) * n + j + s)], block.sum[at],
                          block.magnitude[at]);
            }
        const std::lock_guard lock(mutex);
        total.merge(tally);
    });
    return total.verdict();
}

}  // namespace kiln::cli
