// SPDX-License-Identifier: Apache-2.0
//
// Blocks of a cluster, which run at the same time and reach each other's shared memory (sm_90 and newer):
//   kiln::kHasClusters                           blocks run in the clusters that they are launched in
//   kiln::cluster_rank                           the rank of the block in its cluster
//   kiln::cluster_sync, cluster_sync_relaxed     barriers of all threads of the cluster
//   kiln::load_shared_cluster                    reads the shared memory of another block
//   kiln::store_shared_cluster                   writes it
// A template says how many there are by a line `//@ cluster BLOCKS`, and that it needs them by
// `//@ require BLOCKS <= device.blocks_per_cluster`. On the host and with HIP each block is a cluster of its own.
#pragma once

#include "kiln/device.h"

namespace kiln {

#if defined(__CUDACC_RTC__) || defined(__CUDACC__)

/// Blocks run in the clusters that they are launched in. Not on the host, where each is its own cluster.
constexpr bool kHasClusters = true;

/// The rank of the block in its cluster, and barriers of all threads of the cluster; a thread that has exited counts
/// as arrived. cluster_sync_relaxed does not make what threads wrote before it visible to the others.
__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" : : : "memory");
}

__device__ __forceinline__ void cluster_sync_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;" : : : "memory");
}

/// Loads from the same address in the shared memory of block `rank` of the cluster, which must not have exited.
__device__ __forceinline__ Vec<float, 4> load_shared_cluster(const Vec<float, 4>* shared, unsigned rank) {
    Vec<float, 4> result;
    asm volatile(
        "{\n.reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %4, %5;\n"
        "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [remote];\n}"
        : "=f"(result[0]), "=f"(result[1]), "=f"(result[2]), "=f"(result[3])
        : "r"(shared_address(shared)), "r"(rank)
        : "memory");
    return result;
}

/// Stores a value of 4 or 8 bytes at the same address in the shared memory of block `rank` of the cluster. That block must
/// have started, which a barrier of the cluster shows, and must not have exited.
template <class T>
__device__ __forceinline__ void store_shared_cluster(T* shared, T value, unsigned rank) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a value has 4 or 8 bytes");
    unsigned words[sizeof(T) / 4];
    memcpy(words, &value, sizeof(T));
    unsigned remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(remote)
                 : "r"(shared_address(shared)), "r"(rank));
    if constexpr (sizeof(T) == 4)
        asm volatile("st.shared::cluster.u32 [%0], %1;" : : "r"(remote), "r"(words[0]) : "memory");
    else
        asm volatile("st.shared::cluster.v2.u32 [%0], {%1, %2};"
                     :
                     : "r"(remote), "r"(words[0]), "r"(words[sizeof(T) / 4 - 1])
                     : "memory");
}

#else

constexpr bool kHasClusters = false;

__device__ __forceinline__ unsigned cluster_rank() { return 0; }
__device__ __forceinline__ void cluster_sync() { __syncthreads(); }
__device__ __forceinline__ void cluster_sync_relaxed() { __syncthreads(); }
template <class T>
__device__ __forceinline__ T load_shared_cluster(const T* shared, [[maybe_unused]] unsigned rank) {
#if !defined(__HIPCC_RTC__) && !defined(__HIPCC__)
    if (rank != 0) kiln_host::trap("load_shared_cluster names a block outside of the cluster");
#endif
    return *shared;
}
template <class T>
__device__ __forceinline__ void store_shared_cluster(T* shared, T value, [[maybe_unused]] unsigned rank) {
#if !defined(__HIPCC_RTC__) && !defined(__HIPCC__)
    if (rank != 0) kiln_host::trap("store_shared_cluster names a block outside of the cluster");
#endif
    *shared = value;
}

#endif

}  // namespace kiln
