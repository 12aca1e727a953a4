// SPDX-License-Identifier: Apache-2.0
//
// What only the real driver can tell: whose a pointer or a stream is, and what becomes of a launch's options. With a
// second context of the same device, which the application made and which a service can work in as well.
#include <gmock/gmock.h>
#include <kiln/kiln.h>

#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "device/cuda_api.h"
#include "device/driver.h"
#include "rejected.h"
#include "require.h"
#include "scale_kernel.h"

namespace kiln {
namespace {

using test::rejected;
using testing::HasSubstr;

constexpr const char* kTwice = R"(// twice: y = 2 x
//@ kernel twice
//@ size   n = 64
//@ input  x [n] align 16
//@ output y [n]
//@ block  32
//@ grid   min(ceil_div(n, 32), max(device.multiprocessors, 1))
#include "kiln/device.h"
extern "C" __global__ void twice(int n, const float* x, float* y) {
    for (int i = blockIdx.x * 32 + threadIdx.x; i < n; i += gridDim.x * 32) y[i] = 2 * x[i];
}
)";
using TwiceFn = void(int n, const float* x, float* y);

/// A context of the application's, not current.
class OwnContext {
  public:
    explicit OwnContext(const cuda::Api& api) : api_(api) {
        cuda::Result (*create)(cuda::ContextHandle*, unsigned, cuda::DeviceHandle) = nullptr;
        if (!api.library.resolve(create, "cuCtxCreate_v2") ||
            !api.library.resolve(destroy_, "cuCtxDestroy_v2"))
            return;
        cuda::ContextHandle before = nullptr;
        api.check(api.context_get_current(&before), "cuCtxGetCurrent");
        api.check(create(&context_, 0, 0), "cuCtxCreate");
        api.check(api.context_set_current(before), "cuCtxSetCurrent");
    }
    ~OwnContext() {
        if (context_ != nullptr) destroy_(context_);
    }
    OwnContext(const OwnContext&) = delete;
    OwnContext& operator=(const OwnContext&) = delete;

    cuda::ContextHandle get() const { return context_; }
    /// Calls work() where it is current.
    template <class Work>
    void within(const Work& work) const {
        cuda::ContextHandle before = nullptr;
        api_.check(api_.context_get_current(&before), "cuCtxGetCurrent");
        api_.check(api_.context_set_current(context_), "cuCtxSetCurrent");
        work();
        api_.check(api_.context_set_current(before), "cuCtxSetCurrent");
    }

  private:
    const cuda::Api& api_;
    cuda::Result (*destroy_)(cuda::ContextHandle) = nullptr;
    cuda::ContextHandle context_ = nullptr;
};

class LaunchChecksOnGpu : public test::ServiceFixture {
  protected:
    void SetUp() override {
        std::string reason;
        const bool found = !Device::list(Backend::cuda, &reason).empty();
        KILN_REQUIRE_OR_SKIP("gpu", found, reason);
        service_ = std::make_unique<Service>(on_gpu(ContextRef::primary()));
        api_ = cuda::api();
    }
    ServiceOptions on_gpu(ContextRef context) {
        ServiceOptions result = options();
        result.backend = Backend::cuda;
        result.context = context;
        result.validate = true;
        return result;
    }
    static Kernel<TwiceFn> twice(Service& service) {
        return service.build<TwiceFn>(service.parse(kTwice, "twice.cu").variant());
    }
    /// Launches it on the values 0, 1, ..., and checks the result.
    static void expect_twice(Service& service, StreamRef stream, int n = 1000) {
        std::vector<float> x(static_cast<std::size_t>(n)), y(x.size());
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
        Buffer from = service.device().allocate(x.size() * 4), to = service.device().allocate(x.size() * 4);
        from.copy_from(std::as_bytes(std::span(x)));
        to.fill(0x7fc00000);
        twice(service)(stream, n, from.as<float>(), to.as<float>());
        to.copy_to(std::as_writable_bytes(std::span(y)));
        for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], 2 * x[i]) << i;
    }

    std::unique_ptr<Service> service_;
    const cuda::Api* api_ = nullptr;
};

TEST_F(LaunchChecksOnGpu, PointersThatKernelsCanUseAreFine) {
    const auto kernel = twice(*service_);
    const Stream& stream = service_->stream();
    expect_twice(*service_, stream);
    // Stream-ordered, pinned and managed memory.
    const auto launched_on = [&](void* memory) {
        Buffer y = service_->device().allocate(400);
        EXPECT_NO_THROW(kernel(stream, 100, static_cast<const float*>(memory), y.as<float>()));
        stream.synchronize();
    };
    void* const pooled = service_->device().driver()->allocate_async(400, stream.handle());
    launched_on(pooled);
    service_->device().driver()->release_async(pooled, stream.handle());
    cuda::Result (*allocate_host)(void**, std::size_t, unsigned) = nullptr;
    cuda::Result (*free_host)(void*) = nullptr;
    cuda::Result (*allocate_managed)(cuda::DevicePointer*, std::size_t, unsigned) = nullptr;
    ASSERT_TRUE(api_->library.resolve(allocate_host, "cuMemHostAlloc") &&
                api_->library.resolve(free_host, "cuMemFreeHost") &&
                api_->library.resolve(allocate_managed, "cuMemAllocManaged"));
    void* pinned = nullptr;
    api_->check(allocate_host(&pinned, 400, 0), "cuMemHostAlloc");
    launched_on(pinned);
    api_->check(free_host(pinned), "cuMemFreeHost");
    cuda::DevicePointer managed = 0;
    api_->check(allocate_managed(&managed, 400, 1), "cuMemAllocManaged");
    launched_on(reinterpret_cast<void*>(managed));
    api_->check(api_->mem_free(managed), "cuMemFree");
}

TEST_F(LaunchChecksOnGpu, OthersAreNamed) {
    const auto kernel = twice(*service_);
    const Stream& stream = service_->stream();
    Buffer y = service_->device().allocate(4096);
    EXPECT_THAT(rejected([&] { kernel(stream, 100, nullptr, y.as<float>()); }),
                HasSubstr("twice: the argument x is a null pointer"));
    EXPECT_THAT(rejected([&] { kernel(stream, 100, y.as<float>() + 1, y.as<float>()); }),
                HasSubstr("the argument x is at 0x"));
    EXPECT_THAT(rejected([&] { kernel(stream, 1 << 30, y.as<float>(), y.as<float>()); }),
                HasSubstr("the argument x, 0x"))
        << "4 GiB of a buffer of 4 KiB";
    int pageable = 0;
    api_->check(api_->device_get_attribute(&pageable, cuda::kPageableMemoryAccess, 0),
                "cuDeviceGetAttribute");
    alignas(16) static float host[100];
    if (pageable == 0) {
        EXPECT_THAT(rejected([&] { kernel(stream, 100, host, y.as<float>()); }),
                    HasSubstr("is no memory of a device"));
    } else {
        EXPECT_NO_THROW(kernel(stream, 100, host, y.as<float>()))
            << "this device reads all of the host's memory";
        stream.synchronize();
    }
    EXPECT_EQ(service_->device().is_capturing(stream), false) << "the context still works";
}

TEST_F(LaunchChecksOnGpu, WhatBelongsToAnotherContextIsNamed) {
    const auto kernel = twice(*service_);
    const OwnContext other(*api_);
    if (other.get() == nullptr) GTEST_SKIP() << "this driver has no cuCtxCreate_v2";
    // Of memory that another context of the same device allocated, the driver says that it is usable.
    cuda::StreamHandle stream = nullptr;
    other.within([&] { api_->check(api_->stream_create(&stream, 1), "cuStreamCreate"); });
    Buffer y = service_->device().allocate(4096);
    EXPECT_THAT(rejected([&] { kernel(StreamRef(stream), 100, y.as<float>(), y.as<float>()); }),
                HasSubstr("the stream belongs to another context of device 0"));
    other.within([&] { api_->check(api_->stream_destroy(stream), "cuStreamDestroy"); });
}

// All that a service does: memory, streams, modules with tensor maps, an operation with workspace, a graph.
TEST_F(LaunchChecksOnGpu, AServiceWorksInAContextOfTheApplications) {
    const OwnContext own(*api_);
    if (own.get() == nullptr) GTEST_SKIP() << "this driver has no cuCtxCreate_v2";
    cuda::ContextHandle before = nullptr, after = nullptr;
    api_->check(api_->context_get_current(&before), "cuCtxGetCurrent");
    {
        Service service(on_gpu(ContextRef(own.get())));
        EXPECT_EQ(service.device().driver()->context(), own.get());
        expect_twice(service, service.stream());
        cuda::StreamHandle stream = nullptr;
        own.within([&] { api_->check(api_->stream_create(&stream, 1), "cuStreamCreate"); });
        expect_twice(service, StreamRef(stream));
        const auto kernel = twice(service);
        Buffer here = service.device().allocate(4096);
        EXPECT_THAT(rejected([&] { kernel(service_->stream(), 9, here.as<float>(), here.as<float>()); }),
                    HasSubstr("belongs to another device"))
            << "a stream of Kiln's of the primary context";

        const Operation sum(service, "sum", {{"T", Value("float")}});
        std::vector<float> ones(100'000, 1);
        Buffer x = service.device().allocate(ones.size() * 4), total = service.device().allocate(4);
        x.copy_from(std::as_bytes(std::span(ones)));
        const auto call = [&](StreamRef on) {
            sum(on, {{"n", 100'000}}, {{"x", x.data()}, {"sum", total.data()}});
        };
        const auto expect_total = [&] {
            float found = 0;
            total.copy_to(std::as_writable_bytes(std::span(&found, 1)));
            EXPECT_EQ(found, 100'000.0F);
            total.fill(0);
        };
        call(StreamRef(stream));
        expect_total();
        const Sizes sizes = {{"n", 100'000}};
        sum.prepare(std::span(&sizes, 1), service.stream());
        const Graph graph = Graph::capture(service.stream(), [&] { call(service.stream()); });
        graph.launch(service.stream());
        expect_total();
        own.within([&] { api_->check(api_->stream_destroy(stream), "cuStreamDestroy"); });
        sum.release();
    }
    api_->check(api_->context_get_current(&after), "cuCtxGetCurrent");
    EXPECT_EQ(before, after);
}

TEST_F(LaunchChecksOnGpu, OptionsAreTaken) {
    const PriorityRange range = service_->device().priorities();
    EXPECT_LT(range.greatest, range.least);
    const Stream urgent = service_->device().stream(range.greatest);
    expect_twice(*service_, urgent);
    Buffer window = service_->device().allocate(1 << 20);
    LaunchOptions options;
    options.priority = range.greatest;
    options.access_policy = AccessPolicyWindow{window.data(), window.size_bytes(), 0.5F};
    options.multiprocessors = 3;
    expect_twice(*service_, StreamRef(service_->stream()).with(options));
    const Graph graph = Graph::capture(urgent, [&] {
        twice (*service_)(StreamRef(urgent).with(options), 100, window.as<float>(), window.as<float>());
    });
    graph.launch(urgent);
    urgent.synchronize();
}

// Persistent GEMMs with tensor maps, clusters and overlapping launches, on a few multiprocessors.
TEST_F(LaunchChecksOnGpu, PersistentGemmsKeepToALimitOfMultiprocessors) {
    const int m = 1024, n = 768, k = 256;
    std::mt19937 random(1);
    std::vector<half> a, b;
    for (int i = 0; i < m * k; ++i) a.emplace_back(static_cast<float>(static_cast<int>(random() % 7) - 3));
    for (int i = 0; i < k * n; ++i) b.emplace_back(static_cast<float>(static_cast<int>(random() % 7) - 3));
    Buffer on_a = service_->device().allocate(a.size() * 2), on_b = service_->device().allocate(b.size() * 2);
    Buffer on_c = service_->device().allocate(static_cast<std::size_t>(m) * n * 4);
    on_a.copy_from(std::as_bytes(std::span(a)));
    on_b.copy_from(std::as_bytes(std::span(b)));
    const TypedOperation<void(int, int, int, const half*, const half*, float*)> gemm(*service_, "gemm",
                                                                                     {{"T", Value("half")}});
    std::vector<float> first, c(static_cast<std::size_t>(m) * n);
    for (const int multiprocessors : {0, 1, 7, 40}) {
        LaunchOptions options;
        options.multiprocessors = multiprocessors;
        if (multiprocessors == 7) options.dependent = false;
        on_c.fill(0x7fc00000);
        gemm(StreamRef(service_->stream()).with(options), m, n, k, on_a.as<half>(), on_b.as<half>(),
             on_c.as<float>());
        on_c.copy_to(std::as_writable_bytes(std::span(c)));
        if (first.empty()) first = c;
        EXPECT_EQ(c, first) << multiprocessors;
    }
    for (const std::size_t at : {std::size_t{0}, c.size() / 2 + 5, c.size() - 1}) {
        float sum = 0;
        for (int i = 0; i < k; ++i)
            sum += float(a[at / n * k + static_cast<std::size_t>(i)]) *
                   float(b[static_cast<std::size_t>(i) * n + at % n]);
        EXPECT_EQ(c[at], sum);
    }
}

TEST_F(LaunchChecksOnGpu, DevicesShareBuilds) {
    const int second = Device::list(Backend::cuda).size() > 1 ? 1 : 0;
    DeviceServices services(on_gpu(ContextRef::primary()));
    EXPECT_EQ(&services.current(), &services.of(Device::current(Backend::cuda)));
    Service& first = services.of(0);
    Service other(first, second);
    expect_twice(first, first.stream());
    expect_twice(other, other.stream());
    if (first.target().arch == other.target().arch) {
        EXPECT_LE(first.counters().compiles, 1u);
    }
    if (second == 0) return;
    const auto kernel = twice(first);
    Buffer there = other.device().allocate(4096), here = first.device().allocate(4096);
    EXPECT_THROW(kernel(other.stream(), 9, here.as<float>(), here.as<float>()), UsageError);
    EXPECT_THAT(rejected([&] { kernel(first.stream(), 9, there.as<float>(), here.as<float>()); }),
                HasSubstr("belongs to device 1, which device 0 has no access to"));
}

}  // namespace
}  // namespace kiln
