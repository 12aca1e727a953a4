// SPDX-License-Identifier: Apache-2.0
//
// Conversions of the 16-bit types, shared bytes, and the names of backends, kinds and origins.
#include <kiln/build.h>
#include <kiln/error.h>
#include <kiln/types.h>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

namespace kiln {
namespace {

// Round to nearest, ties to even, of the integer `value` shifted right by `shift` bits.
std::uint32_t shift_right_rounded(std::uint32_t value, unsigned shift) {
    const std::uint32_t halfway = 1u << (shift - 1);
    const std::uint32_t rest = value & ((1u << shift) - 1);
    const std::uint32_t result = value >> shift;
    return result + (rest > halfway || (rest == halfway && (result & 1u)) ? 1u : 0u);
}

}  // namespace

half::half(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>(word >> 16 & 0x8000u);
    const std::uint32_t magnitude = word & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        bits = 0x7fff;  // what the GPUs' conversions give for every NaN
    } else if (magnitude >= 0x477ff000u) {
        bits = sign | 0x7c00u;  // 65520 and more round to infinity
    } else if (magnitude < 0x38800000u) {
        // A subnormal result: value * 2^24 is at most 1024; count the mantissa's shift.
        const unsigned exponent = magnitude >> 23;
        const std::uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
        bits = exponent < 102
                   ? sign
                   : static_cast<std::uint16_t>(sign | shift_right_rounded(mantissa, 126 - exponent));
    } else {
        bits = static_cast<std::uint16_t>(sign | shift_right_rounded(magnitude - 0x38000000u, 13));
    }
}

half::operator float() const {
    const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
    const std::uint32_t magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    if (magnitude < 0x400u) {
        const float value = static_cast<float>(magnitude) * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
}

bfloat16::bfloat16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    bits = (word & 0x7fffffffu) > 0x7f800000u ? std::uint16_t{0x7fff}
                                              : static_cast<std::uint16_t>(shift_right_rounded(word, 16));
}

bfloat16::operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

inline namespace KILN_ABI {

std::string_view name(Backend backend) {
    switch (backend) {
        case Backend::cuda:
            return "cuda";
        case Backend::hip:
            return "hip";
        case Backend::host:
            return "host";
    }
    return "unknown";
}

Backend parse_backend(std::string_view text) {
    for (const Backend backend : {Backend::cuda, Backend::hip, Backend::host}) {
        if (text == name(backend)) return backend;
    }
    throw UsageError("'" + std::string(text) + "' is no backend; there are cuda, hip and host");
}

Bytes Bytes::part(std::size_t offset, std::size_t count) const {
    if (offset > size() || count > size() - offset) throw std::out_of_range("Bytes::part");
    return {owner_, view_.subspan(offset, count)};
}

bool operator==(const Bytes& a, const Bytes& b) { return std::ranges::equal(a.view_, b.view_); }

std::string_view name(BinaryKind kind) {
    switch (kind) {
        case BinaryKind::cubin:
            return "cubin";
        case BinaryKind::ptx:
            return "ptx";
        case BinaryKind::code_object:
            return "code_object";
        case BinaryKind::shared_object:
            return "shared_object";
        case BinaryKind::ltoir:
            return "ltoir";
    }
    return "unknown";
}

std::string_view name(Origin origin) {
    switch (origin) {
        case Origin::memory:
            return "memory";
        case Origin::disk:
            return "disk";
        case Origin::seed:
            return "seed";
        case Origin::remote:
            return "remote";
        case Origin::compiled:
            return "compiled";
        case Origin::off:
            return "off";
    }
    return "unknown";
}

}  // namespace KILN_ABI
}  // namespace kiln
