// SPDX-License-Identifier: Apache-2.0
//
// A service that never compiles: it takes what the tiers have, and says so when they have nothing.
#include <gmock/gmock.h>
#include <kiln/kiln.h>

#include <fstream>
#include <string>
#include <vector>

#include "rejected.h"
#include "scale_kernel.h"

namespace kiln {
namespace {

using test::expect_scales;
using test::rejected;
using test::scale_variant;
using test::ScaleFn;
using testing::AllOf;
using testing::HasSubstr;

struct CachedOnly : test::ServiceFixture {
    ServiceOptions cached_only() {
        ServiceOptions result = options();
        result.cached_only = true;
        return result;
    }
};

TEST_F(CachedOnly, ServesWhatIsThereAndCompilesNothing) {
    {
        Service service(options());
        service.compile(scale_variant(service, 3));
    }
    Service service(cached_only());
    const auto kernel = service.build<ScaleFn>(scale_variant(service, 3));
    EXPECT_EQ(kernel.origin(), Origin::disk);
    expect_scales(service, kernel, 3);

    const auto absent = scale_variant(service, 4);
    const auto message = rejected<BuildError>([&] { service.build<ScaleFn>(absent); });
    EXPECT_THAT(message, AllOf(HasSubstr("FACTOR=4"), HasSubstr("is in no tier of the cache"),
                               HasSubstr("compiling is switched off")));
    EXPECT_EQ(rejected<BuildError>([&] { service.compile(absent); }), message);
    EXPECT_EQ(rejected<BuildError>([&] { service.compile_async(absent).get(); }), message);
    EXPECT_EQ(rejected<BuildError>([&] { service.build_async<ScaleFn>(absent).get(); }), message);
    EXPECT_EQ(service.counters().compiles, 0u);
    EXPECT_EQ(service.counters().misses, 4u);
    EXPECT_EQ(service.counters().disk_hits, 1u);

    // A failure is remembered nowhere: what another process stores meanwhile is found.
    {
        Service other(options());
        other.compile(absent);
    }
    expect_scales(service, service.build<ScaleFn>(absent), 4);
}

/// kScale with this in place of its `kernel` line and of what its kernel begins with, and this at its end.
std::string scale_with(const std::string& line, const std::string& begin, const std::string& end = "") {
    std::string text = test::kScale;
    text.replace(text.find("//@ kernel scale"), 16, line);
    text.replace(text.find("extern \"C\""), 10, begin);
    return text + end;
}

// A key has the name of each kernel, with its arguments, and, for debuggers, the path of the template.
TEST_F(CachedOnly, KnowsWhatIsStoredOfAnyKindOfTemplate) {
    const std::vector<std::string> texts = {
        test::kScale, scale_with("//@ kernel scale<FACTOR>", "template <int TIMES>"),
        scale_with("//@ kernel scale\n//@ block 32\n//@ grid ceil_div(n, 32)\n//@ kernel scaled",
                   "extern \"C\"", "extern \"C\" __global__ void scaled(int n, float* y) {}\n")};
    for (const std::string& text : texts) {
        write_text(directory.path() / "scale.cu", text);
        for (const bool debug : {false, true}) {
            SCOPED_TRACE(text + (debug ? "debug" : ""));
            ServiceOptions made = options();
            made.template_directories = {directory.path()};
            made.debug = debug;
            {
                Service service(made);
                EXPECT_TRUE(service.stored(service.find("scale")).empty());
                service.compile(service.find("scale").variant({{"FACTOR", 3}}));
            }
            made.cached_only = true;
            Service service(made);
            const std::vector<Variant> stored = service.stored(service.find("scale"));
            ASSERT_EQ(stored.size(), 1u);
            EXPECT_EQ(stored[0].value("FACTOR"), Value(3));
        }
    }
}

TEST_F(CachedOnly, ADamagedEntryIsNotReplaced) {
    {
        Service service(options());
        service.compile(scale_variant(service, 3));
    }
    std::fstream(only_entry(), std::ios::in | std::ios::out | std::ios::binary).seekp(1000).put('\x55');
    Service service(cached_only());
    EXPECT_THAT(rejected<BuildError>([&] { service.build<ScaleFn>(scale_variant(service, 3)); }),
                HasSubstr("is in no tier of the cache"));
    EXPECT_EQ(service.counters().compiles, 0u);
}

TEST_F(CachedOnly, WithoutACacheThereIsNothing) {
    auto without = cached_only();
    without.cache.enabled = false;
    Service service(without);
    EXPECT_THAT(rejected<BuildError>([&] { service.build<ScaleFn>(scale_variant(service, 3)); }),
                HasSubstr("is in no tier of the cache"));
}

}  // namespace
}  // namespace kiln
