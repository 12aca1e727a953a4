// equalize_reference: 255 times the share of pixels that are no lighter; integers, so that no result has an error
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  equalize_reference
//@ backend host
//@ block   1
//@ grid    1
#include "kiln/reference.h"

extern "C" __global__ void equalize_reference(long long count, const long long* __restrict__ which,
                                              double* __restrict__ expected, double* __restrict__ bound, int n,
                                              const unsigned char* __restrict__ image) {
    long long counts[256] = {};
    for (int i = 0; i < n; ++i) ++counts[image[i]];
    for (int value = 1; value < 256; ++value) counts[value] += counts[value - 1];
    for (long long i = 0; i < count; ++i) {
        expected[i] = static_cast<double>(counts[image[which ? which[i] : i]] * 255 / n);
        bound[i] = 0;
    }
}
