// decode_persistent: attention of one new token per sequence by a fixed grid of persistent blocks
//
// The cache, its pages and the results are those of decode_paged. Ranges have PARTITION_SIZE tokens, so that a long
// sequence has more of them than a short one, and a grid of a fixed size, BLOCKS_PER_SM per multiprocessor, walks
// over all: first every sequence's first range, then the second ones. The launch has the same shape whatever
// the lengths, so a captured graph replays it for every step of a generation. Where a sequence has several
// ranges, the last to end merges them, in the order of the tokens.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  decode_persistent
//@ param   T              type in half, bfloat16 = half      "element type of q, the cache and o; sums are float"
//@ param   HEAD_DIM       int in 64, 128 = 128               "elements of a query, key or value"
//@ param   GQA_GROUP      int in 1, 2, 4, 8 = 4              "query heads per head of the cache"
//@ param   PAGE_SIZE      int in 16, 32, 64, 128 = 16        "tokens per page"
//@ param   PARTITION_SIZE int in 128, 256, 512, 1024 = 512   "tokens per range"
//@ param   CHUNK          int in 256, 512 = 256              "tokens whose scores are held at a time"
//@ param   THREADS        int in 128, 256 = 128              "threads per block"
//@ param   BLOCKS_PER_SM  int in 1..8 = 3                    "blocks per multiprocessor"
//@ size    batch      = 32   test 3    "sequences"
//@ size    kv_heads   = 8    test 2    "heads of the cache"
//@ size    max_length = 4096 test 1201 "the most tokens of a sequence"
//@ input   q [batch, kv_heads * GQA_GROUP, HEAD_DIM] align 16
//@ input   k_cache [batch * ceil_div(max_length, PAGE_SIZE), kv_heads, PAGE_SIZE, HEAD_DIM] align 16  "the pool's keys"
//@ input   v_cache [batch * ceil_div(max_length, PAGE_SIZE), kv_heads, PAGE_SIZE, HEAD_DIM] align 16  "the pool's values"
//@ input   page_table [batch, ceil_div(max_length, PAGE_SIZE)] permutation "which page of the pool holds a sequence's page"
//@ input   lengths [batch] in 1..max_length "tokens of each sequence"
//@ output  o [batch, kv_heads * GQA_GROUP, HEAD_DIM] by decode_reference
//@ scratch partials [batch * kv_heads, ceil_div(max_length, PARTITION_SIZE), GQA_GROUP, HEAD_DIM]
//@ scratch partial_stats [batch * kv_heads, ceil_div(max_length, PARTITION_SIZE), GQA_GROUP, 2]
//@ scratch tickets [batch * kv_heads] = 0
//@ flops   2 * batch * kv_heads * GQA_GROUP * HEAD_DIM * (max_length + 1)
//@ bytes   sizeof(T) * batch * kv_heads * HEAD_DIM * (max_length + 1) + 2 * sizeof(T) * batch * kv_heads * GQA_GROUP * HEAD_DIM + 4 * batch * (max_length + 1) / 2 / PAGE_SIZE + 4 * batch
//@ naive   decode_naive
//@ block   THREADS
//@ grid    BLOCKS_PER_SM * max(device.multiprocessors, 1)
//@ shared  (GQA_GROUP * HEAD_DIM + GQA_GROUP * max(CHUNK, THREADS / 32 * HEAD_DIM)) * sizeof(float)
//@ model   search [BLOCKS_PER_SM], [THREADS]
#include "kiln/decode.h"

using kiln::i64;

extern "C" __global__ __launch_bounds__(THREADS, 1) void decode_persistent(
    int batch, int kv_heads, int max_length, const T* __restrict__ q, const T* __restrict__ k_cache,
    const T* __restrict__ v_cache, const int* __restrict__ page_table, const int* __restrict__ lengths,
    T* __restrict__ o, float* __restrict__ partials, float* __restrict__ partial_stats,
    unsigned* __restrict__ tickets) {
    const int pages = kiln::ceil_div(max_length, PAGE_SIZE);
    const int most_ranges = kiln::ceil_div(max_length, PARTITION_SIZE);
    const i64 items = static_cast<i64>(batch) * kv_heads;  // a sequence and a head of the cache
    kiln::Decode<T, HEAD_DIM, GQA_GROUP, PAGE_SIZE, CHUNK, THREADS> decode(kiln::dynamic_shared<float>());

    for (i64 work = blockIdx.x; work < items * most_ranges; work += gridDim.x) {
        const i64 item = work % items;
        const int range = static_cast<int>(work / items);
        const i64 sequence = item / kv_heads;
        const int length = lengths[sequence];
        T* const out = o + item * (GQA_GROUP * HEAD_DIM);
        const int begin = range * PARTITION_SIZE;
        if (length <= begin) {
            for (int i = threadIdx.x; range == 0 && i < GQA_GROUP * HEAD_DIM; i += THREADS) out[i] = T(0.0f);
            continue;
        }
        decode.attend(
            q + item * (GQA_GROUP * HEAD_DIM),
            {k_cache, v_cache, page_table + sequence * pages, kv_heads, static_cast<int>(item % kv_heads)},
            begin, length - begin < PARTITION_SIZE ? length : begin + PARTITION_SIZE);
        if (length <= PARTITION_SIZE)
            decode.write(out);
        else
            decode.merge(out, range, kiln::ceil_div(length, PARTITION_SIZE),
                         partials + item * most_ranges * (GQA_GROUP * HEAD_DIM),
                         partial_stats + item * most_ranges * (GQA_GROUP * 2), tickets + item);
    }
}
