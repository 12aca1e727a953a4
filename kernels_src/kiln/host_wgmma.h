// SPDX-License-Identifier: Apache-2.0
//
// The matrix instruction on the host. Part of kiln/wgmma.h. Each thread computes its own share of the result
// from the bytes in shared memory, which it finds through the descriptors and the swizzle, as the device
// does. It does so when it waits for the group, as late as possible: sums that are read without a wait,
// operands that are overwritten too early and a group that is not committed all give wrong results. Sums
// whose first wgmma has no wgmma_fence before it, descriptors that the device would misread, and shared
// memory that is not dynamic are errors. Registers are not counted: setmaxnreg_inc and setmaxnreg_dec do
// nothing.
#pragma once

namespace kiln_host {

struct WgmmaStep {
    void (*run)(float* values, const WgmmaStep& step);
    unsigned long long a, b;
    unsigned group;
    bool accumulate;
};

/// Groups that each thread of the block has committed; only differences count.
KILN_HOST_STATE unsigned wgmma_groups[1024];
/// And whether it called wgmma_fence since it last waited for all of them.
KILN_HOST_STATE bool wgmma_fenced[1024];

inline unsigned thread_of_block() { return warp_number() * kWarpSize + lane_number(); }

/// One operand of a 64 x N x 16 product. M_OR_N, k: of an element.
template <class T, bool MN_MAJOR>
class WgmmaOperand {
  public:
    explicit WgmmaOperand(unsigned long long descriptor)
        : start_(static_cast<unsigned char*>(current->block->dynamic_shared) + (descriptor & 0x3fffu) * 16),
          leading_(long((descriptor >> 16 & 0x3fffu) * 16)),
          stride_(long((descriptor >> 32 & 0x3fffu) * 16)) {
        if (descriptor >> 62 != 1 || (descriptor >> 49 & 7u) != 0)
            trap("a wgmma descriptor has another layout than the swizzle of 128 bytes");
        if ((__builtin_bit_cast(unsigned long long, start_) & (MN_MAJOR ? 0x3f0u : 0x380u)) != 0)
            trap("a wgmma descriptor starts inside a group of 8 rows of 128 bytes");
        const unsigned groups = MN_MAJOR ? 2 : 8;  // of 8 rows, for the 16 of k or the 64 of m
        // Where it runs along k it starts at any 16 of a row's 64.
        if ((descriptor & 0x3fffu) * 16 / 128 * 128 + (groups - 1) * stride_ + 1024 >
            current->block->dynamic_shared_bytes)
            trap("a wgmma descriptor reaches past the dynamic shared memory");
    }

    float operator()(int m_or_n, int k) const {
        unsigned char* const place =
            MN_MAJOR ? start_ + m_or_n / 64 * leading_ + k / 8 * stride_ + k % 8 * 128 + m_or_n % 64 * 2
                     : start_ + m_or_n / 8 * stride_ + m_or_n % 8 * 128 + k * 2;
        const auto bits = __builtin_bit_cast(unsigned long long, place);
        T value;
        __builtin_memcpy(&value, place + (long)((bits ^ (bits >> 7 & 7u) << 4) - bits), sizeof(T));
        return static_cast<float>(value);
    }

  private:
    unsigned char* start_;
    long leading_, stride_;
};

template <class T, bool A_MN, bool B_MN, int N>
inline void run_wgmma(float* values, const WgmmaStep& step) {
    const WgmmaOperand<T, A_MN> a(step.a);
    const WgmmaOperand<T, B_MN> b(step.b);
    using C = kiln::WgmmaAccumulatorValues<N>;
    const int thread = int(thread_of_block() % 128);
    float rows[2][16];
    for (int half = 0; half < 2; ++half) {
        for (int k = 0; k < 16; ++k) rows[half][k] = a(C::row_of(thread, half), k);
    }
    for (int i = 0; i < N / 2; i += 4) {
        float sums[2][2] = {};
        for (int k = 0; k < 16; ++k) {
            for (int side = 0; side < 2; ++side) {
                const float factor = b(C::col_of(thread, i / 2 + side), k);
                sums[0][side] += rows[0][k] * factor;
                sums[1][side] += rows[1][k] * factor;
            }
        }
        for (int j = 0; j < 4; ++j)
            values[i + j] = (step.accumulate ? values[i + j] : 0.0f) + sums[j / 2][j % 2];
    }
}

inline unsigned long long wgmma_address(const void* shared) {
    [[maybe_unused]] const Muted muted{};
    const Block& block = *current->block;
    const long offset =
        static_cast<const unsigned char*>(shared) - static_cast<unsigned char*>(block.dynamic_shared);
    if (offset < 0 || offset >= long(block.dynamic_shared_bytes) || offset % 16 != 0)
        trap("wgmma takes its operands from dynamic shared memory, at multiples of 16 bytes");
    return (unsigned long long)offset >> 4;
}

}  // namespace kiln_host

namespace kiln {

template <int N>
struct WgmmaAccumulator : WgmmaAccumulatorValues<N> {
    static constexpr int kMostSteps = 64;

    kiln_host::WgmmaStep steps[kMostSteps];
    int step_count = 0;

    /// Does the steps of all but the last `pending` groups that the thread committed.
    void finish(unsigned pending) {
        [[maybe_unused]] const kiln_host::Muted muted{};
        int kept = 0;
        for (int i = 0; i < step_count; ++i) {
            const unsigned newer = kiln_host::wgmma_groups[kiln_host::thread_of_block()] - steps[i].group;
            if (newer > pending)
                steps[i].run(this->values, steps[i]);
            else
                steps[kept++] = steps[i];
        }
        step_count = kept;
    }
};

inline u64 wgmma_k_major(const void* tile) { return wgmma_layout(16) | kiln_host::wgmma_address(tile); }
inline u64 wgmma_mn_major(const void* tile, unsigned slice_bytes) {
    return wgmma_layout(slice_bytes) | kiln_host::wgmma_address(tile);
}

inline void wgmma_fence() {
    [[maybe_unused]] const kiln_host::Muted muted{};
    kiln_host::wgmma_fenced[kiln_host::thread_of_block()] = true;
}
template <int N>
inline void wgmma_define(WgmmaAccumulator<N>& sums) {
    [[maybe_unused]] const kiln_host::Muted muted{};
    if (sums.step_count != 0) kiln_host::trap("a wgmma_define comes while wgmma of its sums are under way");
    for (float& value : sums.values) value = __builtin_nanf("");
}
inline void wgmma_commit() {
    [[maybe_unused]] const kiln_host::Muted muted{};
    ++kiln_host::wgmma_groups[kiln_host::thread_of_block()];
}

template <class T, bool A_MN, bool B_MN, int N>
inline void wgmma(WgmmaAccumulator<N>& sums, u64 a_tile, u64 b_tile, bool accumulate) {
    [[maybe_unused]] const kiln_host::Muted muted{};
    const unsigned thread = kiln_host::thread_of_block();
    if (!kiln_host::wgmma_fenced[thread]) kiln_host::trap("a wgmma comes without a wgmma_fence before it");
    if (sums.step_count == WgmmaAccumulator<N>::kMostSteps)
        kiln_host::trap("more than 64 wgmma add to the same sums without a wait");
    sums.steps[sums.step_count++] = {&kiln_host::run_wgmma<T, A_MN, B_MN, N>, a_tile, b_tile,
                                     kiln_host::wgmma_groups[thread], accumulate};
}

// The lanes of a warp go on together, since one of them may speak for all.
template <int PENDING, class... Sums>
inline void wgmma_wait(Sums&... sums) {
    (sums.finish(PENDING), ...);
    if (PENDING == 0) {
        [[maybe_unused]] const kiln_host::Muted muted{};
        kiln_host::wgmma_fenced[kiln_host::thread_of_block()] = false;
    }
    __syncwarp();
}
template <int PENDING, int N, int COUNT>
inline void wgmma_wait(WgmmaAccumulator<N> (&sums)[COUNT]) {
    for (auto& each : sums) each.finish(PENDING);
    wgmma_wait<PENDING>();
}

template <int COUNT>
inline void setmaxnreg_inc() {
    static_assert(COUNT >= 24 && COUNT <= 256 && COUNT % 8 == 0, "a multiple of 8 from 24 to 256");
}
template <int COUNT>
inline void setmaxnreg_dec() {
    setmaxnreg_inc<COUNT>();
}

inline bool elect_one() {
    __syncwarp();
    return kiln_host::lane_number() == 0;
}

}  // namespace kiln
