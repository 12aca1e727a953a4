// SPDX-License-Identifier: Apache-2.0
//
// The least there is: a kernel from a string, built for whatever this machine has (an NVIDIA GPU, an AMD
// GPU, or its processor), and called like a function.
#include <kiln/kiln.h>

#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

// A template is plain CUDA C++. Its //@ lines say what may be chosen and how it is launched; what is
// chosen becomes a constant of that name.
constexpr const char* kScale = R"(// scale: y = FACTOR * x
//@ kernel scale
//@ param  FACTOR int in 1..100 = 2  "the factor"
//@ block  256
//@ grid   ceil_div(n, 256)
#include "kiln/device.h"

extern "C" __global__ void scale(int n, const float* x, float* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = FACTOR * x[i];
}
)";

int main() try {
    kiln::Service kiln;
    const auto variant = kiln.parse(kScale, "scale.cu").variant({{"FACTOR", 3}});
    const auto scale = kiln.build<void(int, const float*, float*)>(variant);

    std::vector<float> x(1000), y(x.size());
    std::iota(x.begin(), x.end(), 0.0f);
    auto x_there = kiln.device().allocate(x.size() * sizeof(float));
    auto y_there = kiln.device().allocate(y.size() * sizeof(float));
    x_there.copy_from(std::as_bytes(std::span(x)));

    scale(kiln.stream(), static_cast<int>(x.size()), x_there.as<float>(), y_there.as<float>());
    kiln.stream().synchronize();  // a launch returns before the kernel has run

    y_there.copy_to(std::as_writable_bytes(std::span(y)));
    for (std::size_t i = 0; i < x.size(); ++i) {
        if (y[i] == 3 * x[i]) continue;
        std::fprintf(stderr, "y[%zu] is %g and should be %g\n", i, y[i], 3 * x[i]);
        return 1;
    }
    std::printf("scaled %zu numbers on %s\n", x.size(), kiln.device().info().name.c_str());
    return 0;
} catch (const kiln::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
