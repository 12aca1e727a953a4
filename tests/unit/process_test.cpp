// SPDX-License-Identifier: Apache-2.0
//
// run_process and ChildProcess: streams, limits, signals, environment, and that nothing is left behind.
#include "base/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "base/file.h"

namespace kiln {
namespace {
using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

ProcessRequest shell(const std::string& script) {
    ProcessRequest request;
    request.arguments = {"/bin/sh", "-c", script};
    return request;
}

std::size_t open_descriptors() {
    const auto entries = std::filesystem::directory_iterator("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

bool is_alive(pid_t pid) {
    // A killed grandchild may stay a zombie for a moment, or for good where nobody reaps orphans.
    const auto status = read_text_if_exists("/proc/" + std::to_string(pid) + "/stat");
    return status && status->find(") Z ") == std::string::npos;
}

TEST(Process, GivesOutputErrorAndStatus) {
    const auto result = run_process(shell("echo out; echo err >&2; exit 3"));
    EXPECT_TRUE(result.started);
    EXPECT_FALSE(result.succeeded());
    EXPECT_EQ(result.output, "out\n");
    EXPECT_EQ(result.error, "err\n");
    EXPECT_EQ(result.exit_status, 3);
    EXPECT_EQ(result.signal, 0);
    EXPECT_EQ(result.how_it_ended(1s), "exited with status 3");
    EXPECT_TRUE(run_process(shell("exit 0")).succeeded());
}

TEST(Process, AStatusThatWasCollectedElsewhereIsNoSuccess) {
    const auto before = ::signal(SIGCHLD, SIG_IGN);
    const auto result = run_process(shell("echo out; exit 3"));
    ::signal(SIGCHLD, before);
    EXPECT_FALSE(result.succeeded());
    EXPECT_EQ(result.output, "out\n");
    EXPECT_THAT(result.how_it_ended(1s), HasSubstr("SIGCHLD"));
}

TEST(Process, TheLongestLimitIsNone) {
    auto request = shell("exit 0");
    request.timeout = std::chrono::milliseconds::max();
    EXPECT_TRUE(run_process(request).succeeded());
}

TEST(Process, TakesArgumentsLiterally) {
    ProcessRequest request;
    request.arguments = {"printf", "%s|", "a b", "$HOME", "", "*"};  // found in PATH
    EXPECT_EQ(run_process(request).output, "a b|$HOME||*|");
}

TEST(Process, BigInputAndOutputAtTheSameTime) {
    auto request = shell("tee /dev/stderr");
    for (int i = 0; i < 400000; ++i) request.input += std::to_string(i) + "\n";
    request.input += '\0';
    const auto result = run_process(request);
    EXPECT_TRUE(result.succeeded());
    EXPECT_TRUE(result.output == request.input);
    EXPECT_TRUE(result.error == request.input);
}

TEST(Process, AChildThatReadsNothingIsNoProblem) {
    auto request = shell("exec <&-; echo done");
    request.input.assign(1 << 22, 'x');
    const auto result = run_process(request);  // a SIGPIPE would end this test
    EXPECT_TRUE(result.succeeded());
    EXPECT_EQ(result.output, "done\n");
    sigset_t pending;
    ASSERT_EQ(sigpending(&pending), 0);
    EXPECT_EQ(sigismember(&pending, SIGPIPE), 0) << "left pending for the application";
}

TEST(Process, InputEnds) { EXPECT_EQ(run_process(shell("cat; echo end")).output, "end\n"); }

TEST(Process, AMissingProgramDoesNotStart) {
    for (const char* name : {"/nowhere/program", "kiln-no-such-program"}) {
        ProcessRequest request;
        request.arguments = {name};
        const auto result = run_process(request);
        EXPECT_FALSE(result.started);
        EXPECT_FALSE(result.succeeded());
        EXPECT_THAT(result.start_error, AllOf(HasSubstr(name), HasSubstr("No such file")));
        EXPECT_THAT(result.how_it_ended(1s), HasSubstr("did not start"));
    }
}

TEST(Process, ReportsTheSignal) {
    const auto result = run_process(shell("kill -SEGV $$"));
    EXPECT_FALSE(result.succeeded());
    EXPECT_EQ(result.signal, SIGSEGV);
    EXPECT_THAT(result.how_it_ended(1s), HasSubstr("signal 11 (Segmentation fault)"));
}

TEST(Process, TheTimeLimitReachesGrandchildren) {
    const TemporaryDirectory directory;
    auto request = shell("sleep 60 & echo $! > grandchild; echo before; wait");
    request.directory = directory.path();
    request.timeout = 500ms;
    const auto start = std::chrono::steady_clock::now();
    const auto result = run_process(request);
    const auto elapsed = std::chrono::steady_clock::now() - start;
    EXPECT_TRUE(result.timed_out);
    EXPECT_FALSE(result.succeeded());
    EXPECT_EQ(result.output, "before\n") << "what it wrote before is kept";
    EXPECT_GE(elapsed, 490ms);
    EXPECT_LT(elapsed, 10s);
    EXPECT_EQ(result.how_it_ended(request.timeout), "ran longer than its limit of 500 ms");

    const pid_t grandchild =
        std::atoi(read_text_if_exists(directory.path() / "grandchild").value_or("0").c_str());
    ASSERT_GT(grandchild, 0);
    for (int i = 0; i < 200 && is_alive(grandchild); ++i) std::this_thread::sleep_for(10ms);
    EXPECT_FALSE(is_alive(grandchild));
}

TEST(Process, AStopRequestEndsIt) {
    std::stop_source source;
    auto request = shell("trap '' TERM INT; sleep 30; echo end");
    request.stop = source.get_token();
    std::thread stopper([&] {
        std::this_thread::sleep_for(100ms);
        source.request_stop();
    });
    const auto begin = std::chrono::steady_clock::now();
    const auto result = run_process(request);
    stopper.join();
    EXPECT_TRUE(result.stopped);
    EXPECT_FALSE(result.succeeded());
    EXPECT_EQ(result.output, "");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
    EXPECT_THAT(result.how_it_ended(1s), HasSubstr("stop"));
}

TEST(Process, TheTimeLimitHoldsForOneThatIgnoresTermAndClosedItsStreams) {
    auto request = shell("trap '' TERM; exec >&- 2>&- <&-; while :; do sleep 1; done");
    request.timeout = 300ms;
    EXPECT_TRUE(run_process(request).timed_out);
}

TEST(Process, DoesNotWaitForAGrandchildThatKeepsTheStreams) {
    auto request = shell("sleep 20 & echo done");
    const auto start = std::chrono::steady_clock::now();
    const auto result = run_process(request);
    EXPECT_TRUE(result.succeeded());
    EXPECT_EQ(result.output, "done\n");
    EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

TEST(Process, RunsInTheDirectory) {
    const TemporaryDirectory directory;
    auto request = shell("pwd -P");
    request.directory = directory.path();
    EXPECT_EQ(run_process(request).output, std::filesystem::canonical(directory.path()).string() + "\n");
    request.directory = "/nowhere";
    EXPECT_FALSE(run_process(request).started);
}

TEST(Process, SetsReplacesAndUnsetsVariables) {
    ::setenv("KILN_TEST_KEPT", "kept", 1);
    ::setenv("KILN_TEST_REPLACED", "old", 1);
    ::setenv("KILN_TEST_UNSET", "there", 1);
    auto request = shell("echo $KILN_TEST_KEPT $KILN_TEST_REPLACED $KILN_TEST_NEW ${KILN_TEST_UNSET-none}");
    request.environment = {{"KILN_TEST_REPLACED", "replaced"}, {"KILN_TEST_NEW", "new"}};
    request.drops = [](std::string_view name) { return name == "KILN_TEST_UNSET"; };
    EXPECT_EQ(run_process(request).output, "kept replaced new none\n");
    for (const char* name : {"KILN_TEST_KEPT", "KILN_TEST_REPLACED", "KILN_TEST_UNSET"}) ::unsetenv(name);
}

TEST(Process, TheChildGetsNothingMoreThanTheThreeStreams) {
    // Other children inherit what this process itself was started with; ls opens one for the listing.
    int inherited = 0;
    for (int fd = 3; fd < 1024; ++fd) {
        const int flags = ::fcntl(fd, F_GETFD);
        if (flags >= 0 && (flags & FD_CLOEXEC) == 0) ++inherited;
    }
    EXPECT_EQ(run_process(shell("ls /proc/self/fd | wc -l")).output, std::to_string(4 + inherited) + "\n");
}

TEST(Process, LeavesNoDescriptorAndNoZombie) {
    run_process(shell("exit 0"));
    const auto before = open_descriptors();
    ProcessRequest missing;
    missing.arguments = {"/nowhere/program"};
    auto slow = shell("sleep 60");
    slow.timeout = 20ms;
    for (int i = 0; i < 10; ++i) {
        run_process(shell("echo hello; exit 1"));
        run_process(shell("kill -9 $$"));
        run_process(missing);
        run_process(slow);
    }
    EXPECT_EQ(open_descriptors(), before);
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
}

TEST(Process, TheMemoryLimitReachesGrandchildren) {
    auto request = shell("ulimit -v; (ulimit -v)");
    request.memory_bytes = (std::uint64_t{1} << 30) + 1;
    EXPECT_EQ(run_process(request).output, "1048577\n1048577\n");
    // Arguments are kept as they are.
    request.arguments = {"printf", "%s|", "a b", "$0", "", "*"};
    EXPECT_EQ(run_process(request).output, "a b|$0||*|");
}

ProcessSetup loop(const std::string& body) {
    ProcessSetup setup;
    setup.arguments = {"/bin/sh", "-c", "while read line; do " + body + "; done; exit 5"};
    return setup;
}

// Enough is one line.
ChildProcess::Exchange line(std::string_view input) {
    ChildProcess::Exchange exchange;
    exchange.input = input;
    exchange.last = false;
    exchange.enough = [](const ProcessResult& result) { return result.output.ends_with('\n'); };
    return exchange;
}

TEST(ChildProcess, AnswersOneInputAfterTheOther) {
    ChildProcess child(loop("echo got $line"));
    for (const char* word : {"one", "two", "three"}) {
        child.result().output.clear();
        EXPECT_TRUE(child.exchange(line(std::string(word) + "\n")));
        EXPECT_EQ(child.result().output, "got " + std::string(word) + "\n");
        EXPECT_TRUE(child.running());
    }
    EXPECT_FALSE(child.exchange({}));  // closes its input
    EXPECT_FALSE(child.running());
    EXPECT_EQ(child.result().exit_status, 5);
}

TEST(ChildProcess, ThatDiesOrHangsEndsTheExchange) {
    ChildProcess dying(loop("kill -9 $$"));
    EXPECT_FALSE(dying.exchange(line("x\n")));
    EXPECT_EQ(dying.result().signal, SIGKILL);
    EXPECT_FALSE(dying.exchange(line("x\n"))) << "it stays dead";

    ChildProcess hanging(loop("sleep 60"));
    auto exchange = line("x\n");
    exchange.timeout = 100ms;
    EXPECT_FALSE(hanging.exchange(exchange));
    EXPECT_TRUE(hanging.result().timed_out);
}

TEST(ChildProcess, EndsWithItsOwnerButNotWithAForkOfIt) {
    auto child = std::make_unique<ChildProcess>(loop("echo $$"));
    ASSERT_TRUE(child->exchange(line("x\n")));
    const pid_t pid = std::atoi(child->result().output.c_str());
    const pid_t fork = ::fork();
    if (fork == 0) {
        child.reset();
        ::_exit(0);
    }
    ASSERT_EQ(::waitpid(fork, nullptr, 0), fork);
    EXPECT_TRUE(child->running());
    child.reset();
    EXPECT_FALSE(is_alive(pid));
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a zombie";
}

TEST(Process, ChildrenOfManyThreadsDoNotMix) {
    std::vector<std::thread> threads;
    std::vector<ProcessResult> results(8);
    for (std::size_t i = 0; i < results.size(); ++i) {
        threads.emplace_back([&results, i] {
            auto request = shell("cat");
            request.input.assign(200000, static_cast<char>('a' + i));
            results[i] = run_process(request);
        });
    }
    for (auto& thread : threads) thread.join();
    for (std::size_t i = 0; i < results.size(); ++i) {
        EXPECT_TRUE(results[i].succeeded());
        EXPECT_TRUE(results[i].output == std::string(200000, static_cast<char>('a' + i)));
    }
}

}  // namespace
}  // namespace kiln
