// SPDX-License-Identifier: Apache-2.0
//
// That attention of packed sequences computes each as if there were no others: infinities in all of them, of keys, whose
// scores must be masked, and of values, which times a weight of 0 are NaNs.
#pragma once

#include <gtest/gtest.h>
#include <kiln/kiln.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "run/inputs.h"

namespace kiln::test {

/// head: elements of a query, key and value. offsets: of queries as of keys.
inline void expect_sequences_apart(Service& service, const Variant& variant, std::size_t head,
                                   const std::vector<int>& offsets) {
    SCOPED_TRACE(variant.text());
    using PackedFn = void(int batch, int kv_heads, int group, int total_queries, int total_keys,
                          const half* q, const half* k, const half* v, const int* query_offsets,
                          const int* key_offsets, half* o, float* lse);
    const int total = offsets.back(), batch = static_cast<int>(offsets.size()) - 1;
    const auto kernel = service.build<PackedFn>(variant);
    const auto on_device = [&]<typename T>(const std::vector<T>& values) {
        Buffer buffer = service.device().allocate(values.size() * sizeof(T));
        buffer.copy_from(std::as_bytes(std::span(values)));
        return buffer;
    };
    const auto some_values = [&](std::uint64_t seed) {
        std::vector<half> values(static_cast<std::size_t>(total) * head);
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = half(static_cast<float>(random_word(seed, i) % 17) / 16 - 0.5F);
        return values;
    };
    const std::vector<half> q = some_values(1), k = some_values(2), v = some_values(3);
    const Buffer queries = on_device(q), positions = on_device(offsets);
    const auto results = [&](const std::vector<half>& some_k, const std::vector<half>& some_v) {
        std::vector<half> o(q.size());
        std::vector<float> lse(static_cast<std::size_t>(total));
        const Buffer keys = on_device(some_k), values = on_device(some_v);
        Buffer outputs = on_device(o), sums = on_device(lse);
        kernel(service.stream(), batch, 1, 1, total, total, queries.as<half>(), keys.as<half>(),
               values.as<half>(), positions.as<int>(), positions.as<int>(), outputs.as<half>(),
               sums.as<float>());
        service.stream().synchronize();
        outputs.copy_to(std::as_writable_bytes(std::span(o)));
        sums.copy_to(std::as_writable_bytes(std::span(lse)));
        return std::pair(o, lse);
    };
    const auto [o, lse] = results(k, v);
    for (int sequence = 0; sequence < batch; ++sequence) {
        const auto begin = static_cast<std::size_t>(offsets[sequence]);
        const auto end = static_cast<std::size_t>(offsets[sequence + 1]);
        const auto alone = [&](const std::vector<half>& values) {
            std::vector<half> result(values.size(), half(std::numeric_limits<float>::infinity()));
            std::copy_n(values.begin() + begin * head, (end - begin) * head, result.begin() + begin * head);
            return result;
        };
        const auto [alone_o, alone_lse] = results(alone(k), alone(v));
        for (std::size_t i = begin * head; i < end * head; ++i)
            ASSERT_EQ(static_cast<float>(alone_o[i]), static_cast<float>(o[i]))
                << "sequence " << sequence << ", element " << i;
        for (std::size_t i = begin; i < end; ++i) ASSERT_EQ(alone_lse[i], lse[i]) << "query " << i;
    }
}

}  // namespace kiln::test
