// cute_gemm: C = A * B on tensor cores, by CuTe of NVIDIA's CUTLASS
// SPDX-License-Identifier: Apache-2.0
//
// CUTLASS is a library of headers that belongs to no toolkit: clone it, or unpack the Python package nvidia-cutlass, and
// name its directory: `kiln build cute_gemm --include-dir cutlass/include`. The template is written as CuTe's users write
// theirs, with the parameters where they have constants.
//
// A block computes BM x BN results by four warps. STAGES tiles of A and B lie in shared memory, swizzled, and are filled
// by cp.async, with zeros beyond the matrices; ldmatrix takes them to registers, B transposed. Accumulators are FP32.
//
//@ kernel  cute_gemm
//@ param   BM      int in 64, 128 = 128       "rows of C per block"
//@ param   BN      int in 64, 128, 256 = 128  "columns of C per block"
//@ param   BK      int in 32, 64 = 32         "steps of k per tile"
//@ param   STAGES  int in 2, 3, 4 = 3         "tiles in shared memory"
//@ require BM * BN <= 128 * 128               "four warps lack the registers for more results"
//@ backend cuda
//@ arch    sm_80+
//@ option  "--device-as-default-execution-space"
//@ size    m = 4096 test 333
//@ size    n = 4096 test 200 multiple 8
//@ size    k = 4096 test 136 multiple 8
//@ input   a [m, k] align 16
//@ input   b [k, n] align 16
//@ output  c [m, n] by gemm_reference
//@ flops   2 * m * n * k
//@ naive   gemm_naive
//@ block   128
//@ grid    ceil_div(n, BN), ceil_div(m, BM)
//@ shared  STAGES * (BM + BN) * BK * 2
//@ model   engine mma
//@ model   tile BM, BN, BK of m, n, k
//@ model   stages STAGES
//@ model   copies async
//@ model   search [BM, BN], [BK, STAGES]
#include <cuda_fp16.h>

#include <cute/tensor.hpp>

using namespace cute;

// Rows of A are stored along k, those of B along n. A row of a tile is 32 or 64 elements wide, which the swizzle permutes.
constexpr int kSwizzledA = BK == 64 ? 3 : 2;
using RowsOfA =
    decltype(composition(Swizzle<kSwizzledA, 3, 3>{}, Layout<Shape<_8, Int<BK>>, Stride<Int<BK>, _1>>{}));
using RowsOfB = decltype(composition(Swizzle<3, 3, 3>{}, Layout<Shape<_64, _8>, Stride<_1, _64>>{}));
using SharedA = decltype(tile_to_shape(RowsOfA{}, Shape<Int<BM>, Int<BK>, Int<STAGES>>{}));
using SharedB = decltype(tile_to_shape(RowsOfB{}, Shape<Int<BN>, Int<BK>, Int<STAGES>>{}));

// Each thread copies 16 bytes at a time.
using CopyAtom = Copy_Atom<SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>, half_t>;
using CopyA = decltype(make_tiled_copy(CopyAtom{},
                                       Layout<Shape<Int<1024 / BK>, Int<BK / 8>>, Stride<Int<BK / 8>, _1>>{},
                                       Layout<Shape<_1, _8>>{}));
using CopyB = decltype(make_tiled_copy(CopyAtom{}, Layout<Shape<_8, _16>>{}, Layout<Shape<_8, _1>>{}));
using Mma = TiledMMA<MMA_Atom<SM80_16x8x16_F32F16F16F32_TN>, Layout<Shape<_2, _2, _1>>, Tile<_32, _32, _16>>;

// Copies one tile from global to shared memory; `where` has the coordinates of its elements, of which those outside
// `extents` become 0.
template <class From, class To, class Where, class Extents>
__device__ void copy_tile(const From& from, To&& to, const Where& where, const Extents& extents) {
    CUTE_UNROLL
    for (int i = 0; i < size<1>(from); ++i) {
        CUTE_UNROLL
        for (int j = 0; j < size<2>(from); ++j)
            copy(CopyAtom{}.with(elem_less(where(_0{}, i, j), extents)), from(_, i, j), to(_, i, j));
    }
}

extern "C" __global__ __launch_bounds__(128) void cute_gemm(int m, int n, int k, const half* __restrict__ a,
                                                            const half* __restrict__ b,
                                                            float* __restrict__ c) {
    extern __shared__ __align__(128) unsigned char memory[];
    half_t* const shared = reinterpret_cast<half_t*>(memory);
    const Tensor shared_a = make_tensor(make_smem_ptr(shared), SharedA{});
    const Tensor shared_b = make_tensor(make_smem_ptr(shared + cosize(SharedA{})), SharedB{});

    // CuTe's B is n x k, whatever is stored along rows. Strides have 64 bits, since offsets need them.
    const int64_t row_of_a = k, row_of_b = n;
    const Tensor all_a = make_tensor(make_gmem_ptr(reinterpret_cast<const half_t*>(a)), make_shape(m, k),
                                     make_stride(row_of_a, _1{}));
    const Tensor all_b = make_tensor(make_gmem_ptr(reinterpret_cast<const half_t*>(b)), make_shape(n, k),
                                     make_stride(_1{}, row_of_b));
    const Tensor all_c = make_tensor(make_gmem_ptr(c), make_shape(m, n), make_stride(row_of_b, _1{}));
    const auto tile_a = Shape<Int<BM>, Int<BK>>{};
    const auto tile_b = Shape<Int<BN>, Int<BK>>{};
    const auto tile_c = Shape<Int<BM>, Int<BN>>{};
    const auto place_a = make_coord(blockIdx.y, _), place_b = make_coord(blockIdx.x, _);
    const auto place_c = make_coord(blockIdx.y, blockIdx.x);

    // This thread's part of the copies: (elements of an access, accesses along the tile, along k, tiles).
    const auto copy_a = CopyA{}.get_slice(threadIdx.x);
    const auto copy_b = CopyB{}.get_slice(threadIdx.x);
    const Tensor from_a = copy_a.partition_S(local_tile(all_a, tile_a, place_a));
    const Tensor from_b = copy_b.partition_S(local_tile(all_b, tile_b, place_b));
    const Tensor where_a =
        copy_a.partition_S(local_tile(make_identity_tensor(shape(all_a)), tile_a, place_a));
    const Tensor where_b =
        copy_b.partition_S(local_tile(make_identity_tensor(shape(all_b)), tile_b, place_b));
    Tensor to_a = copy_a.partition_D(shared_a);
    Tensor to_b = copy_b.partition_D(shared_b);
    const int tiles = ceil_div(k, BK);
    const auto fetch = [&](int tile) {
        if (tile < tiles) {
            const int stage = tile % STAGES;
            copy_tile(from_a(_, _, _, tile), to_a(_, _, _, stage), where_a(_, _, _, tile), shape(all_a));
            copy_tile(from_b(_, _, _, tile), to_b(_, _, _, stage), where_b(_, _, _, tile), shape(all_b));
        }
        cp_async_fence();  // also where nothing is fetched, so that the number of groups in flight is the same
    };

    // Fragments of the matrix instruction, and what ldmatrix fills of them.
    Mma mma;
    const auto mine = mma.get_slice(threadIdx.x);
    Tensor fragment_a = mine.partition_fragment_A(shared_a(_, _, 0));
    Tensor fragment_b = mine.partition_fragment_B(shared_b(_, _, 0));
    Tensor part_c = mine.partition_C(local_tile(all_c, tile_c, place_c));
    const Tensor where_c = mine.partition_C(local_tile(make_identity_tensor(shape(all_c)), tile_c, place_c));
    Tensor sums = mine.make_fragment_C(part_c);
    clear(sums);
    const auto load_a = make_tiled_copy_A(Copy_Atom<SM75_U32x4_LDSM_N, half_t>{}, mma);
    const auto load_b = make_tiled_copy_B(Copy_Atom<SM75_U16x8_LDSM_T, half_t>{}, mma);
    const auto load_mine_a = load_a.get_slice(threadIdx.x);
    const auto load_mine_b = load_b.get_slice(threadIdx.x);
    const Tensor loads_a = load_mine_a.partition_S(shared_a);
    const Tensor loads_b = load_mine_b.partition_S(shared_b);
    Tensor loaded_a = load_mine_a.retile_D(fragment_a);
    Tensor loaded_b = load_mine_b.retile_D(fragment_b);

    for (int tile = 0; tile < STAGES - 1; ++tile) fetch(tile);
    for (int tile = 0; tile < tiles; ++tile) {
        cp_async_wait<STAGES - 2>();
        __syncthreads();  // this tile is there for all threads, and the stage of the one before is free
        fetch(tile + STAGES - 1);
        const int stage = tile % STAGES;
        CUTE_UNROLL
        for (int step = 0; step < size<2>(fragment_a); ++step) {
            copy(load_a, loads_a(_, _, step, stage), loaded_a(_, _, step));
            copy(load_b, loads_b(_, _, step, stage), loaded_b(_, _, step));
            gemm(mma, fragment_a(_, _, step), fragment_b(_, _, step), sums);
        }
    }
    CUTE_UNROLL
    for (int i = 0; i < size(sums); ++i)
        if (elem_less(where_c(i), shape(all_c))) part_c(i) = sums(i);
}
