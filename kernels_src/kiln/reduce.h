// SPDX-License-Identifier: Apache-2.0
//
// Reductions and scans of a warp and of a block, for any number of lanes in a warp and on every backend:
//   kiln::Sum, Max, Min, MaxSum          what two values become; any functor of that shape does as well
//   kiln::warp_reduce(value, op)         one value per lane in, the result out in every lane
//   kiln::block_reduce<THREADS>(value, op)
//                                        the same for a block; two levels: shuffles, then shared memory
//   kiln::warp_scan, kiln::block_scan    inclusive: lane i gets the result of lanes 0 to i
//   kiln::shuffle_xor, shuffle_up, shuffle_from
//                                        CUDA's shuffles for a value of any size
//
//   const float total = kiln::block_reduce<256>(mine, kiln::Sum{});
//
// All threads of the warp or the block must make the call. The order of the operations depends on the
// number of threads and lanes only, so equal inputs give equal bits at every run; a warp of another size may
// round otherwise. A reduction's op must not care for the order of its two operands (bit for bit: a + b is
// b + a) and is taken to be associative; a scan's op needs only the latter.
//
// block_reduce and block_scan hold static shared memory of one value per warp and per kind of call, and may
// follow each other without a barrier between. Each may also be given memory of the caller's instead, of
// kiln::warps_of(THREADS) values, which must be free when the last thread enters and is so again after the
// next barrier.
#pragma once

#include "kiln/device.h"

namespace kiln {

#if defined(__HIPCC_RTC__) || defined(__HIPCC__)
// By what the hardware's generation has: newer compilers warn of their macro with the size, and drop it.
#if defined(__GFX9__) || defined(__GFX8__) || defined(__GFX7__) || defined(__GFX6__)
constexpr int kWarpSize = 64;
#else
constexpr int kWarpSize = 32;
#endif
using LaneMask = unsigned long long;
#elif defined(__CUDACC_RTC__) || defined(__CUDACC__)
/// Lanes in a warp, as a constant.
constexpr int kWarpSize = 32;
/// One bit per lane.
using LaneMask = unsigned;
#else
constexpr int kWarpSize = ::warpSize;
using LaneMask = unsigned;
#endif
constexpr LaneMask kAllLanes = static_cast<LaneMask>(~0ull);

/// Warps in a block of that many threads.
__host__ __device__ __forceinline__ constexpr int warps_of(int threads) {
    return (threads + kWarpSize - 1) / kWarpSize;
}

/// The number of a thread in its block, x fastest: warps are made of neighbours in this order.
__device__ __forceinline__ int thread_rank() {
    return static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}

struct Sum {
    template <class T>
    __device__ __forceinline__ T operator()(T a, T b) const {
        return a + b;
    }
};
/// Of floats, a number wins against a NaN.
struct Max {
    template <class T>
    __device__ __forceinline__ T operator()(T a, T b) const {
        return a < b || a != a ? b : a;
    }
};
struct Min {
    template <class T>
    __device__ __forceinline__ T operator()(T a, T b) const {
        return b < a || a != a ? b : a;
    }
};

/// A softmax's running maximum and its sum of 2^(x - max). Of nothing: {-infinity, 0}.
struct MaxAndSum {
    float max;
    float sum;
};
/// Joins two of them. The larger one's sum is not rescaled, which costs no rounding and makes both orders
/// give the same bits. `unit`: log2(e) where the sums are of e^(x - max).
struct MaxSum {
    float unit = 1.0f;

    __device__ __forceinline__ MaxAndSum operator()(MaxAndSum a, MaxAndSum b) const {
        const bool a_larger = b.max < a.max;
        const float large = a_larger ? a.max : b.max;
        const float small = a_larger ? b.max : a.max;
        // Equal maxima take the same way: also two of -infinity, whose difference is a NaN.
        const float scale = small == large ? 1.0f : exp2f((small - large) * unit);
        return {large, (a_larger ? a.sum : b.sum) + (a_larger ? b.sum : a.sum) * scale};
    }
};

/// Applies a shuffle of 32-bit words to a value of any size.
template <class T, class Shuffle>
__device__ __forceinline__ T shuffle_words(T value, Shuffle shuffle) {
    constexpr int kWords = (sizeof(T) + 3) / 4;
    // All three compilers define what a union gives that was written as something else.
    union {
        unsigned words[kWords];
        T value;
    } bits = {{}};
    bits.value = value;
#pragma unroll
    for (int i = 0; i < kWords; ++i) bits.words[i] = shuffle(bits.words[i]);
    return bits.value;
}
/// The value of lane `lane ^ mask`.
template <class T>
__device__ __forceinline__ T shuffle_xor(T value, int mask) {
    return shuffle_words(value, [=](unsigned word) { return __shfl_xor_sync(kAllLanes, word, mask); });
}
/// The value of lane `lane - delta`; below lane 0, the lane's own.
template <class T>
__device__ __forceinline__ T shuffle_up(T value, int delta) {
    return shuffle_words(value, [=](unsigned word) { return __shfl_up_sync(kAllLanes, word, delta); });
}
/// The value of lane `from`.
template <class T>
__device__ __forceinline__ T shuffle_from(T value, int from) {
    return shuffle_words(value, [=](unsigned word) { return __shfl_sync(kAllLanes, word, from); });
}

/// Reduces each group of LANES neighbouring lanes, a power of two; every lane gets its group's result.
template <int LANES = kWarpSize, class T, class Op>
__device__ __forceinline__ T warp_reduce(T value, Op op) {
    static_assert(LANES > 0 && LANES <= kWarpSize && (LANES & (LANES - 1)) == 0,
                  "a group is a power of two and at most a warp");
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        value = op(value, shuffle_xor(value, distance));
    return value;
}

/// Lane i gets op over lanes 0 to i, in this order.
template <class T, class Op>
__device__ __forceinline__ T warp_scan(T value, Op op) {
    const int lane = thread_rank() % kWarpSize;
#pragma unroll
    for (int distance = 1; distance < kWarpSize; distance *= 2) {
        const T before = shuffle_up(value, distance);
        if (lane >= distance) value = op(before, value);
    }
    return value;
}

/// The smallest power of two that is at least n.
__host__ __device__ __forceinline__ constexpr int power_of_two_above(int n) {
    int result = 1;
    while (result < n) result *= 2;
    return result;
}

/// Reduces one value of each of the block's THREADS threads; all get the result. parts: shared memory, see
/// the head of this file. THREADS is a multiple of a warp, or a power of two below.
template <int THREADS, class T, class Op>
__device__ __forceinline__ T block_reduce(T value, Op op, T* parts) {
    static_assert(THREADS % kWarpSize == 0 || (THREADS < kWarpSize && (THREADS & (THREADS - 1)) == 0),
                  "the block is a number of whole warps, or a power of two of lanes");
    constexpr int kWarps = warps_of(THREADS);
    value = warp_reduce<(THREADS < kWarpSize ? THREADS : kWarpSize)>(value, op);
    if constexpr (kWarps > 1) {
        const int rank = thread_rank();
        const int lane = rank % kWarpSize;
        if (lane == 0) parts[rank / kWarpSize] = value;
        __syncthreads();
        // Each warp reduces the parts for itself, which saves a barrier. Where their number is no power of
        // two, lanes without a partner keep what they have, and lane 0 has all of it.
        constexpr int kLanes = power_of_two_above(kWarps);
        value = parts[lane < kWarps ? lane : 0];
#pragma unroll
        for (int distance = kLanes / 2; distance > 0; distance /= 2) {
            const T other = shuffle_xor(value, distance);
            if ((lane ^ distance) < kWarps) value = op(value, other);
        }
        value = shuffle_from(value, 0);
    }
    return value;
}
template <int THREADS, class T, class Op>
__device__ __forceinline__ T block_reduce(T value, Op op) {
    __shared__ T parts[warps_of(THREADS)];
    if (warps_of(THREADS) > 1) __syncthreads();  // an earlier call's parts have been read
    return block_reduce<THREADS>(value, op, parts);
}

/// Thread i gets op over threads 0 to i, in this order; threads are counted as by thread_rank. parts: shared
/// memory, see the head of this file. THREADS is a multiple of a warp, or less than one.
template <int THREADS, class T, class Op>
__device__ __forceinline__ T block_scan(T value, Op op, T* parts) {
    static_assert(THREADS % kWarpSize == 0 || THREADS < kWarpSize, "the block is a number of whole warps");
    constexpr int kWarps = warps_of(THREADS);
    value = warp_scan(value, op);
    if constexpr (kWarps > 1) {
        const int rank = thread_rank();
        const int lane = rank % kWarpSize;
        const int warp = rank / kWarpSize;
        if (lane == kWarpSize - 1) parts[warp] = value;
        __syncthreads();
        const T sums = warp_scan(parts[lane < kWarps ? lane : kWarps - 1], op);
        const T before = shuffle_from(sums, warp > 0 ? warp - 1 : 0);
        if (warp > 0) value = op(before, value);
    }
    return value;
}
template <int THREADS, class T, class Op>
__device__ __forceinline__ T block_scan(T value, Op op) {
    __shared__ T parts[warps_of(THREADS)];
    if (warps_of(THREADS) > 1) __syncthreads();  // an earlier call's parts have been read
    return block_scan<THREADS>(value, op, parts);
}

}  // namespace kiln
