// SPDX-License-Identifier: Apache-2.0
//
// CUB's device-wide sum behind a C function; `kiln bench` compiles this with nvcc and calls it in its process.
#include <cub/device/device_reduce.cuh>
#include <cub/version.cuh>

extern "C" int kiln_cub_version() { return CUB_VERSION; }

extern "C" int kiln_cub_sum(const float* x, long long count, float* sum, void* temporary, size_t* temporary_bytes,
                            void* stream) {
    return cub::DeviceReduce::Sum(temporary, *temporary_bytes, x, sum, count, static_cast<cudaStream_t>(stream));
}
