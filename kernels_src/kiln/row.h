// SPDX-License-Identifier: Apache-2.0
//
// Rows of a matrix in registers, for kernels that need each element more than once (norms, softmax):
//   kiln::RowPlace     which row a thread works on, and which of the row's threads it is
//   kiln::Row          one row, held by its threads as it was read: ITEMS + STASH accesses of VEC elements each, rows of
//                      up to kCapacity elements. Neighbouring threads hold neighbouring vectors: ITEMS each in registers,
//                      STASH each in shared memory, where no other thread sees them. With ANY rows may begin at any
//                      element: their vectors are those of the memory, and the first and the last one are cut
//   kiln::row_reduce   a value of each of a row's threads, reduced
// A block of THREADS x ROWS threads has ROWS rows; a thread's place in its row is threadIdx.x, and the row's in its block
// threadIdx.y. Or a row has the THREADS threads of each of BLOCKS blocks, which are a cluster; ROWS is then 1.
#pragma once

#include "kiln/async.h"
#include "kiln/cluster.h"
#include "kiln/reduce.h"

namespace kiln {

template <int THREADS, int ROWS, int BLOCKS = 1>
struct RowPlace {
    /// That share a row. Where there are no clusters the first of them has it, and the others nothing to do.
    static constexpr int kBlocks = kHasClusters ? BLOCKS : 1;
    static constexpr int kThreads = THREADS * kBlocks;  ///< of a row
    static_assert(BLOCKS == 1 || ROWS == 1, "a cluster has one row");

    static __device__ __forceinline__ bool is_idle() { return BLOCKS > kBlocks && blockIdx.x % BLOCKS != 0; }
    static __device__ __forceinline__ i64 row() {
        return static_cast<i64>(blockIdx.x / BLOCKS) * ROWS + threadIdx.y;
    }
    static __device__ __forceinline__ int rank() {
        return kBlocks > 1 ? static_cast<int>(blockIdx.x % BLOCKS) : 0;
    }
    static __device__ __forceinline__ int thread() {
        return rank() * THREADS + static_cast<int>(threadIdx.x);
    }

    /// Before the first row_reduce, best after the row's loads: its other blocks have started.
    static __device__ __forceinline__ void wait_for_blocks() {
        if constexpr (kBlocks > 1) cluster_sync_relaxed();
    }
};

/// BLOCKS: RowPlace's kBlocks.
template <class T, int THREADS, int VEC, int ITEMS, int STASH = 0, int BLOCKS = 1, bool ANY = false>
struct Row {
    static constexpr int kThreads = THREADS * BLOCKS;
    static constexpr int kCapacity = kThreads * VEC * (ITEMS + STASH) - (ANY ? VEC - 1 : 0);
    static_assert(STASH == 0 || VEC * sizeof(T) >= 4, "copies to shared memory have 4 bytes and more");

    Vec<T, VEC> values[ITEMS];
    Vec<T, VEC>* stash = nullptr;  ///< of this thread: its vectors are THREADS apart
    int shift = 0;                 ///< elements of the first vector that lie before the row

    /// memory: for this row, THREADS * STASH vectors of shared memory.
    __device__ __forceinline__ void set_stash(void* memory) {
        stash = static_cast<Vec<T, VEC>*>(memory) + threadIdx.x;
    }

    /// Whether a row of `cols` elements fits, and all rows of a matrix that begins there can be read in
    /// vectors.
    static __device__ __forceinline__ bool fits(const void* matrix, i64 cols) {
        return cols <= kCapacity &&
               (ANY || (cols % VEC == 0 && reinterpret_cast<u64>(matrix) % (VEC * sizeof(T)) == 0));
    }
    /// Whether rows of both, of the same number, are cut into vectors at the same columns.
    static __device__ __forceinline__ bool alike(const void* matrix, const void* other) {
        return !ANY ||
               (reinterpret_cast<u64>(matrix) - reinterpret_cast<u64>(other)) % (VEC * sizeof(T)) == 0;
    }

    /// The first column of a vector of this thread; with ANY it may be before the row.
    __device__ __forceinline__ int column(int item) const {
        const int first = (item * kThreads + RowPlace<THREADS, 1, BLOCKS>::thread()) * VEC;
        return ANY ? first - shift : first;
    }

    /// Calls each(v) for each element v of a vector that begins at this column, as far as the row has it.
    template <class Each>
    static __device__ __forceinline__ void each_of(int column, int cols, Each each) {
        if (!ANY || (column >= 0 && column + VEC <= cols)) {
#pragma unroll
            for (int v = 0; v < VEC; ++v) each(v);
        } else {
#pragma unroll
            for (int v = 0; v < VEC; ++v)
                if (static_cast<unsigned>(column + v) < static_cast<unsigned>(cols)) each(v);
        }
    }
    /// Such a vector of a row that begins there, zeros where the row has nothing.
    static __device__ __forceinline__ Vec<T, VEC> load_at(const T* __restrict__ row, int column, int cols) {
        if (!ANY || (column >= 0 && column + VEC <= cols)) return kiln::load<VEC>(row + column);
        return load_elements(row, column, cols);
    }
    /// The same of what all rows share, which is cut elsewhere.
    static __device__ __forceinline__ Vec<T, VEC> load_shared(const T* __restrict__ row, int column,
                                                              int cols) {
        if constexpr (!ANY) return kiln::load<VEC>(row + column);
        return load_elements(row, column, cols);
    }
    static __device__ __forceinline__ void store_at(T* __restrict__ row, int column, int cols,
                                                    const Vec<T, VEC>& vector) {
        if constexpr (!ANY)
            store(row + column, vector);
        else if (column >= 0 && column + VEC <= cols)
            store_whole(row + column, vector);
        else
            each_of(column, cols, [&](int v) { row[column + v] = vector[v]; });
    }

    /// Reads a row; elements that it does not have are left as they were.
    __device__ __forceinline__ void load(const T* __restrict__ row, int cols) {
        if constexpr (ANY) shift = static_cast<int>(reinterpret_cast<u64>(row) / sizeof(T) % VEC);
        if constexpr (STASH > 0) {
            AsyncCopies<STASH> copies;
#pragma unroll
            for (int item = 0; item < STASH; ++item) {
                const int col = column(ITEMS + item);  // not before the row: registers have its beginning
                if (col >= cols) continue;
                if constexpr (ANY)
                    copies.template copy<VEC>(stash[item * THREADS].v, row + col, kiln::min(cols - col, VEC));
                else
                    copies.template copy<VEC>(stash[item * THREADS].v, row + col);
            }
            copies.commit();
            load_registers(row, cols);
            copies.template wait<0>();
        } else {
            load_registers(row, cols);
        }
    }

    /// Calls visit(value, item, element) for each element of this thread that the row has.
    template <class Visit>
    __device__ __forceinline__ void visit(int cols, Visit visit) const {
#pragma unroll
        for (int item = 0; item < ITEMS; ++item) {
            if (column(item) >= cols) continue;
            each_of(column(item), cols, [&](int v) { visit(static_cast<float>(values[item][v]), item, v); });
        }
#pragma unroll
        for (int item = ITEMS; item < ITEMS + STASH; ++item) {
            if (column(item) >= cols) continue;
            const auto some = stash[(item - ITEMS) * THREADS];
            each_of(column(item), cols, [&](int v) { visit(static_cast<float>(some[v]), item, v); });
        }
    }

    /// Between two passes over a long row: its elements are then converted to float again, instead of staying in
    /// registers twice.
    __device__ __forceinline__ void reread() {
#if defined(__CUDA_ARCH__)
        if constexpr (VEC * ITEMS > 16 && VEC * sizeof(T) % 4 == 0 && sizeof(T) < 4) {
            using Words = Vec<unsigned, static_cast<int>(VEC * sizeof(T)) / 4>;
#pragma unroll
            for (int item = 0; item < ITEMS; ++item) {
                Words words;
                memcpy(&words, &values[item], sizeof(words));
#pragma unroll
                for (int i = 0; i < static_cast<int>(VEC * sizeof(T)) / 4; ++i)
                    asm volatile("" : "+r"(words[i]));
                memcpy(&values[item], &words, sizeof(words));
            }
        }
#endif
    }

    /// Writes result(value, item, element) for each element, rounded to the row's type; before(item, column) is
    /// called before those of an access.
    template <class Before, class Result>
    __device__ __forceinline__ void write(T* __restrict__ row, int cols, Before before, Result result) const {
#pragma unroll
        for (int item = 0; item < ITEMS + STASH; ++item) {
            if (column(item) >= cols) continue;
            before(item, column(item));
            const Vec<T, VEC> some =
                item < ITEMS ? values[item < ITEMS ? item : 0] : stash[(item - ITEMS) * THREADS];
            Vec<T, VEC> written = {};
            each_of(column(item), cols,
                    [&](int v) { written[v] = T(result(static_cast<float>(some[v]), item, v)); });
            store_at(row, column(item), cols, written);
        }
    }

    /// What all rows share, such as weights. Where that takes few registers it is read at once, while the row is under way,
    /// else when it is used.
    class Shared {
      public:
        __device__ __forceinline__ Shared(const T* __restrict__ from, int cols) : from_(from), cols_(cols) {
            if constexpr (kIsEarly) {
#pragma unroll
                for (int item = 0; item < ITEMS; ++item) {
                    const int col = (item * kThreads + RowPlace<THREADS, 1, BLOCKS>::thread()) * VEC;
                    if (col < cols) values_[item] = load_shared(from, col, cols);
                }
            }
        }
        /// Of an access of the row.
        __device__ __forceinline__ Vec<T, VEC> at(int item, int column) const {
            if constexpr (kIsEarly) return values_[item];
            return load_shared(from_, column, cols_);
        }

      private:
        static constexpr bool kIsEarly = VEC * ITEMS * sizeof(T) <= 32 && STASH == 0 && !ANY;

        const T* const from_;
        const int cols_;
        Vec<T, VEC> values_[kIsEarly ? ITEMS : 1];
    };

  private:
    __device__ __forceinline__ void load_registers(const T* __restrict__ row, int cols) {
#pragma unroll
        for (int item = 0; item < ITEMS; ++item) {
            if (column(item) < cols) values[item] = load_at(row, column(item), cols);
        }
    }
    /// One access. The compiler would else join it with the stores of its elements in the other branch, and store elements in
    /// both.
    static __device__ __forceinline__ void store_whole(T* to, const Vec<T, VEC>& vector) {
#if defined(__CUDA_ARCH__)
        constexpr int kWords = static_cast<int>(VEC * sizeof(T)) / 4;
        if constexpr (kWords > 0) {
            Vec<unsigned, kWords> words;
            memcpy(&words, &vector, sizeof(words));
            if constexpr (kWords == 4)
                asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words[0]),
                             "r"(words[1]), "r"(words[2]), "r"(words[3])
                             : "memory");
            else if constexpr (kWords == 2)
                asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(words[0]), "r"(words[1])
                             : "memory");
            else
                asm volatile("st.global.b32 [%0], %1;" ::"l"(to), "r"(words[0]) : "memory");
            return;
        }
#endif
        store(to, vector);
    }
    static __device__ __forceinline__ Vec<T, VEC> load_elements(const T* __restrict__ row, int column,
                                                                int cols) {
        Vec<T, VEC> vector = {};
        each_of(column, cols, [&](int v) { vector[v] = row[column + v]; });
        return vector;
    }
};

/// Shared memory for a row_reduce, in values.
template <int THREADS, int ROWS, int BLOCKS = 1>
constexpr int kRowParts = THREADS > kWarpSize ? ROWS* BLOCKS* warps_of(THREADS) : BLOCKS;

/// Reduces the values of the threads of each row; all of them get their row's result, the same bits. Rows of up to a
/// warp need neither shared memory nor a barrier. `parts`, of kRowParts values, must be free when the last
/// thread of the block (of any block of the cluster) enters, and is so again after the next barrier: two calls one after the
/// other need two of them. THREADS: a power of two. op: see kiln/reduce.h.
template <int THREADS, int ROWS, int BLOCKS = 1, class T, class Op>
__device__ __forceinline__ T row_reduce(T value, Op op, T* parts) {
    static_assert((THREADS & (THREADS - 1)) == 0, "a row has a power of two of threads");
    value = warp_reduce<(THREADS < kWarpSize ? THREADS : kWarpSize)>(value, op);
    const int thread = static_cast<int>(threadIdx.x);
    if constexpr (BLOCKS > 1) {
        static_assert(THREADS >= kWarpSize && BLOCKS <= kWarpSize && (BLOCKS & (BLOCKS - 1)) == 0,
                      "blocks of whole warps, a power of two of them");
        // A lane of each warp for each block: the warp's part goes to all of them.
        constexpr int kWarps = warps_of(THREADS), kParts = kWarps * BLOCKS;
        const int lane = thread % kWarpSize;
        const int rank = RowPlace<THREADS, ROWS, BLOCKS>::rank();
        if (lane < BLOCKS)
            store_shared_cluster(parts + rank * kWarps + thread / kWarpSize, value,
                                 static_cast<unsigned>(lane));
        cluster_sync();
        value = parts[lane % kParts];
#pragma unroll
        for (int i = kWarpSize; i < kParts; i += kWarpSize) value = op(value, parts[i + lane]);
        value = warp_reduce<(kParts < kWarpSize ? kParts : kWarpSize)>(value, op);
    } else if constexpr (THREADS > kWarpSize) {
        constexpr int kWarps = warps_of(THREADS);
        T* const mine = parts + static_cast<int>(threadIdx.y) * kWarps;
        if (thread % kWarpSize == 0) mine[thread / kWarpSize] = value;
        __syncthreads();
        // Each warp reduces the parts for itself, which saves a barrier.
        value = warp_reduce<kWarps>(mine[thread % kWarps], op);
    }
    return value;
}

}  // namespace kiln
