// SPDX-License-Identifier: Apache-2.0
//
// The service over several tiers: what is counted and traced, packs under the directory, background builds,
// forks, entries that the driver refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/kiln.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <vector>

#include "base/digest.h"
#include "base/file.h"
#include "cache/entry.h"
#include "scale_kernel.h"
#include "scoped_variable.h"

namespace kiln {
namespace {

using test::expect_scales;
using test::scale_variant;
using test::ScaleFn;
using testing::ElementsAre;
using testing::HasSubstr;

struct Traced {
    TraceKind kind;
    Origin tier;
    std::string variant;
};

struct ServiceTiersTest : test::ServiceFixture {
    std::mutex mutex;
    std::vector<Traced> traced;

    ServiceOptions traced_options() {
        auto result = options();
        result.on_trace = [this](const TraceEvent& event) {
            const std::lock_guard lock(mutex);
            traced.push_back({event.kind, event.tier, std::string(event.variant)});
        };
        return result;
    }
    std::vector<std::string> kinds() {
        std::vector<std::string> result;
        for (const auto& event : traced)
            result.push_back(std::string(name(event.kind)) + " " + std::string(name(event.tier)));
        return result;
    }
    std::filesystem::path pack_of(int first, int last) {
        auto elsewhere = options();
        elsewhere.cache.directory = directory.path() / "packed";
        Service service(elsewhere);
        for (int factor = first; factor <= last; ++factor) service.compile(scale_variant(service, factor));
        const auto file = directory.path() / "seed.pack";
        EXPECT_EQ(Cache(elsewhere.cache).pack(file).entries, static_cast<std::uint64_t>(last - first + 1));
        return file;
    }
};

TEST_F(ServiceTiersTest, EveryStepIsTracedAndCounted) {
    {
        Service service(traced_options());
        service.build<ScaleFn>(scale_variant(service, 3));
        service.build<ScaleFn>(scale_variant(service, 3));
        EXPECT_THAT(kinds(), ElementsAre("miss compiled", "compile compiled", "store disk"));
        EXPECT_EQ(traced[0].variant, "scale FACTOR=3");
        const Counters counters = service.counters();
        EXPECT_EQ(counters.misses, 1u);
        EXPECT_EQ(counters.compiles, 1u);
        EXPECT_EQ(counters.memory_hits, 1u);
        EXPECT_EQ(counters.stored_entries, 1u);
        EXPECT_EQ(counters.bytes_written, std::filesystem::file_size(only_entry()));
        EXPECT_GT(counters.compile_ms, 0u);
        EXPECT_EQ(counters.waits, 0u);
    }
    traced.clear();
    {
        Service service(traced_options());
        service.build<ScaleFn>(scale_variant(service, 3));
        EXPECT_THAT(kinds(), ElementsAre("hit disk"));
        EXPECT_EQ(service.counters().bytes_read, std::filesystem::file_size(only_entry()));
        EXPECT_GT(service.counters().saved_ms, 0u);
    }
    // The directory knows what all services did.
    const Counters all = Cache(options().cache).usage().counters;
    EXPECT_EQ(all.compiles, 1u);
    EXPECT_EQ(all.disk_hits, 1u);
    EXPECT_EQ(all.memory_hits, 1u);
}

TEST_F(ServiceTiersTest, APackServesWhatTheDirectoryLacks) {
    auto with_pack = options();
    with_pack.cache.seed_packs = {pack_of(1, 3)};
    Service service(with_pack);
    const auto kernel = service.build<ScaleFn>(scale_variant(service, 2));
    EXPECT_EQ(kernel.origin(), Origin::seed);
    expect_scales(service, kernel, 2);
    EXPECT_EQ(service.compile(scale_variant(service, 4)).origin, Origin::compiled);
    EXPECT_EQ(service.counters().seed_hits, 1u);
    EXPECT_EQ(service.counters().stored_entries, 1u) << "what a pack has is not copied";
    EXPECT_EQ(warnings, std::vector<std::string>());
}

TEST_F(ServiceTiersTest, AMissingPackIsToldAndHarmsNothing) {
    auto with_pack = options();
    with_pack.cache.seed_packs = {directory.path() / "absent.pack"};
    Service service(with_pack);
    EXPECT_EQ(service.compile(scale_variant(service, 2)).origin, Origin::compiled);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_THAT(warnings[0], HasSubstr("absent.pack"));
}

// A whole and rightly signed entry whose binary the driver does not take.
TEST_F(ServiceTiersTest, AnEntryThatTheDriverRefusesIsRebuiltInTheSameCall) {
    for (const bool in_pack : {false, true}) {
        auto cache = options();
        cache.cache.directory = directory.path() / (in_pack ? "under-a-pack" : "plain");
        Service maker(cache);
        const Variant variant = scale_variant(maker, 5);
        const Compiled sound = maker.compile(variant);
        Binary useless = sound.binary;
        useless.bytes = std::vector<std::byte>(5000, std::byte{0x5a});
        const auto digest = sound.key.digest;
        const auto file = *cache.cache.directory / "v1" / digest.substr(0, 2) / (digest + ".kiln");
        const Bytes entry = encode_entry(sound.key, useless);
        write_atomically(file, {entry.data(), entry.size()});
        if (in_pack) {
            const auto pack = directory.path() / "useless.pack";
            Cache(cache.cache).pack(pack);
            Cache(cache.cache).clear();
            cache.cache.seed_packs = {pack};
        }
        warnings.clear();
        Service service(cache);
        const auto kernel = service.build<ScaleFn>(variant);
        EXPECT_EQ(kernel.origin(), Origin::compiled);
        expect_scales(service, kernel, 5);
        EXPECT_EQ(service.counters().rejected_entries, 1u);
        EXPECT_EQ(warnings.size(), 1u);
        Service next(cache);
        EXPECT_EQ(next.build<ScaleFn>(variant).origin(), Origin::disk);
    }
}

TEST_F(ServiceTiersTest, ManyBackgroundBuilds) {
    auto two = options();
    two.workers = 2;
    Service service(two);
    std::vector<std::future<Kernel<ScaleFn>>> kernels;
    for (int factor = 1; factor <= 6; ++factor)
        kernels.push_back(service.build_async<ScaleFn>(scale_variant(service, factor)));
    (void)service.build_async<ScaleFn>(scale_variant(service, 7));  // dropped: neither waits nor is lost
    auto wrong = service.build_async<void(int)>(scale_variant(service, 1));
    for (int factor = 1; factor <= 6; ++factor)
        expect_scales(service, kernels[static_cast<std::size_t>(factor - 1)].get(),
                      static_cast<float>(factor));
    EXPECT_THROW(wrong.get(), UsageError);
    const auto dropped = service.compile_async(scale_variant(service, 7)).get();
    EXPECT_THAT(dropped.origin, testing::AnyOf(Origin::compiled, Origin::disk));
    EXPECT_EQ(service.counters().compiles, 7u);
}

TEST_F(ServiceTiersTest, AStopRequestEndsBackgroundBuildsAndKeepsWhatIsThere) {
    std::stop_source stop;
    auto stoppable = options();
    stoppable.workers = 1;
    stoppable.stop = stop.get_token();
    {
        Service service(stoppable);
        service.compile_async(scale_variant(service, 1)).get();
        std::vector<std::future<Compiled>> futures;
        for (int factor = 2; factor <= 20; ++factor)
            futures.push_back(service.compile_async(scale_variant(service, factor)));
        stop.request_stop();
        std::size_t refused = 0;
        for (auto& future : futures) {
            try {
                future.get();
            } catch (const BuildError&) {
                ++refused;
            }
        }
        EXPECT_GT(refused, 10u);
    }
    Service after(options());
    EXPECT_EQ(after.compile(scale_variant(after, 1)).origin, Origin::disk);
}

TEST_F(ServiceTiersTest, AChildOfForkBuildsWhateverItsParentWasDoing) {
    Service service(options());
    service.build<ScaleFn>(scale_variant(service, 1));
    // Threads of the parent are in the middle of builds, of the hot path too, when it forks.
    std::atomic<bool> over = false;
    std::vector<std::jthread> threads;
    for (int t = 0; t < 2; ++t)
        threads.emplace_back([&, t] {
            for (int factor = 10 + t; !over && factor < 100; factor += 2)
                for (int i = 0; i < 2000 && !over; ++i)
                    service.build<ScaleFn>(scale_variant(service, factor));
        });
    for (int round = 0; round < 5; ++round) {
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            ::alarm(60);  // a deadlock ends the child by a signal
            bool good = service.build<ScaleFn>(scale_variant(service, 1)).origin() == Origin::disk;
            good = good && service.compile(scale_variant(service, 2 + round)).origin == Origin::compiled;
            auto later = service.compile_async(scale_variant(service, 1));
            good = good && later.get().origin == Origin::disk;
            good = good && service.counters().memory_hits == 0;
            service.~Service();  // as at a normal exit
            ::_exit(good ? 0 : 1);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
            << "status " << status << " in round " << round;
    }
    over = true;
}

TEST_F(ServiceTiersTest, AServiceOfStaticDurationEndsWell) {
    EXPECT_EXIT(
        {
            static Service service(options());
            service.build<ScaleFn>(scale_variant(service, 1));
            (void)service.build_async<ScaleFn>(scale_variant(service, 2));
            std::exit(0);
        },
        testing::ExitedWithCode(0), "");
    Service after(options());
    EXPECT_EQ(after.compile(scale_variant(after, 2)).origin, Origin::disk) << "exit waits for what was begun";
}

TEST_F(ServiceTiersTest, ExplainsHitsAndMisses) {
    Service service(options());
    const Variant three = scale_variant(service, 3), four = scale_variant(service, 4);
    EXPECT_FALSE(service.explain(three).tier);
    service.compile(three);
    const Explanation hit = service.explain(three);
    EXPECT_EQ(hit.tier, Origin::disk);
    EXPECT_EQ(hit.place, only_entry());
    const Explanation miss = service.explain(four);
    EXPECT_FALSE(miss.tier);
    EXPECT_EQ(miss.nearest_key, service.key(three).digest);
    ASSERT_EQ(miss.differences.size(), 1u);
    EXPECT_EQ(miss.differences[0].ingredient, "FACTOR");
    EXPECT_EQ(miss.differences[0].wanted, "4");
    EXPECT_EQ(miss.differences[0].found, "3");
}

TEST_F(ServiceTiersTest, BadVariablesAreNamed) {
    const std::pair<const char*, const char*> wrong[] = {{"KILN_CACHE_LIMIT", "lots"},
                                                         {"KILN_CACHE_SHARE", "world"},
                                                         {"KILN_WORKERS", "0"},
                                                         {"KILN_WORKERS", "two"}};
    for (const auto& [variable, value] : wrong) {
        const test::ScopedVariable set(variable, value);
        try {
            Service service(options());
            ADD_FAILURE() << variable << "=" << value << " was taken";
        } catch (const UsageError& error) {
            EXPECT_THAT(error.what(), HasSubstr(variable));
            EXPECT_THAT(error.what(), HasSubstr(value));
        }
    }
}

}  // namespace
}  // namespace kiln
