// SPDX-License-Identifier: Apache-2.0
//
// The problem C = A * B: its shape, its random inputs, and whether it fits the memory there is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cli/dtype.h"

namespace kiln::cli {

struct Shape {
    int m = 0;
    int n = 0;
    int k = 0;

    double multiply_adds() const { return double(m) * n * k; }
    double flops() const { return 2 * multiply_adds(); }
};

/// The largest sum of integers that float holds whatever the order of additions.
constexpr int kExactSum = 1 << 24;

/// Bytes that a product takes. C is always FP32. Sums that do not fit 64 bits stay at the largest
/// value, which no memory has.
struct Footprint {
    std::uint64_t a = 0;
    std::uint64_t b = 0;
    std::uint64_t c = 0;

    Footprint(Dtype dtype, const Shape& shape);
    std::uint64_t total() const;
};

/// a + b, or the largest value where that does not fit.
std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b);

/// Throws UsageError naming both amounts when needed > available. where: "NVIDIA H200 has".
void check_memory(const Shape& shape, const Footprint& footprint, std::uint64_t needed,
                  std::uint64_t available, const std::string& where);

/// A pseudo-random 64-bit word for each counter: the same seed gives the same words on every machine,
/// whatever the number of threads (the finaliser of SplitMix64).
constexpr std::uint64_t random_word(std::uint64_t seed, std::uint64_t counter) {
    std::uint64_t x =
        (seed ^ 0x5851f42d4c957f2dULL) * 0x9e3779b97f4a7c15ULL + counter * 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/// A row-major matrix in host memory, rounded to its type. Move-only; const access from any thread.
class Matrix {
  public:
    /// Uniform in [-1, 1), then rounded to the type.
    static Matrix random(Dtype dtype, int rows, int columns, std::uint64_t seed);
    /// Integers of both signs, none of them zero, as large as leaves sums of k products of two exact in float in any
    /// order: k times their square is at most 2^24. k: up to that.
    static Matrix integers(Dtype dtype, int rows, int columns, int k, std::uint64_t seed);

    int rows() const { return rows_; }
    int columns() const { return columns_; }
    bool holds_integers() const { return integers_; }
    std::span<const std::byte> bytes() const { return {bytes_.get(), size_bytes_}; }

    /// Elements (row, column) to (row, column + count - 1), exactly.
    void widen(std::int64_t row, std::int64_t column, std::int64_t count, double* out) const;
    double at(std::int64_t row, std::int64_t column) const {
        double value;
        widen(row, column, 1, &value);
        return value;
    }

  private:
    Matrix(Dtype dtype, int rows, int columns);

    Dtype dtype_;
    int rows_;
    int columns_;
    bool integers_ = false;
    std::size_t size_bytes_;
    std::unique_ptr<std::byte[]> bytes_;
};

}  // namespace kiln::cli
