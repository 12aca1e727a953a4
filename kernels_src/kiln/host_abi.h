// SPDX-License-Identifier: Apache-2.0
//
// The contract between a kernel compiled for the host and the runtime that runs its threads as
// fibers. Included by kiln/device_host.h (in the kernel's shared object) and by src/device
// (in the library). Plain C layout; any change to it must change kAbiVersion.
#pragma once

namespace kiln_host {

constexpr unsigned kAbiVersion = 8;
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

/// As kiln::AccessKind.
enum class AccessKind : unsigned char {
    load,
    store,
    atomic,
    matrix_load,
    matrix_store,
    async_copy,
    bulk_load,
    bulk_store,
    async_arrival,
    bulk_arrival,
    barrier_init,
    barrier_use,
    idle_lane,
    bulk_begin
};

/// As kiln::ObservedAccess.
struct Access {
    unsigned long long address;
    unsigned code;
    unsigned caller;
    unsigned short bytes;
    AccessKind kind;
    bool unaligned_type;
    bool copied;
};

/// Where a kernel that was compiled to report its accesses writes them down: one after the other, by whichever
/// thread runs. Filled in by the runtime.
struct AccessLog {
    Access* next;
    Access* end;
    unsigned long long stack;  ///< of the running thread: accesses to it are left out
    unsigned long long stack_bytes;
};

/// An index beyond its array.
struct BadIndex {
    const char* file;
    int line;
    const char* array_type;
    long long index;
};

/// What the kernel may ask of the runtime. Each call may switch fibers; the caller restores its own
/// `current` pointer afterwards.
struct Runtime {
    /// Waits until every live thread of the block has arrived. Returns the number of arrivals whose
    /// predicate was true (for __syncthreads_count, _and, _or).
    unsigned (*sync_block)(Thread* self, int predicate);
    /// Waits until every live lane named in the mask has arrived with the same mask. It orders memory.
    void (*sync_warp)(Thread* self, unsigned mask);
    /// The same, but it orders no memory. Returns the lanes whose predicate was true; `arrived` receives the lanes
    /// that took part.
    unsigned (*vote)(Thread* self, unsigned mask, int predicate, unsigned* arrived);
    /// The same, and each lane deposits `bytes` (at most 16) from `value`. Returns where the deposits
    /// lie, lane l's at result[l]; valid until this thread's next wait in its warp.
    const Deposit* (*exchange)(Thread* self, unsigned mask, const void* value, unsigned bytes,
                               unsigned* arrived);
    /// Waits until no thread of the block can go on otherwise. Returns the lanes of the warp that then wait at the same
    /// place, within the same calls. Where lanes wait at several, only those at the first line go on.
    unsigned (*active_lanes)(Thread* self, const void* place, int line);
    /// Waits at the block's barrier `id`, from 1 to 15, until `count` threads have arrived there; then the
    /// barrier is as new. count: a multiple of the warp size, the same for all who meet. The lanes that the
    /// block's last warp lacks arrive with its lane 0; a lane that has ended does not arrive.
    void (*sync_named)(Thread* self, unsigned id, unsigned count);
    /// Arrives there and goes on; where that ends a phase, when no other thread of the block can.
    void (*arrive_named)(Thread* self, unsigned id, unsigned count);
    /// Waits until ready(state) is not 0; it still is when the call returns. The runtime asks whenever no
    /// thread of the block can go on, on any fiber, so ready must not wait itself. What it reads must be
    /// changed by threads of this block: when nobody can go on and nobody is ready, the launch ends.
    /// ready == nullptr: until no other thread of the block can go on.
    void (*wait_until)(Thread* self, int (*ready)(const void* state), const void* state);
    /// Ends the launch with an error: __trap, a failed assert. Does not return.
    void (*trap)(Thread* self, const char* message);

    // Only for kernels with a log of accesses; these switch no fibers.

    /// Makes room in the log.
    void (*flush)(Thread* self);
    /// What the thread did so far comes before what others do after they acquire the same object.
    void (*release)(Thread* self, const void* object);
    void (*acquire)(Thread* self, const void* object);
    void (*bad_index)(Thread* self, const BadIndex* what);

    /// Waits until one thread of each block of a cooperative launch has come here. Switches no fibers: the other threads of
    /// the block must wait for this one.
    void (*sync_grid)(Thread* self);
    /// For a loop that waits for what another block writes: ends this block where another one of the launch has failed, so
    /// that it may never come; else it returns at once.
    void (*end_if_failed)(Thread* self);
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
    /// It waits for the sake of an instruction that the prelude emulates: whoever observes is not told.
    bool silent;
};

/// What a kiln::TensorMap holds on the host: a tensor of up to 5 dimensions and the box of it that one
/// copy moves. Innermost dimension first.
struct alignas(128) TensorMap {
    void* base;
    unsigned rank;
    unsigned element_bytes;
    unsigned long long extents[5];
    unsigned long long stride_bytes[5];  ///< of one step in that dimension; [0] is element_bytes
    unsigned box[5];
    unsigned swizzle_bytes;  ///< 0, 32, 64 or 128
};
static_assert(sizeof(TensorMap) == 128, "as large as CUDA's");

/// What a kernel's shared object exports, as the C symbol "kiln_host_kernel".
struct Kernel {
    unsigned abi_version;
    unsigned argument_count;
    const unsigned* argument_bytes;
    /// Runs one thread from start to end. arguments: one pointer per argument, to its value.
    void (*run)(Thread* thread, void* const* arguments);
    AccessLog* log;  ///< null: it reports no accesses, as always unless there is an observer
    /// The address, on this OS thread, of the thread-local variable kiln_host::anchor, from which those that
    /// are __shared__ lie as far as the symbol table says. Null when `log` is.
    const void* (*anchor)();
};

}  // namespace kiln_host
