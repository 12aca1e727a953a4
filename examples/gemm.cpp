// SPDX-License-Identifier: Apache-2.0
//
// C = A * B with a built-in template: A and B in FP16, accumulation in FP32, tile sizes of our choice. Then
// every element of C is compared with a reference within its rounding bound.
#include <kiln/kiln.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <span>
#include <vector>

using GemmFn = void(int m, int n, int k, const kiln::half* a, const kiln::half* b, float* c);

namespace {

std::vector<kiln::half> random_matrix(int rows, int columns, std::mt19937& random) {
    std::uniform_real_distribution<float> between(-1.0f, 1.0f);
    std::vector<kiln::half> matrix(static_cast<std::size_t>(rows) * columns);
    for (auto& element : matrix) element = kiln::half(between(random));
    return matrix;
}

template <class T>
kiln::Buffer uploaded(const kiln::Device& device, const std::vector<T>& values) {
    auto buffer = device.allocate(values.size() * sizeof(T));
    buffer.copy_from(std::as_bytes(std::span(values)));
    return buffer;
}

// The largest |error| / bound over all elements. Accumulating k products in float has an error of at most
// k * 2^-24 * (|A| |B|), in any order; the reference accumulates in double.
double worst_error_over_bound(int m, int n, int k, const std::vector<kiln::half>& a,
                              const std::vector<kiln::half>& b, const std::vector<float>& c) {
    double worst = 0;
    for (int row = 0; row < m; ++row) {
        for (int column = 0; column < n; ++column) {
            double sum = 0, magnitude = 0;
            for (int i = 0; i < k; ++i) {
                const double product = double{float(a[row * k + i])} * float(b[i * n + column]);
                sum += product;
                magnitude += std::abs(product);
            }
            const double ratio = std::abs(c[row * n + column] - sum) / (k * std::ldexp(magnitude, -24));
            if (!(ratio <= worst)) worst = ratio;  // written so that a NaN counts as largest
        }
    }
    return worst;
}

}  // namespace

int main() try {
    const int m = 200, n = 300, k = 100;  // no multiples of the tile: the template takes care of the edges
    std::mt19937 random(1);
    const auto a = random_matrix(m, k, random);
    const auto b = random_matrix(k, n, random);
    std::vector<float> c(static_cast<std::size_t>(m) * n);

    kiln::Service kiln;
    const auto variant = kiln.find("gemm_tiled").variant({{"BM", 64}, {"BN", 64}, {"PAD", 2}});
    const auto gemm = kiln.build<GemmFn>(variant);  // memory, disk, or compiled once

    const auto a_there = uploaded(kiln.device(), a);
    const auto b_there = uploaded(kiln.device(), b);
    const auto c_there = kiln.device().allocate(c.size() * sizeof(float));
    gemm(kiln.stream(), m, n, k, a_there.as<kiln::half>(), b_there.as<kiln::half>(), c_there.as<float>());
    kiln.stream().synchronize();
    c_there.copy_to(std::as_writable_bytes(std::span(c)));

    const auto origin = kiln::name(gemm.origin());
    std::printf("%s\non %s; %.*s; built in %.1f ms\n", variant.text().c_str(),
                kiln.device().info().name.c_str(), static_cast<int>(origin.size()), origin.data(),
                gemm.info().build_ms + gemm.info().load_ms);
    const double worst = worst_error_over_bound(m, n, k, a, b, c);
    std::printf("largest error: %.3f of the bound\n", worst);
    return worst <= 1 ? 0 : 1;
} catch (const kiln::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
