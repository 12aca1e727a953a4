// SPDX-License-Identifier: Apache-2.0
//
// Templates in a directory of your own: templates/saxpy.cu, which includes scale.h from the same directory. They
// are found by name like the built-in ones, and a changed header is a new build, since its content is
// part of the key.
#include <kiln/kiln.h>

#include <cstdio>
#include <span>
#include <vector>

int main(int argc, char** argv) try {
    if (argc != 2) {
        std::fprintf(stderr, "usage: %s TEMPLATE_DIRECTORY\n", argv[0]);
        return 2;
    }
    kiln::ServiceOptions options;
    options.template_directories = {argv[1]};
    kiln::Service kiln(options);
    for (const auto& found : kiln.templates())
        std::printf("%-12s %s\n", found.name().c_str(), found.summary().c_str());

    using SaxpyFn = void(int n, float a, const float* x, float* y);
    const auto saxpy = kiln.build<SaxpyFn>(kiln.find("saxpy").variant({{"THREADS", 128}}));

    const std::vector<float> x(1000, 2.0f);
    std::vector<float> y(x.size(), 1.0f);
    auto x_there = kiln.device().allocate(x.size() * sizeof(float));
    auto y_there = kiln.device().allocate(y.size() * sizeof(float));
    x_there.copy_from(std::as_bytes(std::span(x)));
    y_there.copy_from(std::as_bytes(std::span(y)));
    saxpy(kiln.stream(), static_cast<int>(x.size()), 5.0f, x_there.as<float>(), y_there.as<float>());
    kiln.stream().synchronize();
    y_there.copy_to(std::as_writable_bytes(std::span(y)));

    for (const float value : y) {
        if (value == 11.0f) continue;
        std::fprintf(stderr, "5 * 2 + 1 came out as %g\n", value);
        return 1;
    }
    std::printf("5 * 2 + 1 = 11, %zu times\n", y.size());
    return 0;
} catch (const kiln::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
