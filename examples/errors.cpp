// SPDX-License-Identifier: Apache-2.0
//
// What can go wrong, and how it looks. Every error is a kiln::Error whose what() is a whole paragraph for
// a person; the more specific classes also give its parts to a program.
#include <kiln/kiln.h>

#include <cstdio>
#include <string>

namespace {

// A sound template, and what the cases below do to it.
const std::string kHead = R"(// scale: y = FACTOR * x
//@ kernel scale
//@ param  FACTOR  int in 1..100 = 2         "what to multiply with"
//@ param  THREADS int in 64, 128, 256 = 256 "per block"
//@ require THREADS % (32 * FACTOR) == 0     "whole warps for every factor"
//@ block  THREADS
//@ grid   ceil_div(n, THREADS)
)";
const std::string kBody = R"(#include "kiln/device.h"
extern "C" __global__ void scale(int n, const float* x, float* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = FACTOR * x[i];
}
)";

std::string replaced(std::string text, const std::string& what, const std::string& with) {
    return text.replace(text.find(what), what.size(), with);
}

// Runs what must throw an E. Prints the message, then the parts; false when something else came.
template <class E, class Action, class Parts>
bool shows(const char* name, Action action, Parts parts) {
    try {
        action();
        std::printf("%s did not come\n\n", name);
    } catch (const E& error) {
        std::printf("%s\n  %s\n", name, error.what());
        parts(error);
        std::printf("\n");
        return true;
    } catch (const kiln::Error& error) {
        std::printf("%s did not come, but\n  %s\n\n", name, error.what());
    }
    return false;
}

}  // namespace

int main() try {
    kiln::Service kiln;
    const auto scale = kiln.parse(kHead + kBody, "scale.cu");
    const auto no_parts = [](const kiln::Error&) {};
    const auto rule = [](const kiln::VariantError& error) {
        std::printf("  rule: '%s'\n", error.rule().c_str());
    };
    bool all = true;

    all &= shows<kiln::TemplateError>(
        "TemplateError: the default is none of the values",
        [&] { kiln.parse(replaced(kHead, "= 256", "= 100") + kBody, "scale.cu"); },
        [](const kiln::TemplateError& error) {
            std::printf("  file %s, line %d, column %d\n", error.file().c_str(), error.line(),
                        error.column());
        });

    all &= shows<kiln::VariantError>(
        "VariantError: a value that is not allowed",
        [&] {
            scale.variant({{"THREADS", 96}});
        },
        rule);

    all &= shows<kiln::VariantError>(
        "VariantError: allowed values that break a rule",
        [&] {
            scale.variant({{"FACTOR", 3}});
        },
        rule);

    all &= shows<kiln::BuildError>(
        "BuildError: the compiler rejects the kernel, and names the template's own line",
        [&] { kiln.build(kiln.parse(kHead + replaced(kBody, "x[i]", "z[i]"), "scale.cu").variant()); },
        [](const kiln::BuildError& error) { std::printf("  log: %zu bytes\n", error.log().size()); });

    all &= shows<kiln::UsageError>(
        "UsageError: a parameter list that is not the kernel's",
        [&] { kiln.build<void(int, float*)>(scale.variant()); }, no_parts);

    all &= shows<kiln::UsageError>(
        "UsageError: a template that is not there", [&] { kiln.find("gemm_tield"); }, no_parts);

    all &= shows<kiln::DeviceError>(
        "DeviceError: a device that is not there", [&] { kiln::Device::open(kiln.backend(), 99); },
        [](const kiln::DeviceError& error) {
            std::printf("  driver call '%s', code %d\n", error.call().c_str(), error.code());
        });

    return all ? 0 : 1;
} catch (const kiln::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
