// SPDX-License-Identifier: Apache-2.0
//
// The service over several tiers: what is counted and traced, packs under the directory, background builds,
// forks, entries that the driver rejects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/kiln.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "base/digest.h"
#include "base/file.h"
#include "base/output_file.h"
#include "cache/entry.h"
#include "falls_asleep.h"
#include "require.h"
#include "scale_kernel.h"
#include "scoped_variable.h"
#include "working_directory.h"

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

std::uint64_t requests(const Counters& counters) {
    return counters.memory_hits + counters.disk_hits + counters.seed_hits + counters.remote_hits +
           counters.misses;
}

TEST_F(ServiceTiersTest, EveryRequestIsAHitOrAMiss) {
    // Two services stand for two processes: one of them is served by the other, or finds what that has
    // stored.
    constexpr int kThreads = 4, kRounds = 3;
    Service one(options()), other(options());
    std::vector<std::thread> threads;
    for (Service* service : {&one, &other}) {
        for (int t = 0; t < kThreads; ++t)
            threads.emplace_back([&variant_of = *service, t] {
                for (int round = 0; round < kRounds; ++round) {
                    const auto variant = scale_variant(variant_of, 3);
                    t % 2 == 0 ? void(variant_of.build(variant)) : void(variant_of.compile(variant));
                }
            });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(requests(one.counters()), static_cast<std::uint64_t>(kThreads * kRounds));
    EXPECT_EQ(requests(other.counters()), static_cast<std::uint64_t>(kThreads * kRounds));
    EXPECT_EQ(one.counters().compiles + other.counters().compiles, 1u);
    EXPECT_EQ(one.counters().misses + other.counters().misses, 1u);
}

TEST_F(ServiceTiersTest, TheDirectoryKnowsOfTheRemotesFailures) {
    auto nobody_there = options();
    nobody_there.cache.remote->url = "redis://127.0.0.1:1";
    for (int factor : {3, 4}) {
        Service service(nobody_there);
        service.compile(scale_variant(service, factor));
        EXPECT_EQ(service.counters().remote_failures, 1u);
    }
    EXPECT_EQ(Cache(options().cache).usage().counters.remote_failures, 2u);
}

// In a process of its own, for a limit can't be raised again. A user of its own has no other processes.
TEST_F(ServiceTiersTest, WhereNoThreadCanBeStartedTheCallerBuilds) {
    KILN_REQUIRE_OR_SKIP("root", ::geteuid() == 0, "a limit of processes does not hold for this user alone");
    std::filesystem::permissions(directory.path(), std::filesystem::perms::all);
    for (const rlim_t limit : {1, 2}) {
        const pid_t child = ::fork();
        if (child == 0) {
            ::alarm(60);  // may be blocked, so that a hang shows as the test's time limit
            constexpr uid_t kNobodyElse = 64321;
            auto uncached = options();
            uncached.cache.enabled = false;
            uncached.workers = 4;
            Service service(uncached);
            const auto variant = scale_variant(service, 3);
            const rlimit limits{limit, limit};
            if (::setrlimit(RLIMIT_NPROC, &limits) != 0 || ::setuid(kNobodyElse) != 0) ::_exit(1);
            auto future = service.compile_async(variant);
            try {
                future.get();
                ::_exit(2);  // the compiler is a process too
            } catch (const BuildError& error) {
                if (std::string(error.what()).find("ulimit -u") != std::string::npos) ::_exit(0);
                std::fprintf(stderr, "%s\n", error.what());
                ::_exit(3);
            }
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0) << limit;
    }
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

TEST_F(ServiceTiersTest, AMissingPackIsReportedAndHarmsNothing) {
    auto with_pack = options();
    with_pack.cache.seed_packs = {directory.path() / "absent.pack"};
    Service service(with_pack);
    EXPECT_EQ(service.compile(scale_variant(service, 2)).origin, Origin::compiled);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_THAT(warnings[0], HasSubstr("absent.pack"));
}

TEST_F(ServiceTiersTest, AnEntryAboveTheLimitIsNoProblemOfTheCache) {
    auto small = options();
    small.cache.limit_bytes = 100;
    Service service(small);
    const auto kernel = service.build<ScaleFn>(scale_variant(service, 3));
    expect_scales(service, kernel, 3);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_THAT(warnings[0], HasSubstr("limit is 100 bytes"));
    EXPECT_THAT(warnings[0], testing::Not(HasSubstr("in memory only")));
    EXPECT_EQ(service.cache_problem(), "");
}

// A whole and rightly signed entry whose binary the driver does not take.
TEST_F(ServiceTiersTest, AnEntryThatTheDriverRejectsIsRebuiltInTheSameCall) {
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
        write_output_file(file, {entry.data(), entry.size()});
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
    // Threads of the parent are in the middle of builds, of the hot path too, when it forks. The sanitizers'
    // own run-times don't stand that.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    constexpr int kThreads = 0;
#else
    constexpr int kThreads = 2;
#endif
    std::atomic<bool> over = false;
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
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

// As after daemon(3).
TEST_F(ServiceTiersTest, RelativePathsAreThoseOfTheBeginningInAChildOfForkToo) {
    const auto home = directory.path() / "home", elsewhere = directory.path() / "elsewhere";
    std::filesystem::create_directories(home / "inc");
    std::filesystem::create_directories(elsewhere);
    write_text(home / "inc" / "factor.h", "#define MORE 3\n");
    std::filesystem::rename(pack_of(1, 3), home / "app.pack");
    const test::WorkingDirectory in(home);
    auto relative = options();
    relative.cache.directory = "cache";
    relative.cache.seed_packs = {"app.pack"};
    relative.include_directories = {"inc"};
    std::string text = test::kScale;
    text.replace(text.find("#include"), 0, "#include <factor.h>\n");
    text.replace(text.find("= FACTOR"), 8, "= MORE * FACTOR");
    DeviceServices later(relative);
    Service service(relative);
    const Variant with_header = service.parse(text, "scale.cu").variant();
    service.compile(with_header);
    in.go(elsewhere);
    EXPECT_EQ(later.of(0).cache_directory(), home / "cache");
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const bool is_same = service.cache_directory() == home / "cache" &&
                             service.compile(scale_variant(service, 2)).origin == Origin::seed &&
                             service.compile(with_header).origin == Origin::disk;
        ::_exit(is_same ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(std::filesystem::is_empty(elsewhere));
}

// The same for directories that the environment names, in one process.
TEST_F(ServiceTiersTest, RelativeIncludeDirectoriesOfTheEnvironmentAreThoseOfTheBeginning) {
    std::filesystem::create_directories(directory.path() / "inc");
    write_text(directory.path() / "inc" / "factor.h", "#define MORE 3\n");
    const test::WorkingDirectory in(directory.path());
    const test::ScopedVariable path("KILN_INCLUDE_PATH", "inc");
    Service service(options());
    in.go("/");
    std::string text = test::kScale;
    text.replace(text.find("#include"), 0, "#include <factor.h>\n");
    EXPECT_EQ(service.compile(service.parse(text, "scale.cu").variant()).origin, Origin::compiled);
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

TEST_F(ServiceTiersTest, ACallbackMayStartABuildWhileTheServiceEnds) {
    EXPECT_EXIT(
        {
            ::alarm(60);  // a deadlock ends the process by a signal
            std::atomic<int> finished = 0;
            std::promise<void> is_ending;
            const pid_t ends_it = ::gettid();
            {
                Service service(options());
                service.build_async(scale_variant(service, 1), [&](AnyKernel, std::exception_ptr first) {
                    is_ending.get_future().wait();
                    if (!first && test::falls_asleep(ends_it)) ++finished;  // the destructor waits
                    service.build_async(scale_variant(service, 2), [&](AnyKernel, std::exception_ptr second) {
                        if (!second) ++finished;
                    });
                });
                is_ending.set_value();
            }
            std::_Exit(finished);
        },
        testing::ExitedWithCode(2), "");
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
