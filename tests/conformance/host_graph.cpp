// SPDX-License-Identifier: Apache-2.0
//
// Graphs on the host: launches that are captured run at each replay only, with the values of the capture.
#include <gmock/gmock.h>
#include <kiln/error.h>
#include <kiln/kiln.h>

#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "box_kernel.h"
#include "scale_kernel.h"

namespace kiln {
namespace {

using test::kScale;
using test::ScaleFn;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

struct HostGraphTest : test::ServiceFixture {
    Kernel<ScaleFn> scale(Service& service, int factor) {
        return service.build<ScaleFn>(test::scale_variant(service, factor));
    }
    static Buffer buffer(const Service& service, const std::vector<float>& values) {
        Buffer result = service.device().allocate(values.size() * 4);
        result.copy_from(std::as_bytes(std::span(values)));
        return result;
    }
    static std::vector<float> values(const Buffer& buffer) {
        std::vector<float> result(buffer.size_bytes() / 4);
        buffer.copy_to(std::as_writable_bytes(std::span(result)));
        return result;
    }
};

TEST_F(HostGraphTest, ReplaysWhatWasCaptured) {
    Service service(options());
    const auto triple = scale(service, 3), fivefold = scale(service, 5);
    Buffer a = buffer(service, {1, 2, 3, 4}), b = buffer(service, {0, 0, 0, 0});
    Buffer other = buffer(service, {7});
    const Stream stream = service.device().stream(), beside = service.device().stream();
    const Graph graph = Graph::capture(stream, [&] {
        int n = 3;
        triple(stream, n, a.as<float>(), b.as<float>());
        n = 4;
        fivefold(stream, n, b.as<float>(), a.as<float>());
        // Another stream is not captured.
        triple(beside, 1, other.as<float>(), other.as<float>());
    });
    EXPECT_THAT(values(a), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(values(b), Each(0));
    EXPECT_THAT(values(other), ElementsAre(21));
    graph.launch(stream);
    stream.synchronize();
    EXPECT_THAT(values(b), ElementsAre(3, 6, 9, 0));
    EXPECT_THAT(values(a), ElementsAre(15, 30, 45, 0));
    graph.launch(beside);
    EXPECT_THAT(values(a), ElementsAre(225, 450, 675, 0));
    triple(stream, 1, other.as<float>(), other.as<float>());  // the capture has ended
    EXPECT_THAT(values(other), ElementsAre(63));
}

TEST_F(HostGraphTest, KeepsItsKernels) {
    std::optional<Service> service(options());
    const Device device = service->device();
    const Stream stream = device.stream();
    Buffer x = buffer(*service, std::vector<float>(40, 2));
    Graph graph;
    {
        const auto kernel = scale(*service, 7);
        graph = Graph::capture(stream, [&] { kernel(stream, 40, x.as<float>(), x.as<float>()); });
    }
    service.reset();
    Graph moved(std::move(graph));
    moved.launch(stream);
    EXPECT_THAT(values(x), Each(14));
    EXPECT_THROW(graph.launch(stream), UsageError);
}

// A replay has the maps of the capture, whatever the kernel was launched with since.
TEST_F(HostGraphTest, KeepsTensorMaps) {
    Service service(options());
    const auto kernel = service.build<test::BoxesFn>(service.parse(test::kBoxes, "boxes.cu").variant());
    std::vector<float> ones(8 * 32, 1), twos(8 * 32, 2);
    Buffer x = buffer(service, ones), z = buffer(service, twos), y = buffer(service, std::vector<float>(256));
    const Stream stream = service.device().stream();
    const Graph graph = Graph::capture(stream, [&] { kernel(stream, 8, 32, x.as<float>(), y.as<float>()); });
    kernel(stream, 8, 32, z.as<float>(), y.as<float>());
    EXPECT_THAT(values(y), Each(2));
    graph.launch(stream);
    EXPECT_THAT(values(y), Each(1));
}

TEST_F(HostGraphTest, ACaptureThatThrowsHasEnded) {
    Service service(options());
    const auto kernel = scale(service, 2);
    const Stream stream = service.device().stream();
    Buffer x = buffer(service, {1});
    const auto launch = [&] { kernel(stream, 1, x.as<float>(), x.as<float>()); };
    EXPECT_THROW(Graph::capture(stream,
                                [&] {
                                    launch();
                                    throw std::runtime_error("enough");
                                }),
                 std::runtime_error);
    EXPECT_THAT(values(x), ElementsAre(1));
    launch();
    EXPECT_THAT(values(x), ElementsAre(2));
    Graph::capture(stream, launch).launch(stream);
    EXPECT_THAT(values(x), ElementsAre(4));
}

TEST_F(HostGraphTest, TakesLaunchesAlone) {
    Service service(options());
    const Device& device = service.device();
    const Stream stream = device.stream();
    Buffer x = buffer(service, {1});
    Event event = device.event();
    const auto refused = [&](auto call) -> std::string {
        std::string message = "nothing was thrown";
        const Graph graph = Graph::capture(stream, [&] {
            try {
                call();
            } catch (const UsageError& error) {
                message = error.what();
            }
        });
        EXPECT_THROW(graph.launch(stream), UsageError) << "it holds no launch";
        return message;
    };
    EXPECT_THAT(refused([&] { values(x); }), HasSubstr("A copy can't happen"));
    EXPECT_THAT(refused([&] { x.copy_from(std::vector<std::byte>(4)); }), HasSubstr("A copy can't happen"));
    EXPECT_THAT(refused([&] { x.fill(0); }), HasSubstr("Filling"));
    EXPECT_THAT(refused([&] { device.allocate(4); }), HasSubstr("Allocating"));
    EXPECT_THAT(refused([&] { stream.synchronize(); }), HasSubstr("Waiting for a stream"));
    EXPECT_THAT(refused([&] { event.record(stream); }), HasSubstr("Recording"));
    EXPECT_THAT(refused([&] { event.synchronize(); }), HasSubstr("Waiting for an event"));
    EXPECT_THAT(refused([&] { Graph::capture(device.stream(), [] {}); }), HasSubstr("within another"));
    const auto kernel = scale(service, 2);
    const Graph good = Graph::capture(stream, [&] { kernel(stream, 1, x.as<float>(), x.as<float>()); });
    EXPECT_THAT(refused([&] { good.launch(stream); }), HasSubstr("captured into another"));
    EXPECT_THAT(values(x), ElementsAre(1));
}

TEST_F(HostGraphTest, EmptyOnesAndStreamsAreRejected) {
    Service service(options());
    const Stream stream = service.device().stream();
    EXPECT_THROW(Graph().launch(stream), UsageError);
    EXPECT_THROW(Graph::capture(Stream(), [] {}), UsageError);
    const auto kernel = scale(service, 2);
    Buffer x = buffer(service, {1});
    const Graph graph = Graph::capture(stream, [&] { kernel(stream, 1, x.as<float>(), x.as<float>()); });
    EXPECT_THROW(graph.launch(Stream()), UsageError);
    // A bad launch is rejected when it is captured; an empty one is nothing to capture.
    EXPECT_THROW(Graph::capture(stream, [&] { kernel(stream, -64, x.as<float>(), x.as<float>()); }), Error);
    const Graph empty = Graph::capture(stream, [&] { kernel(stream, 0, x.as<float>(), x.as<float>()); });
    EXPECT_THROW(empty.launch(stream), UsageError);
}

}  // namespace
}  // namespace kiln
