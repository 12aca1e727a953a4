// SPDX-License-Identifier: Apache-2.0
//
// Flight with real processes: one leads; who is killed or stopped is replaced; who fails keeps nobody
// waiting.
#include "cache/flight.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/file.h"
#include "lock_processes.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using Role = Flight::Role;
using test::eventually;
using test::Processes;
using test::Shared;

const std::string kKey(64, 'a');
constexpr milliseconds kLong = std::chrono::seconds(100);

// What the processes of a test tell each other.
struct Board {
    std::atomic<int> waiting{0};  // processes whose probe was called
    std::atomic<int> led{0}, served{0}, alone{0}, stopped{0};
    std::atomic<int> waited{0}, take_overs{0};
    std::atomic<bool> published{false}, go_on{false};
};

struct FlightTest : testing::Test {
    TemporaryDirectory directory;
    const fs::path cache = directory.path() / "cache", place = directory.path() / "place";
    LocalLocks locks{cache, {}, {(fs::create_directories(place), place)}};
    Shared<Board> board;
    Processes processes;

    /// Boards in a child. `lead` is told how many led before.
    template <class Lead>
    pid_t start(FlightLimits limits, Lead lead) {
        return processes.start([this, limits, lead] {
            bool counted = false;
            Flight flight = Flight::board(locks, kKey, limits, [&] {
                if (!std::exchange(counted, true)) ++board->waiting;
                return board->published.load();
            });
            board->waited += flight.waited();
            board->take_overs += flight.took_over();
            switch (flight.role()) {
                case Role::leader:
                    lead(flight, board->led++);
                    break;
                case Role::served:
                    ++board->served;
                    break;
                case Role::alone:
                    ++board->alone;
                    break;
                case Role::stopped:
                    ++board->stopped;
                    break;
            }
        });
    }
    Flight here(FlightLimits limits, std::stop_token stop = {}) {
        return Flight::board(
            locks, kKey, limits, [&] { return board->published.load(); }, stop);
    }
    void publish(Flight& flight) {
        board->published = true;
        flight.settle(true);
    }
    bool no_file_is_left() const { return fs::is_empty(locks.directory()); }
};

TEST_F(FlightTest, OneLeadsAndTheOthersAreServed) {
    constexpr int kProcesses = 8;
    for (int p = 0; p < kProcesses; ++p) {
        start({kLong, kLong}, [&](Flight& flight, int) {
            EXPECT_TRUE(eventually([&] { return board->waiting == kProcesses; }));
            publish(flight);
        });
    }
    EXPECT_EQ(processes.join(), kProcesses);
    EXPECT_EQ(board->led, 1);
    EXPECT_EQ(board->served, kProcesses - 1);
    EXPECT_EQ(board->waited, kProcesses - 1);
    EXPECT_EQ(board->take_overs, 0);
    EXPECT_TRUE(no_file_is_left());
}

// Many keys in a row, with leaders that are done at once: every moment of coming and going gets its turn.
TEST_F(FlightTest, EveryKeyHasOneLeaderHoweverShortItLeads) {
    constexpr int kProcesses = 6, kKeys = 150;
    struct Keys {
        std::atomic<int> compiled[kKeys]{};
        std::atomic<bool> published[kKeys]{};
    };
    Shared<Keys> keys;
    for (int p = 0; p < kProcesses; ++p) {
        processes.start([&] {
            for (int k = 0; k < kKeys; ++k) {
                if (keys->published[k]) continue;
                Flight flight = Flight::board(locks, "key" + std::to_string(k), {kLong, kLong},
                                              [&] { return keys->published[k].load(); });
                if (flight.role() == Role::served) continue;
                ++keys->compiled[k];
                std::this_thread::yield();
                keys->published[k] = true;
                flight.settle(true);
            }
        });
    }
    EXPECT_EQ(processes.join(), kProcesses);
    for (int k = 0; k < kKeys; ++k) ASSERT_EQ(keys->compiled[k], 1) << k;
    EXPECT_TRUE(no_file_is_left());
}

TEST_F(FlightTest, ThreadsWaitForEachOtherToo) {
    std::atomic<int> led{0}, served{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
        threads.emplace_back([&] {
            Flight flight = here({kLong, kLong});
            if (flight.role() == Role::served) ++served;
            if (flight.role() != Role::leader) return;
            ++led;
            std::this_thread::sleep_for(milliseconds(20));
            publish(flight);
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(led, 1);
    EXPECT_EQ(served, 7);
}

TEST_F(FlightTest, AKilledLeaderIsReplacedAtOnceByOne) {
    constexpr int kProcesses = 8;
    for (int p = 0; p < kProcesses; ++p) {
        start({kLong, kLong}, [&](Flight& flight, int before) {
            EXPECT_TRUE(eventually([&] { return board->waiting == kProcesses; }));
            if (before == 0) ::raise(SIGKILL);
            publish(flight);
        });
    }
    EXPECT_EQ(processes.join(), kProcesses - 1);
    EXPECT_EQ(board->led, 2);
    EXPECT_EQ(board->take_overs, 1);
    EXPECT_EQ(board->served, kProcesses - 2);
    EXPECT_TRUE(no_file_is_left());
}

TEST_F(FlightTest, AStoppedLeaderIsReplacedByOneAndDoesNoHarmWhenItGoesOn) {
    constexpr int kWaiting = 7;
    const pid_t first = start({kLong, milliseconds(300)}, [&](Flight& flight, int) {
        ::raise(SIGSTOP);
        publish(flight);
    });
    ASSERT_TRUE(test::wait_until_stopped(first));
    for (int p = 0; p < kWaiting; ++p) {
        start({kLong, milliseconds(300)}, [&](Flight& flight, int) {
            // A waiter that finds out by itself takes its own 300 ms.
            EXPECT_TRUE(eventually([&] { return board->waiting == kWaiting + 1; }));
            publish(flight);
        });
    }
    EXPECT_TRUE(eventually([&] { return board->served == kWaiting - 1; }));
    EXPECT_EQ(board->led, 2);
    EXPECT_EQ(board->take_overs, 1);
    ::kill(first, SIGCONT);
    EXPECT_EQ(processes.join(), kWaiting + 1);
    EXPECT_TRUE(no_file_is_left());
    EXPECT_EQ(here({kLong, kLong}).role(), Role::served);
}

TEST_F(FlightTest, NewcomersLearnFromTheOthersThatALeaderStalls) {
    const pid_t first = start({kLong, milliseconds(200)}, [&](Flight&, int) { ::raise(SIGSTOP); });
    ASSERT_TRUE(test::wait_until_stopped(first));
    {
        const Flight second = here({kLong, milliseconds(200)});
        EXPECT_EQ(second.role(), Role::leader);
        EXPECT_TRUE(second.took_over());
        // While the second leads, nobody else does.
        EXPECT_EQ(here({milliseconds(20), kLong}).role(), Role::alone);
    }
    // Would wait for its own 100 s to pass if it had to find out by itself.
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(here({kLong * 2, kLong}).role(), Role::leader);
    EXPECT_LT(std::chrono::steady_clock::now() - start, kLong / 2);

    // Once the first goes on, it is waited for again: what was written about it holds no more.
    ::kill(first, SIGCONT);
    EXPECT_EQ(processes.join(), 1);
    EXPECT_EQ(here({kLong, kLong}).role(), Role::leader);
}

TEST_F(FlightTest, ALeaderThatBeatsAgainIsWaitedForAgain) {
    const pid_t first = start({kLong, milliseconds(200)}, [&](Flight& flight, int) {
        ::raise(SIGSTOP);
        EXPECT_TRUE(eventually([&] { return board->go_on.load(); }));
        publish(flight);
    });
    ASSERT_TRUE(test::wait_until_stopped(first));
    EXPECT_EQ(here({kLong, milliseconds(200)}).role(), Role::leader);
    ::kill(first, SIGCONT);
    EXPECT_TRUE(eventually([&] { return here({milliseconds(50), kLong}).role() == Role::alone; }));
    board->go_on = true;
    EXPECT_EQ(here({kLong, kLong}).role(), Role::served);
    EXPECT_EQ(processes.join(), 1);
}

TEST_F(FlightTest, AfterSomeStalledLeadersEverybodyGoesAlone) {
    std::vector<pid_t> stopped;
    for (int s = 0; s < 4; ++s) {
        stopped.push_back(start({kLong, milliseconds(100)}, [&](Flight&, int) { ::raise(SIGSTOP); }));
        ASSERT_TRUE(test::wait_until_stopped(stopped.back()));
    }
    EXPECT_EQ(board->led, 4);
    EXPECT_EQ(here({kLong, milliseconds(100)}).role(), Role::alone);
    for (const pid_t child : stopped) ::kill(child, SIGCONT);
    EXPECT_EQ(processes.join(), 4);
    EXPECT_TRUE(no_file_is_left());
}

TEST_F(FlightTest, ASlowLeaderThatBeatsIsNoStalledOne) {
    start({kLong, milliseconds(800)}, [&](Flight& flight, int) {
        EXPECT_TRUE(eventually([&] { return board->go_on.load(); }));
        std::this_thread::sleep_for(milliseconds(2000));
        publish(flight);
    });
    ASSERT_TRUE(eventually([&] { return board->led == 1; }));
    board->go_on = true;
    const Flight flight = here({kLong, milliseconds(800)});
    EXPECT_EQ(flight.role(), Role::served);
    EXPECT_GE(flight.waited_ms(), 1000);
    EXPECT_EQ(processes.join(), 1);
}

TEST_F(FlightTest, WhenTheLeaderFailsAllGoOnAlone) {
    constexpr int kProcesses = 8;
    for (int p = 0; p < kProcesses; ++p) {
        start({kLong, kLong}, [&](Flight& flight, int) {
            EXPECT_TRUE(eventually([&] { return board->waiting == kProcesses; }));
            flight.settle(false);
        });
    }
    EXPECT_EQ(processes.join(), kProcesses);
    EXPECT_EQ(board->led, 1);
    EXPECT_EQ(board->alone, kProcesses - 1);
    EXPECT_TRUE(no_file_is_left());
    // A later call makes a new attempt.
    EXPECT_EQ(here({kLong, kLong}).role(), Role::leader);
}

// The follower takes its time, and is heard by those who had waited for the first.
TEST_F(FlightTest, ALeaderThatSaysNothingIsFollowedByAnother) {
    constexpr int kProcesses = 4;
    for (int p = 0; p < kProcesses; ++p) {
        start({kLong, milliseconds(500)}, [&](Flight& flight, int before) {
            EXPECT_TRUE(eventually([&] { return board->waiting == kProcesses; }));
            if (before == 0) return;
            std::this_thread::sleep_for(milliseconds(1500));
            publish(flight);
        });
    }
    EXPECT_EQ(processes.join(), kProcesses);
    EXPECT_EQ(board->led, 2);
    EXPECT_EQ(board->served, kProcesses - 2);
    EXPECT_EQ(board->take_overs, 0);
}

TEST_F(FlightTest, NobodyWaitsLongerThanTheLimit) {
    const Flight leader = here({kLong, kLong});
    ASSERT_EQ(leader.role(), Role::leader);
    EXPECT_FALSE(leader.waited());
    const Flight flight = here({milliseconds(100), kLong});
    EXPECT_EQ(flight.role(), Role::alone);
    EXPECT_TRUE(flight.waited());
    EXPECT_GE(flight.waited_ms(), 100);
    EXPECT_EQ(here({milliseconds(0), kLong}).role(), Role::alone);
}

TEST_F(FlightTest, AStopRequestEndsTheWait) {
    const Flight leader = here({kLong, kLong});
    std::stop_source stop;
    std::thread stopper([&] {
        std::this_thread::sleep_for(milliseconds(50));
        stop.request_stop();
    });
    EXPECT_EQ(here({kLong, kLong}, stop.get_token()).role(), Role::stopped);
    stopper.join();
}

TEST_F(FlightTest, WithoutLocksEverybodyGoesAlone) {
    fs::remove_all(locks.directory());
    write_text(locks.directory(), "");
    const Flight flight = here({kLong, kLong});
    EXPECT_EQ(flight.role(), Role::alone);
    EXPECT_FALSE(flight.waited());
}

// As where /dev/shm is full: no sign of life can be written, nor does the signal of the limit end a process.
TEST_F(FlightTest, ALeaderThatCantGiveSignsIsNoStalledOne) {
    processes.start([&] {
        const rlimit none{0, 0};
        ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
        Flight leader = here({kLong, milliseconds(40)});
        ASSERT_EQ(leader.role(), Role::leader);
        const Flight waiter = here({milliseconds(400), milliseconds(40)});
        EXPECT_EQ(waiter.role(), Role::alone);
        EXPECT_GE(waiter.waited_ms(), 400);
        leader.settle(true);
        EXPECT_EQ(here({kLong, milliseconds(40)}).role(), Role::leader);
    });
    EXPECT_EQ(processes.join(), 1);
}

TEST_F(FlightTest, SurvivesTheLossOfTheLocksDirectory) {
    {
        Flight first = here({kLong, kLong});
        ASSERT_EQ(first.role(), Role::leader);
        fs::remove_all(locks.directory());
        // The first can't be seen any more.
        const Flight second = here({kLong, kLong});
        EXPECT_EQ(second.role(), Role::leader);
        first.settle(true);
        EXPECT_EQ(here({milliseconds(10), kLong}).role(), Role::alone);  // the second is still there
    }
    EXPECT_TRUE(no_file_is_left());
}

TEST_F(FlightTest, AProbeThatThrowsLeavesNothingBehind) {
    EXPECT_THROW(Flight::board(locks, kKey, {kLong, kLong}, [&]() -> bool { throw std::bad_alloc(); }),
                 std::bad_alloc);
    EXPECT_EQ(here({kLong, kLong}).role(), Role::leader);
}

TEST_F(FlightTest, AForkedChildOfALeaderLetsItLead) {
    std::optional<Flight> leader(here({kLong, kLong}));
    ASSERT_EQ(leader->role(), Role::leader);
    processes.start([&] {
        leader->settle(true);
        leader.reset();
    });
    EXPECT_EQ(processes.join(), 1);
    EXPECT_EQ(here({milliseconds(20), kLong}).role(), Role::alone);
}

}  // namespace
}  // namespace kiln
