// SPDX-License-Identifier: Apache-2.0
//
// StreamRef on the host: the two default streams run work at once, handles of GPUs are rejected, and work of a
// stream (copies, fills, waits) does what the blocking calls do.
#include <gmock/gmock.h>
#include <kiln/error.h>
#include <kiln/kiln.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rejected.h"
#include "scale_kernel.h"

namespace kiln {
namespace {

using test::rejected;
using testing::ElementsAre;
using testing::HasSubstr;

struct StreamRefOnHost : test::ServiceFixture {
    static std::vector<float> values(const Buffer& buffer) {
        std::vector<float> result(buffer.size_bytes() / 4);
        buffer.copy_to(std::as_writable_bytes(std::span(result)));
        return result;
    }
};

TEST_F(StreamRefOnHost, DefaultStreamsRunKernelsAndGraphs) {
    Service service(options());
    const auto triple = service.build<test::ScaleFn>(test::scale_variant(service, 3));
    Buffer x = service.device().allocate(8);
    const std::vector<float> start{1, 2};
    x.copy_from(std::as_bytes(std::span(start)));
    triple(StreamRef::legacy_default(), 2, x.as<float>(), x.as<float>());
    EXPECT_THAT(values(x), ElementsAre(3, 6));
    triple(StreamRef::per_thread_default(), 2, x.as<float>(), x.as<float>());
    EXPECT_THAT(values(x), ElementsAre(9, 18));
    const Stream stream = service.device().stream();
    const Graph graph = Graph::capture(stream, [&] {
        triple(stream, 2, x.as<float>(), x.as<float>());
        // Not the stream that is captured.
        triple(StreamRef::per_thread_default(), 1, x.as<float>(), x.as<float>());
    });
    EXPECT_THAT(values(x), ElementsAre(27, 18));
    graph.launch(StreamRef::per_thread_default());
    EXPECT_THAT(values(x), ElementsAre(81, 54));
    graph.launch(StreamRef(stream));
    EXPECT_THAT(values(x), ElementsAre(243, 162));
}

TEST_F(StreamRefOnHost, HandlesOfGpusAndEmptyStreamsAreRejected) {
    Service service(options());
    const auto triple = service.build<test::ScaleFn>(test::scale_variant(service, 3));
    Buffer x = service.device().allocate(4);
    x.fill(0);
    int anything = 0;
    const StreamRef foreign(static_cast<void*>(&anything));
    Event event = service.device().event();
    EXPECT_THAT(rejected([&] { triple(foreign, 1, x.as<float>(), x.as<float>()); }),
                HasSubstr("Kernel scale can't be launched: the stream was made from a handle of CUDA's"));
    EXPECT_THAT(rejected([&] { event.record(foreign); }), HasSubstr("handle of CUDA's"));
    EXPECT_THAT(rejected([&] { foreign.wait(event); }), HasSubstr("handle of CUDA's"));
    EXPECT_THAT(rejected([&] { x.fill_async(1, foreign); }), HasSubstr("handle of CUDA's"));
    Stream stream = service.device().stream();
    const Stream taken(std::move(stream));
    EXPECT_THAT(rejected([&] { triple(stream, 1, x.as<float>(), x.as<float>()); }), HasSubstr("is empty"));
    EXPECT_THAT(rejected([&] { x.fill_async(1, stream); }), HasSubstr("is empty"));
    EXPECT_THAT(rejected([&] { StreamRef(taken).wait(Event()); }), HasSubstr("belongs to no device"));
    EXPECT_THAT(values(x), ElementsAre(0));
}

TEST_F(StreamRefOnHost, QueuesCopiesFillsAndWaits) {
    const Device device = Device::open(Backend::host);
    const Stream stream = device.stream();
    Buffer x = device.allocate(14);
    x.fill_async(0x04030201, stream);
    const std::vector<unsigned char> two{7, 8};
    x.copy_from_async(std::as_bytes(std::span(two)), stream, 5);
    Event event = device.event();
    event.record(stream);
    StreamRef(stream).wait(event);
    std::vector<unsigned char> found(14);
    x.copy_to_async(std::as_writable_bytes(std::span(found)), stream);
    stream.synchronize();
    EXPECT_THAT(found, ElementsAre(1, 2, 3, 4, 1, 7, 8, 4, 1, 2, 3, 4, 1, 2));
    EXPECT_THAT(rejected([&] { x.copy_from_async(std::as_bytes(std::span(two)), stream, 13); }),
                HasSubstr("does not fit a buffer of 14 bytes"));
    EXPECT_THAT(rejected([&] { Graph::capture(stream, [&] { x.fill_async(0, stream); }); }),
                HasSubstr("An asynchronous fill can't happen while launches are captured"));
    EXPECT_THAT(rejected([&] { Graph::capture(stream, [&] { StreamRef(stream).wait(event); }); }),
                HasSubstr("A stream's wait can't happen while launches are captured"));
}

}  // namespace
}  // namespace kiln
