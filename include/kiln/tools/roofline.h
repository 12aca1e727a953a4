// SPDX-License-Identifier: Apache-2.0
//
// The roofline: the least time that operations and bytes can take on a chip. A pure function, thread-safe.
#pragma once

#include <kiln/occupancy.h>
#include <kiln/version.h>

namespace kiln {
inline namespace KILN_ABI {

/// Williams, Waterman, Patterson: "Roofline", CACM 52(4), 2009.
struct Roofline {
    double intensity = 0;          ///< flops per byte of device memory that has to move at least
    double ridge = 0;              ///< where the two roofs meet, flops per byte
    double floor_ms = 0;           ///< no kernel of these operations is faster
    double compute_ms = 0;         ///< operations alone
    double memory_ms = 0;          ///< bytes alone
    bool memory_bound = false;     ///< memory_ms is the longer of the two
    double attainable_tflops = 0;  ///< at this intensity: 1e12 operations per second
    Unit unit = Unit::fma_f32;     ///< whose peak the flat roof is
};
/// memory_gbps and tflops: of the device, 1e9 bytes and 1e12 operations per second. Throws UsageError for a
/// number that is not positive.
Roofline roofline(double flops, double bytes, Unit unit, double tflops, double memory_gbps);

}  // namespace KILN_ABI
}  // namespace kiln
