// SPDX-License-Identifier: Apache-2.0
//
// The fills of `//@ input` and `//@ inout`.
#include "run/inputs.h"

#include <kiln/error.h>

#include <algorithm>
#include <bit>

#include "base/parallel.h"
#include "format/format.h"
#include "run/element.h"
#include "run/patterns.h"

namespace kiln {
namespace {

constexpr std::int64_t kInputGrain = 1 << 16;

/// Floats in [-1, 1); for integers and bool every value.
template <class T>
T uniform(std::uint64_t word) {
    if constexpr (std::is_same_v<T, double>)
        return static_cast<double>(word >> 11) * 0x1p-52 - 1.0;
    else if constexpr (is_float<T>)
        return static_cast<T>(static_cast<float>(word >> 40) * 0x1p-23F - 1.0F);
    else if constexpr (std::is_same_v<T, bool>)
        return (word >> 63) != 0;
    else
        return static_cast<T>(word >> (64 - 8 * sizeof(T)));
}

template <class T>
T whole(std::int64_t value) {
    if constexpr (is_small_float<T>)
        return T(static_cast<float>(value));
    else
        return static_cast<T>(value);
}

/// The magnitude up to which the type holds every integer.
template <class T>
constexpr std::int64_t kExactIntegers = std::int64_t{1} << (std::is_same_v<T, half>       ? 11
                                                            : std::is_same_v<T, bfloat16> ? 8
                                                            : std::is_same_v<T, float>    ? 24
                                                                                          : 53);

/// Whether the type holds every integer from low to high.
template <class T>
bool holds(std::int64_t low, std::int64_t high) {
    if constexpr (is_float<T>) {
        return low >= -kExactIntegers<T> && high <= kExactIntegers<T>;
    } else if constexpr (std::is_same_v<T, std::uint64_t>) {
        return low >= 0;
    } else {
        return low >= static_cast<std::int64_t>(std::numeric_limits<T>::min()) &&
               high <= static_cast<std::int64_t>(std::numeric_limits<T>::max());
    }
}

template <class T>
void check_holds(const Tensor& tensor, std::int64_t low, std::int64_t high) {
    if (holds<T>(low, high)) return;
    throw VariantError(formatted("the tensor {} must hold integers from {} to {}, which its type, {}, can't",
                                 tensor.name, low, high, tensor.type));
}

/// to[i] = element(first + i)
template <class T, class Element>
void fill(T* to, std::int64_t first, std::int64_t count, const Element& element) {
    parallel_for(count, kInputGrain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) to[i] = element(static_cast<std::uint64_t>(first + i));
    });
}

template <class T>
void fill_as(const Tensor& tensor, Data data, std::uint64_t seed, std::int64_t first, std::int64_t count,
             T* to) {
    switch (tensor.fill) {
        case Fill::zero:
            std::fill_n(to, count, T{});
            return;
        case Fill::uniform:
            if (is_float<T> && data == Data::integers)
                return fill(to, first, count, [=](std::uint64_t i) {
                    return whole<T>(static_cast<std::int64_t>(below(random_word(seed, i), 5)) - 2);
                });
            return fill(to, first, count, [=](std::uint64_t i) { return uniform<T>(random_word(seed, i)); });
        case Fill::range: {
            check_holds<T>(tensor, tensor.low, tensor.high);
            const std::int64_t low = tensor.low;
            // 0 when the range is all of 64 bits.
            const std::uint64_t values =
                static_cast<std::uint64_t>(tensor.high) - static_cast<std::uint64_t>(low) + 1;
            return fill(to, first, count, [=](std::uint64_t i) {
                const std::uint64_t word = random_word(seed, i);
                const std::uint64_t offset = values == 0 ? word : below(word, values);
                return whole<T>(static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + offset));
            });
        }
        case Fill::permutation: {
            const std::int64_t all = tensor.count();
            check_holds<T>(tensor, 0, all - 1);
            return fill(to, first, count, [=](std::uint64_t i) {
                return whole<T>(
                    static_cast<std::int64_t>(permuted(i, static_cast<std::uint64_t>(all), seed)));
            });
        }
        case Fill::offsets: {
            const std::int64_t all = tensor.count(), last = tensor.high;
            check_holds<T>(tensor, 0, last);
            return fill(to, first, count, [=](std::uint64_t i) {
                return whole<T>(packed_offset(static_cast<std::int64_t>(i), all - 1, last));
            });
        }
    }
}

}  // namespace

std::int64_t packed_offset(std::int64_t sequence, std::int64_t sequences, std::int64_t rows) {
    if (sequence <= 0) return 0;
    if (sequence >= sequences) return rows;
    constexpr std::uint64_t kSeed = 0x6f6666;
    // Between even shares, so that no offset falls; rows * (i / n) without going over 64 bits.
    const auto share = [&](std::int64_t i) {
        return rows / sequences * i + rows % sequences * i / sequences;
    };
    const std::int64_t low = share(sequence), high = share(sequence + 1);
    const std::uint64_t word = random_word(kSeed, static_cast<std::uint64_t>(sequence));
    switch (word % 8) {
        case 0:
            return low;
        case 1:
            return high;
        default:
            return low + static_cast<std::int64_t>(
                             below(random_word(word, 1), static_cast<std::uint64_t>(high - low) + 1));
    }
}

std::uint64_t tensor_seed(std::uint64_t seed, std::string_view tensor) {
    std::uint64_t name = 0;
    for (const char c : tensor) name = random_word(name, static_cast<unsigned char>(c));
    return random_word(seed, name);
}

std::uint64_t permuted(std::uint64_t position, std::uint64_t count, std::uint64_t seed) {
    const int half_bits = std::max(1, (static_cast<int>(std::bit_width(count - 1)) + 1) / 2);
    const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
    do {
        std::uint64_t left = position >> half_bits, right = position & mask;
        for (std::uint64_t round = 0; round < 4; ++round) {
            const std::uint64_t mixed = left ^ (random_word(random_word(seed, round), right) & mask);
            left = right;
            right = mixed;
        }
        position = left << half_bits | right;
    } while (position >= count);
    return position;
}

void make_elements(const Tensor& tensor, Data data, std::uint64_t seed, std::int64_t first,
                   std::span<std::byte> out) {
    if (out.empty()) return;
    const std::uint64_t own_seed = tensor_seed(seed, tensor.name);
    const auto count = static_cast<std::int64_t>(out.size() / tensor.element_bytes);
    with_element(tensor.type, [&]<class T>(T) {
        if constexpr (is_float<T>) {
            if (data == Data::contributions && tensor.pattern != Pattern::none) {
                const PatternElements element(tensor, seed, kExactIntegers<T>);
                return fill(reinterpret_cast<T*>(out.data()), first, count, [&](std::uint64_t i) {
                    if constexpr (is_small_float<T>)
                        return T(static_cast<float>(element(i)));
                    else
                        return static_cast<T>(element(i));
                });
            }
        }
        fill_as(tensor, data, own_seed, first, count, reinterpret_cast<T*>(out.data()));
    });
}

}  // namespace kiln
