// histogram_reference: counts of byte values; exact, with what is added to where SET is false
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  histogram_reference
//@ param   SET bool = false
//@ backend host
//@ block   1
//@ grid    count
#include "kiln/reference.h"

extern "C" __global__ void histogram_reference(long long count, const long long* __restrict__ which,
                                               double* __restrict__ expected, double* __restrict__ bound, long long n,
                                               const unsigned char* __restrict__ x,
                                               const unsigned long long* __restrict__ counts) {
    const long long i = blockIdx.x;
    const long long value = which ? which[i] : i;
    const unsigned char wanted = static_cast<unsigned char>(value);
    unsigned long long sum = SET ? 0 : counts[value];
    // Counted in bytes first, which vectors add many of at once: arrays of 2^32 bytes are read once for each value.
    constexpr int kLanes = 64, kSteps = 255;
    long long at = 0;
    for (; at + kLanes * kSteps <= n; at += kLanes * kSteps) {
        unsigned char lanes[kLanes] = {};
        for (int step = 0; step < kSteps; ++step)
            for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += x[at + step * kLanes + lane] == wanted;
        unsigned counted = 0;
        for (int lane = 0; lane < kLanes; ++lane) counted += lanes[lane];
        sum += counted;
    }
    for (; at < n; ++at) sum += x[at] == wanted;
    expected[i] = static_cast<double>(sum);
    bound[i] = 0;
}
