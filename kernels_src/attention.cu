// attention: fused softmax(Q K^T / sqrt(HEAD_DIM)) V that never stores the scores; plain FMA, for every backend
//
// q and o are [batch, heads, queries, HEAD_DIM], k and v [batch, kv_heads, keys, HEAD_DIM], row-major from 16-byte
// aligned addresses; heads = kv_heads * group, and head h reads the keys of head h / group. CAUSAL aligns the
// last query with the last key: query i sees keys 0 to i + keys - queries. A query that sees none gives
// zeros. lse is ln(sum of e^score) of each query, -infinity for none: what it takes to merge with other keys.
//
// A block owns BM queries and walks over tiles of BN keys with an online softmax. 16 threads share a row:
// their scores lie 16 keys apart, their columns of o in groups of 4. The weights of a tile go through shared
// memory from and to the same warp. Rows are padded by 4 elements, one access, so that reads of 16 rows at
// once meet no bank twice.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  attention
//@ param   T        type in half, bfloat16, float = half  "element type of q, k, v and o; sums are float"
//@ param   HEAD_DIM int in 64, 128 = 64                   "elements of a query, key or value"
//@ param   CAUSAL   bool = false                          "queries see no keys behind them"
//@ param   BM       int in 32, 64, 128 = 64               "queries per block"
//@ param   BN       int in 32, 64 = 32                    "keys per tile"
//@ size    batch    = 4    test 2    "sequences"
//@ size    kv_heads = 16   test 2    "heads of k and v"
//@ size    group    = 1    test 3    "heads of q per head of k and v"
//@ size    queries  = 2048 test 37   "queries per sequence and head"
//@ size    keys     = 2048 test 71   "keys per sequence and head"
//@ input   q [batch, kv_heads * group, queries, HEAD_DIM] align 16
//@ input   k [batch, kv_heads, keys, HEAD_DIM] align 16
//@ input   v [batch, kv_heads, keys, HEAD_DIM] align 16
//@ output  o [batch, kv_heads * group, queries, HEAD_DIM] align 16 by attention_reference
//@ output  lse [batch, kv_heads * group, queries] by attention_lse_reference "ln of the sum of e^score"
//@ flops   4 * batch * kv_heads * group * HEAD_DIM * (CAUSAL ? min(queries, keys) * (min(queries, keys) + 1) / 2 + min(queries, keys) * (keys - min(queries, keys)) : queries * keys)
//@ naive   attention_naive
//@ block   16, 16
//@ grid    batch * kv_heads * group * ceil_div(queries, BM)
//@ shared  (BM + 2 * BN) * (HEAD_DIM + 4) * sizeof(T) + BM * (BN + 4) * sizeof(float)
//@ model   edge BM of queries
//@ model   search [BM, BN]
#include "kiln/reduce.h"
#include "kiln/softmax.h"

using kiln::i64;

constexpr int kThreads = 256;
constexpr int kLanes = 16;  // threads that share a row
constexpr int kVec = 4;     // elements per access
constexpr int kPitch = HEAD_DIM + kVec;
constexpr int kPitchP = BN + kVec;
constexpr int kRows = BM / kLanes;                   // of q, per thread
constexpr int kKeys = BN / kLanes;                   // per thread
constexpr int kGroups = HEAD_DIM / (kLanes * kVec);  // of kVec columns of o, per thread
constexpr float kScale = kiln::kScoreScale<HEAD_DIM>;

// Copies `rows` rows of a tile, and zeros for those up to ROWS.
template <int ROWS>
__device__ __forceinline__ void load_rows(T* tile, const T* __restrict__ source, int rows, int thread) {
    constexpr int kPerRow = HEAD_DIM / kVec;
#pragma unroll 4
    for (int i = thread; i < ROWS * kPerRow; i += kThreads) {
        const int row = i / kPerRow;
        const int col = i % kPerRow * kVec;
        kiln::Vec<T, kVec> values;
        if (row < rows) {
            values = kiln::load<kVec>(source + row * HEAD_DIM + col);
        } else {
#pragma unroll
            for (int j = 0; j < kVec; ++j) values[j] = T(0.0f);
        }
        kiln::store(tile + row * kPitch + col, values);
    }
}

__device__ __forceinline__ kiln::Vec<float, kVec> load_floats(const T* from) {
    const auto values = kiln::load<kVec>(from);
    kiln::Vec<float, kVec> result;
#pragma unroll
    for (int j = 0; j < kVec; ++j) result[j] = static_cast<float>(values[j]);
    return result;
}

extern "C" __global__ __launch_bounds__(kThreads,
                                        1) void attention(int batch, int kv_heads, int group, int queries,
                                                          int keys, const T* __restrict__ q,
                                                          const T* __restrict__ k, const T* __restrict__ v,
                                                          T* __restrict__ o, float* __restrict__ lse) {
    T* const tile_q = kiln::dynamic_shared<T>();
    T* const tile_k = tile_q + BM * kPitch;
    T* const tile_v = tile_k + BN * kPitch;
    float* const tile_p = reinterpret_cast<float*>(tile_v + BN * kPitch);

    // The last queries of a head see the most keys and go first.
    const unsigned tiles = (static_cast<unsigned>(queries) + BM - 1) / BM;
    const i64 head = blockIdx.x / tiles;
    const int first = static_cast<int>(tiles - 1 - blockIdx.x % tiles) * BM;
    const int rows = queries - first < BM ? queries - first : BM;
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int thread = y * kLanes + x;
    q += (head * queries + first) * HEAD_DIM;
    k += head / group * keys * HEAD_DIM;
    v += head / group * keys * HEAD_DIM;

    // Row r of the block sees this many keys, the first ones.
    const auto visible = [=](int r) {
        if (!CAUSAL) return keys;
        const int count = first + r + 1 + (keys - queries);
        return count < 0 ? 0 : count < keys ? count : keys;
    };

    float out[kRows][kGroups][kVec] = {};
    float sums[kRows] = {};
    kiln::OnlineSoftmax softmax[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) softmax[i] = kiln::OnlineSoftmax::none();

    load_rows<BM>(tile_q, q, rows, thread);
    const int end = visible(rows - 1);
    for (int begin = 0; begin < end; begin += BN) {
        __syncthreads();
        load_rows<BN>(tile_k, k + static_cast<i64>(begin) * HEAD_DIM, keys - begin, thread);
        load_rows<BN>(tile_v, v + static_cast<i64>(begin) * HEAD_DIM, keys - begin, thread);
        __syncthreads();

        float scores[kRows][kKeys] = {};
#pragma unroll 4
        for (int d = 0; d < HEAD_DIM; d += kVec) {
            kiln::Vec<float, kVec> q_values[kRows];
#pragma unroll
            for (int i = 0; i < kRows; ++i) q_values[i] = load_floats(tile_q + (y + i * kLanes) * kPitch + d);
#pragma unroll
            for (int j = 0; j < kKeys; ++j) {
                const auto k_values = load_floats(tile_k + (x + j * kLanes) * kPitch + d);
#pragma unroll
                for (int i = 0; i < kRows; ++i) {
#pragma unroll
                    for (int e = 0; e < kVec; ++e) scores[i][j] += q_values[i][e] * k_values[e];
                }
            }
        }

        const bool whole = begin + BN <= visible(0);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            const int row = y + i * kLanes;
            float largest = kiln::kMinusInfinity;
#pragma unroll
            for (int j = 0; j < kKeys; ++j) {
                const bool seen = whole || begin + x + j * kLanes < visible(row);
                scores[i][j] = seen ? scores[i][j] * kScale : kiln::kMinusInfinity;
                largest = fmaxf(largest, scores[i][j]);
            }
            const float rescale = softmax[i].raise(kiln::warp_reduce<kLanes>(largest, kiln::Max{}));
            sums[i] *= rescale;
#pragma unroll
            for (int j = 0; j < kKeys; ++j) {
                const float weight = softmax[i].weight(scores[i][j]);
                sums[i] += weight;
                tile_p[row * kPitchP + x + j * kLanes] = weight;
            }
#pragma unroll
            for (int c = 0; c < kGroups; ++c) {
#pragma unroll
                for (int e = 0; e < kVec; ++e) out[i][c][e] *= rescale;
            }
        }
        __syncwarp();  // the rows of a warp are its own

#pragma unroll 2
        for (int key = 0; key < BN; key += kVec) {
            kiln::Vec<float, kVec> p_values[kRows];
#pragma unroll
            for (int i = 0; i < kRows; ++i)
                p_values[i] = kiln::load<kVec>(tile_p + (y + i * kLanes) * kPitchP + key);
#pragma unroll
            for (int e = 0; e < kVec; ++e) {
#pragma unroll
                for (int c = 0; c < kGroups; ++c) {
                    const auto v_values = load_floats(tile_v + (key + e) * kPitch + (c * kLanes + x) * kVec);
#pragma unroll
                    for (int i = 0; i < kRows; ++i) {
#pragma unroll
                        for (int f = 0; f < kVec; ++f) out[i][c][f] += p_values[i][e] * v_values[f];
                    }
                }
            }
        }
    }

    o += (head * queries + first) * HEAD_DIM;
    lse += head * queries + first;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
        const int row = y + i * kLanes;
        const float sum = kiln::warp_reduce<kLanes>(sums[i], kiln::Sum{});
        if (row >= rows) continue;
        const float scale = sum > 0.0f ? 1.0f / sum : 0.0f;
        if (x == 0) lse[row] = softmax[i].log_sum_exp(sum);
#pragma unroll
        for (int c = 0; c < kGroups; ++c) {
            kiln::Vec<T, kVec> values;
#pragma unroll
            for (int e = 0; e < kVec; ++e) values[e] = T(out[i][c][e] * scale);
            kiln::store(o + static_cast<i64>(row) * HEAD_DIM + (c * kLanes + x) * kVec, values);
        }
    }
}
