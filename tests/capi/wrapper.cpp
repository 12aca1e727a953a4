// SPDX-License-Identifier: Apache-2.0
//
// A C++17 program on kiln/c/kiln.hpp. Usage: wrapper DIRECTORY.
#include <cstdio>
#include <cstring>
#include <future>
#include <kiln/c/kiln.hpp>
#include <string>
#include <utility>
#include <vector>

static int failures = 0;

#define CHECK(condition)                                                        \
    do {                                                                        \
        if (!(condition)) {                                                     \
            std::fprintf(stderr, "wrapper.cpp:%d: %s\n", __LINE__, #condition); \
            ++failures;                                                         \
        }                                                                       \
    } while (0)

/// What a call throws.
template <class Call>
kiln::c::Error error_of(const Call& call) {
    try {
        call();
    } catch (const kiln::c::Error& error) {
        return error;
    }
    throw std::logic_error("nothing was thrown");
}

int main(int argc, char** argv) try {
    if (argc < 2) return 2;
    const std::string directory = std::string(argv[1]) + "/cache";
    auto cache = kiln::c::sized<kiln_cache_options>();
    cache.directory = directory.c_str();
    cache.remote_url = "";
    auto options = kiln::c::sized<kiln_service_options>();
    options.backend = "host";
    options.workers = 1;
    options.cache = &cache;
    const kiln::c::Service service(options);
    CHECK(std::string(service.describe().backend) == "host");

    const kiln::c::Template scale = service.parse(
        "// scale: y = FACTOR * x\n//@ kernel scale\n//@ param FACTOR int in 1..100 = 2\n//@ block 32\n"
        "//@ grid ceil_div(n, 32)\n#include \"kiln/device.h\"\n"
        "extern \"C\" __global__ void scale(int n, const float* x, float* y) {\n"
        "    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) y[i] = FACTOR * x[i];\n}\n",
        "scale.cu");
    CHECK(std::string(scale.describe().name) == "scale");
    kiln::c::Variant variant = scale.variant({{"FACTOR", "3"}});
    CHECK(variant.value("FACTOR") == "3" && variant.text() == "scale FACTOR=3");

    const std::vector<float> x = {1, 2, 3, 4, 5};
    std::vector<float> y(x.size());
    kiln::c::Buffer x_there = service.allocate(sizeof(float) * x.size());
    kiln::c::Buffer y_there = service.allocate(sizeof(float) * y.size());
    x_there.write(x);
    const auto check_scales = [&](const kiln::c::Kernel& kernel, float factor) {
        kernel(service.stream(), static_cast<int>(x.size()), x_there.as<const float>(), y_there.as<float>());
        service.synchronize();
        y_there.read(y);
        for (std::size_t i = 0; i < x.size(); ++i) CHECK(y[i] == factor * x[i]);
    };
    kiln::c::Kernel kernel = service.build(variant);
    check_scales(kernel, 3);
    CHECK(kernel.describe().argument_count == 3);

    // Owners move; what was moved from owns nothing.
    const kiln::c::Kernel moved = std::move(kernel);
    CHECK(moved && !kernel);
    check_scales(moved, 3);

    // Captured, and replayed; what a capture throws is thrown.
    const float* const from = x_there.as<float>();
    float* const to = y_there.as<float>();
    const int n = static_cast<int>(x.size());
    const kiln::c::Graph graph = service.capture([&](void* stream) { moved(stream, n, from, to); });
    y.assign(y.size(), -1);
    y_there.write(y);
    graph.launch(service.stream());
    service.synchronize();
    y_there.read(y);
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(y[i] == 3 * x[i]);
    CHECK(error_of([&] { (void)service.capture([&](void* stream) { moved(stream, n); }); }).status() ==
          KILN_ERROR_USAGE);
    CHECK(std::string(service.explain(variant).tier) == "disk");

    // In the background, and failing there.
    std::promise<kiln::c::Kernel> built;
    service.build_async(variant.with({{"FACTOR", "5"}}),
                        [&](kiln::c::Kernel made, const kiln::c::Error* error) {
                            CHECK(error == nullptr);
                            built.set_value(std::move(made));
                        });
    check_scales(built.get_future().get(), 5);
    std::promise<kiln_status> failed;
    const kiln::c::Template bad = service.parse(
        "// bad: does not compile\n//@ kernel bad\n//@ block 32\n//@ grid 1\n#include \"kiln/device.h\"\n"
        "extern \"C\" __global__ void bad(int n) { nonsense; }\n",
        "bad.cu");
    service.build_async(bad.variant(), [&](const kiln::c::Kernel& none, const kiln::c::Error* error) {
        CHECK(!none && error != nullptr && error->log().find("nonsense") != std::string::npos);
        failed.set_value(error == nullptr ? KILN_OK : error->status());
    });
    CHECK(failed.get_future().get() == KILN_ERROR_BUILD);

    // Cancelled before it has begun; with a stop that is not requested; with none.
    const kiln::c::Stop stop = kiln::c::Stop::create();
    for (const bool is_cancelled : {false, true}) {
        if (is_cancelled) stop.request();
        std::promise<std::string> ended;
        service.build_async(variant.with({{"FACTOR", is_cancelled ? "8" : "7"}}), stop,
                            [&](const kiln::c::Kernel& made, const kiln::c::Error* error) {
                                CHECK(static_cast<bool>(made) == (error == nullptr));
                                ended.set_value(error == nullptr ? "" : error->what());
                            });
        const std::string why = ended.get_future().get();
        CHECK(is_cancelled ? why.find("was not begun, since a stop was requested") != std::string::npos
                           : why.empty());
    }

    // Errors.
    const kiln::c::Error wrong =
        error_of([&] { (void)service.parse("//@ kernel a\n//@ blokc 3\n", "wrong.cu"); });
    CHECK(wrong.status() == KILN_ERROR_TEMPLATE && wrong.file() == "wrong.cu" && wrong.line() == 2);
    CHECK(error_of([&] { (void)service.find("sotfmax"); }).status() == KILN_ERROR_USAGE);
    CHECK(error_of([&] { (void)kernel.describe(); }).status() == KILN_ERROR_USAGE);

    auto wanted = kiln::c::sized<kiln_operation_options>();
    wanted.when_missing = KILN_WHEN_MISSING_FAIL;
    const kiln::c::Operation total(service, "sum", {{"T", "float"}}, &wanted);
    const auto call = [&] {
        total(service.stream(), {{"n", 5}}, {{"x", x_there.data()}, {"sum", y_there.data()}});
    };
    const kiln::c::Error not_ready = error_of(call);
    CHECK(not_ready.status() == KILN_ERROR_NOT_READY && not_ready.sizes().size() == 1);
    total.prepare({{"n", 5}});
    CHECK(total.explain({{"n", 5}}).is_built);
    call();
    service.synchronize();
    y_there.read(y);
    CHECK(y[0] == 15);

    CHECK(kiln::c::Cache(cache).usage().entries >= 3);
    if (failures == 0) std::puts("wrapped");
    return failures == 0 ? 0 : 1;
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
