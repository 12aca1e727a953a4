// decode_paged: attention of one new token per sequence against a paged cache, split over blocks
//
// The cache is a pool of pages of PAGE_SIZE tokens, [pages, kv_heads, PAGE_SIZE, HEAD_DIM], from 16-byte aligned addresses;
// page_table [batch, ceil_div(max_length, PAGE_SIZE)] says which of them belong to a sequence, in order; lengths
// its tokens. q and o are [batch, heads, HEAD_DIM], heads = kv_heads * GQA_GROUP; head h reads head h / GQA_GROUP of the
// cache. A sequence of no tokens gives zeros.
//
// A sequence's tokens are cut into at most `splits` equal ranges, a block each, so that few long sequences
// fill the device too. Each block leaves its weighted values, largest score and sum of weights in `partials`;
// the last one of a sequence and head to end merges them in the order of the tokens, and puts its ticket back
// to zero. The block's work is in kiln/decode.h. Operations and bytes are those expected of lengths spread
// evenly over 1 to max_length.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  decode_paged
//@ param   T         type in half, bfloat16 = half      "element type of q, the cache and o; sums are float"
//@ param   HEAD_DIM  int in 64, 128 = 128               "elements of a query, key or value"
//@ param   GQA_GROUP int in 1, 2, 4, 8 = 4              "query heads per head of the cache"
//@ param   PAGE_SIZE int in 16, 32, 64, 128 = 16        "tokens per page"
//@ param   CHUNK     int in 256, 512 = 256              "tokens whose scores are held at a time"
//@ param   THREADS   int in 128, 256 = 128              "threads per block"
//@ size    batch      = 32   test 3    "sequences"
//@ size    kv_heads   = 8    test 2    "heads of the cache"
//@ size    max_length = 4096 test 301  "the most tokens of a sequence"
//@ size    splits     = 8    test 3    "blocks per sequence and head of the cache, at most"
//@ input   q [batch, kv_heads * GQA_GROUP, HEAD_DIM] align 16
//@ input   k_cache [batch * ceil_div(max_length, PAGE_SIZE), kv_heads, PAGE_SIZE, HEAD_DIM] align 16  "the pool's keys"
//@ input   v_cache [batch * ceil_div(max_length, PAGE_SIZE), kv_heads, PAGE_SIZE, HEAD_DIM] align 16  "the pool's values"
//@ input   page_table [batch, ceil_div(max_length, PAGE_SIZE)] permutation "which page of the pool holds a sequence's page"
//@ input   lengths [batch] in 1..max_length "tokens of each sequence"
//@ output  o [batch, kv_heads * GQA_GROUP, HEAD_DIM] by decode_reference
//@ scratch partials [batch * kv_heads, splits, GQA_GROUP, HEAD_DIM]
//@ scratch partial_stats [batch * kv_heads, splits, GQA_GROUP, 2]
//@ scratch tickets [batch * kv_heads] = 0
//@ flops   2 * batch * kv_heads * GQA_GROUP * HEAD_DIM * (max_length + 1)
//@ bytes   sizeof(T) * batch * kv_heads * HEAD_DIM * (max_length + 1) + 2 * sizeof(T) * batch * kv_heads * GQA_GROUP * HEAD_DIM + 4 * batch * (max_length + 1) / 2 / PAGE_SIZE + 4 * batch
//@ naive   decode_naive
//@ block   THREADS
//@ grid    batch * kv_heads * splits
//@ shared  (GQA_GROUP * HEAD_DIM + GQA_GROUP * max(CHUNK, THREADS / 32 * HEAD_DIM)) * sizeof(float)
//@ model   search [THREADS]
#include "kiln/decode.h"

using kiln::i64;

// Ranges are multiples of this, or a block would begin with a part of a step.
constexpr int kGrain = 64;

extern "C" __global__ __launch_bounds__(THREADS, 1) void decode_paged(
    int batch, int kv_heads, int max_length, int splits, const T* __restrict__ q,
    const T* __restrict__ k_cache, const T* __restrict__ v_cache, const int* __restrict__ page_table,
    const int* __restrict__ lengths, T* __restrict__ o, float* __restrict__ partials,
    float* __restrict__ partial_stats, unsigned* __restrict__ tickets) {
    const i64 item = blockIdx.x / static_cast<unsigned>(splits);  // a sequence and a head of the cache
    const int split = static_cast<int>(blockIdx.x % static_cast<unsigned>(splits));
    const i64 sequence = item / kv_heads;
    const int length = lengths[sequence];
    T* const out = o + item * (GQA_GROUP * HEAD_DIM);
    if (length <= 0) {
        for (int i = threadIdx.x; split == 0 && i < GQA_GROUP * HEAD_DIM; i += THREADS) out[i] = T(0.0f);
        return;
    }
    const int range = kiln::ceil_div(kiln::ceil_div(length, splits), kGrain) * kGrain;
    const int ranges = kiln::ceil_div(length, range);
    if (split >= ranges) return;

    const int pages = kiln::ceil_div(max_length, PAGE_SIZE);
    const int begin = split * range;
    kiln::Decode<T, HEAD_DIM, GQA_GROUP, PAGE_SIZE, CHUNK, THREADS> decode(kiln::dynamic_shared<float>());
    decode.attend(
        q + item * (GQA_GROUP * HEAD_DIM),
        {k_cache, v_cache, page_table + sequence * pages, kv_heads, static_cast<int>(item % kv_heads)}, begin,
        length - begin < range ? length : begin + range);
    if (ranges == 1)
        decode.write(out);
    else
        decode.merge(out, split, ranges, partials + item * splits * (GQA_GROUP * HEAD_DIM),
                     partial_stats + item * splits * (GQA_GROUP * 2), tickets + item);
}
