// SPDX-License-Identifier: Apache-2.0
//
// Operation on the host: the right variant with the right arguments, what a call does when it is not built, workspace,
// captures, bad input, and many threads.
#include <gmock/gmock.h>
#include <kiln/kiln.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/file_lock.h"
#include "base/fork.h"
#include "rejected.h"
#include "require.h"
#include "scale_kernel.h"
#include "scoped_variable.h"
#include "tune/wisdom_line.h"

namespace kiln {
namespace {

using test::rejected;
using testing::HasSubstr;
using testing::StartsWith;

// y = 2 (x + 1), by way of scratch memory; `step` tells the variant. Scratch that should be zero and is not spoils y.
constexpr const char* kShift = R"(// shift: y = 2 (x + 1)
//@ kernel shift
//@ param  STEP int in 1, 2, 4, 8 = 1 "elements per thread"
//@ size    n = 64
//@ input   x [n]
//@ output  y [n]
//@ output  step [1]
//@ scratch partial [n + STEP]
//@ scratch ticket [STEP] = 0
//@ block  32
//@ grid   ceil_div(n, 32 * STEP)
#include "kiln/device.h"
extern "C" __global__ void shift(const float* x, float* partial, int n, unsigned* ticket, float* y, int* step) {
    if (blockIdx.x == 0 && threadIdx.x == 0) step[0] = STEP;
    for (int i = (blockIdx.x * STEP) * 32 + threadIdx.x, j = 0; j < STEP; ++j, i += 32) {
        if (i >= n) return;
        partial[i + STEP] = x[i] + 1;
        y[i] = ticket[j] == 0 ? 2 * partial[i + STEP] : -1;
    }
}
)";
using ShiftFn = void(const float*, int, float*, int*);

struct OperationOnHost : test::ServiceFixture {
    Service service{options()};

    Template shift() const { return service.parse(kShift, "shift.cu"); }
    WisdomEntry entry(std::int64_t n, int step) const {
        WisdomEntry result;
        result.template_name = "shift";
        result.values = {{"STEP", step}};
        result.sizes = {{"n", n}};
        result.device = as_field(service.device().info().name);
        result.arch = service.target().arch;
        result.median_ms = 1;
        result.tried = 4;
        result.digest = template_digest(shift());
        result.compiler = "test";
        result.date = "2026-01-01T00:00:00Z";
        return result;
    }
    /// n = 100 is best with STEP 2, n = 300 with 4, n = 10000 with 8.
    OperationOptions options_with(WhenMissing when_missing = WhenMissing::build) const {
        OperationOptions result;
        result.when_missing = when_missing;
        result.wisdom.emplace();
        result.wisdom->merge({entry(100, 2), entry(300, 4), entry(10000, 8)});
        return result;
    }

    /// Launches on random data and checks all of y; returns the step that was launched.
    template <class Call>
    int step_of(int n, Call call) const {
        std::vector<float> x(static_cast<std::size_t>(n)), y(x.size(), -7);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 97) - 40;
        int step = -1;
        call(x.data(), n, y.data(), &step);
        for (std::size_t i = 0; i < x.size(); ++i)
            if (y[i] != 2 * (x[i] + 1)) {
                ADD_FAILURE() << "y[" << i << "] of " << n << " is " << y[i];
                break;
            }
        return step;
    }
    int by_position(const Operation& operation, int n, StreamRef stream = StreamRef::legacy_default()) const {
        return step_of(n, [&](const float* x, int size, float* y, int* step) {
            const void* const addresses[] = {x, y, step};
            void* const arguments[] = {const_cast<const void**>(&addresses[0]), &size,
                                       const_cast<const void**>(&addresses[1]),
                                       const_cast<const void**>(&addresses[2])};
            operation.launch(stream, arguments);
        });
    }
    int by_name(const Operation& operation, int n) const {
        return step_of(n, [&](const float* x, int size, float* y, int* step) {
            operation(StreamRef::legacy_default(), {{"n", size}}, {{"x", x}, {"y", y}, {"step", step}});
        });
    }
};

TEST_F(OperationOnHost, LaunchesTheVariantOfEachShape) {
    const Operation operation(service, shift(), {}, options_with());
    ASSERT_EQ(operation.arguments().size(), 4u);
    EXPECT_EQ(operation.arguments()[1].name, "n");
    EXPECT_TRUE(operation.arguments()[1].is_size);
    for (int round = 0; round < 2; ++round) {
        EXPECT_EQ(by_position(operation, 100), 2);
        EXPECT_EQ(by_name(operation, 300), 4);
        EXPECT_EQ(by_name(operation, 100), 2);
        EXPECT_EQ(by_position(operation, 10000), 8);
    }
    const TypedOperation<ShiftFn> typed(Operation(service, shift(), {}, options_with()));
    EXPECT_EQ(step_of(300, [&](auto... arguments) { typed(StreamRef::per_thread_default(), arguments...); }),
              4);
    EXPECT_EQ(operation.usage().shapes, 3u);
}

TEST_F(OperationOnHost, AFamilyOfBuiltInTemplatesByItsName) {
    const Operation sum(service, "sum", {{"T", Value("float")}});
    for (const int n : {1, 77, 1000}) {
        std::vector<float> x(static_cast<std::size_t>(n), 0.5F);
        float result = -1;
        sum(service.stream(), {{"n", n}}, {{"x", x.data()}, {"sum", &result}});
        EXPECT_EQ(result, 0.5F * static_cast<float>(n));
    }
    EXPECT_THAT(rejected([&] { Operation(service, "summ"); }), HasSubstr("summ"));
    EXPECT_THAT(rejected<VariantError>([&] {
                    Operation(service, "sum", {{"T", Value("int")}});
                }),
                HasSubstr("int"));
}

TEST_F(OperationOnHost, MissingVariantsFailWhereThatIsAskedFor) {
    const Operation operation(service, shift(), {}, options_with(WhenMissing::fail));
    try {
        by_position(operation, 100);
        FAIL();
    } catch (const NotReadyError& error) {
        EXPECT_EQ(error.sizes(), (Sizes{{"n", 100}}));
        EXPECT_THAT(error.what(), HasSubstr("n=100"));
    }
    const std::vector<Sizes> shapes = {{{"n", 100}}, {{"n", 300}}};
    operation.prepare(shapes);
    const auto compiles = service.counters().compiles;
    EXPECT_EQ(by_position(operation, 100), 2);
    EXPECT_EQ(by_position(operation, 300), 4);
    EXPECT_EQ(service.counters().compiles, compiles);
    EXPECT_THROW(by_position(operation, 101), NotReadyError);
    operation.release();
    EXPECT_THROW(by_position(operation, 100), NotReadyError);
}

TEST_F(OperationOnHost, SubstitutesUntilTheBestIsBuilt) {
    const Operation operation(service, shift(), {}, options_with(WhenMissing::substitute));
    EXPECT_EQ(by_position(operation, 100), 2) << "with nothing built, a call builds";
    EXPECT_EQ(by_position(operation, 300), 2) << "what was built for another shape";
    const OperationPlan before = operation.explain({{"n", 300}});
    EXPECT_EQ(before.choice.variant.value("STEP"), Value(4));
    operation.wait();
    EXPECT_EQ(by_position(operation, 300), 4);
    const OperationPlan after = operation.explain({{"n", 300}});
    EXPECT_TRUE(after.built);
    EXPECT_FALSE(after.launched);
    EXPECT_EQ(after.best_ms, 1.0);
    EXPECT_EQ(operation.usage().substituted, 0u);
    OperationOptions both = options_with(WhenMissing::substitute);
    both.reproducible = true;
    EXPECT_THAT(rejected([&] { Operation(service, shift(), {}, both); }), HasSubstr("reproducible"));
}

TEST_F(OperationOnHost, IsDestroyedWithoutWaitingForWhatItBuilds) {
    std::optional<Operation> operation(std::in_place, service, shift(), Values{},
                                       options_with(WhenMissing::substitute));
    EXPECT_EQ(by_position(*operation, 100), 2);
    // From now on the compiler hangs.
    const auto compiler = directory.path() / "c++", begun = directory.path() / "begun";
    write_text(compiler, "#!/bin/sh\ncase \"$*\" in *specialised.cpp*) touch '" + begun.string() +
                             "'; sleep 100;; esac\nexec c++ \"$@\"\n");
    std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
    const test::ScopedVariable slow("KILN_HOST_CXX", compiler.string());
    EXPECT_EQ(by_position(*operation, 300), 2) << "what was built for another shape";
    while (!std::filesystem::exists(begun)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const auto start = std::chrono::steady_clock::now();
    operation.reset();
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST_F(OperationOnHost, ACaptureFindsWhatWasPrepared) {
    const Operation operation(service, shift(), {}, options_with());
    const Stream stream = service.device().stream();
    EXPECT_THAT(rejected<NotReadyError>(
                    [&] { Graph::capture(stream, [&] { by_position(operation, 100, stream); }); }),
                HasSubstr("n=100"));
    const std::vector<Sizes> shapes = {{{"n", 100}}};
    operation.prepare(shapes);
    EXPECT_THAT(rejected<NotReadyError>(
                    [&] { Graph::capture(stream, [&] { by_position(operation, 100, stream); }); }),
                HasSubstr("workspace"));
    operation.prepare(shapes, stream);
    std::vector<float> x(100, 1), y(100, -7);
    int step = 0, n = 100;
    const void* const addresses[] = {x.data(), y.data(), &step};
    void* const arguments[] = {const_cast<const void**>(&addresses[0]), &n,
                               const_cast<const void**>(&addresses[1]),
                               const_cast<const void**>(&addresses[2])};
    const Graph graph = Graph::capture(stream, [&] { operation.launch(stream, arguments); });
    EXPECT_EQ(step, 0);
    graph.launch(stream);
    EXPECT_EQ(step, 2);
    EXPECT_EQ(y, std::vector<float>(100, 4));
}

TEST_F(OperationOnHost, WorkspaceComesFromTheCallersAllocator) {
    std::vector<std::pair<void*, std::size_t>> given;
    std::size_t released = 0;
    OperationOptions options = options_with();
    std::size_t misplaced = 0;
    options.allocator.allocate = [&](std::size_t bytes, StreamRef) -> void* {
        char* const memory = static_cast<char*>(std::aligned_alloc(256, bytes + 256));
        std::fill_n(memory, bytes + 256, '\x55');
        given.emplace_back(memory, bytes);
        return memory + misplaced;
    };
    options.allocator.release = [&](void*, std::size_t bytes, StreamRef) { released += bytes; };
    {
        const Operation operation(service, shift(), {}, options);
        by_position(operation, 100);
        const std::size_t first = given.size();
        EXPECT_EQ(first, 2u) << "what is zero, and the rest";
        by_position(operation, 100);
        EXPECT_EQ(given.size(), first);
        EXPECT_EQ(operation.usage().workspace_bytes, operation.workspace_bytes({{"n", 100}}));
        by_position(operation, 10000);
        EXPECT_EQ(given.size(), first + 1) << "the zero part is large enough";
        const Stream other = service.device().stream();
        by_position(operation, 100, StreamRef::per_thread_default());
        EXPECT_EQ(operation.usage().streams, 2u);
    }
    std::size_t total = 0;
    for (const auto& [memory, bytes] : given) {
        total += bytes;
        std::free(memory);
    }
    EXPECT_EQ(released, total);
    given.clear();
    misplaced = 8;
    {
        const Operation operation(service, shift(), {}, options);
        EXPECT_THAT(rejected([&] { by_position(operation, 100); }), HasSubstr("aligned"));
    }
    for (const auto& [memory, bytes] : given) std::free(memory);
    options.allocator.allocate = [](std::size_t, StreamRef) -> void* { return nullptr; };
    const Operation none(service, shift(), {}, options);
    EXPECT_THROW(by_position(none, 100), DeviceError);
    options.allocator.release = {};
    EXPECT_THAT(rejected([&] { Operation(service, shift(), {}, options); }), HasSubstr("release"));
}

// A server has graphs of the small shapes and calls for the large ones.
TEST_F(OperationOnHost, WorkspaceOfAGraphIsKeptWhenItsStreamOutgrowsItOrIsEvicted) {
    OperationOptions options = options_with();
    options.max_streams = 1;
    std::size_t allocated = 0, released = 0;
    options.allocator.allocate = [&](std::size_t bytes, StreamRef) {
        allocated += bytes;
        return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    };
    options.allocator.release = [&](void* memory, std::size_t bytes, StreamRef) {
        released += bytes;
        std::fill_n(static_cast<char*>(memory), bytes,
                    '\x55');  // of another owner: tickets that are not zero spoil y
        std::free(memory);
    };
    {
        const Operation operation(service, shift(), {}, options);
        const Stream stream = service.device().stream();
        const Sizes shape{{"n", 100}};
        operation.prepare(std::span(&shape, 1), stream);
        const std::size_t of_graph = allocated;
        std::vector<float> x(100), y(100);
        int step = 0;
        const Graph graph = Graph::capture(stream, [&] {
            operation(stream, shape, {{"x", x.data()}, {"y", y.data()}, {"step", &step}});
        });
        const auto expect_launches = [&](float value) {
            std::ranges::fill(x, value);
            graph.launch(stream);
            EXPECT_THAT(y, testing::Each(2 * (value + 1)));
        };
        expect_launches(1);
        by_position(operation, 10000, stream);
        EXPECT_EQ(released, 0u) << "outgrown";
        expect_launches(2);
        EXPECT_EQ(operation.usage().workspace_bytes, allocated);
        by_position(operation, 100, StreamRef::per_thread_default());
        EXPECT_GT(released, 0u) << "no graph has what the stream had since";
        EXPECT_GE(allocated - released, of_graph) << "evicted";
        expect_launches(3);
        operation.release();
        EXPECT_EQ(released, allocated);
    }
    EXPECT_EQ(released, allocated);
}

TEST_F(OperationOnHost, OneThatWasMovedFromIsRejected) {
    Operation operation(service, shift(), {}, options_with());
    const Operation moved(std::move(operation));
    EXPECT_EQ(by_position(moved, 100), 2);
    // NOLINTNEXTLINE(bugprone-use-after-move): what is tested
    EXPECT_THAT(rejected([&] { operation.prepare({{"n", 100}}); }), HasSubstr("moved from"));
    EXPECT_THAT(rejected([&] { by_position(operation, 100); }), HasSubstr("moved from"));
}

// Though the callback has the only thread that builds in the background.
TEST_F(OperationOnHost, ACallbackOfABuildPreparesShapes) {
    ServiceOptions one_worker = this->options();
    one_worker.workers = 1;
    std::promise<void> prepared;  // outlives the services' threads
    auto building = std::make_unique<Service>(one_worker);
    const Template of = building->parse(kShift, "shift.cu");
    auto operation = std::make_unique<Operation>(*building, of, Values{}, options_with());
    building->build_async(of.variant(), [&](AnyKernel, std::exception_ptr) {
        operation->prepare({{"n", 100}});
        prepared.set_value();
    });
    if (prepared.get_future().wait_for(std::chrono::minutes(2)) != std::future_status::ready) {
        static_cast<void>(operation.release());  // they would wait for it
        static_cast<void>(building.release());
        FAIL() << "it waits for a build behind its own";
    }
    EXPECT_EQ(operation->usage().shapes, 1u);
}

// The other service's only thread is busy with a callback that lasts until this one has ended.
TEST_F(OperationOnHost, ACallbackOfABuildPreparesShapesOfAnotherService) {
    ServiceOptions one_worker = this->options();
    one_worker.workers = 1;
    std::promise<void> is_busy, prepared;  // outlive the services' threads
    const std::shared_future<void> done = prepared.get_future().share();
    auto other = std::make_unique<Service>(one_worker), building = std::make_unique<Service>(one_worker);
    const Template of = other->parse(kShift, "shift.cu");
    auto operation = std::make_unique<Operation>(*other, of, Values{}, options_with());
    other->build_async(of.variant(), [&](AnyKernel, std::exception_ptr) {
        is_busy.set_value();
        done.wait();
    });
    is_busy.get_future().wait();
    building->build_async(building->parse(kShift, "shift.cu").variant(), [&](AnyKernel, std::exception_ptr) {
        operation->prepare({{"n", 100}});
        prepared.set_value();
    });
    if (done.wait_for(std::chrono::minutes(2)) != std::future_status::ready) {
        static_cast<void>(operation.release());  // they would wait for it
        static_cast<void>(other.release());
        static_cast<void>(building.release());
        FAIL() << "it waits for a build behind a callback that waits for it";
    }
    EXPECT_EQ(operation->usage().shapes, 1u);
}

TEST_F(OperationOnHost, BadArgumentsAreNamed) {
    const Operation operation(service, shift(), {}, options_with());
    float x[4] = {}, y[4] = {};
    int step = 0;
    const auto call = [&](const Sizes& sizes, const TensorPointers& tensors) {
        return rejected([&] { operation(service.stream(), sizes, tensors); });
    };
    EXPECT_THAT(call({}, {{"x", x}, {"y", y}, {"step", &step}}), HasSubstr("the size n is missing"));
    EXPECT_THAT(call({{"n", 4}, {"nn", 4}}, {{"x", x}, {"y", y}, {"step", &step}}),
                HasSubstr("did you mean n?"));
    EXPECT_THAT(call({{"n", -4}}, {{"x", x}, {"y", y}, {"step", &step}}), HasSubstr("-4"));
    EXPECT_THAT(call({{"n", 1LL << 31}}, {{"x", x}, {"y", y}, {"step", &step}}), HasSubstr("2147483647"));
    EXPECT_THAT(call({{"n", 4}}, {{"x", x}, {"y", y}}), HasSubstr("the tensor step is missing"));
    EXPECT_THAT(call({{"n", 4}}, {{"x", x}, {"y", y}, {"stop", &step}}),
                HasSubstr("the tensor step is missing, and there is no tensor stop"));
    EXPECT_THAT(call({{"n", 4}}, {{"x", x}, {"y", y}, {"step", &step}, {"steq", x}}),
                HasSubstr("did you mean step?"));
    EXPECT_THAT(call({{"n", 4}}, {{"x", nullptr}, {"y", y}, {"step", &step}}),
                HasSubstr("the argument x is a null pointer"));
    EXPECT_NO_THROW(
        operation(service.stream(), {{"n", 0}}, {{"x", nullptr}, {"y", nullptr}, {"step", &step}}));
    EXPECT_THAT(rejected([&] {
                    TypedOperation<void(const float*, long long, float*, int*)>{Operation(service, shift())};
                }),
                HasSubstr("argument 2 of Fn is long long"));
    EXPECT_THAT(
        rejected([&] { TypedOperation<void(const float*, int, float*)>{Operation(service, shift())}; }),
        HasSubstr("Fn has 3 arguments and the operation has 4"));
    EXPECT_THAT(rejected([&] { Operation(service, service.parse(test::kScale, "scale.cu")); }),
                HasSubstr("can't be an operation"));
}

TEST_F(OperationOnHost, WisdomOfTheUserThatIsIgnoredIsAWarning) {
    const auto file = directory.path() / "wisdom.txt";
    write_text(file, "cut\n");
    const test::ScopedVariable wisdom("KILN_WISDOM", file.string());
    for (int i = 0; i < 2; ++i) EXPECT_NO_THROW(Operation(service, shift()));
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_THAT(warnings[0], HasSubstr(file.string() + " is ignored"));
}

TEST_F(OperationOnHost, TuningForATimeThatIsNoNumberIsRejected) {
    OperationOptions options;
    options.wisdom.emplace();
    const Operation sum(service, "sum", {{"T", Value("float")}}, options);
    sum.prepare({{"n", 50}});
    for (const double seconds : {std::numeric_limits<double>::quiet_NaN(), HUGE_VAL, 1e10})
        EXPECT_THAT(rejected([&] { sum.tune_pending(std::chrono::duration<double>(seconds)); }),
                    HasSubstr("the budget is"))
            << seconds;
}

// A short time is for the shapes that were seen first; the others have their turn later.
TEST_F(OperationOnHost, TuningTakesAsManyShapesAsTheTimeAllows) {
    OperationOptions options;
    options.wisdom.emplace();
    const Operation sum(service, "sum", {{"T", Value("float")}}, options);
    std::vector<int> sizes;
    for (int i = 0; i < 20; ++i) sizes.push_back(50 + 7 * (i * 13 % 20));
    const std::vector<float> x(1000, 1);
    float result = 0;
    for (const int n : sizes) sum(service.stream(), {{"n", n}}, {{"x", x.data()}, {"sum", &result}});
    for (int turn = 0; turn < 2; ++turn) {
        const Wisdom found = sum.tune_pending(std::chrono::milliseconds(10));
        ASSERT_EQ(found.entries().size(), 1u);
        EXPECT_EQ(found.entries()[0].sizes, (Sizes{{"n", sizes[static_cast<std::size_t>(turn)]}}));
    }
}

TEST_F(OperationOnHost, MisalignedArgumentsAndTooSmallWorkspaceAreNamed) {
    const Operation operation(service, shift(), {}, options_with());
    std::vector<float> x(101), y(101);
    int step = 0;
    const auto call = [&](const void* from, StreamRef stream) {
        operation(stream, {{"n", 100}}, {{"x", from}, {"y", y.data()}, {"step", &step}});
    };
    const StreamRef stream = service.stream();
    EXPECT_THAT(rejected([&] { call(reinterpret_cast<const char*>(x.data()) + 2, stream); }),
                testing::AllOf(HasSubstr("the argument x is at 0x"), HasSubstr("a multiple of 4 bytes")));
    EXPECT_EQ(step, 0) << "nothing was launched";
    LaunchOptions options;
    const std::size_t bytes = operation.workspace_bytes({{"n", 100}});
    alignas(256) static std::array<std::byte, 4096> memory;
    ASSERT_LE(bytes, memory.size());
    options.workspace = memory.data();
    options.workspace_bytes = bytes - 1;
    EXPECT_THAT(rejected([&] { call(x.data(), stream.with(options)); }),
                testing::AllOf(HasSubstr("the workspace of LaunchOptions has " + std::to_string(bytes - 1)),
                               HasSubstr("needs " + std::to_string(bytes) + " for n=100")));
    options.workspace_bytes = memory.size();
    options.workspace = memory.data() + 64;
    EXPECT_THAT(rejected([&] { call(x.data(), stream.with(options)); }),
                HasSubstr("a multiple of 256 bytes"));
    EXPECT_EQ(step, 0);
}

TEST_F(OperationOnHost, UsesTheWorkspaceOfTheCall) {
    const Operation operation(service, shift(), {}, options_with());
    LaunchOptions options;
    alignas(256) static std::array<std::byte, 4096> memory;
    memory.fill(std::byte{0x55});  // also what a kernel has to find zero
    options.workspace = memory.data();
    options.workspace_bytes = operation.workspace_bytes({{"n", 100}});
    EXPECT_EQ(by_position(operation, 100, StreamRef::legacy_default().with(options)), 2);
    EXPECT_EQ(operation.usage().workspace_bytes, 0u);
    EXPECT_EQ(memory[options.workspace_bytes], std::byte{0x55});
    EXPECT_EQ(by_position(operation, 100), 2);
    EXPECT_EQ(operation.usage().workspace_bytes, options.workspace_bytes);
}

// What only GPUs have does not keep a program from running on the host.
TEST_F(OperationOnHost, TakesLaunchOptionsOfGpus) {
    const Operation operation(service, shift(), {}, options_with());
    LaunchOptions options;
    options.priority = -1;
    options.access_policy = AccessPolicyWindow{&options, 64};
    options.dependent = false;
    options.multiprocessors = 1;
    const PriorityRange priorities = service.device().priorities();
    EXPECT_EQ(priorities.least, priorities.greatest);
    const Stream urgent = service.device().stream(priorities.greatest);
    EXPECT_EQ(by_position(operation, 300, StreamRef(urgent).with(options)), 4);
    options.dependent = true;
    EXPECT_THAT(rejected([&] { by_position(operation, 300, StreamRef(urgent).with(options)); }),
                HasSubstr("does not wait"));
}

TEST_F(OperationOnHost, LaunchesWhatIsPackedWhereNothingMayBeCompiled) {
    const auto built = [&](int step) { return shift().variant({{"STEP", step}}); };
    for (const int step : {1, 8, 4}) static_cast<void>(service.compile(built(step)));
    ServiceOptions cached = this->options();
    cached.cached_only = true;
    Service packed(cached);
    const Template of = packed.parse(kShift, "shift.cu");
    EXPECT_EQ(packed.stored(of).size(), 3u);
    const Operation operation(packed, of, {}, options_with());
    EXPECT_EQ(by_position(operation, 300), 4) << "the best one is there";
    const int launched = by_position(operation, 100);
    EXPECT_NE(launched, 2);
    const OperationPlan plan = operation.explain({{"n", 100}});
    EXPECT_FALSE(plan.built);
    ASSERT_TRUE(plan.launched);
    EXPECT_EQ(plan.launched->value("STEP"), Value(launched));
    EXPECT_THAT(plan.failure, HasSubstr("compiling is switched off"));
    operation.prepare({{"n", 101}});
    EXPECT_EQ(by_position(operation, 101), launched);
    EXPECT_EQ(packed.counters().compiles, 0u);

    OperationOptions options = options_with();
    options.reproducible = true;
    const Operation reproducible(packed, of, {}, options);
    EXPECT_THROW(by_position(reproducible, 100), BuildError);
    cached.cache.directory = directory.path() / "empty";
    Service empty(cached);
    const Operation none(empty, empty.parse(kShift, "shift.cu"), {}, options_with());
    EXPECT_THAT(rejected<NotReadyError>([&] { by_position(none, 100); }),
                testing::AllOf(HasSubstr("has a variant for n=100"), HasSubstr("kiln cache pack --for")));
    EXPECT_THAT(rejected<NotReadyError>([&] { none.prepare({{"n", 64}}); }), HasSubstr("n=64"));
}

// A variant with another function of the caller's computes something else.
TEST_F(OperationOnHost, NothingElseIsLaunchedWhereNothingMayBeCompiled) {
    const std::string text = R"(//@ kernel each
//@ param F code = "return x;" (float x) -> float
//@ block 32
//@ grid ceil_div(n, 32)
//@ size n = 64
//@ input x [n]
//@ output y [n]
#include "kiln/device.h"
extern "C" __global__ void each(int n, const float* x, float* y) {
    const int i = blockIdx.x * 32 + threadIdx.x;
    if (i < n) y[i] = F(x[i]);
}
)";
    static_cast<void>(
        service.compile(service.parse(text, "each.cu").variant({{"F", Code("return 2 * x;")}})));
    ServiceOptions cached = this->options();
    cached.cached_only = true;
    Service packed(cached);
    const Template of = packed.parse(text, "each.cu");
    const Operation usual(packed, of);
    EXPECT_THROW(usual.prepare({{"n", 10}}), NotReadyError);
    const Operation twice(packed, of, {{"F", Code("return 2 * x;")}});
    twice.prepare({{"n", 10}});
}

// A record that waits for its file holds up the call that wrote to it, and no other.
TEST_F(OperationOnHost, ARecordThatWaitsHoldsUpNoOtherCall) {
    ServiceOptions recorded = this->options();
    recorded.record = directory.path() / "app.json";
    std::future_status others_end{};
    std::atomic<int> calls = 0;
    {
        Service recording(recorded);
        const Operation operation(recording, recording.parse(kShift, "shift.cu"), {}, options_with());
        operation.prepare({{"n", 100}});
        auto lock = FileLock::try_acquire(recorded.record.string() + ".lock");
        ASSERT_TRUE(lock);
        std::atomic<bool> is_over = false;
        std::thread writing([&] {
            for (int n = 101; !is_over; ++n, ++calls) by_position(operation, n);
        });
        for (int before = -1; calls != before;) {
            before = calls;
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
        }
        // The lock is not released before: a call that waited for it would not end.
        const auto others = std::async(std::launch::async, [&] {
            for (int n = 1; n < 10; ++n) by_position(operation, n);
        });
        others_end = others.wait_for(std::chrono::seconds(60));
        is_over = true;
        lock.reset();
        writing.join();
    }
    EXPECT_EQ(others_end, std::future_status::ready);
    const Record record = Record::load(recorded.record);
    ASSERT_EQ(record.operations.size(), 1u);
    EXPECT_EQ(record.operations.begin()->second.size(), static_cast<std::size_t>(calls) + 10);
    EXPECT_EQ(record.shapes, static_cast<std::size_t>(calls) + 10);
}

// Shapes come and go among readers: a table of 8 for 40 shapes.
TEST_F(OperationOnHost, EightThreadsWithMoreShapesThanAreRemembered) {
    OperationOptions options = options_with(WhenMissing::substitute);
    options.max_shapes = 8;
    options.max_streams = 3;
    const Operation operation(service, shift(), {}, options);
    operation.prepare({{"n", 100}});
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < 8; ++thread)
        threads.emplace_back([&, thread] {
            std::mt19937 random(thread);
            for (int i = 0; i < 200; ++i)
                by_position(operation, static_cast<int>(1 + random() % 40) * 7,
                            StreamRef::per_thread_default());
        });
    for (std::thread& thread : threads) thread.join();
    operation.wait();
    EXPECT_LE(operation.usage().shapes, 8u);
    EXPECT_LE(operation.usage().streams, 3u);
}

TEST_F(OperationOnHost, StartsOverInAForkedChild) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the thread sanitizer allows no threads after fork";
#endif
    std::optional<Operation> operation(std::in_place, service, shift(), Values{},
                                       options_with(WhenMissing::substitute));
    operation->prepare({{"n", 100}});
    by_position(*operation, 300);  // has the operation start its thread
    operation->wait();
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::alarm(60);
        bool good = by_position(*operation, 100) == 2 && operation->usage().shapes == 1;
        by_position(*operation, 10000);
        operation->wait();
        good = good && by_position(*operation, 10000) == 8;
        operation.reset();
        ::_exit(good && !HasFailure() ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(operation->usage().shapes, 2u);
}

// In a process of its own, for a limit can't be raised again. A user of its own has no other processes.
TEST_F(OperationOnHost, WhereNoThreadCanBeStartedTheCallBuilds) {
    KILN_REQUIRE_OR_SKIP("root", ::geteuid() == 0, "a limit of processes does not hold for this user alone");
    std::filesystem::permissions(directory.path(), std::filesystem::perms::all);
    const Operation operation(service, shift(), {}, options_with(WhenMissing::substitute));
    operation.prepare({{"n", 100}});
    // It is in memory, since the compiler is a process too.
    const AnyKernel best = service.build(operation.explain({{"n", 300}}).choice.variant);
    const pid_t child = fork_to_launch();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::alarm(60);
        constexpr uid_t kNobodyElse = 64323;
        const rlimit limits{1, 1};
        if (::setrlimit(RLIMIT_NPROC, &limits) != 0 || ::setuid(kNobodyElse) != 0) ::_exit(2);
        try {
            const bool good = by_position(operation, 300) == 4 && operation.usage().pending == 0;
            operation.wait();
            ::_exit(good && !HasFailure() ? 0 : 1);
        } catch (const Error& error) {
            std::fprintf(stderr, "%s\n", error.what());
            ::_exit(3);
        } catch (const std::exception& error) {
            std::fprintf(stderr, "%s\n", error.what());
            ::_exit(4);
        }
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

/// How many threads of this process do not block the signal.
int threads_that_take(int signal) {
    int count = 0;
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
        const std::string status = read_text_if_exists(thread.path() / "status").value_or("");
        const std::size_t mask = status.find("SigBlk:");
        if (mask != std::string::npos)
            count += (std::stoull(status.substr(mask + 7), nullptr, 16) >> (signal - 1) & 1) == 0;
    }
    return count;
}

TEST_F(OperationOnHost, SignalsAreNotHandledByItsThread) {
    const Operation operation(service, shift(), {}, options_with(WhenMissing::substitute));
    operation.prepare({{"n", 100}});
    const int before = threads_that_take(SIGUSR1);
    by_position(operation, 300);
    operation.wait();
    EXPECT_EQ(threads_that_take(SIGUSR1), before);
}

TEST_F(OperationOnHost, TuningChangesTheChoice) {
    OperationOptions options;
    options.wisdom.emplace();
    const Operation sum(service, "sum", {{"T", Value("float")}}, options);
    std::vector<float> x(3000, 0.5F);
    float result = -1;
    const auto call = [&] { sum(service.stream(), {{"n", 3000}}, {{"x", x.data()}, {"sum", &result}}); };
    call();
    EXPECT_NE(sum.explain({{"n", 3000}}).choice.origin, ChoiceOrigin::wisdom);
    const Wisdom found = sum.tune_pending(std::chrono::seconds(2));
    EXPECT_FALSE(found.empty());
    const OperationPlan plan = sum.explain({{"n", 3000}});
    EXPECT_EQ(plan.choice.origin, ChoiceOrigin::wisdom);
    EXPECT_TRUE(plan.built);
    EXPECT_THAT(plan.text(), HasSubstr("per launch with cold L2"));
    result = -1;
    call();
    EXPECT_EQ(result, 1500.0F);
    EXPECT_TRUE(sum.tune_pending(std::chrono::seconds(1)).empty()) << "nothing is left to tune";
    options.reproducible = true;
    const Operation fixed(service, "sum", {}, options);
    EXPECT_THAT(rejected([&] { fixed.tune_pending(std::chrono::seconds(1)); }), HasSubstr("reproducible"));
}

}  // namespace
}  // namespace kiln
