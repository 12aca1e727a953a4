// lab_banks: reads shared memory repeatedly with one address pattern, and measures the cycles per access
//
// Lane l of each warp reads WIDTH bytes at row * PITCH + (chunk ^ (row >> SHIFT & MASK)) * WIDTH, where
// row = l / SHARE % ROWS and chunk = l / SHARE / ROWS. That covers strides (PITCH = stride * 4), a row
// (PITCH = WIDTH), broadcast (PITCH = 0), columns of a tile with any pitch, ldmatrix's eight rows of 16 bytes,
// XOR swizzles, and lanes that share an address (SHARE). `kiln lab banks` knows the values for each.
//
// All warps of a block read the same addresses, and none waits for a value before it asks for the next, so that
// the time is that of the shared memory and not its latency. cycles is what one access of one warp costs the
// multiprocessor. checksum is the sum of all words that a thread has read, modulo 2^32: a read that the
// compiler left out would show.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  lab_banks
//@ param   WIDTH   int in 1, 2, 4, 8, 16 = 4               "bytes that a lane reads"
//@ param   PITCH   int in 0..1024 = 4                      "bytes from one row to the next"
//@ param   ROWS    int in 1, 2, 4, 8, 16, 32, 64 = 64      "rows; the lanes behind read the next chunk"
//@ param   SHARE   int in 1, 2, 4, 8, 16, 32 = 1           "neighbouring lanes that read the same address"
//@ param   SHIFT   int in 0, 1, 2, 3, 4 = 0                "of the row number, for the swizzle"
//@ param   MASK    int in 0, 1, 3, 7, 15, 31 = 0              "of the shifted row number; 0: no swizzle"
//@ param   LANES   int in 32, 64 = 32                      "of a warp; 64 on CDNA"
//@ param   THREADS int in 64, 128, 256, 512, 1024 = 256    "per block"
//@ require PITCH % WIDTH == 0  "PITCH must be a multiple of WIDTH, or accesses are misaligned"
//@ bytes   0
//@ block   THREADS
//@ grid    blocks
//@ shared  ceil_div((ROWS - 1) * PITCH + max(64 / ROWS, MASK + 1) * WIDTH, 16) * 16
//@ size    repeats = 64 test 3  "times that a thread reads 32 times"
//@ size    blocks = 1 test 2    "blocks, which differ in nothing"
//@ output  checksum [blocks, THREADS] by lab_banks_reference exact  "of what each thread has read"
//@ output  cycles [blocks]                                          "of the multiprocessor, per access of a warp"
//@ model   search [THREADS]
#include "kiln/device.h"

constexpr int kReads = 32;  // in a row, without a branch
constexpr int kBytes = (ROWS - 1) * PITCH + kiln::max(64 / ROWS, MASK + 1) * WIDTH;
constexpr int kWords = kiln::ceil_div(kBytes, 16) * 4;

// One access that no compiler may leave out, merge with its neighbours or split: the sum of the words read.
#if defined(__CUDA_ARCH__)
__device__ __forceinline__ unsigned read(const unsigned char* from) {
    const unsigned address = kiln::shared_address(from);
    unsigned a = 0, b = 0, c = 0, d = 0;
    if constexpr (WIDTH == 1)
        asm volatile("ld.volatile.shared.u8 %0, [%1];" : "=r"(a) : "r"(address));
    else if constexpr (WIDTH == 2)
        asm volatile("ld.volatile.shared.u16 %0, [%1];" : "=r"(a) : "r"(address));
    else if constexpr (WIDTH == 4)
        asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(a) : "r"(address));
    else if constexpr (WIDTH == 8)
        asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(address));
    else
        asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                     : "r"(address));
    return a + b + c + d;
}
#elif defined(__HIP_DEVICE_COMPILE__) || defined(__HIPCC_RTC__)
template <int BYTES>
struct Access {  // of whole words
    typedef unsigned Type __attribute__((ext_vector_type(BYTES / 4)));
    static __device__ __forceinline__ unsigned sum(Type value) {
        unsigned sum = 0;
        for (int i = 0; i < BYTES / 4; ++i) sum += value[i];
        return sum;
    }
};
template <>
struct Access<4> {
    typedef unsigned Type;
    static __device__ __forceinline__ unsigned sum(Type value) { return value; }
};
template <>
struct Access<2> {
    typedef unsigned short Type;
    static __device__ __forceinline__ unsigned sum(Type value) { return value; }
};
template <>
struct Access<1> {
    typedef unsigned char Type;
    static __device__ __forceinline__ unsigned sum(Type value) { return value; }
};
__device__ __forceinline__ unsigned read(const unsigned char* from) {
    using Shared = const volatile __attribute__((address_space(3))) typename Access<WIDTH>::Type*;
    return Access<WIDTH>::sum(*(Shared)from);
}
#else
inline unsigned read(const unsigned char* from) {
    __asm__ volatile("" ::: "memory");
    if constexpr (WIDTH == 1) return *from;
    if constexpr (WIDTH == 2) return *reinterpret_cast<const unsigned short*>(from);
    const auto words = kiln::load<kiln::ceil_div(WIDTH, 4)>(reinterpret_cast<const unsigned*>(from));
    unsigned sum = 0;
    for (int i = 0; i < WIDTH / 4; ++i) sum += words[i];
    return sum;
}
#endif

extern "C" __global__ __launch_bounds__(THREADS) void lab_banks(int repeats, int blocks,
                                                                unsigned* __restrict__ checksum,
                                                                float* __restrict__ cycles) {
    unsigned* const words = kiln::dynamic_shared<unsigned>();
    for (unsigned i = threadIdx.x; i < kWords; i += THREADS) words[i] = i * 2654435761u + 40503u;
    const int lane = static_cast<int>(threadIdx.x) % LANES / SHARE;
    const int row = lane % ROWS;
    const int chunk = lane / ROWS ^ (row >> SHIFT & MASK);
    const unsigned char* const from = kiln::dynamic_shared<unsigned char>() + row * PITCH + chunk * WIDTH;

    __syncthreads();
    const long long start = clock64();
    unsigned sum = 0;
#pragma unroll 1
    for (int i = 0; i < repeats; ++i) {
#pragma unroll
        for (int j = 0; j < kReads; ++j) sum += read(from);
    }
    __syncthreads();
    const long long stop = clock64();

    checksum[static_cast<kiln::i64>(blockIdx.x) * THREADS + threadIdx.x] = sum;
    if (threadIdx.x == 0) {
        constexpr int kWarps = THREADS / LANES;
        cycles[blockIdx.x] =
            static_cast<float>(stop - start) / (static_cast<float>(repeats) * static_cast<float>(kReads * kWarps));
    }
}
