// SPDX-License-Identifier: Apache-2.0
//
// What is checked before a launch, and what its options become, on the tables of CUDA and of HIP filled with fakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>

#include <array>
#include <memory>
#include <string>

#include "fake_gpu.h"
#include "service/loaded_kernel.h"
#include "vendors.h"

namespace kiln::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kTemplate = R"(//@ kernel scale
//@ param VEC int in 1, 4 = 4
//@ param EARLY bool = false
//@ block 32
//@ grid min(1000, max(device.multiprocessors, 1) * 2)
//@ dependent EARLY
//@ size  n = 100 multiple VEC at_most 500 * VEC
//@ size  extras = 0 at_most n
//@ input x [n] align VEC * sizeof(float)
//@ input extra [extras] align 16
//@ output y [n]
#include "kiln/launch.h"
extern "C" __global__ void scale(int n, int extras, const float* x, const float* extra, float* y) {
    if (EARLY) kiln::wait_for_previous_grid();
}
)";

template <class Vendor>
class Launch : public ::testing::Test {
  public:
    static constexpr bool kIsCuda = Vendor::kBackend == Backend::cuda;

    Launch() {
        state.memory.push_back({memory.data(), sizeof(memory)});
        x = memory.data();
        y = memory.data() + 128;
        if constexpr (kIsCuda) state.attributes[cuda::kClusterLaunch] = 1;
    }

    Variant variant(const Values& values = {}) const {
        Target target{Vendor::kBackend, kIsCuda ? "sm_90a" : "gfx90a", {}};
        target.limits.multiprocessors = 100;
        return Template::parse(kTemplate, "scale.cu").for_target(target).variant(values);
    }
    /// What it throws; empty: it was launched.
    std::string launch(StreamRef stream = StreamRef::legacy_default(), const Values& values = {},
                       bool validates = false) {
        if (!driver) driver = gpu.open();
        const Binary binary = gpu.binary();
        const LoadedKernel kernel(variant(values), driver, driver->load(binary), {}, binary.kind, {},
                                  validates, nullptr);
        state.calls.clear();
        void* const arguments[] = {&n, &extras, &x, &extra, &y};
        try {
            kernel.launch(stream, arguments);
        } catch (const Error& error) {
            EXPECT_EQ(launches(), "") << "after " << error.what();
            return error.what();
        }
        EXPECT_NE(launches(), "");
        return "";
    }
    std::string launches() const {
        for (const std::string& call : state.calls)
            if (call.starts_with("launch_kernel")) return call;
        return "";
    }

    FakeGpu<Vendor> gpu;
    FakeState& state = gpu.state;
    std::shared_ptr<Driver> driver;
    alignas(16) std::array<float, 256> memory{};
    int n = 100, extras = 0;
    const float* x = nullptr;
    const float* extra = nullptr;
    float* y = nullptr;
};

TYPED_TEST_SUITE(Launch, Vendors, VendorName);

TYPED_TEST(Launch, SizesThatTheVariantDoesNotTakeAreNamed) {
    const auto launched = [&](int size, int vec = 4) {
        this->n = size;
        return this->launch(StreamRef::legacy_default(), {{"VEC", vec}});
    };
    EXPECT_EQ(launched(96), "");
    EXPECT_EQ(launched(97), "scale: the size n = 97 must be a multiple of 4; the nearest is 96 or 100");
    EXPECT_EQ(launched(97, 1), "");
    EXPECT_EQ(launched(0), "");
    EXPECT_EQ(launched(2000), "");
    EXPECT_THAT(launched(2004), HasSubstr("scale: the size n = 2004 must be at most 2000"));
    EXPECT_THAT(launched(501, 1), HasSubstr("the size n = 501 must be at most 500"));
    EXPECT_THAT(launched(-4), HasSubstr("the size n = -4 can't be negative"));
    this->extras = 12;
    this->extra = this->x;
    EXPECT_EQ(launched(12), "");
    EXPECT_THAT(launched(8), HasSubstr("the size extras = 12 must be at most 8")) << "of another argument";
}

TYPED_TEST(Launch, NullPointersAreNamed) {
    EXPECT_EQ(this->launch(), "") << "nothing is behind `extra`, which may lie nowhere";
    this->extras = 3;
    EXPECT_THAT(this->launch(),
                HasSubstr("scale: the argument extra is a null pointer, and its tensor has 3"));
    this->extras = 0;
    this->y = nullptr;
    EXPECT_THAT(this->launch(), HasSubstr("the argument y is a null pointer"));
}

TYPED_TEST(Launch, MisalignedPointersAreNamedWithWhatIsNeeded) {
    this->x += 1;
    char address[32];
    std::snprintf(address, sizeof(address), "0x%zx", reinterpret_cast<std::size_t>(this->x));
    EXPECT_THAT(this->launch(), AllOf(HasSubstr("the argument x is at " + std::string(address)),
                                      HasSubstr("a multiple of 16 bytes; it is 4 bytes behind one")));
    EXPECT_EQ(this->launch(StreamRef::legacy_default(), {{"VEC", 1}}), "") << "elements need 4";
    this->x = reinterpret_cast<const float*>(reinterpret_cast<const char*>(this->x) + 2);
    EXPECT_THAT(this->launch(StreamRef::legacy_default(), {{"VEC", 1}}), HasSubstr("a multiple of 4 bytes"));
    this->extra = this->x;
    this->x = this->memory.data();
    EXPECT_EQ(this->launch(), "") << "it has no elements";
}

TYPED_TEST(Launch, ValidationNamesWhatTheDriverKnowsOfPointers) {
    const auto validated = [&] { return this->launch(StreamRef::legacy_default(), {}, true); };
    EXPECT_EQ(validated(), "");
    alignas(16) float host[4] = {};
    this->x = host;
    EXPECT_EQ(this->launch(), "") << "the driver is not asked";
    EXPECT_EQ(this->state.count("pointer_get_attribute"), 0u);
    EXPECT_THAT(validated(), AllOf(HasSubstr("the argument x, 0x"), HasSubstr("is no memory of a device")));
    this->state.attributes[TypeParam::DeviceAttribute::kPageableMemoryAccess] = 1;
    EXPECT_EQ(validated(), "") << "this device reads all of the host's memory";
    this->state.attributes.erase(TypeParam::DeviceAttribute::kPageableMemoryAccess);
    this->state.memory.push_back({host, sizeof(host), 0, false});
    EXPECT_THAT(validated(), HasSubstr("belongs to device 0, which device 1 has no access to"));
    this->state.memory.back().ordinal = 1;
    EXPECT_THAT(validated(), HasSubstr("belongs to another context of device 1"));
    this->state.memory.back().is_usable = true;
    EXPECT_THAT(validated(), AllOf(HasSubstr("has fewer than the 400 bytes that this tensor needs"),
                                   HasSubstr("the last of them is no memory of a device")));
    this->n = 4;
    EXPECT_EQ(validated(), "");
}

TYPED_TEST(Launch, ValidationNamesStreamsOfOthers) {
    auto* const handle = fake_handle<gpu::StreamHandle>(4711);
    const auto validated = [&] { return this->launch(StreamRef(handle), {}, true); };
    this->state.stream_contexts[handle] = this->kIsCuda ? 2 : 1;  // the primary one of device 1
    EXPECT_EQ(validated(), "");
    this->state.stream_contexts[handle] = this->kIsCuda ? 1 : 0;
    EXPECT_THAT(validated(), HasSubstr("the stream belongs to device 0; take one of device 1"));
    EXPECT_EQ(this->launch(StreamRef(handle)), "") << "the driver is not asked";
    if constexpr (TestFixture::kIsCuda) {
        this->state.stream_contexts[handle] = 12;
        EXPECT_THAT(validated(), HasSubstr("belongs to another context of device 1"));
        this->state.green_streams[handle] = true;
        EXPECT_EQ(validated(), "") << "a green context has the modules of the primary one";
    }
    EXPECT_EQ(this->launch(StreamRef::per_thread_default(), {}, true), "");
}

TYPED_TEST(Launch, OptionsBecomeAttributesOfCuda) {
    LaunchOptions options;
    const auto with_options = [&](const Values& values = {}) {
        return this->launch(StreamRef::legacy_default().with(options), values);
    };
    options.priority = -3;
    const std::string priority = with_options();
    options.priority.reset();
    options.access_policy = AccessPolicyWindow{this->x, 400, 0.5F};
    if (this->kIsCuda) {
        EXPECT_EQ(priority, "");
        options.priority = -3;
        EXPECT_EQ(with_options({{"EARLY", true}}), "");
        EXPECT_EQ(this->launches(), "launch_kernel_ex 200 x 32 overlap 1 priority -3 window 400 0.50 21");
        options.dependent = false;
        EXPECT_EQ(with_options({{"EARLY", true}}), "");
        EXPECT_EQ(this->launches(), "launch_kernel_ex 200 x 32 priority -3 window 400 0.50 21");
    } else {
        EXPECT_THAT(priority,
                    HasSubstr("HIP has priorities of streams only; take a stream of that priority"));
        EXPECT_THAT(with_options(), HasSubstr("an access policy window: HIP has none"));
    }
    options.access_policy->hit_ratio = 1.5F;
    EXPECT_THAT(with_options(), HasSubstr("is 1.5"));
    options.access_policy->hit_ratio = 1;
    options.access_policy->miss = AccessPolicyWindow::Property::persisting;
    EXPECT_THAT(with_options(), HasSubstr("can't be persisting"));
    options = {};
    options.dependent = true;
    EXPECT_THAT(with_options(), HasSubstr("this kernel does not wait for the one before it"));
    EXPECT_EQ(with_options({{"EARLY", true}}), "");
}

TYPED_TEST(Launch, PersistentKernelsKeepToALimitOfMultiprocessors) {
    LaunchOptions options;
    const auto blocks = [&] {
        EXPECT_EQ(this->launch(StreamRef::legacy_default().with(options)), "");
        return this->launches().substr(0, this->launches().find(','));
    };
    EXPECT_EQ(blocks(), "launch_kernel 200");
    options.multiprocessors = 7;
    EXPECT_EQ(blocks(), "launch_kernel 14");
    options.multiprocessors = 1000;
    EXPECT_EQ(blocks(), "launch_kernel 200") << "there are 100";
    options.multiprocessors = -1;
    EXPECT_THAT(this->launch(StreamRef::legacy_default().with(options)), HasSubstr("is -1"));
}

TYPED_TEST(Launch, StreamsHavePriorities) {
    this->driver = this->gpu.open();
    EXPECT_EQ(this->driver->priorities().least, 0);
    EXPECT_EQ(this->driver->priorities().greatest, -5);
    this->state.calls.clear();
    const Stream stream(this->driver, -2);
    EXPECT_EQ(this->state.count("stream_create_with_priority 1 -2"), 1u);
}

}  // namespace
}  // namespace kiln::test
