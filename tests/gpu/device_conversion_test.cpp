// SPDX-License-Identifier: Apache-2.0
//
// kiln::half and kiln::bfloat16 on a CUDA device: all 65536 patterns to float, and a million floats back,
// against the host's types and against arithmetic in double precision.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "device_support.h"

namespace kiln::test {
namespace {

class DeviceConversionTest : public DeviceTest {};

constexpr const char* kConvert = R"(
extern "C" __global__ void convert(int n, const unsigned short* bits, float* half_values, float* bfloat16_values,
                                   int m, const float* floats, kiln::half* halves, kiln::bfloat16* bfloat16s) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) {
        kiln::half h;
        h.bits = bits[i];
        half_values[i] = float(h);
        kiln::bfloat16 b;
        b.bits = bits[i];
        bfloat16_values[i] = float(b);
    }
    if (i < m) {
        halves[i] = kiln::half(floats[i]);
        bfloat16s[i] = kiln::bfloat16(floats[i]);
    }
}
)";

std::vector<float> floats_to_round() {
    const float infinity = std::numeric_limits<float>::infinity();
    std::vector<float> values{0.0f,
                              1.0f,
                              65504.0f,
                              65519.996f,
                              65520.0f,
                              0x1p-14f,
                              0x1.ffcp-15f,
                              0x1.ffep-15f,
                              0x1p-24f,
                              0x1p-25f,
                              0x1.000002p-25f,
                              0x1.8p-24f,
                              0x1p-26f,
                              1.0f + 0x1p-11f,
                              1.0f + 0x3p-11f,
                              1.0f + 0x1p-8f,
                              1.0f + 0x3p-8f,
                              0x1.fffffep+127f,
                              0x1.fep+127f,
                              0x1.ffp+127f,
                              0x1p-126f,
                              0x1p-149f,
                              0x1p-133f,
                              0x1p-134f,
                              0x1.8p-133f,
                              infinity,
                              std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::signaling_NaN()};
    for (std::size_t i = values.size(); i-- > 0;) values.push_back(-values[i]);
    std::mt19937 random(7);
    while (values.size() < 1'000'000) {
        values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));  // any pattern
        // In the range of half, often halfway between two of them.
        const auto exponent = static_cast<std::uint32_t>(127 - 27 + random() % 45);
        const auto mantissa =
            static_cast<std::uint32_t>(random()) & (random() % 2 == 0 ? 0x7ff000u : 0x7fffffu);
        values.push_back(std::bit_cast<float>((static_cast<std::uint32_t>(random()) & 0x80000000u) |
                                              exponent << 23 | mantissa));
    }
    return values;
}

// The value that a format with this many mantissa bits and this least normal exponent gives.
double rounded(float value, int mantissa_bits, int least_exponent, double overflow) {
    if (!std::isfinite(value) || value == 0) return value;
    const int exponent = std::max(std::ilogb(value), least_exponent);
    const double unit = std::ldexp(1.0, exponent - mantissa_bits);
    const double result = std::nearbyint(value / unit) * unit;  // exact but for the rounding to even
    return std::abs(result) >= overflow ? std::copysign(INFINITY, result) : result;
}

bool same(float device, double reference) {
    if (std::isnan(device) || std::isnan(reference)) return std::isnan(device) && std::isnan(reference);
    return device == reference && std::signbit(device) == std::signbit(reference);
}

TEST_F(DeviceConversionTest, EveryPatternAndAMillionFloats) {
    const auto module = load("convert", kConvert);
    std::vector<std::uint16_t> bits(65536);
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
    const auto floats = floats_to_round();
    const Array<std::uint16_t> d_bits(driver_, bits);
    const Array<float> d_half_values(driver_, bits.size()), d_bfloat16_values(driver_, bits.size());
    const Array<float> d_floats(driver_, floats);
    const Array<half> d_halves(driver_, floats.size());
    const Array<bfloat16> d_bfloat16s(driver_, floats.size());
    const int n = static_cast<int>(bits.size()), m = static_cast<int>(floats.size());
    launch(*module, {Dim3{static_cast<unsigned>(m + 255) / 256, 1, 1}, Dim3{256, 1, 1}, Dim3{}, 0}, *stream_,
           n, d_bits.data(), d_half_values.data(), d_bfloat16_values.data(), m, d_floats.data(),
           d_halves.data(), d_bfloat16s.data());

    int wrong = 0;
    const auto half_values = d_half_values.values(), bfloat16_values = d_bfloat16_values.values();
    for (std::size_t i = 0; i < bits.size(); ++i) {
        half h;
        h.bits = bits[i];
        bfloat16 b;
        b.bits = bits[i];
        const unsigned exponent = bits[i] >> 10 & 31u, mantissa = bits[i] & 1023u;
        double value =
            exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024.0 + mantissa, int(exponent) - 25);
        if (exponent == 31) value = mantissa == 0 ? INFINITY : NAN;
        if (bits[i] >> 15 != 0) value = -value;
        if (!same(half_values[i], value) || !same(half_values[i], static_cast<float>(h)) ||
            !same(bfloat16_values[i], std::bit_cast<float>(std::uint32_t{bits[i]} << 16)) ||
            !same(bfloat16_values[i], static_cast<float>(b))) {
            if (++wrong < 10)
                ADD_FAILURE() << std::hex << i << ": " << half_values[i] << " " << bfloat16_values[i];
        }
    }
    const auto halves = d_halves.values();
    const auto bfloat16s = d_bfloat16s.values();
    for (std::size_t i = 0; i < floats.size(); ++i) {
        const double as_half = rounded(floats[i], 10, -14, 65536);
        const double as_bfloat16 = rounded(floats[i], 7, -126, std::ldexp(1.0, 128));
        if (halves[i].bits != half(floats[i]).bits || bfloat16s[i].bits != bfloat16(floats[i]).bits ||
            !same(static_cast<float>(halves[i]), as_half) ||
            !same(static_cast<float>(bfloat16s[i]), as_bfloat16)) {
            if (++wrong < 10) {
                ADD_FAILURE() << std::hexfloat << floats[i] << std::hex << ": half " << halves[i].bits
                              << " on the device, " << half(floats[i]).bits << " on the host; bfloat16 "
                              << bfloat16s[i].bits << ", " << bfloat16(floats[i]).bits;
            }
        }
    }
    EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace kiln::test
