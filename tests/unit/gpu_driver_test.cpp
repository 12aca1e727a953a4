// SPDX-License-Identifier: Apache-2.0
//
// The GPU device layer with the tables of CUDA and of HIP, each filled with fakes: what it calls in which order, what
// its errors say, and what it gives back. Neither a driver nor a GPU is needed.
#include "device/gpu_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "fake_gpu.h"
#include "vendors.h"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;

template <class Vendor>
class GpuDriver : public ::testing::Test {
  public:
    static constexpr bool kIsCuda = Vendor::kBackend == Backend::cuda;

    /// The function as messages call it.
    static std::string name(const std::string& symbol) {
        return symbol.ends_with("_v2") ? symbol.substr(0, symbol.size() - 3) : symbol;
    }
    template <class Function>
    static DeviceError error_of(Function function) {
        try {
            function();
        } catch (const DeviceError& error) {
            return error;
        }
        ADD_FAILURE() << "nothing was thrown";
        return DeviceError("");
    }

    FakeGpu<Vendor> gpu;
    FakeState& state = gpu.state;
};

TYPED_TEST_SUITE(GpuDriver, Vendors, VendorName);

TYPED_TEST(GpuDriver, DescribesADeviceByTheTablesAnswers) {
    using Attribute = typename TypeParam::DeviceAttribute;
    for (const Attribute which :
         {Attribute::kMaxSharedPerMultiprocessor, Attribute::kMaxRegistersPerBlock,
          Attribute::kMaxThreadsPerMultiprocessor, Attribute::kMaxBlocksPerMultiprocessor,
          Attribute::kMultiprocessorCount, Attribute::kL2CacheSize, Attribute::kMaxGridX,
          Attribute::kMaxGridY, Attribute::kMaxGridZ})
        this->state.attributes[which] = 10000 + which;
    if constexpr (TestFixture::kIsCuda) {
        this->state.attributes[cuda::kComputeCapabilityMajor] = 9;
        this->state.attributes[cuda::kComputeCapabilityMinor] = 0;
        this->state.attributes[cuda::kMaxRegistersPerMultiprocessor] = 65536;
        this->state.attributes[cuda::kMaxSharedPerBlockOptin] = 232448;
        this->state.attributes[cuda::kClusterLaunch] = 1;
    }
    std::string reason;
    const auto devices = gpu::list_devices<TypeParam>(&this->gpu.api, &reason);
    ASSERT_EQ(devices.size(), 2u) << reason;
    const DeviceInfo& info = devices[1];
    EXPECT_EQ(info.name, "Fake 1");
    EXPECT_EQ(info.ordinal, 1);
    EXPECT_EQ(info.driver, "FAKE 1.2");
    EXPECT_EQ(info.arch, TestFixture::kIsCuda ? "sm_90a" : "gfx90a");
    EXPECT_EQ(info.memory_bytes, std::size_t{1} << 20);
    EXPECT_EQ(info.limits.threads_per_block, 1024);
    EXPECT_EQ(info.limits.shared_bytes_per_block, 49152);
    EXPECT_EQ(info.limits.shared_bytes_per_block_optin, TestFixture::kIsCuda ? 232448 : 49152);
    EXPECT_EQ(info.limits.blocks_per_cluster, TestFixture::kIsCuda ? 8 : 1);
    EXPECT_EQ(info.limits.l2_bytes, 10000 + Attribute::kL2CacheSize);
    EXPECT_EQ(info.limits.multiprocessors, 10000 + Attribute::kMultiprocessorCount);
    EXPECT_EQ(info.limits.grid_z, 10000 + Attribute::kMaxGridZ);
    EXPECT_GE(info.limits.registers_per_multiprocessor, info.limits.registers_per_block);
}

TYPED_TEST(GpuDriver, AQuestionWithoutAnAnswerIsTheArchitecturesOrAnError) {
    std::string reason;
    const auto devices = gpu::list_devices<TypeParam>(&this->gpu.api, &reason);
    if constexpr (TestFixture::kIsCuda) {
        EXPECT_TRUE(devices.empty());
        EXPECT_THAT(reason, HasSubstr("cuDeviceGetAttribute failed: a fake error (FAKE_ERROR, 1)"));
    } else {
        ASSERT_EQ(devices.size(), 2u) << reason;
        EXPECT_EQ(devices[0].limits.l2_bytes, arch_limits(Backend::hip, "gfx90a")->l2_bytes);
        EXPECT_EQ(devices[0].limits.warp_size, 32);  // was answered, so the table of gfx90a does not count
    }
}

TYPED_TEST(GpuDriver, OpeningADeviceThatIsNotThereNamesThoseThatAre) {
    if constexpr (!TestFixture::kIsCuda) {
        const auto error =
            this->error_of([&] { gpu::open_device<TypeParam>(&this->gpu.api, std::string(), 2, nullptr); });
        EXPECT_STREQ(error.what(), "there is no HIP device 2; there are 0 (Fake 0), 1 (Fake 1)");
        EXPECT_EQ(error.call(), "hipSetDevice");
        EXPECT_EQ(error.code(), gpu::kErrorInvalidDevice);
    }
    const auto error =
        this->error_of([&] { gpu::open_device<TypeParam>(nullptr, "it was not found", 0, nullptr); });
    EXPECT_EQ(std::string(error.what()),
              "there is no " + std::string(TypeParam::kName) + " device: it was not found");
    EXPECT_EQ(error.call(), TestFixture::kIsCuda ? "cuInit" : "hipInit");
}

TYPED_TEST(GpuDriver, BlockingCopiesWaitForAllWorkBeforeAndForThemselvesAfter) {
    const auto driver = this->gpu.open();
    const std::array<std::uint8_t, 7> bytes{1, 2, 3, 4, 5, 6, 7};
    void* const memory = driver->allocate(bytes.size());
    driver->copy_to_device(memory, bytes.data(), bytes.size());
    EXPECT_LT(this->state.position("synchronize"), this->state.position("memcpy_to_device"));
    EXPECT_LT(this->state.position("memcpy_to_device"), this->state.position("stream_synchronize"));
    std::array<std::uint8_t, 7> back{};
    driver->copy_from_device(back.data(), memory, back.size());
    EXPECT_EQ(back, bytes);
    EXPECT_EQ(this->state.count("synchronize"), 2u);
    EXPECT_EQ(this->state.count("stream_create 1"), 1u) << "one non-blocking stream for all copies";
    driver->release(memory);
    EXPECT_EQ(this->state.count("mem_free"), 1u);
}

TYPED_TEST(GpuDriver, FillsWholeWordsAndTheBytesThatAreLeft) {
    const auto driver = this->gpu.open();
    std::array<std::uint8_t, 8> memory{};
    driver->fill(memory.data(), 0x80030201u, 7);
    EXPECT_EQ(memory, (std::array<std::uint8_t, 8>{1, 2, 3, 0x80, 1, 2, 3, 0}));
}

TYPED_TEST(GpuDriver, AFailedAllocationSaysWhatWasAskedForAndWhatIsFree) {
    const auto driver = this->gpu.open();
    this->state.errors["mem_alloc"] = 2;
    const auto error = this->error_of([&] { driver->allocate(100); });
    const std::string call = TestFixture::kIsCuda ? "cuMemAlloc" : "hipMalloc";
    EXPECT_EQ(error.what(), call +
                                " failed: a fake error (FAKE_ERROR, 2); asking for 100 bytes on device 1 "
                                "(Fake 9), where 5 of 10 are free");
    EXPECT_EQ(error.call(), call);
    EXPECT_EQ(error.code(), 2);
    EXPECT_EQ(driver->allocate(0), nullptr);
}

TYPED_TEST(GpuDriver, AFailedCallIsNamed) {
    const auto driver = this->gpu.open();
    const auto expect = [&](const char* member, const char* symbol, auto function) {
        this->state.errors = {{member, 700}};
        const auto error = this->error_of(function);
        EXPECT_EQ(error.call(), this->name(symbol));
        EXPECT_THAT(error.what(), HasSubstr(this->name(symbol) + " failed: a fake error (FAKE_ERROR, 700)"));
        const bool has_hint = std::string(error.what()).find("An earlier launch may be") != std::string::npos;
        EXPECT_EQ(has_hint, TestFixture::kIsCuda) << error.what();
        this->state.errors.clear();
    };
    using Call = typename TypeParam::Api::Call;
    int byte = 0;
    expect("synchronize", Call::synchronize, [&] { driver->fill(&byte, 0, 4); });
    expect("memcpy_to_device", Call::memcpy_to_device, [&] { driver->copy_to_device(&byte, &byte, 4); });
    expect("memcpy_from_device", Call::memcpy_from_device,
           [&] { driver->copy_from_device(&byte, &byte, 4); });
    expect("memset_d32", Call::memset_d32, [&] { driver->fill(&byte, 0, 4); });
    expect("memset_d8", Call::memset_d8, [&] { driver->fill(&byte, 0, 3); });
    expect("stream_create", Call::stream_create, [&] { driver->create_stream(0); });
    expect("stream_synchronize", Call::stream_synchronize, [&] { driver->synchronize(nullptr); });
    expect("event_create", Call::event_create, [&] { driver->create_event(); });
    expect("event_record", Call::event_record, [&] { driver->record(nullptr, nullptr); });
    expect("stream_wait_event", Call::stream_wait_event, [&] { driver->queue_wait(nullptr, nullptr); });
    expect("event_synchronize", Call::event_synchronize, [&] { driver->synchronize_event(nullptr); });
    expect("event_elapsed_time", Call::event_elapsed_time, [&] { driver->elapsed_ms(nullptr, nullptr); });
    expect("module_load_data", Call::module_load_data, [&] { driver->load(this->gpu.binary()); });
    expect("stream_begin_capture", Call::stream_begin_capture, [&] { driver->begin_capture(nullptr); });
    expect("stream_end_capture", Call::stream_end_capture, [&] {
        Capture capture;
        driver->end_capture(nullptr, capture);
    });
}

TYPED_TEST(GpuDriver, ADamagedOrForeignBinaryDoesNotReachTheLibrary) {
    const auto driver = this->gpu.open();
    Binary binary = this->gpu.binary();
    binary.bytes = std::vector<std::byte>(12);
    const auto damaged = this->error_of([&] { driver->load(binary); });
    EXPECT_EQ(std::string(damaged.what()),
              std::string("the ") + (TestFixture::kIsCuda ? "cubin" : "code object") +
                  " of 'scale' is damaged: it has 12 bytes, too few for an ELF header");
    EXPECT_EQ(damaged.code(), gpu::kErrorInvalidImage);
    binary.kind = BinaryKind::shared_object;
    const auto foreign = this->error_of([&] { driver->load(binary); });
    EXPECT_EQ(std::string(foreign.what()),
              std::string("'scale' was compiled for another backend; ") +
                  (TestFixture::kIsCuda ? "CUDA loads cubins and PTX" : "HIP loads code objects"));
    EXPECT_EQ(this->state.count("module_load_data"), 0u);
}

TYPED_TEST(GpuDriver, ABinaryWithoutTheKernelIsUnloaded) {
    const auto driver = this->gpu.open();
    this->state.errors["module_get_function"] = 500;
    const auto error = this->error_of([&] { driver->load(this->gpu.binary()); });
    EXPECT_THAT(error.what(), HasSubstr("; the binary has no kernel 'scale'"));
    EXPECT_EQ(this->state.count("module_unload"), 1u);
}

TYPED_TEST(GpuDriver, LaunchesOnItsOwnDeviceInAnyThread) {
    const auto driver = this->gpu.open();
    const auto module = driver->load(this->gpu.binary());
    EXPECT_EQ(module->info().registers, 42);
    EXPECT_EQ(module->info().max_threads_per_block, 256);
    LaunchShape shape;
    shape.grid = {5, 4, 3};
    shape.block = {128, 1, 1};
    shape.dynamic_shared_bytes = 64;
    int value = 7;
    void* const arguments[] = {&value};
    module->launch(shape, arguments, nullptr);
    std::thread([&] { module->launch(shape, arguments, nullptr); }).join();
    fake_current = 0;  // another library's device
    module->launch(shape, arguments, nullptr);
    EXPECT_EQ(this->state.count("launch_kernel 5,4,3 x 128 shared 64 argument 7 device 1"), 3u);
    EXPECT_EQ(module->blocks_per_multiprocessor(shape), 16);
}

TYPED_TEST(GpuDriver, AFailedLaunchSaysWhatIsTooLarge) {
    const auto driver = this->gpu.open();
    this->state.static_shared = 1000;
    const auto module = driver->load(this->gpu.binary());
    this->state.errors["launch_kernel"] = 1;
    LaunchShape shape;
    shape.grid = {1u << 30, 1, 1};
    shape.block = {512, 1, 1};
    shape.dynamic_shared_bytes = 48153;
    int value = 0;
    void* const arguments[] = {&value};
    const auto error = this->error_of([&] { module->launch(shape, arguments, nullptr); });
    const std::string call = TestFixture::kIsCuda ? "cuLaunchKernel" : "hipModuleLaunchKernel";
    EXPECT_EQ(
        std::string(error.what()),
        call +
            " failed: a fake error (FAKE_ERROR, 1); launching 'scale' on device 1 (Fake 9) with a grid of "
            "1073741824x1x1 blocks of 512x1x1 threads and 1000 + 48153 bytes of static and dynamic shared "
            "memory; this kernel takes at most 256 threads per block; it was allowed 48152 bytes of dynamic "
            "shared memory" +
            (TestFixture::kIsCuda
                 ? ""
                 : "; HIP counts a grid in threads, of which each dimension has fewer than 2^32"));
}

TYPED_TEST(GpuDriver, SharedMemoryIsOptedInToOnceAndUpToTheLimit) {
    const auto driver = this->gpu.open(49152, TestFixture::kIsCuda ? 232448 : 49152);
    const std::size_t most = TestFixture::kIsCuda ? 232448 : 49152;
    this->state.static_shared = 1000;
    const auto module = driver->load(this->gpu.binary());
    module->allow_dynamic_shared(49152 - 1000);
    EXPECT_EQ(this->state.count("function_set_attribute 8=48152"), 0u) << "allowed without opting in";
    module->allow_dynamic_shared(most - 1000);
    module->allow_dynamic_shared(most - 2000);
    EXPECT_EQ(this->state.count("function_set_attribute 8=231448"), TestFixture::kIsCuda ? 1u : 0u);
    EXPECT_EQ(this->state.count("function_set_attribute 8=230448"), 0u);
    const auto error = this->error_of([&] { module->allow_dynamic_shared(most - 999); });
    EXPECT_EQ(std::string(error.what()),
              "'scale' needs 1000 bytes of static and " + std::to_string(most - 999) +
                  " of dynamic shared memory, but a block on device 1 (Fake 9) has at most " +
                  std::to_string(most) + "; at most " + std::to_string(most - 1000) +
                  " bytes can be dynamic");
    EXPECT_EQ(error.call(), TestFixture::kIsCuda ? "cuFuncSetAttribute" : "hipModuleLaunchKernel");
}

TYPED_TEST(GpuDriver, ClustersAndOverlapAreLaunchAttributesOfCudaAlone) {
    if constexpr (TestFixture::kIsCuda) this->state.attributes[cuda::kClusterLaunch] = 1;
    const auto driver = this->gpu.open();
    const auto module = driver->load(this->gpu.binary());
    EXPECT_EQ(this->state.count("function_set_attribute 14=1"), TestFixture::kIsCuda ? 1u : 0u);
    int value = 0;
    void* const arguments[] = {&value};
    LaunchShape shape;
    shape.grid = {8, 1, 1};
    shape.block = {64, 1, 1};
    shape.dependent = true;
    module->launch(shape, arguments, nullptr);
    EXPECT_EQ(this->state.count("launch_kernel_ex 8 x 64 overlap 1"), TestFixture::kIsCuda ? 1u : 0u);
    EXPECT_EQ(this->state.count("launch_kernel 8,1,1 x 64 shared 0 argument 0 device 1"),
              TestFixture::kIsCuda ? 0u : 1u);
    shape.cluster = {2, 1, 1};
    if constexpr (TestFixture::kIsCuda) {
        module->launch(shape, arguments, nullptr);
        EXPECT_EQ(this->state.count("launch_kernel_ex 8 x 64 cluster 2 overlap 1"), 1u);
        this->state.errors["launch_kernel_ex"] = 1;
        const auto error = this->error_of([&] { module->launch(shape, arguments, nullptr); });
        EXPECT_EQ(error.call(), "cuLaunchKernelEx");
        EXPECT_THAT(error.what(), HasSubstr("of 64x1x1 threads in clusters of 2x1x1 and 0 + 0 bytes"));
    } else {
        const auto error = this->error_of([&] { module->launch(shape, arguments, nullptr); });
        EXPECT_STREQ(error.what(),
                     "'scale' is launched in clusters of 2x1x1 blocks; AMD devices have no clusters");
    }
}

TYPED_TEST(GpuDriver, ADeviceWithoutClustersSaysSo) {
    const auto driver = this->gpu.open();
    const auto module = driver->load(this->gpu.binary());
    int value = 0;
    void* const arguments[] = {&value};
    LaunchShape shape;
    shape.dependent = true;
    module->launch(shape, arguments, nullptr);
    EXPECT_EQ(this->state.count("launch_kernel 1,1,1 x 1 shared 0 argument 0 device 1"), 1u)
        << "launched as any other";
    shape.cluster = {2, 1, 1};
    EXPECT_THAT(this->error_of([&] { module->launch(shape, arguments, nullptr); }).what(),
                HasSubstr(TestFixture::kIsCuda
                              ? "needs compute capability 9.0 and a driver of CUDA 11.8 or newer; Fake 9 is "
                                "fake_9 with FAKE 1.2"
                              : "AMD devices have no clusters"));
}

TYPED_TEST(GpuDriver, AGraphKeepsItsModulesAndEndsBeforeThem) {
    const auto driver = this->gpu.open();
    auto module = driver->load(this->gpu.binary());
    int value = 0;
    void* const arguments[] = {&value};
    std::unique_ptr<DeviceGraph> graph;
    {
        Capture capture;
        driver->begin_capture(nullptr);
        module->launch({}, arguments, nullptr);
        graph = driver->end_capture(nullptr, capture);
    }
    ASSERT_NE(graph, nullptr);
    EXPECT_EQ(this->state.count("stream_begin_capture 1"), 1u) << "thread-local";
    EXPECT_EQ(this->state.count("graph_destroy"), 1u) << "the graph as captured is not needed any more";
    module.reset();
    EXPECT_EQ(this->state.count("module_unload"), 0u);
    graph->launch(nullptr);
    this->state.errors["graph_launch"] = 3;
    EXPECT_THAT(this->error_of([&] { graph->launch(nullptr); }).what(),
                HasSubstr("GraphLaunch failed: a fake error (FAKE_ERROR, 3); launching a graph on device 1"));
    graph.reset();
    EXPECT_EQ(this->state.count("module_unload"), 1u);
    EXPECT_LT(this->state.position("graph_exec_destroy"), this->state.position("module_unload"));
}

TYPED_TEST(GpuDriver, ACaptureOfNothingIsNoGraphAndAFailedOneIsDestroyed) {
    const auto driver = this->gpu.open();
    Capture capture;
    this->state.graph_nodes = 0;
    EXPECT_EQ(driver->end_capture(nullptr, capture), nullptr);
    EXPECT_EQ(this->state.count("graph_destroy"), 1u);
    this->state.graph_nodes = 1;
    this->state.errors["graph_instantiate"] = 1;
    EXPECT_EQ(this->error_of([&] { driver->end_capture(nullptr, capture); }).call(),
              TestFixture::kIsCuda ? "cuGraphInstantiateWithFlags" : "hipGraphInstantiate");
    EXPECT_EQ(this->state.count("graph_destroy"), 2u);
    EXPECT_EQ(this->state.count("graph_exec_destroy"), 0u);
}

TYPED_TEST(GpuDriver, NothingIsCalledOnceTheLibraryHasShutDown) {
    auto driver = this->gpu.open();
    auto module = driver->load(this->gpu.binary());
    void* const stream = driver->create_stream(0);
    void* const event = driver->create_event();
    int value = 0;
    driver->fill(&value, 0, 4);  // makes the stream for copies
    this->state.errors["make_current"] = 4;
    this->state.calls.clear();
    driver->destroy_event(event);
    driver->destroy_stream(stream);
    driver->release(&value);
    driver.reset();
    module.reset();
    EXPECT_EQ(this->state.count("make_current"), this->state.calls.size())
        << ::testing::PrintToString(this->state.calls);
}

TYPED_TEST(GpuDriver, TheLastHandleEndsStreamAndContext) {
    auto driver = this->gpu.open();
    auto module = driver->load(this->gpu.binary());
    int value = 0;
    driver->fill(&value, 0, 4);
    driver.reset();
    EXPECT_EQ(this->state.count("stream_destroy"), 0u) << "the module still uses the device";
    module.reset();
    EXPECT_EQ(this->state.count("stream_destroy"), 1u);
    EXPECT_EQ(this->state.count("primary_context_retain"), this->state.count("primary_context_release"));
    if constexpr (TestFixture::kIsCuda) {
        EXPECT_LT(this->state.position("stream_destroy"), this->state.position("primary_context_release"));
    }
}

TYPED_TEST(GpuDriver, WhatWasCurrentInAThreadIsCurrentAgain) {
    auto driver = this->gpu.open();
    auto module = driver->load(this->gpu.binary());
    int value = 0;
    void* const arguments[] = {&value};
    const auto keeps_current = [&](const char* what, const auto& call) {
        fake_current = 0;
        call();
        EXPECT_EQ(fake_current, 0) << what;
    };
    keeps_current("opening", [&] { static_cast<void>(this->gpu.open()); });
    keeps_current("loading", [&] { static_cast<void>(driver->load(this->gpu.binary())); });
    keeps_current("a stream", [&] { driver->destroy_stream(driver->create_stream(0)); });
    keeps_current("an event", [&] { driver->destroy_event(driver->create_event()); });
    keeps_current("filling", [&] { driver->fill(&value, 0, 4); });
    keeps_current("launching", [&] { module->launch(LaunchShape{}, arguments, nullptr); });
    EXPECT_EQ(this->state.count("launch_kernel 1,1,1 x 1 shared 0 argument 0 device 1"), 1u);
    keeps_current("the end", [&] {
        module.reset();
        driver.reset();
    });
}

TEST(GpuContext, OfTheApplication) {
    FakeGpu<cuda::Vendor> gpu;
    fake_current = 11;  // a second context of device 1
    void* native = nullptr;
    EXPECT_EQ(cuda::device_of_context(gpu.api, native), 1);
    EXPECT_EQ(native, fake_handle<void*>(12)) << "the current one";
    fake_current = 0;
    EXPECT_EQ(cuda::device_of_context(gpu.api, native), 1);
    EXPECT_EQ(fake_current, 0);
    {
        const auto driver = gpu.open(49152, 49152, native);
        EXPECT_EQ(driver->context(), native);
        EXPECT_FALSE(is_same_device(gpu.open().get(), *driver)) << "its streams are others";
        gpu.state.calls.clear();
        fake_current = 11;
        driver->destroy_stream(driver->create_stream(0));
        EXPECT_EQ(gpu.state.count("primary_context_retain"), 0u);
    }
    EXPECT_EQ(gpu.state.count("primary_context_release"), 0u);
    fake_current = -1;
    native = nullptr;
    try {
        cuda::device_of_context(gpu.api, native);
        FAIL();
    } catch (const UsageError& error) {
        EXPECT_THAT(error.what(), HasSubstr("no context is current in this thread"));
    }
    gpu.state.errors["context_get_device"] = 201;
    native = fake_handle<void*>(5);
    EXPECT_THROW(cuda::device_of_context(gpu.api, native), UsageError);
    EXPECT_THROW(Device::open(Backend::host, 0, ContextRef::current()), UsageError);
}

TYPED_TEST(GpuDriver, AVariableIsFoundByTheNameInItsSourceOrInTheBinary) {
    const auto driver = this->gpu.open();
    const auto module = driver->load(this->gpu.binary());
    const ModuleVariable bias = module->variable("bias");
    EXPECT_EQ(bias.address, this->state.variable.data());
    EXPECT_EQ(bias.bytes, 36u);
    try {
        static_cast<void>(module->variable("biases"));
        FAIL();
    } catch (const UsageError& error) {
        EXPECT_STREQ(error.what(),
                     "the module of scale has no variable biases; it has none at all. Variables are declared "
                     "__constant__ or __device__, and the compiler leaves out those that no kernel uses");
    }
    const std::array<float, 3> source{1, 2, 3};
    driver->queue_copy_on_device(bias.address, source.data(), sizeof source, nullptr);
    EXPECT_EQ(this->state.variable[2], 3.0f);
    EXPECT_EQ(this->state.count("memcpy_on_device 12"), 1u);
}

TEST(ModuleVariables, AreFoundByTheEndOfTheirNamesWhereThatIsOne) {
    const std::vector<DeclaredVariable> variables = {
        {"_ZN1a4biasE", "a::bias", 0, 4}, {"_ZN1b4biasE", "b::bias", 0, 4}, {"_ZN1b3sumE", "b::sum", 8, 4}};
    EXPECT_EQ(find_variable(variables, "sum"), &variables[2]);
    EXPECT_EQ(find_variable(variables, "a::bias"), &variables[0]);
    EXPECT_EQ(find_variable(variables, "_ZN1b4biasE"), &variables[1]);
    EXPECT_EQ(find_variable(variables, "bias"), nullptr);
    EXPECT_EQ(find_variable(variables, "um"), nullptr);
    EXPECT_EQ(demangled("_ZN1a4biasE"), "a::bias");
    try {
        fail_no_variable("k", "b::sun", variables);
    } catch (const UsageError& error) {
        EXPECT_STREQ(error.what(), "the module of k has no variable b::sun; did you mean b::sum?");
    }
}

TYPED_TEST(GpuDriver, ACooperativeLaunchIsAnAttributeOrAFunctionOfItsOwn) {
    const auto driver = this->gpu.open();
    const auto module = driver->load(this->gpu.binary());
    LaunchShape shape{{8, 1, 1}, {64, 1, 1}, {}, 0};
    shape.cooperative = true;
    if constexpr (TestFixture::kIsCuda) {
        module->launch(shape, nullptr, nullptr);
        EXPECT_EQ(this->state.count("launch_kernel_ex 8 x 64 cooperative 1"), 1u);
        this->gpu.api.launch_kernel_ex = nullptr;
        EXPECT_THAT(this->error_of([&] { module->launch(shape, nullptr, nullptr); }).what(),
                    HasSubstr("a cooperative launch, which needs a driver of CUDA 11.8 or newer"));
    } else {
        EXPECT_THAT(this->error_of([&] { module->launch(shape, nullptr, nullptr); }).what(),
                    HasSubstr("FAKE 1.2 lacks hipModuleLaunchCooperativeKernel"));
        this->gpu.api.launch_cooperative_kernel = [](gpu::FunctionHandle, unsigned grid, unsigned, unsigned,
                                                     unsigned block, unsigned, unsigned, unsigned,
                                                     gpu::StreamHandle, void**) {
            return fake->call("launch_cooperative_kernel",
                              std::to_string(grid) + " x " + std::to_string(block));
        };
        module->launch(shape, nullptr, nullptr);
        EXPECT_EQ(this->state.count("launch_cooperative_kernel 8 x 64"), 1u);
    }
}

TYPED_TEST(GpuDriver, ATensorMapIsCudasAlone) {
    TensorMapLayout layout;
    layout.name = "a_map of gemm_wgmma";
    layout.tensor = "a";
    layout.type = "half";
    layout.element_bytes = 2;
    layout.rank = 1;
    alignas(128) std::array<std::byte, 128> tensor{}, map{};
    layout.base = tensor.data();
    layout.extents = {64};
    layout.stride_bytes = {2};
    layout.box = {64};
    const auto driver = this->gpu.open();
    if constexpr (TestFixture::kIsCuda) {
        EXPECT_STREQ(
            this->error_of([&] { driver->encode_tensor_map(layout, map.data()); }).what(),
            "the tensor map a_map of gemm_wgmma needs a driver of CUDA 12.0 or newer; Fake 9 has FAKE 1.2");
    } else {
        EXPECT_THROW(driver->encode_tensor_map(layout, map.data()), UsageError);
    }
}

}  // namespace
}  // namespace kiln::test
