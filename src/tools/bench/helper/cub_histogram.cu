// SPDX-License-Identifier: Apache-2.0
//
// CUB's histogram of bytes with 256 bins behind a C function; `kiln bench` compiles this with nvcc and calls it
// in its process.
#include <cub/device/device_histogram.cuh>
#include <cub/version.cuh>

extern "C" int kiln_cub_version() { return CUB_VERSION; }

extern "C" int kiln_cub_histogram(const unsigned char* x, long long count, unsigned* counts, void* temporary,
                                  size_t* temporary_bytes, void* stream) {
    if (count > 0x7fffffff) return static_cast<int>(cudaErrorInvalidValue);
    return cub::DeviceHistogram::HistogramEven(temporary, *temporary_bytes, x, counts, 257, 0, 256,
                                               static_cast<int>(count), static_cast<cudaStream_t>(stream));
}
