// SPDX-License-Identifier: Apache-2.0
//
// The contract between a kernel compiled for the host and the runtime that runs its threads as
// fibers. Included by kiln/device_host.h (in the kernel's shared object) and by src/device
// (in the library). Plain C layout; any change to it must change kAbiVersion.
#pragma once

namespace kiln_host {

constexpr unsigned kAbiVersion = 2;
constexpr unsigned kWarpSize = 32;

struct Extent {
    unsigned x, y, z;
};

/// 16 bytes deposited by one lane.
struct alignas(16) Deposit {
    unsigned char bytes[16];
};

struct Thread;
struct Block;

/// What the kernel may ask of the runtime. Each call may switch fibers; the caller restores its own
/// `current` pointer afterwards.
struct Runtime {
    /// Waits until every live thread of the block has arrived. Returns the number of arrivals whose
    /// predicate was true (for __syncthreads_count, _and, _or).
    unsigned (*sync_block)(Thread* self, int predicate);
    /// Waits until every live lane named in the mask has arrived with the same mask. Returns the lanes
    /// whose predicate was true; `arrived` receives the lanes that took part.
    unsigned (*sync_warp)(Thread* self, unsigned mask, int predicate, unsigned* arrived);
    /// The same, and each lane deposits `bytes` (at most 16) from `value`. Returns where the deposits
    /// lie, lane l's at result[l]; valid until this thread's next wait in its warp.
    const Deposit* (*exchange)(Thread* self, unsigned mask, const void* value, unsigned bytes,
                               unsigned* arrived);
    /// The lanes of the warp that have not ended.
    unsigned (*live_lanes)(Thread* self);
    /// Ends the launch with an error: __trap, a failed assert. Does not return.
    void (*trap)(Thread* self, const char* message);
};

/// One per block that is being run; owned by the runtime.
struct Block {
    Extent block_idx, block_dim, grid_dim;
    void* dynamic_shared;  ///< aligned to 1024 bytes
    unsigned dynamic_shared_bytes;
    const Runtime* runtime;
};

/// One per thread of the block; owned by the runtime.
struct Thread {
    Extent thread_idx;
    unsigned lane;  ///< in its warp
    unsigned warp;  ///< in its block
    Block* block;
};

/// What a kernel's shared object exports, as the C symbol "kiln_host_kernel".
struct Kernel {
    unsigned abi_version;
    unsigned argument_count;
    const unsigned* argument_bytes;
    /// Runs one thread from start to end. arguments: one pointer per argument, to its value.
    void (*run)(Thread* thread, void* const* arguments);
};

}  // namespace kiln_host
