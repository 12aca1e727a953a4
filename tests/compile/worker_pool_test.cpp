// SPDX-License-Identifier: Apache-2.0
//
// Workers for real, with NVRTC in them: the same bytes as in this process, a bounded number of processes, and
// what becomes of a worker that is killed, hangs, lacks memory or talks nonsense; stop, fork, and that
// nothing is left behind.
#include "compile/worker_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/dynamic_library.h"
#include "base/file.h"
#include "compile/compiler.h"
#include "compile/nvrtc_library.h"
#include "compiler_fixtures.h"
#include "rejected.h"
#include "require.h"

namespace kiln {
namespace {
using namespace std::chrono_literals;
namespace fs = std::filesystem;
using test::FakeWorker;
using test::rejected;
using test::ScopedVariable;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Target cuda(std::string arch = "sm_80") { return {Backend::cuda, std::move(arch), {}}; }

Source source(int number) {
    return {"scale.cu",
            "scale",
            "constexpr float kFactor = " + std::to_string(number) +
                ";\n#line 1 \"scale.cu\"\n#include \"part/twice.h\"\n"
                "extern \"C\" __global__ void scale(float* x) { x[threadIdx.x] = twice(x[threadIdx.x]); }\n",
            {{"part/twice.h", "inline __device__ float twice(float x) { return kFactor * sinf(x); }\n"}}};
}

// Many seconds of work for NVRTC: a straight line of 10,000 sines.
Source slow_source() {
    return {
        "slow.cu",
        "slow",
        "#define A(i) x[i] = sinf(x[i + 1] * x[i + 2]);\n"
        "#define B(i) A(i) A(i + 1) A(i + 2) A(i + 3) A(i + 4) A(i + 5) A(i + 6) A(i + 7) A(i + 8) A(i + 9)\n"
        "#define C(i) B(i) B(i + 10) B(i + 20) B(i + 30) B(i + 40) B(i) B(i) B(i) B(i) B(i)\n"
        "#define D(i) C(i) C(i + 1) C(i + 2) C(i + 3) C(i + 4) C(i) C(i) C(i) C(i) C(i)\n"
        "#define E(i) D(i) D(i + 1) D(i + 2) D(i + 3) D(i + 4) D(i) D(i) D(i) D(i) D(i)\n"
        "extern \"C\" __global__ void slow(float* x) { E(threadIdx.x) }\n",
        {}};
}

// ptxas ends its log with "Compile time = 4.531 ms".
std::string without_times(const std::string& log) { return log.substr(0, log.find("Compile time")); }

// The processes that `parent` started, zombies too.
std::set<pid_t> children_of(pid_t parent) {
    std::set<pid_t> children;
    std::error_code error;
    fs::directory_iterator thread("/proc/" + std::to_string(parent) + "/task", error);
    for (; !error && thread != fs::directory_iterator(); thread.increment(error)) {
        std::ifstream list(thread->path() / "children");
        for (pid_t child; list >> child;) children.insert(child);
    }
    return children;
}
std::set<pid_t> children() { return children_of(::getpid()); }

template <class Condition>
bool eventually(Condition condition) {
    for (int i = 0; i < 1000; ++i) {
        if (condition()) return true;
        std::this_thread::sleep_for(10ms);
    }
    return false;
}

bool has_ended(pid_t pid) {
    const auto status = read_text_if_exists("/proc/" + std::to_string(pid) + "/stat");
    return !status || status->find(") Z ") != std::string::npos;
}

class WorkerPoolTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string missing;
        try {
            make_nvrtc_compiler()->identity();
        } catch (const BuildError& error) {
            missing = error.what();
        }
        KILN_REQUIRE_OR_SKIP("nvrtc", missing.empty(), missing);
        ASSERT_THAT(children(), IsEmpty());
    }
    void TearDown() override {
        pool_.reset();
        compiler_.reset();
        EXPECT_THAT(children(), IsEmpty()) << "processes are left";
        EXPECT_TRUE(fs::is_empty(temporary_.path())) << "temporary files are left";
    }

    void use(const WorkerLimits& limits) {
        pool_ = std::make_shared<WorkerPool>(limits);
        compiler_ = make_nvrtc_compiler(pool_);
    }
    Bytes in_worker(const Source& source, const std::string& arch = "sm_80") {
        return compiler_->compile(source, cuda(arch), Isolation::worker).bytes;
    }

    TemporaryDirectory temporary_;
    ScopedVariable variable_{"TMPDIR", temporary_.path().string()};
    std::shared_ptr<WorkerPool> pool_ = test::workers();
    std::unique_ptr<NvrtcCompiler> compiler_ = make_nvrtc_compiler(pool_);
};

TEST(WorkerPool, KnowsFromALogWhereMemoryMayHaveRunOut) {
    for (const char* log :
         {"nvrtc: error: out of memory", "terminate called after throwing an instance of 'std::bad_alloc'",
          "Catastrophic: catastrophic error: cannot allocate", "g++: internal compiler error: Killed",
          "cc1plus: out of memory allocating 65536 bytes after a total of 1048576 bytes",
          "virtual memory exhausted: Cannot allocate memory", "ld: final link failed: memory exhausted",
          "libnvrtc-builtins.so: failed to map segment from shared object"})
        EXPECT_TRUE(may_lack_memory(log)) << log;
    for (const char* log :
         {"", "scale.cu(3): error: expected a ';'",
          "k.cu:4:8: error: static assertion failed: the dynamic shared memory s must be declared in "
          "the function that uses it",
          "k.cu:3:5: error: 'memory_order' was not declared in this scope",
          "x.so: failed to map segment from shared object: Operation not permitted"})
        EXPECT_FALSE(may_lack_memory(log)) << log;
}

TEST_F(WorkerPoolTest, AWorkerGivesTheBytesAndTheLogOfThisProcess) {
    const auto here = make_nvrtc_compiler();
    for (const char* arch : {"sm_75", "sm_80", "sm_90a"}) {
        for (int i = 0; i < 2; ++i) {  // its first compile and a later one
            const Binary a = here->compile(source(i), cuda(arch));
            const Binary b = compiler_->compile(source(i), cuda(arch), Isolation::worker);
            EXPECT_EQ(a.bytes, b.bytes) << arch;
            EXPECT_EQ(without_times(a.log), without_times(b.log));
            EXPECT_EQ(a.compiler, b.compiler);
            EXPECT_EQ(a.kind, b.kind);
        }
    }
    EXPECT_EQ(here->identity(), compiler_->identity());
    EXPECT_EQ(children().size(), 1u) << "one worker serves all of them";

    Target newer = cuda("sm_199");
    newer.limits.multiprocessors = 1;
    const Binary ptx = compiler_->compile(source(1), newer, Isolation::worker);
    EXPECT_EQ(ptx.kind, BinaryKind::ptx);
    EXPECT_EQ(ptx.bytes, here->compile(source(1), newer).bytes);
}

TEST_F(WorkerPoolTest, ErrorsAreThoseOfThisProcessAndTheWorkerStays) {
    Source wrong = source(1);
    wrong.text += "int x = nothing;\n";
    const auto message = [&](Isolation isolation) {
        return rejected<BuildError>([&] { compiler_->compile(wrong, cuda(), isolation); });
    };
    const std::string in_worker = message(Isolation::worker);
    const auto before = children();
    EXPECT_THAT(in_worker, AllOf(HasSubstr("scale.cu(3): error"), HasSubstr("nothing"), HasSubstr("sm_80")));
    EXPECT_EQ(in_worker, message(Isolation::here));
    EXPECT_EQ(message(Isolation::worker), in_worker);
    EXPECT_EQ(children(), before);
    EXPECT_THAT(rejected<BuildError>([&] { compiler_->compile(wrong, cuda("sm_20"), Isolation::worker); }),
                HasSubstr("sm_20"));
}

TEST_F(WorkerPoolTest, EightThreadsShareTwoWorkers) {
    constexpr int kThreads = 8, kVariants = 4;
    std::vector<Bytes> here;
    for (int i = 0; i < kVariants; ++i) here.push_back(compiler_->compile(source(i), cuda()).bytes);
    std::atomic<bool> done = false;
    std::set<pid_t> seen;
    std::size_t most = 0;
    std::thread watcher([&] {
        while (!done) {
            const auto now = children();
            most = std::max(most, now.size());
            seen.insert(now.begin(), now.end());
            std::this_thread::sleep_for(1ms);
        }
    });
    std::vector<std::thread> threads;
    std::atomic<int> equal = 0;
    for (int thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
            for (int i = 0; i < kVariants; ++i) {
                const int variant = (i + thread) % kVariants;
                if (in_worker(source(variant)) == here[static_cast<std::size_t>(variant)]) ++equal;
            }
        });
    }
    for (auto& thread : threads) thread.join();
    done = true;
    watcher.join();
    EXPECT_EQ(equal, kThreads * kVariants);
    EXPECT_EQ(most, 2u);
    EXPECT_EQ(seen.size(), 2u) << "workers are kept for the next request";
}

TEST_F(WorkerPoolTest, AWorkerOutlivesTheThreadThatStartedIt) {
    std::thread([&] { in_worker(source(1)); }).join();
    const auto before = children();
    ASSERT_EQ(before.size(), 1u);
    in_worker(source(2));
    EXPECT_EQ(children(), before);
}

TEST_F(WorkerPoolTest, AWorkerKilledWhileItCompilesIsAnErrorOfThatRequestAlone) {
    in_worker(source(1));
    const pid_t worker = *children().begin();
    std::thread killer([&] {
        std::this_thread::sleep_for(300ms);
        ::kill(worker, SIGKILL);
    });
    EXPECT_THAT(rejected<BuildError>([&] { in_worker(slow_source()); }),
                AllOf(HasSubstr("slow.cu"), HasSubstr("sm_80"), HasSubstr("signal 9")));
    killer.join();
    EXPECT_THAT(children(), IsEmpty());
    EXPECT_TRUE(fs::is_empty(temporary_.path()));
    EXPECT_FALSE(in_worker(source(1)).empty());
}

// NVRTC dies by SIGBUS where there is no room for a PCH.
TEST_F(WorkerPoolTest, HeadersThatKillAWorkerAreNotPrecompiled) {
    const TemporaryDirectory directory;
    const std::string flag = (directory.path() / "died").string();
    const FakeWorker dies_once("[ -e " + flag + " ] && exec " + worker_program() + " \"$@\"; touch " + flag +
                               "; kill -BUS $$");
    CompileRequest request;
    request.library = nvrtc_search().find()->string();
    request.build = elf_identity(request.library).value();
    EXPECT_THAT(rejected<BuildError>([&] { pool_->run(request, "what"); }), HasSubstr("Bus error"));
    fs::remove(flag);
    request.hoisted = "#include <a.h>\n";
    EXPECT_EQ(pool_->run(request, "what").status, CompileStatus::ok);
    // Nor are later ones, by no worker: this one, which ends at its first request, was not asked twice.
    request.environment.emplace_back("KILN_ANOTHER", "1");
    fs::remove(flag);
    EXPECT_THAT(rejected<BuildError>([&] { pool_->run(request, "what"); }), HasSubstr("Bus error"));
}

TEST_F(WorkerPoolTest, AnIdleWorkerFoundDeadIsReplacedSilently) {
    in_worker(source(1));
    const pid_t worker = *children().begin();
    ::kill(worker, SIGKILL);
    // Dead to its parent, that is: with all of its threads.
    ASSERT_TRUE(eventually([&] {
        siginfo_t info{};
        return ::waitid(P_PID, static_cast<id_t>(worker), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
               info.si_pid == worker;
    }));
    EXPECT_FALSE(in_worker(source(2)).empty());
    EXPECT_THAT(children(), AllOf(testing::SizeIs(1), Not(testing::Contains(worker))));
}

TEST_F(WorkerPoolTest, ACompileBeyondTheTimeLimitIsEnded) {
    use(test::within(1s));
    const auto start = std::chrono::steady_clock::now();
    EXPECT_THAT(rejected<BuildError>([&] { in_worker(slow_source()); }),
                AllOf(HasSubstr("1 s"), HasSubstr("slow.cu")));
    EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
    EXPECT_THAT(children(), IsEmpty());
}

TEST_F(WorkerPoolTest, TheMemoryLimitIsNamed) {
    WorkerLimits limits;
    limits.memory_bytes = 40 << 20;  // does not even hold the library
    use(limits);
    EXPECT_THAT(rejected<BuildError>([&] { in_worker(source(1)); }),
                AllOf(HasSubstr("40.0 MiB"), HasSubstr("memory limit")));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose shadow memory is huge
TEST_F(WorkerPoolTest, ASourceThatNeedsMoreThanTheMemoryLimitIsAnErrorAndOthersCompile) {
    WorkerLimits limits;
    limits.memory_bytes = 300 << 20;
    use(limits);
    Source hungry = source(1);
    hungry.text += "__device__ int big[] = {";
    for (int i = 0; i < 4000000; ++i) hungry.text += "1,";
    hungry.text += "0};\n";
    EXPECT_THAT(rejected<BuildError>([&] { in_worker(hungry); }),
                AllOf(HasSubstr("300.0 MiB"), HasSubstr("memory limit")));
    EXPECT_FALSE(in_worker(source(1)).empty());
}
#endif

TEST_F(WorkerPoolTest, NonsenseIsAnErrorWithTheLastWords) {
    for (const char* script : {"echo hello; echo why >&2", "exit 0", "yes", "cat",
                               "printf kiln-compile-1; sleep 60", "head -c 10000000 /dev/zero; sleep 60"}) {
        const FakeWorker worker(script);
        EXPECT_THAT(rejected<BuildError>([&] { in_worker(source(1)); }),
                    AllOf(HasSubstr("no proper response"), HasSubstr("another version")))
            << script;
        EXPECT_THAT(children(), IsEmpty()) << script;
    }
    const FakeWorker worker("echo last words >&2; exit 7");
    EXPECT_THAT(rejected<BuildError>([&] { in_worker(source(1)); }),
                AllOf(HasSubstr("status 7"), HasSubstr("last words")));
}

TEST_F(WorkerPoolTest, AWorkerThatPrintsWithoutEndIsEndedInTime) {
    use(test::within(500ms));
    const FakeWorker worker("yes >&2");
    const std::string error = rejected<BuildError>([&] { in_worker(source(1)); });
    EXPECT_THAT(error, HasSubstr("500 ms"));
    EXPECT_LT(error.size(), 10000u);
}

TEST_F(WorkerPoolTest, AMissingWorkerIsNamed) {
    const ScopedVariable variable("KILN_COMPILE_WORKER", "/nowhere/worker");
    EXPECT_THAT(rejected<BuildError>([&] { in_worker(source(1)); }),
                AllOf(HasSubstr("KILN_COMPILE_WORKER"), HasSubstr("/nowhere/worker")));
    const auto plain = temporary_.path() / "plain";
    write_text(plain, "no program");
    {
        const ScopedVariable file("KILN_COMPILE_WORKER", plain.string());
        EXPECT_THAT(rejected<BuildError>([&] { in_worker(source(1)); }),
                    AllOf(HasSubstr("no worker process"), HasSubstr(plain.string())));
    }
    fs::remove(plain);
}

TEST_F(WorkerPoolTest, AStopRequestEndsWhatRunsAndWhatWaits) {
    std::stop_source stop;
    WorkerLimits limits;
    limits.stop = stop.get_token();
    use(limits);                         // one worker
    (void)compiler_->supported_archs();  // so that what the worker is asked is to compile
    std::vector<std::thread> threads;
    std::atomic<int> stopped = 0;
    for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&] {
            const std::string error = rejected<BuildError>([&] { in_worker(slow_source()); });
            if (error.find("a stop was requested") != std::string::npos) ++stopped;
        });
    }
    std::this_thread::sleep_for(300ms);
    const auto start = std::chrono::steady_clock::now();
    stop.request_stop();
    for (auto& thread : threads) thread.join();
    EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
    EXPECT_EQ(stopped, 3);
    EXPECT_THAT(children(), IsEmpty());
    EXPECT_THAT(rejected<BuildError>([&] { in_worker(source(1)); }), HasSubstr("a stop was requested"));
}

TEST_F(WorkerPoolTest, AStopOfOneRequestLeavesTheOthersAlone) {
    WorkerLimits limits;
    limits.workers = 2;
    use(limits);
    const Bytes bytes = in_worker(source(1));
    std::stop_source stop;
    const auto compile = [&](const Source& of) {
        return rejected<BuildError>([&] {
            (void)compiler_->compile(of, cuda("sm_80"), {Isolation::worker, stop.get_token()});
        });
    };
    std::string running;
    std::thread thread([&] { running = compile(slow_source()); });
    std::this_thread::sleep_for(300ms);
    const auto start = std::chrono::steady_clock::now();
    stop.request_stop();
    thread.join();
    EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
    EXPECT_THAT(running, HasSubstr("a stop was requested"));
    EXPECT_THAT(compile(source(2)), HasSubstr("not begun, since a stop was requested"));
    EXPECT_EQ(in_worker(source(1)), bytes);
}

TEST_F(WorkerPoolTest, AForkedChildHasWorkersOfItsOwn) {
    const Bytes bytes = in_worker(source(1));
    const auto before = children();
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::alarm(60);
        bool fine = in_worker(source(1)) == bytes && children().size() == 1 && children() != before;
        compiler_.reset();
        pool_.reset();
        ::_exit(fine && children().empty() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(children(), before) << "the child has ended its parent's worker";
    EXPECT_EQ(in_worker(source(1)), bytes);
    EXPECT_EQ(children(), before);
}

TEST_F(WorkerPoolTest, AChildThatIsForkedWhileAllWorkersAreBusyDoesNotWaitForThem) {
    std::stop_source stop;
    WorkerLimits limits;
    limits.stop = stop.get_token();
    use(limits);  // one worker
    std::thread busy([&] { rejected<BuildError>([&] { in_worker(slow_source()); }); });
    ASSERT_TRUE(eventually([] { return !children().empty(); }));
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(60);
        const bool fine = !in_worker(source(1)).empty();
        compiler_.reset();
        pool_.reset();
        ::_exit(fine ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    stop.request_stop();
    busy.join();
}

TEST_F(WorkerPoolTest, AKilledParentLeavesNeitherWorkersNorFiles) {
    const pid_t parent = ::fork();
    ASSERT_GE(parent, 0);
    if (parent == 0) {
        ::alarm(60);
        rejected<BuildError>([&] { in_worker(slow_source()); });
        ::_exit(1);
    }
    ASSERT_TRUE(eventually([&] { return !children_of(parent).empty(); }));
    const pid_t worker = *children_of(parent).begin();
    std::this_thread::sleep_for(200ms);  // it compiles by now
    ::kill(parent, SIGKILL);
    ASSERT_EQ(::waitpid(parent, nullptr, 0), parent);
    EXPECT_TRUE(eventually([&] { return has_ended(worker) && fs::is_empty(temporary_.path()); }));
}

}  // namespace
}  // namespace kiln
