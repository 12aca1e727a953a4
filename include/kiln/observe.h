// SPDX-License-Identifier: Apache-2.0
//
// Watching a kernel run on the host backend: every access to memory that its threads make, and what orders
// them. A Service with an observer (ServiceOptions::observer) compiles its kernels so that they report their
// accesses, and runs each launch on one OS thread. What is made of it is kiln/tools/accesses.h; not here.
#pragma once

#include <kiln/build.h>
#include <kiln/types.h>
#include <kiln/version.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kiln {
inline namespace KILN_ABI {

/// What an access does.
enum class AccessKind : std::uint8_t {
    load,
    store,
    atomic,        ///< reads and writes
    matrix_load,   ///< ldmatrix: the 16-byte row whose address the lane gives
    matrix_store,  ///< stmatrix, the same
    /// cp.async: the store to shared memory, reported when it begins. The load of its source is
    /// reported immediately before it, unless it reads nothing (all zeros).
    async_copy,
    /// TMA: the first and the last element of a box, or of the part of it that lies within its map. What such a copy
    /// costs is not reported, nor when a store happens.
    bulk_load,
    bulk_store,
    /// cp.async: the same store to shared memory again, when it has happened: at the wait that covers it. In between the copy is
    /// under way.
    async_arrival,
    /// TMA: a part of a loaded box, in shared memory, at the first return from a wait that found it there.
    bulk_arrival,
    barrier_init,  ///< of an mbarrier, a store
    barrier_use,  ///< of an mbarrier, by arriving, waiting or a load of TMA: reads and writes, as an atomic operation
    /// A shuffle that reads a lane which does not take part, so that its result is undefined. `address` is that lane, no
    /// place in memory.
    idle_lane,
    /// TMA: a part of the box of a load, in shared memory, when the load begins: from then on until it arrives, anything may lie
    /// there.
    bulk_begin,
};

/// Whether it is an instruction that accesses memory and whose costs count. The others only tell when something happens.
constexpr bool has_cost(AccessKind kind) { return kind < AccessKind::async_arrival; }

/// One access by one thread.
struct ObservedAccess {
    std::uint64_t address = 0;  ///< on the host
    /// Where in the shared object (Binary::bytes) it was made: the offset of the instruction behind the call
    /// that reports it, as virtual address of the ELF file.
    std::uint32_t code = 0;
    /// The same of the kernel's call of the function that holds `code`, or that calls the one that does; 0: it
    /// is the kernel itself, which most functions become part of.
    std::uint32_t caller = 0;
    std::uint16_t bytes = 0;             ///< that the thread reads or writes
    AccessKind kind = AccessKind::load;  ///< what it does with them
    /// Its type promises no alignment to its size (a packed one, or memcpy's): on a GPU it becomes several.
    bool unaligned_type = false;
    /// A piece of what memcpy or memmove copies, or of a struct: as wide as its address allows, whatever its type promises.
    bool copied = false;
};

/// A line of a template. Accesses in a header are told at the template's line that called it.
struct SourcePlace {
    std::string file;   ///< "gemm_tiled.cu"
    int line = 0;       ///< from 1; 0: not known
    std::string inner;  ///< where in a header, when it is in one: "kiln/reduce.h:88"; else empty

    std::string text() const;  ///< "gemm_tiled.cu:41", "gemm_tiled.cu:41 (kiln/reduce.h:88)"
    auto operator<=>(const SourcePlace&) const = default;
};

/// Why places of host kernels cannot be read on this machine: every place is empty then. Empty: they can.
std::string source_lines_problem();

/// A variable that the kernel declared __shared__.
struct SharedVariable {
    std::string name;              ///< as in the template: "tile"
    std::uint64_t address = 0;     ///< of its first byte, on the host
    std::uint64_t size_bytes = 0;  ///< all of it
    std::uint64_t offset =
        0;  ///< in the thread-local storage of the shared object, as its debug information has it
};

/// Memory from `address` on.
struct MemoryRange {
    std::uint64_t address = 0;     ///< of the first byte
    std::uint64_t size_bytes = 0;  ///< from there on
    std::string name;              ///< of the tensor or constant that lies there; may be empty
    bool read_only = false;        ///< an input or a constant: a kernel that writes there is wrong
};

/// What is launched, and where its memory is. Addresses are those of this process.
struct ObservedLaunch {
    Binary binary;                             ///< with debug information
    Dim3 grid;                                 ///< blocks
    Dim3 block;                                ///< threads of a block
    std::size_t dynamic_shared_bytes = 0;      ///< per block
    std::uint64_t dynamic_shared_address = 0;  ///< 0: there is none
    std::vector<SharedVariable> shared;        ///< static
    /// Within these bytes before and behind each shared variable, and dynamic shared memory, lies nothing else
    /// that a kernel may access: an access there is out of bounds.
    std::uint64_t shared_gap_bytes = 16 * 1024;
    /// The kernel's own data: variables of the module. Accesses to it do not count. Those that are read-only are its
    /// __constant__ variables, and may lie in others.
    std::vector<MemoryRange> own;
    /// Global memory, to the byte: what else the kernel may access. The device does not know it and leaves it
    /// empty, for whoever knows the tensors to fill in; then all that is neither shared nor its own is global.
    std::vector<MemoryRange> global;
};

/// An index beyond the extent of the array that it is for, whatever lies there.
struct ObservedBadIndex {
    std::string file;        ///< as `#line` names it: "gemm_tiled.cu", "kiln/reduce.h"
    int line = 0;            ///< from 1
    std::string array_type;  ///< "float [64]"
    std::int64_t index = 0;  ///< that the kernel used
};

/// Notified of a launch from one thread, in an order in which it happened. A thread of the block is named by its
/// linear number, x fastest. Calls must not throw. They come on the OS thread's own stack.
class AccessObserver {
  public:
    virtual ~AccessObserver() = default;

    /// Before the first block.
    virtual void begin_launch(const ObservedLaunch& launch) = 0;
    /// False: this block is not run.
    virtual bool begin_block(Dim3 index) = 0;
    /// The block seems to wait for one that was not run, or for a thread of its own: for a second of processor time its
    /// threads read a few places each, of which may_change(), again and again and did nothing else. It is ended;
    /// end_block() follows.
    virtual void waits_for_block() {}
    /// Whether another thread may write there while a block runs. Not to an input or a constant: who reads one again and
    /// again does not wait. Asked often, behind accesses().
    virtual bool may_change(std::uint64_t /*address*/) const { return true; }
    /// What a thread has accessed since the last report, in its order. Accesses to the kernel's own data may be
    /// among them (ObservedLaunch::own).
    virtual void accesses(unsigned thread, std::span<const ObservedAccess> accesses) = 0;
    /// A thread used an index that its array does not have.
    virtual void bad_index(unsigned thread, const ObservedBadIndex& what) = 0;

    // What orders threads. Accesses made before were told before.

    /// All these meet: what any of them did before comes before what any of them does after.
    /// whole_block: __syncthreads; else a warp's __syncwarp.
    virtual void meeting(std::span<const unsigned> threads, bool whole_block) = 0;
    /// These lanes of a warp exchange registers by a shuffle or a vote. They wait for each other, but it orders no access to
    /// memory ("These intrinsics do not imply a memory barrier", says CUDA's programming guide of both).
    virtual void exchange(std::span<const unsigned> /*threads*/) {}
    /// What the thread did so far comes before what others do after they acquire the same object: arriving at a
    /// named barrier or an mbarrier.
    virtual void release(unsigned thread, std::uint64_t object) = 0;
    /// The thread waited for the object, and what was released to it before has happened.
    virtual void acquire(unsigned thread, std::uint64_t object) = 0;

    /// All threads of the block have ended.
    virtual void end_block() = 0;
    /// After the last block.
    virtual void end_launch() = 0;
};

}  // namespace KILN_ABI
}  // namespace kiln
