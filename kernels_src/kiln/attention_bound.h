// SPDX-License-Identifier: Apache-2.0
//
// Attention of one query in double, and how far a kernel that computes in float may be off. For the references
// of attention and decoding; those for kernels that round weights and for others differ in one argument.
//
// Exact: t_j = c q.k_j with c = log2(e) / sqrt(HEAD), M = max t_j, w_j = 2^(t_j - M), W = sum w_j,
// o = sum w_j v_j / W. u is the unit roundoff of float, n the number of keys, g(k) = gamma(k) of reference.h.
// - A score. A dot product of HEAD terms has an error of at most g(HEAD) sum |q k|; matrix cores truncate where
//   they align the terms of a block of 8 or 16, which costs up to 2 u per term and one more per block (Fasi,
//   Higham, Mikaitis and Pranesh, Numerical behavior of NVIDIA tensor cores, 2021): g(2.5 HEAD) covers both.
//   The constant c and the multiplication by it add at most 4 u.
// - A weight is 2^(t_j - m) with m the maximum so far, multiplied by 2^(m - m') whenever that rises. Any error
//   of m is the same in all terms and cancels; the rounded differences add up to M - t_j, so they cost
//   u (M - t_j). Each 2^x is off by up to 4 u; there is one per tile of at least 16 keys, one for the weight, and
//   one where partial results are merged. So a weight is relatively off by at most
//     h_j = 1.01 (ln 2 (g(2.5 HEAD + 4) c sum |q k_j| + u (M - t_j)) + 4 u (n / 16 + 2)),
//   the 1.01 being for all terms of second order (h_j is far below 0.01). Where q k_j is a sum of integers whose
//   magnitudes add up to no more than 2^24, it is exact, if the kernel multiplies with c only then: of g sum |q k_j|
//   4 u |t_j| is left. The largest of such scores are equal, so that no rise follows them, and the factor of a merge
//   is 1: the n / 16 goes, and the weight, which is within h_j of 1, is rounded to 1 in another type.
// - The weights' own errors move o by at most sum w_j h_j (|v_j| + |o|) / W.
// - The kernel rounds weights to another type before it multiplies: P sum w_j |v_j| / W, P that type's unit
//   roundoff; below 2^-14 half is spaced by 2^-24, which adds 2^-25 sum |v_j| / W (2^-126 for other types), but
//   no more than w_j each.
// - Summation, with one rescaling per tile: g(2.6 n + 8) sum w_j |v_j| / W above and g(1.1 n + 20) |o| below;
//   the division and the multiplication add 4 u |o|. Where most weights are tiny, below 2^-30, that is too much. An
//   addition to s of tiny terms alone loses no more than these are, or 8 times as much where a matrix core cuts off a
//   sum in which two bits more than float's are kept; each tiny term is added to something larger once. So with N
//   weights that are not tiny, each of them in a block of its own, and a rise after each at most:
//   g(22 N + 8) sum w_j |v_j| and 16 of the tiny terms above; g(2.2 N + 20) W and 4 of the tiny weights below.
#pragma once

#include "kiln/packed.h"
#include "kiln/reference.h"

namespace kiln {

struct AttentionRow {
    double lse, lse_bound;  ///< ln(sum e^score); -infinity and 0 without keys
    double value, bound;    ///< of o, in one column; 0 without keys
};

/// A query of HEAD elements against `keys` keys. key_at(j): the address of key j's elements; value_at(j): the
/// value in the wanted column. weight_roundoff: P above. scaled_last: the kernel multiplies with c after the dot
/// product. together: all threads of the block, THREADS of them, have the same query and keys and make the call, and so
/// share scores and weights.
template <int HEAD, int THREADS, class T, class KeyAt, class ValueAt>
inline AttentionRow attention_row(const T* query, long long keys, KeyAt key_at, ValueAt value_at,
                                  double weight_roundoff, bool scaled_last, bool together) {
    constexpr double u = unit_roundoff<float>;
    constexpr double kLn2 = 0.693147180559945309417;
    const double c = 1.44269504088896340736 / sqrt(static_cast<double>(HEAD));
    if (keys == 0) return {-__builtin_huge_val(), 0, 0, 0};

    double q[HEAD];
    for (int d = 0; d < HEAD; ++d) q[d] = wide(query[d]);
    constexpr double kTiny = 0x1p-30;
    const double g_score = gamma<float>(2.5 * HEAD + 4);
    struct Score {
        double t, error;  // t_j, and how far off it may be
        bool exact;       // but for the multiplication with c
    };
    const auto score_of = [&](long long j) {
        const T* const key = key_at(j);
        const FloatSum sum = float_sum(HEAD, [&](long long d) { return q[d] * wide(key[d]); });
        const double t = c * sum.value();
        const bool exact = scaled_last && sum.is_exact();
        return Score{t, exact ? 4 * u * fabs(t) : g_score * c * sum.magnitude(), exact};
    };
    constexpr int kKept = 1024;
    __shared__ Score kept[kKept];  // by the thread that wrote it, of the first keys
    const auto is_kept = [=](long long j) { return together && j < kKept; };
    // Calls visit(j, of(j)) for each key. In two steps, since what `of` gives may be shared.
    const auto for_each_key = [&](auto of, auto visit) {
        using Item = decltype(of(0LL));
        __shared__ Item shared[THREADS];
        Item own[THREADS];
        for (long long begin = 0; begin < keys; begin += THREADS) {
            const int count = static_cast<int>(min(keys - begin, static_cast<long long>(THREADS)));
            if (together) {
                const int thread = threadIdx.x;
                __syncthreads();
                if (thread < count) shared[thread] = of(begin + thread);
                __syncthreads();
            } else {
                for (int j = 0; j < count; ++j) own[j] = of(begin + j);
            }
            for (int j = 0; j < count; ++j) visit(begin + j, (together ? shared : own)[j]);
        }
    };

    double largest = -__builtin_huge_val();
    for_each_key(
        [&](long long j) {
            const Score score = score_of(j);
            if (is_kept(j)) kept[j] = score;
            return score;
        },
        [&](long long, const Score& score) { largest = fmax(largest, score.t); });

    const double n = static_cast<double>(keys);
    const double spacing = weight_roundoff == unit_roundoff<half> ? 0x1p-25 : kFloatTiny;
    struct Weight {
        double w, error;  // w_j, and w_j h_j
        double rounding;  // what it may be rounded by
    };
    const auto weight_of = [&](long long j) {
        const Score score = is_kept(j) ? kept[j] : score_of(j);
        const double distance = largest - score.t;
        const double w = exp2(-distance);
        const bool is_one = score.exact && distance == 0;
        const double rises = is_one ? 0 : n / 16;
        const double h = 1.01 * (kLn2 * (score.error + u * distance) + 4 * u * (rises + 2));
        return Weight{w, w * h, is_one ? 0 : weight_roundoff * w + (w < spacing ? w : spacing)};
    };
    double sum = 0, sum_error = 0;                // of w, w h
    double out = 0, out_size = 0, out_error = 0;  // of w v, w |v|, w h |v|
    double rounding = 0;                          // of what weights are rounded by, |v|
    double tiny = 0, tiny_out = 0;                // of w, w |v| where w is tiny
    double large = 0;                             // weights that are not
    for_each_key(weight_of, [&](long long j, const Weight& weight) {
        const double w = weight.w, v = value_at(j), v_size = fabs(v);
        sum += w;
        sum_error += weight.error;
        out += w * v;
        out_size += w * v_size;
        out_error += weight.error * v_size;
        rounding += weight.rounding * v_size;
        const bool is_tiny = w < kTiny;
        tiny += is_tiny ? w : 0;
        tiny_out += is_tiny ? w * v_size : 0;
        large += is_tiny ? 0 : 1;
    });

    const double o = out / sum, size = fabs(o);
    const double sum_additions =
        fmin(gamma<float>(1.1 * n + 20), gamma<float>(2.2 * large + 20) + 4 * tiny / sum);
    const double out_additions =
        fmin(gamma<float>(2.6 * n + 8) * out_size, gamma<float>(22 * large + 8) * out_size + 16 * tiny_out);
    const double relative = sum_error / sum + sum_additions;
    double bound =
        (out_error + size * sum_error + out_additions + rounding) / sum + (sum_additions + 4 * u) * size;
    bound = 1.01 * bound + kFloatTiny;

    // lse = (m + log2 of the sum) ln 2: an error of m cancels here too. A logarithm is within 2 u of its
    // value, 4 u near 0; three operations follow.
    const double log_sum = log2(sum);
    const double magnitude = fabs(largest) + log_sum;
    const double lse_bound = 1.01 * (relative + 4 * u * (magnitude * kLn2 + 1));
    return {(largest + log_sum) * kLn2, lse_bound, o, bound};
}

/// The body of a reference with VALUE threads per block, those of a row: this thread's one of `count` elements of [rows, VALUE], those of `which` or the
/// first, of queries [rows, HEAD].
/// keys(row): how many keys a row sees; key_at, value_at (row, token): where the elements of one lie.
template <int HEAD, int VALUE, class T, class KeyAt, class ValueAt, class Keys>
inline void attention_element(long long count, const long long* which, double* expected, double* bound,
                              const T* q, double weight_roundoff, bool scaled_last, Keys keys, KeyAt key_at,
                              ValueAt value_at) {
    const OutputElement element = output_element(count, which, VALUE);
    const long long row = element.number / VALUE;
    const long long column = element.number % VALUE;
    const AttentionRow result = attention_row<HEAD, VALUE>(
        q + row * HEAD, keys(row), [=](long long token) { return key_at(row, token); },
        [=](long long token) { return wide(value_at(row, token)[column]); }, weight_roundoff, scaled_last,
        element.together);
    if (!element.exists) return;
    expected[element.place] = result.value;
    bound[element.place] = result.bound;
}

/// The same for [heads, queries, HEAD] against keys [heads / group, keys, HEAD] and values [heads / group, keys,
/// VALUE], where CAUSAL with the last query seeing the last key.
template <int HEAD, int VALUE, bool CAUSAL, class T>
inline void attention_element(long long count, const long long* which, double* expected, double* bound,
                              int group, int queries, int keys, const T* q, const T* k, const T* v,
                              double weight_roundoff) {
    const auto place_of = [=](long long row, long long token) {
        return row / queries / group * keys + token;
    };
    attention_element<HEAD, VALUE>(
        count, which, expected, bound, q, weight_roundoff, true,
        [=](long long row) -> long long {
            const long long seen = CAUSAL ? row % queries + keys - queries + 1 : keys;
            return seen < 0 ? 0 : seen;
        },
        [=](long long row, long long token) { return k + place_of(row, token) * HEAD; },
        [=](long long row, long long token) { return v + place_of(row, token) * VALUE; });
}

/// The same for [sequences, NEW, kv_heads * GROUP, HEAD] against a paged cache; see decode_paged.cu and decode_mma.cu.
/// WEIGHT: what the kernel rounds weights to before they multiply values. SCALED_LAST: it scales products, not queries.
template <int HEAD, int GROUP, int PAGE, int NEW, class WEIGHT, bool SCALED_LAST, class T>
inline void decode_element(long long count, const long long* which, double* expected, double* bound,
                           int kv_heads, int max_length, const T* q, const T* k_cache, const T* v_cache,
                           const int* page_table, const int* lengths) {
    const auto place_of = [=](long long row, long long token) {
        const long long head = row / GROUP;
        const int* const pages = page_table + head / kv_heads / NEW * ceil_div(max_length, PAGE);
        const long long page = static_cast<long long>(pages[token / PAGE]) * kv_heads + head % kv_heads;
        return (page * PAGE + token % PAGE) * HEAD;
    };
    attention_element<HEAD, HEAD>(
        count, which, expected, bound, q, unit_roundoff<WEIGHT>, SCALED_LAST,
        [=](long long row) -> long long {
            const long long new_token = row / GROUP / kv_heads;
            const long long seen = lengths[new_token / NEW] - (NEW - 1 - new_token % NEW);
            return seen < 0 ? 0 : seen;
        },
        [=](long long row, long long token) { return k_cache + place_of(row, token); },
        [=](long long row, long long token) { return v_cache + place_of(row, token); });
}

/// The rows of queries [queries of all sequences, kv_heads * group, ...] against [keys of all, kv_heads, ...]; see
/// attention_packed_naive.cu.
template <bool CAUSAL>
struct PackedRows {
    int batch, kv_heads, group;
    const int* query_offsets;
    const int* key_offsets;

    long long keys_seen(long long row) const {
        const int query = static_cast<int>(row / (kv_heads * group));
        const int sequence = packed_sequence(query_offsets, batch, query);
        const long long keys = key_offsets[sequence + 1] - key_offsets[sequence];
        const long long seen = CAUSAL ? keys + query + 1 - query_offsets[sequence + 1] : keys;
        return seen < 0 ? 0 : seen;
    }
    /// Where a key of the row's sequence and head lies, in rows of its elements.
    long long place_of(long long row, long long key) const {
        const int query = static_cast<int>(row / (kv_heads * group));
        const int sequence = packed_sequence(query_offsets, batch, query);
        return (key_offsets[sequence] + key) * kv_heads + row % (kv_heads * group) / group;
    }
};

/// The same for these rows.
template <int HEAD, int VALUE, bool CAUSAL, class T>
inline void attention_element(long long count, const long long* which, double* expected, double* bound,
                              const PackedRows<CAUSAL>& rows, const T* q, const T* k, const T* v,
                              double weight_roundoff) {
    attention_element<HEAD, VALUE>(
        count, which, expected, bound, q, weight_roundoff, true,
        [=](long long row) { return rows.keys_seen(row); },
        [=](long long row, long long key) { return k + rows.place_of(row, key) * HEAD; },
        [=](long long row, long long key) { return v + rows.place_of(row, key) * VALUE; });
}

}  // namespace kiln
