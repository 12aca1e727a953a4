// SPDX-License-Identifier: Apache-2.0
//
// Random inputs, exact widening, memory arithmetic that can't overflow.
#include "cli/problem.h"

#include <kiln/error.h>
#include <kiln/types.h>

#include <bit>
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

template <class T>
void fill_random(std::byte* to, std::int64_t count, std::uint64_t seed) {
    T* const values = reinterpret_cast<T*>(to);
    parallel_for(count, kGrain, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            const auto bits = static_cast<float>(random_word(seed, static_cast<std::uint64_t>(i)) >> 40);
            values[i] = static_cast<T>(bits * 0x1p-23F - 1.0F);
        }
    });
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
    const std::int64_t count = std::int64_t{rows} * columns;
    switch (dtype) {
        case Dtype::f16:
            fill_random<half>(matrix.bytes_.get(), count, seed);
            break;
        case Dtype::bf16:
            fill_random<bfloat16>(matrix.bytes_.get(), count, seed);
            break;
        case Dtype::f32:
            fill_random<float>(matrix.bytes_.get(), count, seed);
            break;
    }
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
