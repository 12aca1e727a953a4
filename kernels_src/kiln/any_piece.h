// SPDX-License-Identifier: Apache-2.0
//
// AnyPiece: 16 bytes of a matrix that begin at any element, by loads of 16 aligned bytes. fetch() starts the
// loads, cut() shifts the bytes into place; between them a thread can start others. Elements of 2 or 4 bytes.
#pragma once

#include "kiln/device.h"

namespace kiln {

template <unsigned BYTES>
struct AnyPieceBits {
    using Type = unsigned short;
};
template <>
struct AnyPieceBits<4> {
    using Type = unsigned;
};

/// Neighbouring elements of a row. They lie in two pieces of memory that begin at multiples of 16 bytes; the
/// second is mostly the first of a neighbour, and comes out of the L1 cache.
template <class T>
class AnyPiece {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "elements of 2 or 4 bytes");

  public:
    static constexpr int kElements = 16 / sizeof(T);

    /// Whether fetch_whole may be called for pieces whose first element lies from `first` to `last`, when nothing is
    /// to be read but what lies between the addresses begin and end.
    static __device__ __forceinline__ bool may_fetch_whole(const T* first, const T* last, u64 begin,
                                                           u64 end) {
        return (reinterpret_cast<u64>(first) & kMask) >= begin &&
               (reinterpret_cast<u64>(last) & kMask) + 32 <= end;
    }
    __device__ __forceinline__ void fetch_whole(const T* from) {
        const u64 address = reinterpret_cast<u64>(from);
        const auto* const words = reinterpret_cast<const unsigned*>(address & kMask);
        low_ = load<4>(words);
        high_ = load<4>(words + 4);
        shift_ = static_cast<unsigned>(address) & 15u;
    }
    __device__ __forceinline__ Vec<unsigned, 4> cut() const {
        unsigned words[8] = {low_[0], low_[1], low_[2], low_[3], high_[0], high_[1], high_[2], high_[3]};
        // Registers have no index: on by two words or none, then by one, then by half of one.
#pragma unroll
        for (int i = 0; i < 6; ++i) words[i] = (shift_ & 8u) != 0 ? words[i + 2] : words[i];
#pragma unroll
        for (int i = 0; i < 5; ++i) words[i] = (shift_ & 4u) != 0 ? words[i + 1] : words[i];
        Vec<unsigned, 4> result;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            result[i] =
                sizeof(T) == 2 ? __funnelshift_r(words[i], words[i + 1], (shift_ & 2u) * 8) : words[i];
        return result;
    }

    /// The first `count` elements from `from` on, which cut() follows up with zeros.
    __device__ __forceinline__ void fetch(const T* from, int count, u64 begin, u64 end) {
        const u64 address = reinterpret_cast<u64>(from);
        const u64 aligned = address & kMask;
        const auto* const words = reinterpret_cast<const unsigned*>(aligned);
        shift_ = static_cast<unsigned>(address) & 15u;
        const bool wants_high = shift_ + count * static_cast<int>(sizeof(T)) > 16;
        const bool has_low = count > 0 && aligned >= begin && aligned + 16 <= end;
        const bool has_high = wants_high && aligned + 32 <= end;
        const Vec<unsigned, 4> nothing = {{0, 0, 0, 0}};
        low_ = has_low ? load<4>(words) : nothing;
        high_ = has_high ? load<4>(words + 4) : nothing;
        is_cut_off_ = (count > 0 && !has_low) || (wants_high && !has_high);
    }
    /// With the arguments of fetch. At the very ends of the matrix, of which aligned pieces reach past them, elements
    /// are read one by one, and now.
    __device__ __forceinline__ Vec<unsigned, 4> cut(const T* from, int count) const {
        Vec<unsigned, 4> result = cut();
        if (is_cut_off_) {
            const auto* const bits = reinterpret_cast<const Bits*>(from);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                result[i] = 0;
#pragma unroll
                for (int j = 0; j < kPerWord; ++j)
                    if (i * kPerWord + j < count)
                        result[i] |= static_cast<unsigned>(bits[i * kPerWord + j]) << j * 16;
            }
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int left = count - i * kPerWord;
                result[i] = left >= kPerWord ? result[i] : left <= 0 ? 0 : result[i] & 0xffffu;
            }
        }
        return result;
    }

  private:
    using Bits = typename AnyPieceBits<sizeof(T)>::Type;
    static constexpr int kPerWord = 4 / sizeof(T);
    static constexpr u64 kMask = ~static_cast<u64>(15);

    Vec<unsigned, 4> low_, high_;
    unsigned shift_;  ///< bytes by which they begin behind the start of low_
    bool is_cut_off_ = false;
};

}  // namespace kiln
