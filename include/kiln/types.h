// SPDX-License-Identifier: Apache-2.0
//
// Element types as the host sees them (storage only, bit-compatible with the device types of
// kernels_src/kiln), launch extents, backends and targets.
#pragma once

#include <kiln/version.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace kiln {
inline namespace KILN_ABI {

/// IEEE 754 binary16. Conversion from float rounds to nearest even; overflow gives infinity.
struct half {
    std::uint16_t bits = 0;  ///< sign, 5 bits of exponent, 10 of fraction

    half() = default;
    /// Rounds to nearest even.
    explicit half(float value);
    /// Exact.
    explicit operator float() const;
};

/// bfloat16: the upper 16 bits of a binary32. Conversion from float rounds to nearest even.
struct bfloat16 {
    std::uint16_t bits = 0;  ///< sign, 8 bits of exponent, 7 of fraction

    bfloat16() = default;
    /// Rounds to nearest even.
    explicit bfloat16(float value);
    /// Exact.
    explicit operator float() const;
};

/// Extents of a grid, a block or a cluster, in blocks or threads.
struct Dim3 {
    unsigned x = 1;  ///< the extent that varies fastest
    unsigned y = 1;  ///< the next
    unsigned z = 1;  ///< the slowest

    /// x * y * z.
    std::uint64_t count() const { return std::uint64_t{x} * y * z; }
    bool operator==(const Dim3&) const = default;
};

/// Who compiles and launches: NVRTC and the CUDA driver, hipRTC and HIP, or the C++ compiler and fibers of the host.
enum class Backend { cuda, hip, host };

/// "cuda", "hip" or "host".
std::string_view name(Backend backend);
/// The inverse of name(). Throws UsageError for anything else.
Backend parse_backend(std::string_view text);

/// What a device allows; in rules these are `device.threads_per_block` and so on. Read from the
/// device, or from a table of architectures when there is none.
struct Limits {
    std::int64_t threads_per_block = 1024;                 ///< the most
    std::int64_t warp_size = 32;                           ///< lanes; 64 on CDNA
    std::int64_t shared_bytes_per_block = 49152;           ///< without opting in
    std::int64_t shared_bytes_per_block_optin = 49152;     ///< the most a launch may ask for
    std::int64_t shared_bytes_per_multiprocessor = 65536;  ///< of all blocks that are resident
    std::int64_t registers_per_block = 65536;              ///< 32-bit registers
    std::int64_t registers_per_multiprocessor = 65536;     ///< 32-bit registers
    std::int64_t threads_per_multiprocessor = 2048;        ///< resident
    std::int64_t blocks_per_multiprocessor = 32;           ///< resident
    std::int64_t blocks_per_cluster = 1;  ///< that every device of the architecture has; 1: none
    std::int64_t multiprocessors = 0;     ///< 0: not known without a device
    std::int64_t l2_bytes = 0;            ///< 0: not known
    std::int64_t grid_x = 2147483647;     ///< the largest grid, in blocks
    std::int64_t grid_y = 65535;          ///< likewise
    std::int64_t grid_z = 65535;          ///< likewise

    bool operator==(const Limits&) const = default;
};

/// What a binary is made for.
struct Target {
    Backend backend = Backend::host;  ///< that loads the binary
    std::string arch;                 ///< with its suffix: "sm_90a", "gfx90a", "x86-64-v3"
    Limits limits;                    ///< that rules of templates are held to
};

/// Problem sizes by the name of their argument.
using Sizes = std::map<std::string, std::int64_t, std::less<>>;

}  // namespace KILN_ABI
}  // namespace kiln
