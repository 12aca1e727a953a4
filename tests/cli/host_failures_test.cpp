// SPDX-License-Identifier: Apache-2.0
//
// Kernels that fault, end their process or never end, on the host: each command tells what happened and where, with
// the exit status of a device error, and goes on with the others.
#include <kiln/tools/accesses.h>

#include <set>

#include "kiln_program.h"
#include "require.h"

namespace kiln::test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

#ifdef __aarch64__
constexpr int kAddressBits = 48;
#else
constexpr int kAddressBits = 47;
#endif

/// y = x, but for one thread, which does what `how` says.
std::string bad_template(const std::string& line = "", const std::string& skip = "how") {
    return "// bad: for tests.\n//\n//@ kernel bad\n//@ backend host\n" + line +
           "//@ size n = 64 test 64\n//@ size how = 100\n//@ input x [n]\n//@ output y [n] by bad_reference\n"
           "//@ block 32\n//@ grid ceil_div(n, 32)\n//@ shared 200\n"
           "#include \"kiln/device.h\"\n#include <cstdio>\n#include <cstdlib>\n#include <signal.h>\n#include "
           "<unistd.h>\n\n"
           "int deeper(volatile int* at, int n) {\n    volatile int here[64];\n    here[0] = n;\n"
           "    return n > 1000000000 ? *at : deeper(at, n + 1) + here[0];\n}\n\n"
           "// 400 MB in elements, or half of what is left: addresses end somewhere.\n"
           "long long far_behind(const float* from) {\n"
           "    const long long left = (1LL << " +
           std::to_string(kAddressBits) +
           ") - reinterpret_cast<long long>(from);\n"
           "    return left / 8 < 100000000LL ? left / 8 : 100000000LL;\n}\n\n"
           "extern \"C\" __global__ void bad(int n, int how, const float* x, float* y) {\n"
           "    const int i = blockIdx.x * 32 + threadIdx.x;\n"
           "    const int deed = " +
           skip +
           ";\n"
           "    volatile int zero = 0;\n"
           "    float* tile = kiln::dynamic_shared<float>();\n"
           "    if (i == 37) {\n"
           "#line 101\n"
           "        if (deed == 1) *reinterpret_cast<volatile float*>(16) = 1;\n"
           "        if (deed == 2) y[i + far_behind(y)] = x[i];\n"
           "        if (deed == 3) y[i] = x[i - 100000000LL];\n"
           "        if (deed == 4) reinterpret_cast<void (*)()>(zero)();\n"
           "        if (deed == 5) y[i] = deeper(&zero, 0);\n"
           "        if (deed == 6) exit(0);\n"
           "        if (deed == 7) quick_exit(0);\n"
           "        if (deed == 8) _exit(0);\n"
           "        if (deed == 9) abort();\n"
           "        if (deed == 10) y[i] = 5 / zero;\n"
           "        if (deed == 11) __builtin_trap();\n"
           "        if (deed == 12) while (zero == 0) {}\n"
           "        if (deed == 18) raise(SIGSEGV);\n"
           "        if (deed == 19) kill(getpid(), SIGFPE);\n"
           "        if (deed == 14) tile[50] = 1;\n"
           "        if (deed == 15) y[i] = tile[100000];\n"
           "        if (deed == 16) printf(\"{ no JSON\\n\");\n"
           "        static int forks = 0;\n"
           "        if (deed == 17 && forks++ == 0 && fork() == 0) fprintf(stderr, \"two of me\\n\");\n"
           "        if (deed == 20) tile[-513] = 1;\n"
           "    }\n"
           "    if (deed == 13) while (zero == 0) __syncthreads();\n"
           "    if (i < n) y[i] = x[i];\n}\n";
}

std::string copying_reference(const std::string& name) {
    return "// " + name + ": for tests.\n//\n//@ kernel " + name +
           "\n//@ backend host\n//@ block 32\n//@ grid ceil_div(count, 32)\n#include \"kiln/reference.h\"\n\n"
           "extern \"C\" __global__ void " +
           name +
           "(long long count, const long long* which, double* expected, double* bound, const float* x) {\n"
           "    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;\n"
           "    if (i >= count) return;\n    expected[i] = x[which ? which[i] : i];\n    bound[i] = 0;\n}\n";
}

#ifdef __SANITIZE_ADDRESS__
constexpr bool kHasAddressSanitizer = true;
#else
constexpr bool kHasAddressSanitizer = false;
#endif

struct Deed {
    int how;
    const char* what;
    int line = 0;  ///< 0: nobody can know
};

// GCC and Clang leave traps and loops at neighbouring lines; faults are exact.
const Deed kDeeds[] = {
    {1, "wrote to the address 0x10", 101},
    {2, "bytes after the end of", 102},
    {3, "bytes before the start of", 103},
    {4, "0x0", 104},
    {5, "used up its stack"},
    {6, "called exit()", 106},
    {7, "called exit()", 107},
    {8, "exited with status 0: a kernel can't call _exit()"},
    {9, "called abort()", 109},
    {10, "divided an integer by zero, or the least one by -1", 110},
    {11, "executed an instruction that ends a program", 111},
    {15, "byte 400000 of the 200 bytes of dynamic shared memory", 116},
    {18, "sent itself the signal SIGSEGV, as raise() and kill() do", 113},
    {19, "sent itself the signal SIGFPE"},
};

class HostFailures : public Kiln {
  protected:
    void SetUp() override {
        const Outcome built = on_host({"build", "tiny"});
        KILN_REQUIRE_OR_SKIP("host", built.status == 0, built.err);
        with_template("bad_reference", copying_reference("bad_reference"));
        templates_ = with_template("bad", bad_template());
    }
    Outcome bad(const std::string& command, int how, Arguments more = {}) const {
        more.insert(more.begin(),
                    {command, "bad", "--template-dir", templates_, "--size", "how=" + std::to_string(how)});
        if (command != "check") more.insert(more.end(), {"--backend", "host"});
        return run(std::move(more));
    }
    static void expect_told(const Outcome& outcome, const Deed& deed) {
        SCOPED_TRACE(deed.what);
        EXPECT_EQ(outcome.status, 4) << outcome.err;
        EXPECT_THAT(outcome.err, HasSubstr(deed.what));
        if (deed.line != 0) {
            EXPECT_THAT(outcome.err, HasSubstr("block (1,0,0), thread (5,0,0)"));
            if (source_lines_problem().empty()) {
                EXPECT_THAT(outcome.err, HasSubstr("bad.cu:" + std::to_string(deed.line))) << outcome.err;
            }
        }
        expect_clean_error(outcome, "kiln");
        const auto json = outcome.json();
        EXPECT_EQ(json["error"]["kind"], "device");
        EXPECT_THAT(std::string(json["error"]["message"]), HasSubstr(deed.what));
    }

    std::string templates_;
};

TEST_F(HostFailures, RunReportsWhatEndedTheProcess) {
    EXPECT_EQ(bad("run", 100, {"--json"}).status, 0);
    for (const Deed& deed : kDeeds) expect_told(bad("run", deed.how, {"--json"}), deed);
}

TEST_F(HostFailures, CheckReportsWhatEndedTheProcess) {
    for (const Deed& deed : kDeeds) {
        const Outcome outcome = bad("check", deed.how, {"--json"});
        // AddressSanitizer has memory of its own 400 MB away: there it is an access out of bounds and no fault.
        if (kHasAddressSanitizer && outcome.status == 1 && (deed.how == 2 || deed.how == 3)) continue;
        expect_told(outcome, deed);
    }
}

TEST_F(HostFailures, ALoopWithoutEndMeetsTheTimeLimit) {
    for (const char* const command : {"run", "check"}) {
        const Outcome loop = bad(command, 12, {"--time-limit", "1", "--json"});
        expect_told(loop, {12, "longer on the host than the time limit of 1 s", 112});
        EXPECT_THAT(loop.err, HasSubstr("--time-limit SECONDS"));
        EXPECT_THAT(loop.err, HasSubstr("threads of a block run one after the other"));
        const Outcome waiting = bad(command, 13, {"--time-limit", "1", "--json"});
        expect_told(waiting, {13, "longer on the host than the time limit of 1 s"});
        EXPECT_THAT(waiting.err, HasSubstr("last seen in kernel bad"));
    }
    EXPECT_EQ(bad("run", 100, {"--time-limit", "0"}).status, 2);
    EXPECT_EQ(bad("run", 100, {"--time-limit", "soon"}).status, 2);
}

TEST_F(HostFailures, AWriteBesideDynamicSharedMemoryIsFound) {
    for (const int how : {14, 20}) {
        const Outcome outcome = bad("run", how, {"--json"});
        EXPECT_EQ(outcome.status, 4);
        EXPECT_THAT(outcome.err,
                    AllOf(HasSubstr("block (1,0,0)"), HasSubstr("outside its dynamic shared memory"),
                          HasSubstr("200 bytes"), HasSubstr("//@ shared")));
        EXPECT_EQ(bad("check", how).status, 1) << "told as an access out of bounds, with its line";
    }
}

TEST_F(HostFailures, WhatAKernelPrintsDoesNotSpoilTheReport) {
    for (const char* const command : {"run", "check"}) {
        const Outcome outcome = bad(command, 16, {"--json"});
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        EXPECT_THAT(outcome.err, HasSubstr("{ no JSON"));
        EXPECT_TRUE(outcome.json().is_object());
    }
    const Outcome in_process =
        run_in_shell("\"$0\" run bad --backend host --json --size how=16 --template-dir " + templates_,
                     {{"KILN_CACHE_DIR", path("cache").string()}, {"KILN_HOST_IN_PROCESS", "1"}});
    EXPECT_TRUE(in_process.json().is_object());
}

TEST_F(HostFailures, AKernelThatForksGoesOnOnce) {
    const Outcome outcome = bad("run", 17, {"--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(outcome.json().is_object());
    EXPECT_THAT(outcome.err, Not(HasSubstr("two of me")));
}

TEST_F(HostFailures, InOneProcessForDebuggers) {
    const Environment here = {{"KILN_CACHE_DIR", path("cache").string()}, {"KILN_HOST_IN_PROCESS", "1"}};
    const std::string command =
        "\"$0\" run bad --backend host --template-dir " + templates_ + " --size how=1; exit $?";
    const Outcome ended = run_in_shell(command, here);
    EXPECT_THAT(ended.status, AllOf(Not(0), Not(4))) << "with sanitizers it is theirs";
    EXPECT_THAT(ended.out, IsEmpty());
    EXPECT_EQ(
        run_in_shell(command, {{"KILN_CACHE_DIR", path("cache").string()}, {"KILN_HOST_IN_PROCESS", "yes"}})
            .status,
        2);
}

TEST_F(HostFailures, OneVariantOfSeveral) {
    with_template("bad", bad_template("//@ param WAY int in 1, 9, 100 = 100\n", "WAY"));
    const Outcome checked = run({"check", "bad", "WAY=1,100", "--template-dir", templates_, "--json"});
    EXPECT_EQ(checked.status, 4);
    const auto variants = checked.json()["variants"];
    ASSERT_EQ(variants.size(), 2U);
    EXPECT_EQ(variants[0]["error"]["kind"], "device");
    EXPECT_THAT(std::string(variants[0]["error"]["message"]), HasSubstr("0x10"));
    EXPECT_EQ(variants[1]["problems"].size(), 0U);
    EXPECT_EQ(checked.json()["failed"], 1);

    const Outcome tuned = on_host({"tune", "bad", "--template-dir", templates_, "--budget", "20", "--json",
                                   "--output", path("wisdom.txt").string()});
    ASSERT_EQ(tuned.status, 0) << tuned.err;
    const auto shape = tuned.json()["shapes"][0];
    EXPECT_EQ(shape["best"][0]["values"]["WAY"], 100);
    ASSERT_EQ(shape["failed"].size(), 2U);
    for (const auto& failed : shape["failed"])
        EXPECT_THAT(std::string(failed["reason"]), AnyOf(HasSubstr("0x10"), HasSubstr("called abort()")));

    const std::string manifest = write("variants.txt", "bad WAY=1,100\n");
    const Outcome regressed = on_host({"regress", manifest, "--template-dir", templates_, "--baselines",
                                       path("baselines").string(), "--update", "--json"});
    EXPECT_EQ(regressed.status, 1) << regressed.err;
    EXPECT_THAT(regressed.out, HasSubstr("0x10"));
    EXPECT_THAT(regressed.out, HasSubstr("WAY=100"));

    const std::string page = path("page.html").string();
    const Outcome report =
        on_host({"report", "bad", "WAY=1,100", "--template-dir", templates_, "--output", page, "--json"});
    EXPECT_EQ(report.status, 0) << report.err;
    const Outcome analysis = on_host({"analyze", "bad", "WAY=1", "--template-dir", templates_});
    EXPECT_EQ(analysis.status, 0) << analysis.err;
    EXPECT_THAT(analysis.out, HasSubstr("0x10"));
}

TEST_F(HostFailures, KernelsOfAnyName) {
    for (const std::string name : {"free", "memcpy", "exp", "main", "read", "malloc"}) {
        SCOPED_TRACE(name);
        with_template(
            name, "// " + name + ": for tests.\n//\n//@ kernel " + name +
                      "\n//@ backend host\n//@ size n = 64 test 64\n//@ input x [n]\n"
                      "//@ output y [n] by bad_reference\n//@ block 32\n//@ grid ceil_div(n, 32)\n"
                      "#include \"kiln/device.h\"\n#include <cmath>\n#include <cstdio>\n#include <cstdlib>\n"
                      "#include <cstring>\n#include <unistd.h>\n\n"
                      "extern \"C\" __global__ void __launch_bounds__(32) " +
                      name +
                      "(int n, const float* x, float* y) {\n"
                      "    const int i = blockIdx.x * 32 + threadIdx.x;\n"
                      "    float copies[1000];\n    std::memcpy(copies, x + i, sizeof(float));\n"
                      "    for (int k = 1; k < 1000; ++k) copies[k] = copies[k - 1] * std::exp(0.0f);\n"
                      "    if (i < n) y[i] = copies[999];\n}\n");
        const Outcome outcome =
            on_host({"run", name, "--template-dir", templates_, "--json", "--iterations", "1"});
        EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
        if (name == "free" || name == "exp" || name == "main") {
            EXPECT_EQ(run({"check", name, "--template-dir", templates_}).status, 0);
        }
    }
    // As Ubuntu's GCC is built: <cstring> has a memcpy of its own then.
    const std::string wrapper = write("fortified", "#!/bin/sh\nexec c++ -D_FORTIFY_SOURCE=2 \"$@\"\n");
    std::filesystem::permissions(wrapper, std::filesystem::perms::owner_all);
    Environment fortified = usual_environment();
    fortified.emplace_back("KILN_HOST_CXX", wrapper);
    const Outcome checked = run({"check", "free", "--template-dir", templates_}, fortified);
    EXPECT_EQ(checked.status, 0) << checked.err;
    const Outcome wrong = [&] {
        with_template(
            "exp",
            "// exp: for tests.\n//\n//@ kernel exp\n//@ backend host\n//@ size n = 64\n//@ output y [n]\n"
            "//@ block 32\n//@ grid 2\n#include \"kiln/device.h\"\n\n"
            "extern \"C\" __global__ void exp(int n, float* y) { y[0] = nothing; }\n");
        return on_host({"run", "exp", "--template-dir", templates_});
    }();
    EXPECT_EQ(wrong.status, 3);
    EXPECT_THAT(wrong.err,
                AllOf(HasSubstr("exp.cu:11"), HasSubstr("void exp("), Not(HasSubstr("kiln_entry"))));
}

/// y = x, and a global object whose constructor does what WAY says.
std::string early_template() {
    return "// early: for tests.\n//\n//@ kernel early\n//@ backend host\n"
           "//@ param WAY int in 1, 2, 3, 4, 5 = 5\n//@ size n = 64 test 64\n//@ input x [n]\n"
           "//@ output y [n] by bad_reference\n//@ block 32\n//@ grid ceil_div(n, 32)\n"
           "#include \"kiln/device.h\"\n#include <cstdio>\n#include <cstdlib>\n\n"
           "struct Early {\n    float one;\n    Early() : one(1) {\n        volatile int zero = 0;\n"
           "#line 101\n"
           "        if (WAY == 1) *reinterpret_cast<volatile float*>(16) = 1;\n"
           "        if (WAY == 2) abort();\n"
           "        if (WAY == 3) exit(0);\n"
           "        if (WAY == 4) while (zero == 0) {}\n"
           "        if (WAY == 5) printf(\"{ no JSON\\n\");\n"
           "    }\n};\nstatic Early early_one;\n\n"
           "extern \"C\" __global__ void early(int n, const float* x, float* y) {\n"
           "    const int i = blockIdx.x * 32 + threadIdx.x;\n"
           "    if (i < n) y[i] = early_one.one * x[i];\n}\n";
}

TEST_F(HostFailures, AConstructorOfTheKernelsOwn) {
    with_template("early", early_template());
    const auto early = [&](const std::string& command, int way, Arguments more) {
        more.insert(more.begin(),
                    {command, "early", "WAY=" + std::to_string(way), "--template-dir", templates_, "--json"});
        if (command != "check") more.insert(more.end(), {"--backend", "host"});
        return run(std::move(more));
    };
    const Deed deeds[] = {{1, "wrote to the address 0x10", 101},
                          {2, "called abort()", 102},
                          {3, "called exit()", 103},
                          {4, "longer on the host than the time limit of 2 s", 104}};
    for (const char* const command : {"run", "check"}) {
        const Outcome printed = early(command, 5, {});
        EXPECT_EQ(printed.status, 0) << printed.err;
        EXPECT_TRUE(printed.json().is_object());
        for (const Deed& deed : deeds) {
            if (command == std::string("check") && deed.how != 2) continue;
            SCOPED_TRACE(command + std::string(": ") + deed.what);
            const Outcome outcome = early(command, deed.how, {"--time-limit", "2"});
            EXPECT_EQ(outcome.status, 4) << outcome.err;
            EXPECT_THAT(outcome.err, AllOf(HasSubstr(deed.what), HasSubstr("ernel early"),
                                           HasSubstr("while its library was loaded")));
            if (source_lines_problem().empty()) {
                EXPECT_THAT(outcome.err, HasSubstr("early.cu:" + std::to_string(deed.line)));
            }
            expect_clean_error(outcome, "kiln");
        }
    }
    const Outcome tuned = on_host({"tune", "early", "--template-dir", templates_, "--budget", "20", "--json",
                                   "--time-limit", "2", "--output", path("early.txt").string()});
    ASSERT_EQ(tuned.status, 0) << tuned.err;
    EXPECT_EQ(tuned.json()["shapes"][0]["failed"].size(), 4U);
    // What only builds runs none of its code.
    EXPECT_EQ(on_host({"build", "early", "WAY=2", "--template-dir", templates_}).status, 0);
}

TEST_F(HostFailures, AReferenceThatFaults) {
    std::string text = copying_reference("bad_reference");
    text.insert(text.rfind("bound[i] = 0"), "*reinterpret_cast<volatile int*>(24) = 1; ");
    with_template("bad_reference", text);
    const Outcome outcome = bad("run", 100, {"--json"});
    EXPECT_EQ(outcome.status, 4);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("Kernel bad_reference"), HasSubstr("0x18")));
}

class JitGemmHostFailures : public JitGemm {};

TEST_F(JitGemmHostFailures, APlainProductThatFaults) {
    std::string text = naive_template("wild", "//@ backend host", "n");
    text.insert(text.rfind("c[(long long)row"),
                "if (row == 3) *reinterpret_cast<volatile float*>(16) = sum;\n    ");
    const std::string templates = with_template("wild", text);
    const Outcome outcome = run({"--backend", "host", "--kernel", "wild", "--template-dir", templates, "--m",
                                 "5", "--n", "6", "--k", "7", "--json"});
    EXPECT_EQ(outcome.status, 4) << outcome.out;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("Kernel wild"), HasSubstr("0x10"), HasSubstr("thread (0,3,0)")));
    EXPECT_EQ(outcome.json()["error"]["kind"], "device");
}

}  // namespace
}  // namespace kiln::test
