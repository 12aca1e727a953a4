// SPDX-License-Identifier: Apache-2.0
//
// What can go wrong, how it looks, and what a program does about it. Every error is a kiln::Error whose what() is a whole
// paragraph for a person; the more specific classes also give its parts to a program. Each case below makes one
// mistake, catches the class that belongs to it, and goes on.
#include <kiln/kiln.h>

#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

// A sound template, and what the cases below do to it.
const std::string kHead = R"(// scale: y = FACTOR * x
//@ kernel scale
//@ param  FACTOR  int in 1..100 = 2         "the factor"
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

int g_missing = 0;  // cases in which another error came, or none

// Makes the mistake, which must throw an E whose message has these words. parts: what else the class gives.
template <class E>
void expect(const char* mistake, const std::function<void()>& make, std::string_view words,
            const char* remedy, const std::function<void(const E&)>& parts = {}) {
    std::printf("%s\n", mistake);
    try {
        make();
        std::printf("  nothing was thrown\n");
    } catch (const E& error) {
        const std::string message = error.what();
        std::printf("  %s\n", message.c_str());
        if (parts) parts(error);
        std::printf("  -> %s\n\n", remedy);
        if (message.find(words) != std::string::npos) return;
        std::printf("  the message lacks '%s'\n", std::string(words).c_str());
    } catch (const kiln::Error& error) {
        std::printf("  another error came: %s\n", error.what());
    }
    ++g_missing;
}

void templates_and_kernels(kiln::Service& service) {
    const auto scale = service.parse(kHead + kBody, "scale.cu");

    expect<kiln::UsageError>(
        "A name that is wrong", [&] { service.find("gemm_tield"); }, "did you mean gemm_tiled?",
        "the message has the nearest names; Service::templates() lists all");

    expect<kiln::TemplateError>(
        "A template whose //@ lines are wrong",
        [&] { service.parse(replaced(kHead, "= 256", "= 100") + kBody, "scale.cu"); },
        "scale.cu:4:42: ", "fix that line; file and place are for an editor to go to",
        [](const kiln::TemplateError& error) {
            std::printf("  file %s, line %d, column %d\n", error.file().c_str(), error.line(),
                        error.column());
        });

    const auto rule = [](const kiln::VariantError& error) {
        std::printf("  rule: '%s'\n", error.rule().c_str());
    };
    expect<kiln::VariantError>(
        "A value that is not allowed",
        [&] {
            scale.variant({{"THREADS", 96}});
        },
        "the nearest is 64 or 128", "take the nearest value; Parameter has the list", rule);
    expect<kiln::VariantError>(
        "Allowed values that break a rule",
        [&] {
            scale.variant({{"FACTOR", 3}});
        },
        "would do", "take values that the message names, or let Chooser choose", rule);

    expect<kiln::BuildError>(
        "A template that does not compile",
        [&] { service.build(service.parse(kHead + replaced(kBody, "x[i]", "z[i]"), "scale.cu").variant()); },
        "scale.cu", "the log names the template's own lines",
        [](const kiln::BuildError& error) {
            // NVRTC writes "scale.cu(11): error", others "scale.cu:11:32: error".
            const std::size_t at = error.log().find("error");
            const std::size_t begin = at == std::string::npos ? 0 : error.log().rfind('\n', at) + 1;
            std::printf("  first error: %s\n",
                        error.log().substr(begin, error.log().find('\n', begin) - begin).c_str());
            if (error.log().find("scale.cu(11)") == std::string::npos &&
                error.log().find("scale.cu:11:") == std::string::npos)
                ++g_missing;
        });

    expect<kiln::UsageError>(
        "A parameter list that is not the kernel's",
        [&] { service.build<void(int, float*)>(scale.variant()); }, "Fn has 2 arguments",
        "write Fn as the message shows the kernel's declaration");

    expect<kiln::DeviceError>(
        "A device that is not there", [&] { kiln::Device::open(service.backend(), 99); }, "99",
        "Device::list() has what there is",
        [](const kiln::DeviceError& error) {
            std::printf("  driver call '%s', code %d\n", error.call().c_str(), error.code());
        });
}

void operations(kiln::Service& service) {
    const kiln::Stream stream = service.device().stream();
    kiln::Buffer x = service.device().allocate(4000), result = service.device().allocate(4);
    x.fill(0x3f800000);  // 1000 ones
    using SumFn = void(long long n, const float* x, float* sum);
    const auto call = [&](const kiln::TypedOperation<SumFn>& sum) {
        sum(stream, 1000, x.as<float>(), result.as<float>());
    };
    const auto check_sum = [&] {
        stream.synchronize();
        float sum = 0;
        result.copy_to(std::as_writable_bytes(std::span(&sum, 1)));
        std::printf("  after that the sum is %g\n", sum);
        if (sum != 1000) ++g_missing;
    };
    const kiln::TypedOperation<SumFn> sum(service, "sum", {{"T", "float"}});

    // The kernel needs to be compiled, and a capture can't wait for that. It has ended when the error arrives here.
    expect<kiln::NotReadyError>(
        "A capture that finds its kernel not built",
        [&] { kiln::Graph::capture(stream, [&] { call(sum); }); }, "n=1000",
        "prepare() the shape that the error has, and capture again",
        [&](const kiln::NotReadyError& error) {
            sum.prepare(std::span(&error.sizes(), 1), stream);
            kiln::Graph::capture(stream, [&] { call(sum); }).launch(stream);
            check_sum();
        });

    expect<kiln::UsageError>(
        "A null pointer", [&] { sum(stream, 1000, nullptr, result.as<float>()); },
        "the argument x is a null pointer", "a mistake of the program: nothing was launched");

    expect<kiln::UsageError>(
        "A tensor's name that is wrong",
        [&] {
            sum(stream, {{"n", 1000}}, {{"x", x.data()}, {"sun", result.data()}});
        },
        "there is no tensor sun", "Operation::arguments() lists names and types");

    // A pool without enough room. workspace_bytes() says how much a shape needs.
    std::size_t room = sum.workspace_bytes({{"n", 1000}}) / 2;
    std::vector<kiln::Buffer> pool;
    kiln::OperationOptions options;
    options.allocator.allocate = [&](std::size_t bytes, kiln::StreamRef) -> void* {
        if (bytes > room) return nullptr;
        room -= bytes;
        pool.push_back(service.device().allocate(bytes));
        return pool.back().data();
    };
    options.allocator.release = [&](void*, std::size_t bytes, kiln::StreamRef) { room += bytes; };
    const kiln::TypedOperation<SumFn> pooled(service, "sum", {{"T", "float"}}, options);
    expect<kiln::DeviceError>(
        "A pool of workspace that is too small", [&] { call(pooled); }, "gave no memory",
        "give the pool workspace_bytes() of the largest shape, and call again",
        [&](const kiln::DeviceError&) {
            room = pooled.workspace_bytes({{"n", 1000}});
            result.fill(0);
            call(pooled);
            check_sum();
        });
}

}  // namespace

int main() try {
    kiln::Service service;
    templates_and_kernels(service);
    operations(service);
    if (g_missing > 0) std::printf("%d of the errors did not come as expected\n", g_missing);
    return g_missing == 0 ? 0 : 1;
} catch (const kiln::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
