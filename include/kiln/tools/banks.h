// SPDX-License-Identifier: Apache-2.0
//
// The banks of shared memory (LDS on AMD): how many wavefronts an access of a warp takes. Pure functions,
// thread-safe. Where the model comes from and what is not known: docs/banks.md.
#pragma once

#include <kiln/version.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kiln {
inline namespace KILN_ABI {

/// How one architecture serves shared memory.
struct BankModel {
    int lanes = 32;      ///< of a warp or wave
    int banks = 32;      ///< of shared memory; a power of two
    int bank_bytes = 4;  ///< of a word
    /// Lanes that go together, a phase, for accesses of 4 bytes and less, of 8, of 16.
    int lanes_of_4 = 32;
    int lanes_of_8 = 16;  ///< as lanes_of_4
    int lanes_of_16 = 8;  ///< as lanes_of_4
    /// For loads of 16 bytes the order in which lanes form phases; empty: their own order.
    std::vector<int> load_order_of_16;
    /// For loads of 8 and 16 bytes phases are twice as wide where each lane reads the address of the lane
    /// next to it (lane ^ 1 for all, or lane ^ 2 for all).
    bool equal_pairs_merge = false;
};

/// The model of an architecture: "sm_90a", "gfx90a", "gfx942:xnack-". Throws UsageError for one that it does
/// not know.
BankModel bank_model(const std::string& arch);

/// Which way data goes.
enum class SharedAccess { load, store };

/// What shared memory needs to serve one request of a warp.
struct Wavefronts {
    int actual = 0;  ///< that it takes
    /// One per phase that a lane takes part in, of the phases that were served: merged ones count once, as in
    /// NVIDIA's own counter. Never above actual.
    int ideal = 0;
    int degree = 0;       ///< the most different words that one bank has to serve in one phase
    bool aligned = true;  ///< false: a lane's address is no multiple of the width; NVIDIA does not support it
    bool merged = false;  ///< equal pairs made its phases twice as wide
};

/// byte_addresses: one per lane, relative to the start of shared memory; nullopt: the lane does not take
/// part. width_bytes: 1, 2, 4, 8 or 16 per lane. Lanes that read a byte of the same word share it
/// (broadcast); of lanes that write to one word none waits either. A misaligned access is counted as if it
/// were allowed. Throws UsageError for another width, for more addresses than lanes, and for a model with more
/// than 64 lanes or 128 banks, or whose banks are no power of two. Allocates nothing.
Wavefronts wavefronts(std::span<const std::optional<std::uint32_t>> byte_addresses, int width_bytes,
                      const BankModel& model, SharedAccess access = SharedAccess::load);

/// The bank that holds the byte at an address.
int bank_of(std::uint32_t byte_address, const BankModel& model);

}  // namespace KILN_ABI
}  // namespace kiln
