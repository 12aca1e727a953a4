// SPDX-License-Identifier: Apache-2.0
//
// The data of inputs. Each element is a function of the seed, the tensor's name and the element's number
// only. So it is the same on every machine, backend and number of threads, and can be computed again.
#pragma once

#include <kiln/run.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace kiln {

/// A pseudo-random 64-bit word for each counter (the finaliser of SplitMix64).
constexpr std::uint64_t random_word(std::uint64_t seed, std::uint64_t counter) {
    std::uint64_t x =
        (seed ^ 0x5851f42d4c957f2dULL) * 0x9e3779b97f4a7c15ULL + counter * 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/// Maps a random word to a number below `limit`, which is positive. The distribution is uniform up to one
/// part in 2^64 / limit.
constexpr std::uint64_t below(std::uint64_t word, std::uint64_t limit) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>(Wide{word} * limit >> 64);
}

/// The seed of a tensor: tensors of the same name get equal elements in all templates.
std::uint64_t tensor_seed(std::uint64_t seed, std::string_view tensor);

/// The image of `position` in a permutation of 0 to count - 1: a Feistel network over the next larger power
/// of four, iterated until the result is below count.
std::uint64_t permuted(std::uint64_t position, std::uint64_t count, std::uint64_t seed);

/// Where sequence number `sequence` of packed ones begins, of `rows` rows in all: 0 for the first, `rows` behind the last,
/// never falling. Lengths are between 0 and about twice the mean. The same for every seed, so that a problem is always as much
/// work, and for tensors with as many sequences and rows.
std::int64_t packed_offset(std::int64_t sequence, std::int64_t sequences, std::int64_t rows);

/// Computes the tensor's elements from `first` on, as many as fill `out`, on all cores. Throws VariantError
/// for values that the type can't hold: a range, or a permutation of too many elements.
void make_elements(const Tensor& tensor, Data data, std::uint64_t seed, std::int64_t first,
                   std::span<std::byte> out);

}  // namespace kiln
