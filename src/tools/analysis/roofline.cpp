// SPDX-License-Identifier: Apache-2.0
//
// The roofline of Williams, Waterman and Patterson: operations and memory traffic overlap perfectly, so the
// slower of the two is the lower bound.
#include <kiln/error.h>
#include <kiln/tools/roofline.h>

#include <algorithm>

#include "format/format.h"

namespace kiln {
namespace {

void require_positive(const char* what, double value) {
    if (!(value > 0)) throw UsageError(formatted("a roofline needs {} above 0, not {:f}", what, value));
}

}  // namespace

inline namespace KILN_ABI {

Roofline roofline(double flops, double bytes, Unit unit, double tflops, double memory_gbps) {
    require_positive("operations", flops);
    require_positive("bytes", bytes);
    require_positive("a peak rate", tflops);
    require_positive("a memory bandwidth", memory_gbps);
    constexpr double kTera = 1e12, kGiga = 1e9, kMsPerSecond = 1e3;
    Roofline result;
    result.unit = unit;
    result.intensity = flops / bytes;
    result.ridge = tflops * kTera / (memory_gbps * kGiga);
    result.compute_ms = flops / (tflops * kTera) * kMsPerSecond;
    result.memory_ms = bytes / (memory_gbps * kGiga) * kMsPerSecond;
    result.floor_ms = std::max(result.compute_ms, result.memory_ms);
    result.memory_bound = result.intensity < result.ridge;
    result.attainable_tflops = std::min(tflops, result.intensity * memory_gbps * kGiga / kTera);
    return result;
}

}  // namespace KILN_ABI
}  // namespace kiln
