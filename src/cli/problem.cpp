// SPDX-License-Identifier: Apache-2.0
//
// Random inputs, exact widening, memory arithmetic that can't overflow.
#include "cli/problem.h"

#include <kiln/error.h>
#include <kiln/types.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "cli/parallel.h"
#include "cli/words.h"

namespace kiln::cli {
namespace {

constexpr std::int64_t kGrain = 1 << 16;

/// The library's own conversion is a call per element; these are loops that the compiler vectorises.
/// Exact for every finite value: the shift puts the exponent 112 too low, the product repairs that.
double widened(half value) {
    const std::uint32_t sign = (value.bits & 0x8000U) << 16;
    const float magnitude = std::bit_cast<float>((value.bits & 0x7fffU) << 13) * 0x1p112F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
}
double widened(bfloat16 value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }
double widened(float value) { return value; }

template <class T>
void widen_run(const std::byte* from, std::int64_t count, double* out) {
    const T* const values = reinterpret_cast<const T*>(from);
    for (std::int64_t i = 0; i < count; ++i) out[i] = widened(values[i]);
}

/// Element i is what `value` makes of a random word.
template <class T, class FromWord>
void fill(std::byte* to, std::int64_t count, std::uint64_t seed, const FromWord& value) {
    T* const values = reinterpret_cast<T*>(to);
    parallel_for(count, kGrain, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
            values[i] = static_cast<T>(value(random_word(seed, static_cast<std::uint64_t>(i))));
    });
}

template <class FromWord>
void fill(Dtype dtype, std::byte* to, std::int64_t count, std::uint64_t seed, const FromWord& value) {
    switch (dtype) {
        case Dtype::f16:
            return fill<half>(to, count, seed, value);
        case Dtype::bf16:
            return fill<bfloat16>(to, count, seed, value);
        case Dtype::f32:
            return fill<float>(to, count, seed, value);
    }
}

}  // namespace

std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) {
    std::uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::uint64_t>::max() : sum;
}

// Each extent is below 2^31, so a product of two of them and 4 stays below 2^64.
Footprint::Footprint(Dtype dtype, const Shape& shape)
    : a(std::uint64_t(shape.m) * std::uint64_t(shape.k) * size_bytes(dtype)),
      b(std::uint64_t(shape.k) * std::uint64_t(shape.n) * size_bytes(dtype)),
      c(std::uint64_t(shape.m) * std::uint64_t(shape.n) * sizeof(float)) {}

std::uint64_t Footprint::total() const { return saturating_add(saturating_add(a, b), c); }

void check_memory(const Shape& shape, const Footprint& footprint, std::uint64_t needed,
                  std::uint64_t available, const std::string& where) {
    if (needed <= available) return;
    const auto amount = [](std::uint64_t bytes) {
        return bytes == std::numeric_limits<std::uint64_t>::max()
                   ? std::string("more bytes than 64 bits can count")
                   : std::to_string(bytes) + " bytes (" + bytes_text(double(bytes)) + ")";
    };
    throw UsageError("--m " + std::to_string(shape.m) + " --n " + std::to_string(shape.n) + " --k " +
                     std::to_string(shape.k) + " needs " + amount(needed) + " (A " +
                     bytes_text(double(footprint.a)) + ", B " + bytes_text(double(footprint.b)) + ", C " +
                     bytes_text(double(footprint.c)) + "), but " + where + " " + amount(available) +
                     " free. Give smaller sizes.");
}

Matrix::Matrix(Dtype dtype, int rows, int columns)
    : dtype_(dtype),
      rows_(rows),
      columns_(columns),
      size_bytes_(std::size_t(rows) * std::size_t(columns) * cli::size_bytes(dtype)),
      bytes_(std::make_unique_for_overwrite<std::byte[]>(size_bytes_)) {}

Matrix Matrix::random(Dtype dtype, int rows, int columns, std::uint64_t seed) {
    Matrix matrix(dtype, rows, columns);
    fill(dtype, matrix.bytes_.get(), std::int64_t{rows} * columns, seed,
         [](std::uint64_t word) { return static_cast<float>(word >> 40) * 0x1p-23F - 1.0F; });
    return matrix;
}

Matrix Matrix::integers(Dtype dtype, int rows, int columns, int k, std::uint64_t seed) {
    constexpr double kMost = 255;  // bfloat16 holds all integers up to 256
    const auto most = static_cast<std::uint64_t>(
        std::clamp(std::floor(std::sqrt(double(kExactSum) / double(k))), 1.0, kMost));
    Matrix matrix(dtype, rows, columns);
    matrix.integers_ = true;
    fill(dtype, matrix.bytes_.get(), std::int64_t{rows} * columns, seed, [=](std::uint64_t word) {
        const auto magnitude = static_cast<float>(1 + (word & 0xffffffff) % most);
        return word >> 63 != 0 ? -magnitude : magnitude;
    });
    return matrix;
}

void Matrix::widen(std::int64_t row, std::int64_t column, std::int64_t count, double* out) const {
    const std::byte* const from =
        bytes_.get() + static_cast<std::size_t>(row * columns_ + column) * cli::size_bytes(dtype_);
    switch (dtype_) {
        case Dtype::f16:
            widen_run<half>(from, count, out);
            break;
        case Dtype::bf16:
            widen_run<bfloat16>(from, count, out);
            break;
        case Dtype::f32:
            widen_run<float>(from, count, out);
            break;
    }
}

}  // namespace kiln::cli
