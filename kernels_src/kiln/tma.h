// SPDX-License-Identifier: Apache-2.0
//
// Hopper's asynchronous copies (sm_90 and newer; the host emulates them): a barrier in shared memory counts
// arrivals and bytes, and the tensor memory accelerator moves boxes of tensors between global and shared
// memory. Offered:
//   kiln::Barrier, barrier_init, barrier_arrive, barrier_arrive_and_expect_tx, barrier_wait
//                                                         the mbarrier, waited for by the parity of its phase
//   kiln::MbarrierPipeline                                the full and empty mbarriers of a pipeline's stages
//   kiln::tma_load, tma_load_multicast, tma_prefetch      box -> shared memory, announced at a Barrier
//   kiln::TmaStores                                       shared memory -> box, in groups of one thread
//   kiln::fence_async_proxy                               before TMA or wgmma read what threads wrote
//   kiln::barrier_arrive_cluster                          at a barrier of another block of the cluster (kiln/cluster.h)
//   kiln::swizzled                                        where the accelerator puts a byte
// Coordinates and extents come outermost first, as in the template's `//@ tensormap` line. A box that reaches
// past its tensor is zero there when loaded, and not written there when stored.
// What the host does differently, and which mistakes that shows, is told in kiln/host_tma.h.
#pragma once

#include "kiln/cluster.h"
#include "kiln/pipeline.h"
#include "kiln/tile_layout.h"

namespace kiln {

/// An mbarrier, in shared memory. Its phases are numbered from 0; a phase ends when all arrivals it was made
/// for have come and all bytes announced with them have landed.
struct Barrier {
    unsigned long long word;
};

/// The place of a byte in a tile of rows of 128 bytes that starts at a multiple of 1024 bytes and was
/// moved with a swizzle of 128 bytes: 16-byte pieces are permuted within each row, differently in each of 8
/// rows.
__host__ __device__ __forceinline__ constexpr unsigned swizzled(unsigned row, unsigned byte) {
    return TileLayout<128, 0, Swizzle<16, 1, 8>>::at(row, byte);
}

}  // namespace kiln

#if !defined(__CUDACC_RTC__) && !defined(__CUDACC__)
#include "kiln/host_tma.h"
#else

namespace kiln {

/// By one thread, before all use: each phase takes `arrivals` of them. Others may use it after
/// barrier_init_fence and a barrier of the block (cluster_sync_relaxed where other blocks of the cluster use it).
__device__ __forceinline__ void barrier_init(Barrier* barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :
                 : "r"(shared_address(barrier)), "r"(arrivals)
                 : "memory");
}
/// By the thread that initialised, after the last one: the accelerator and other blocks see them, too.
__device__ __forceinline__ void barrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}
__device__ __forceinline__ void barrier_arrive(Barrier* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(shared_address(barrier)) : "memory");
}
/// Arrives at the same barrier of block `rank` of the cluster. It says that matrix instructions have read a stage. It
/// does not make what this thread wrote visible there: that would take a fence of all memory, some 0.5 us on an H200.
__device__ __forceinline__ void barrier_arrive_cluster(Barrier* barrier, unsigned rank) {
    asm volatile(
        "{\n.reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}"
        :
        : "r"(shared_address(barrier)), "r"(rank)
        : "memory");
}
/// Arrives, and adds `bytes`, 2^20 - 1 at most, to the transaction count that the phase waits for.
__device__ __forceinline__ void barrier_arrive_and_expect_tx(Barrier* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}
/// Waits for the end of the current phase if that has this parity (phase % 2), and else not at all. So a wait with
/// parity 1 returns at once when the barrier is new.
__device__ __forceinline__ void barrier_wait(Barrier* barrier, unsigned parity) {
    unsigned done;
    do {
        asm volatile(
            "{\n.reg .pred done;\n"
            "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
            "selp.b32 %0, 1, 0, done;\n}"
            : "=r"(done)
            : "r"(shared_address(barrier)), "r"(parity)
            : "memory");
    } while (done == 0);
}

/// What this thread wrote to shared memory is seen by TMA and wgmma instructions that are issued after a
/// barrier with it.
__device__ __forceinline__ void fence_async_proxy() {
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

/// Fetches the map itself, so that its first use need not.
__device__ __forceinline__ void tma_prefetch(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" : : "l"(&map) : "memory");
}

/// Starts to fill `to`, which has the size of the map's box and starts at a multiple of 128 bytes (1024 with
/// a swizzle of 128). The bytes of the whole box land at the barrier, of whichever part of it lies outside
/// the tensor too. By one thread.
__device__ __forceinline__ void tma_load(void* to, const TensorMap& map, Barrier* barrier, int row,
                                         int column) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
        "[%2];"
        :
        : "r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), "r"(column), "r"(row)
        : "memory");
}
__device__ __forceinline__ void tma_load(void* to, const TensorMap& map, Barrier* barrier, int slice, int row,
                                         int column) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, "
        "%5}], [%2];"
        :
        : "r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), "r"(column), "r"(row), "r"(slice)
        : "memory");
}
/// The same for each block of the cluster whose bit is set in `blocks`: at the same place, announced at the
/// same barrier of each.
__device__ __forceinline__ void tma_load_multicast(void* to, const TensorMap& map, Barrier* barrier,
                                                   unsigned short blocks, int row, int column) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%4, %5}], [%2], %3;"
        :
        : "r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), "h"(blocks), "r"(column), "r"(row)
        : "memory");
}

/// The boxes that one thread stores; a thread has one of these. Stores make up groups that end with commit().
class TmaStores {
  public:
    /// Starts to write `from` into the tensor. Threads that filled it called fence_async_proxy and met this
    /// one before.
    __device__ __forceinline__ void store(const TensorMap& map, const void* from, int row, int column) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
                     :
                     : "l"(&map), "r"(shared_address(from)), "r"(column), "r"(row)
                     : "memory");
    }
    __device__ __forceinline__ void commit() { asm volatile("cp.async.bulk.commit_group;" : : : "memory"); }
    /// Until at most PENDING groups have not been read from shared memory, which may then be written again.
    /// With PENDING = 0 before the thread ends.
    template <int PENDING>
    __device__ __forceinline__ void wait_read() {
        asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(PENDING) : "memory");
    }
    /// Until at most PENDING groups have not been written to global memory.
    template <int PENDING>
    __device__ __forceinline__ void wait() {
        asm volatile("cp.async.bulk.wait_group %0;" : : "n"(PENDING) : "memory");
    }
};

}  // namespace kiln

#endif

namespace kiln {

/// The mbarriers of a pipeline of STAGES stages in shared memory. full: a stage has been filled; empty: all that
/// multiply out of it have read it. Producers and consumers have a PipelineState each, and take the same stages.
template <unsigned STAGES>
struct MbarrierPipeline {
    using State = PipelineState<STAGES>;

    Barrier* full;   ///< STAGES of them
    Barrier* empty;  ///< and of these

    /// By one thread, before barrier_init_fence and a barrier of all who use them.
    __device__ __forceinline__ void init_stage(unsigned stage, unsigned producers, unsigned consumers) const {
        barrier_init(&full[stage], producers);
        barrier_init(&empty[stage], consumers);
    }
    /// Until the stage may be filled. In the first round that is at once.
    __device__ __forceinline__ void producer_acquire(const State& state) const {
        barrier_wait(&empty[state.index], state.phase ^ 1u);
    }
    /// Until the stage has been filled.
    __device__ __forceinline__ void consumer_wait(const State& state) const {
        barrier_wait(&full[state.index], state.phase);
    }
    /// By all lanes of a warp that has read the stage. Where BLOCKS blocks of a cluster fill each other's stages, it
    /// arrives in all of them.
    template <unsigned BLOCKS = 1>
    __device__ __forceinline__ void consumer_release(unsigned stage, unsigned lane) const {
        if (lane >= BLOCKS) return;
        if constexpr (BLOCKS > 1)
            barrier_arrive_cluster(&empty[stage], lane);
        else
            barrier_arrive(&empty[stage]);
    }
};

}  // namespace kiln
