// SPDX-License-Identifier: Apache-2.0
//
// The matrix instruction with A in registers on the host. Part of kiln/wgmma_registers.h. The four lanes that
// hold a row of A exchange their registers when the instruction starts; the product is made at the wait, as
// with A in shared memory. Fragments that changed in between are an error.
#pragma once

namespace kiln_host {

/// 16 columns of A: a thread's registers as they were at the start, and the two rows that it multiplies.
struct WgmmaRows {
    const unsigned* registers;
    unsigned before[4];
    float rows[2][16];
};

template <class T, bool B_MN, int N>
inline void run_wgmma_registers(float* values, const WgmmaStep& step) {
    const WgmmaRows& a = *__builtin_bit_cast(const WgmmaRows*, step.a);
    if (__builtin_memcmp(a.registers, a.before, sizeof(a.before)) != 0)
        trap("registers that a wgmma reads were written before the wait for it");
    const WgmmaOperand<T, B_MN> b(step.b);
    const int thread = int(thread_of_block() % 128);
    using C = kiln::WgmmaAccumulatorValues<N>;
    for (int i = 0; i < N / 2; i += 4) {
        float sums[2][2] = {};
        for (int k = 0; k < 16; ++k) {
            for (int side = 0; side < 2; ++side) {
                const float factor = b(C::col_of(thread, i / 2 + side), k);
                sums[0][side] += a.rows[0][k] * factor;
                sums[1][side] += a.rows[1][k] * factor;
            }
        }
        for (int j = 0; j < 4; ++j)
            values[i + j] = (step.accumulate ? values[i + j] : 0.0f) + sums[j / 2][j % 2];
    }
}

}  // namespace kiln_host

namespace kiln {

template <int STEPS>
struct WgmmaFragments {
    unsigned values[STEPS][4];
    mutable kiln_host::WgmmaRows rows[STEPS];
};

template <class T, bool B_MN, int N, int STEPS>
inline void wgmma(WgmmaAccumulator<N>& sums, const WgmmaFragments<STEPS>& a, int step, u64 b_tile,
                  bool accumulate) {
    kiln_host::WgmmaRows& rows = a.rows[step];
    rows.registers = a.values[step];
    for (int i = 0; i < 4; ++i) {
        rows.before[i] = a.values[step][i];
        for (int lane = 0; lane < 4; ++lane) {
            const unsigned pair =
                __shfl_sync(0xffffffffu, rows.before[i], int(kiln_host::lane_number() / 4 * 4) + lane);
            T elements[2];
            __builtin_memcpy(elements, &pair, sizeof(pair));
            for (int j = 0; j < 2; ++j)
                rows.rows[i % 2][i / 2 * 8 + lane * 2 + j] = static_cast<float>(elements[j]);
        }
    }
    [[maybe_unused]] const kiln_host::Muted muted{};
    const unsigned thread = kiln_host::thread_of_block();
    if (!kiln_host::wgmma_fenced[thread]) kiln_host::trap("a wgmma comes without a wgmma_fence before it");
    if (sums.step_count == WgmmaAccumulator<N>::kMostSteps)
        kiln_host::trap("more than 64 wgmma add to the same sums without a wait");
    sums.steps[sums.step_count++] = {&kiln_host::run_wgmma_registers<T, B_MN, N>,
                                     __builtin_bit_cast(unsigned long long, &rows), b_tile,
                                     kiln_host::wgmma_groups[thread], accumulate};
}

}  // namespace kiln
