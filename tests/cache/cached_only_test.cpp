// SPDX-License-Identifier: Apache-2.0
//
// A service that never compiles: it takes what the tiers have, and says so when they have nothing.
#include <gmock/gmock.h>
#include <kiln/kiln.h>

#include <fstream>

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
