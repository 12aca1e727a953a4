// SPDX-License-Identifier: Apache-2.0
//
// Shared by the fuzzers: what must hold, and bytes of exactly the input's size, so that a read past their
// end is seen.
#pragma once

#include <kiln/build.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/digest.h"

/// Stops the fuzzer with a finding. Not assert, which a release build leaves out.
#define KILN_FUZZ_CHECK(condition)                                                       \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            std::abort();                                                                \
        }                                                                                \
    } while (false)

namespace kiln::fuzz {

inline std::vector<std::byte> copy_of(const std::uint8_t* data, std::size_t size) {
    const auto bytes = std::as_bytes(std::span(data, size));
    return {bytes.begin(), bytes.end()};
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
    return {reinterpret_cast<const char*>(data), size};
}

/// Writes a number or a struct over the bytes at `offset`, which must be there.
template <class T>
void put(std::span<std::byte> bytes, std::size_t offset, const T& value) {
    std::memcpy(bytes.subspan(offset, sizeof(T)).data(), &value, sizeof(T));
}

template <class T>
T at(std::span<const std::byte> bytes, std::size_t offset) {
    T value;
    std::memcpy(&value, bytes.subspan(offset, sizeof(T)).data(), sizeof(T));
    return value;
}

/// A sum over everything, so that each byte is read.
inline Checksum touch(const Bytes& bytes) { return checksum({bytes.data(), bytes.size()}); }

}  // namespace kiln::fuzz
