// SPDX-License-Identifier: Apache-2.0
//
// Analyzer::check: mistakes of one line are found at that line. That every built-in template is sound is in
// tests/conformance, next to that it is right.
#include <algorithm>
#include <set>

#include "analyzer_support.h"
#include "rejected.h"

namespace kiln::test {
namespace {

const Values kSmallTile = {{"BM", 32}, {"BN", 32}, {"BK", 16}, {"TM", 2}, {"TN", 2}, {"VEC", 1}, {"PAD", 2}};

class Check : public Analyzing {
  protected:
    void SetUp() override {
        (void)target("host");
        try {
            (void)Analyzer(target()).check(variant("copy"));
        } catch (const BuildError& error) {
            KILN_REQUIRE_OR_SKIP("host", false, error.what());
        }
    }
    Recording check(const Variant& of) {
        AnalyzeOptions options;
        options.most_blocks = 16;
        options.most_ms = 20'000;
        return Analyzer(target()).check(of, options);
    }
    /// The template's text, parsed under its own file name.
    Recording check_text(const std::string& name, const std::string& text, const Values& values = {}) {
        return check(target().parse(text, name + ".cu").variant(values));
    }
    /// Of a transpose whose tile is an element too small: what is told first.
    void expect_beyond(const std::string& text, const std::string& variable) {
        constexpr std::size_t kBytes = (32 * 32 - 1) * 4;
        const Values values = {{"T", "float"}, {"TILE", 32}, {"VEC", 1}, {"SWIZZLE", false}, {"PAD", 0}};
        const Recording recording = check_text("transpose_tiled", text, values);
        ASSERT_FALSE(recording.problems.empty());
        const AccessProblem& beyond = recording.problems.front();
        EXPECT_EQ(beyond.kind, ProblemKind::out_of_bounds) << texts(recording);
        EXPECT_EQ(beyond.variable, variable);
        EXPECT_EQ(beyond.offset, kBytes);
        EXPECT_EQ(beyond.variable_bytes, kBytes);
        const std::set<int> lines = {line_of(text, "kiln::store(tile + place("),
                                     line_of(text, "values[v] = tile[place(")};
        EXPECT_EQ(lines.count(beyond.place.line), 1U) << texts(recording);
    }
    static std::string texts(const Recording& recording) {
        std::string all;
        for (const AccessProblem& problem : recording.problems)
            all += std::string(name(problem.kind)) + ": " + problem.text() + "\n";
        return all;
    }
};

// Of 528 blocks 16 are recorded, and the last adds up what all publish.
TEST_F(Check, ABlockThatWaitsForOneThatIsLeftOutEnds) {
    const Recording recording = check(variant("sum_shuffle", {{"THREADS", 64}, {"VEC", 1}, {"UNROLL", 1}}));
    EXPECT_EQ(recording.blocks, 528U);
    EXPECT_EQ(recording.blocks_recorded, 16U);
    EXPECT_TRUE(recording.problems.empty()) << texts(recording);
}

// A chained scan: each block spins on a flag of the one before it, which a sample of blocks would leave out.
TEST_F(Check, BlocksThatWaitForTheBlockBeforeThemAreTheFirst) {
    const std::string text = R"(//@ kernel chained
//@ block 64
//@ grid ceil_div(n, 64)
//@ size n = 100000 test 4001
//@ input x [n]
//@ output y [n]
//@ scratch flags [ceil_div(n, 64)] = 0
//@ scratch prefixes [ceil_div(n, 64)]
#include "kiln/device.h"
extern "C" __global__ void chained(int n, const float* x, float* y, int* flags, float* prefixes) {
    __shared__ float before;
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (threadIdx.x == 0) {
        float prefix = 0;
        if (blockIdx.x > 0) {
            while (*(volatile int*)(flags + blockIdx.x - 1) == 0) {}
            __threadfence();
            prefix = *(volatile float*)(prefixes + blockIdx.x - 1);
        }
        *(volatile float*)(prefixes + blockIdx.x) = prefix + x[i];
        __threadfence();
        *(volatile int*)(flags + blockIdx.x) = 1;
        before = prefix;
    }
    MEET
    if (i < n) y[i] = before + x[i];
}
)";
    const auto with = [&](const std::string& meeting) {
        std::string changed = text;
        return changed.replace(changed.find("MEET"), 4, meeting);
    };
    const Recording right = check_text("chained", with("__syncthreads();"));
    EXPECT_EQ(right.blocks_recorded, 16U);
    EXPECT_EQ(right.blocks, 63U);
    EXPECT_TRUE(right.problems.empty()) << texts(right);
    EXPECT_TRUE(right.first_blocks);
    const Recording wrong = check_text("chained", with(""));
    ASSERT_FALSE(wrong.problems.empty());
    EXPECT_EQ(wrong.problems.front().kind, ProblemKind::race) << texts(wrong);
    // Lanes that look back together meet in between.
    std::string together = with("__syncthreads();");
    const std::string loop = "while (*(volatile int*)(flags + blockIdx.x - 1) == 0) {}";
    together.replace(
        together.find("if (threadIdx.x == 0) {"), 23,
        "if (blockIdx.x > 0 && threadIdx.x < 32)\n        while (!__all_sync(~0u, threadIdx.x >= blockIdx.x "
        "|| "
        "*(volatile int*)(flags + blockIdx.x - 1 - threadIdx.x) != 0)) {}\n    if (threadIdx.x == 0) {");
    together.replace(together.find(loop), loop.size(), "");
    EXPECT_EQ(texts(check_text("chained", together)), texts(right));
    // The block after it never runs, whichever blocks are chosen.
    std::string later = with("__syncthreads();");
    later.replace(later.find(loop), loop.size(),
                  "if (blockIdx.x + 1 < gridDim.x) while (*(volatile int*)(flags + blockIdx.x + 1) == 0) {}");
    EXPECT_THROW(check_text("chained", later), DeviceError);
}

// A loop that computes with a table of coefficients reads them again and again, for longer than a wait is believed to be.
TEST_F(Check, ALongLoopOverATableWaitsForNothing) {
    const std::string text = R"(//@ kernel ode
//@ block 32
//@ grid ceil_div(n + 1, 32)
//@ size n = 1600
//@ input c [16]
//@ input x [n]
//@ output y [n]
#include "kiln/device.h"
extern "C" __global__ void ode(int n, const float* c, const float* x, float* y) {
    TABLE
    const int i = blockIdx.x * 32 + threadIdx.x;
    if (i > n) return;
    float a = x[i < n ? i : 0], v = 0;
    const int steps = i < n ? 1 : 200000;
    for (int step = 0; step < steps; ++step) {
        float f = 0;
        for (int k = 0; k < 16; ++k) f = f * a + c[k];
        v = 0.99f * v - 0.001f * f;
        a += 0.001f * v;
        if (!(a < 10 && a > -10)) a = 0;
    }
    y[i] = a;  // the last thread's lies behind it
}
)";
    const auto with = [&](const std::string& table, const std::string& name) {
        std::string changed = text;
        changed.replace(changed.find("TABLE"), 5, table);
        changed.replace(changed.find("c[k]"), 4, name + "[k]");
        return changed;
    };
    const std::string shared =
        "__shared__ float own[16];\n    if (threadIdx.x < 16) own[threadIdx.x] = c[threadIdx.x];\n    "
        "__syncthreads();";
    for (const std::string& source : {with("", "c"), with(shared, "own")}) {
        const Recording recording = check_text("ode", source);
        EXPECT_FALSE(recording.first_blocks);
        ASSERT_EQ(recording.problems.size(), 1U) << texts(recording);
        EXPECT_EQ(recording.problems.front().kind, ProblemKind::out_of_bounds) << texts(recording);
    }
}

// What the sample showed before a block waited is kept.
TEST_F(Check, WhatWasFoundBeforeABlockWaitedIsTold) {
    const Recording recording = check_text("chained", R"(//@ kernel chained
//@ block 64
//@ grid ceil_div(n, 64)
//@ size n = 100000 test 4001
//@ input x [n]
//@ output y [n]
//@ scratch flags [ceil_div(n, 64)] = 0
#include "kiln/device.h"
extern "C" __global__ void chained(int n, const float* x, float* y, int* flags) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (blockIdx.x >= 20 && threadIdx.x == 3) y[n] = 1;
    if (i < n) y[i] = x[i];
    if (threadIdx.x == 0) {
        if (blockIdx.x + 1 == gridDim.x) while (*(volatile int*)(flags + blockIdx.x - 1) == 0) {}
        *(volatile int*)(flags + blockIdx.x) = 1;
    }
}
)");
    EXPECT_TRUE(recording.first_blocks);
    EXPECT_EQ(recording.blocks_recorded, 16U);
    ASSERT_EQ(recording.problems.size(), 1U) << texts(recording);
    EXPECT_EQ(recording.problems.front().kind, ProblemKind::out_of_bounds) << texts(recording);
}

// The first and the last access may reach beyond the matrix, with fewer columns than an access has from many rows.
TEST_F(Check, ColumnSumsOfRowsThatBeginAnywhereAreSound) {
    for (const Values& values :
         {Values{{"T", "half"}, {"VEC", 8}, {"THREADS_X", 4}, {"SPLIT_ROWS", 4}, {"ANY_ROWS", true}},
          Values{{"VEC", 2}, {"THREADS_Y", 4}, {"SPLIT_ROWS", 1}, {"ANY_ROWS", true}}})
        for (const auto& [rows, cols] : {std::pair{67, 65}, {67, 29}, {1, 3}, {9, 1}, {8, 8}}) {
            AnalyzeOptions options;
            options.sizes = {{"rows", rows}, {"cols", cols}};
            options.most_blocks = 100;
            options.most_ms = 20'000;
            const Recording recording = Analyzer(target()).check(variant("column_sum", values), options);
            EXPECT_TRUE(recording.problems.empty()) << rows << " x " << cols << "\n" << texts(recording);
        }
}

TEST_F(Check, NoBlocksAreAnError) {
    AnalyzeOptions options;
    options.most_blocks = 0;
    const std::string expected = "most_blocks is 0; it has to be 1 or more";
    Analyzer analyzer(target());
    EXPECT_EQ(rejected<UsageError>([&] { (void)analyzer.check(variant("copy"), options); }), expected);
    EXPECT_EQ(rejected<UsageError>([&] { (void)analyzer.analyze(variant("copy"), options); }), expected);
}

TEST_F(Check, ARemovedBarrier) {
    const std::string piece = "    __syncthreads();\n    T* const goal";
    const std::string text = changed("transpose_tiled", piece, "    T* const goal");
    const Values values = {{"T", "float"}, {"TILE", 32}, {"VEC", 1}, {"SWIZZLE", false}, {"PAD", 1}};
    const Recording recording = check_text("transpose_tiled", text, values);
    ASSERT_FALSE(recording.problems.empty());
    const AccessProblem& race = recording.problems.front();
    EXPECT_EQ(race.kind, ProblemKind::race) << texts(recording);
    const std::set<int> found = {race.place.line, race.other.line};
    EXPECT_EQ(found.count(line_of(text, "values[v] = tile[place(")), 1U) << texts(recording);
    EXPECT_NE(race.thread, race.other_thread);
    EXPECT_EQ(race.variable, "dynamic shared memory");
}

TEST_F(Check, AnOffByOneInATile) {
    const std::string text = changed("transpose_tiled", "T* const tile = kiln::dynamic_shared<T>();",
                                     "alignas(16) __shared__ T tile[TILE * kPitch - 1];");
    expect_beyond(text, "tile");
}

TEST_F(Check, AnOffByOneInDynamicSharedMemory) {
    const std::string text =
        changed("transpose_tiled", "//@ shared  max(TILE * (TILE + PAD), ANY_TILE) * sizeof(T)",
                "//@ shared  max(TILE * (TILE + PAD), ANY_TILE) * sizeof(T) - sizeof(T)");
    expect_beyond(text, "dynamic shared memory");
}

// Clang asks for more of the recording than GCC does.
TEST_F(Check, DynamicSharedMemoryWithClang) {
    const test::ScopedVariable chosen("KILN_HOST_CXX", "clang++");
    ServiceOptions options;
    options.backend = Backend::host;
    options.compile_only = true;
    options.cache.enabled = false;
    Service service(options);
    const Variant tiled = service.find("transpose_tiled").variant();
    try {
        (void)service.compile(tiled);
    } catch (const BuildError& error) {
        KILN_REQUIRE_OR_SKIP("clang", false, error.what());
    }
    EXPECT_EQ(texts(Analyzer(service).check(tiled)), "");
}

// A pitch of 33 halves leaves the odd rows at addresses that are no multiples of 4 bytes.
TEST_F(Check, AMisalignedVector) {
    const std::string text =
        changed("transpose_tiled", "kStoreWidth = kPitch % VEC == 0 ? VEC : 1;", "kStoreWidth = VEC;");
    const Values values = {{"T", "half"}, {"TILE", 32}, {"VEC", 2}, {"SWIZZLE", false}, {"PAD", 1}};
    AnalyzeOptions options;
    // Rows that are aligned, so that the vectors are used.
    options.sizes = {{"rows", 64}, {"cols", 64}};
    const Recording recording =
        Analyzer(target()).check(target().parse(text, "transpose_tiled.cu").variant(values), options);
    const auto found = std::ranges::find(recording.problems, ProblemKind::misaligned, &AccessProblem::kind);
    ASSERT_NE(found, recording.problems.end()) << texts(recording);
    EXPECT_EQ(found->place.line, line_of(text, "kiln::store(tile + place(")) << texts(recording);
    EXPECT_EQ(found->bytes, 4);
}

// An array of floats, which a GPU need not place at a multiple of 16, and one of pairs, which it places at one of 8.
constexpr const char* kVectors = R"(//@ kernel vectors
//@ param ALIGN int in 4, 16 = 4
//@ block 64
//@ grid 1
//@ size n = 64
//@ input x [n] align 16
//@ output y [n]
#include "kiln/device.h"

struct Pair { float of[2]; };
struct alignas(16) Four { float of[4]; };
struct alignas(8) Eight { float of[4]; };

extern "C" __global__ void vectors(int n, const float* x, float* y) {
    alignas(ALIGN) __shared__ float tile[65];
    __shared__ Four fours[16];
    __shared__ Pair pairs[32];
    __shared__ Eight eights[16];
    const int t = threadIdx.x;
    tile[t] = x[t];
    if (t < 32) pairs[t].of[0] = pairs[t].of[1] = x[t];
    __syncthreads();
    if (t < 16) fours[t] = *reinterpret_cast<const Four*>(tile + 4 * t);
    if (t < 16) eights[t] = reinterpret_cast<const Eight*>(x)[t];
    __syncthreads();
    y[t] = fours[t / 4].of[t % 4] + pairs[t / 2].of[t % 2] + eights[t / 4].of[t % 4];
}
)";

TEST_F(Check, AVectorOfAnArrayThatIsNotDeclaredAligned) {
    EXPECT_EQ(texts(check_text("vectors", kVectors, {{"ALIGN", 16}})), "");
    const Recording recording = check_text("vectors", kVectors);
    ASSERT_EQ(recording.problems.size(), 1U) << texts(recording);
    const AccessProblem& problem = recording.problems.front();
    EXPECT_EQ(problem.kind, ProblemKind::misaligned);
    EXPECT_EQ(problem.place.line, line_of(kVectors, "fours[t] ="));
    EXPECT_EQ(problem.variable, "tile");
    EXPECT_NE(problem.text().find("alignas("), std::string::npos) << problem.text();
}

// What is read for the argument of a function, and written by the result of one, that its author wants called.
constexpr const char* kCalls = R"(//@ kernel calls
//@ param BARRIER bool = true
//@ param PLACES int in 63, 64 = 64
//@ block 64
//@ grid 1
//@ size n = 64
//@ input x [n]
//@ output y [n]
#include "kiln/device.h"

struct Four { float of[4]; };
__device__ __noinline__ float third(Four f) { return f.of[2]; }
__device__ __noinline__ Four four(float f) { return {f, f, f, f}; }

extern "C" __global__ void calls(int n, const float* x, float* y) {
    __shared__ Four tile[PLACES];
    const int t = threadIdx.x;
    tile[t] = four(x[t]);
    if (BARRIER) __syncthreads();
    y[t] = third(tile[63 - t]);
}
)";

TEST_F(Check, FunctionsThatAreNotInlined) {
    EXPECT_EQ(texts(check_text("calls", kCalls)), "");
    const Recording race = check_text("calls", kCalls, {{"BARRIER", false}});
    ASSERT_FALSE(race.problems.empty());
    EXPECT_EQ(race.problems.front().kind, ProblemKind::race) << texts(race);
    const Recording beyond = check_text("calls", kCalls, {{"PLACES", 63}});
    ASSERT_FALSE(beyond.problems.empty());
    EXPECT_EQ(beyond.problems.front().kind, ProblemKind::out_of_bounds) << texts(beyond);
}

// The compiler knows that the pairs are misaligned, and of eight floats it knows no more than their own alignment.
constexpr const char* kKnown = R"(//@ kernel known
//@ param AT int in 0..3 = 0
//@ param WIDTH int in 2, 8 = 2
//@ block 32
//@ grid 1
//@ size n = 32
//@ input x [n]
//@ output y [n]
#include "kiln/device.h"

extern "C" __global__ void known(int n, const float* x, float* y) {
    alignas(16) __shared__ float tile[WIDTH * 32 + 4];
    const int t = threadIdx.x;
    for (int i = t; i < WIDTH * 32 + 4; i += 32) tile[i] = x[t];
    __syncthreads();
    const auto values = kiln::load<WIDTH>(tile + WIDTH * (31 - t) + AT);
    y[t] = values[0] + values[1];
}
)";

TEST_F(Check, AVectorThatIsKnownToBeMisaligned) {
    for (const int width : {2, 8}) {
        EXPECT_EQ(texts(check_text("known", kKnown, {{"WIDTH", width}})), "");
        const Recording recording =
            check_text("known", kKnown, {{"WIDTH", width}, {"AT", width == 2 ? 1 : 2}});
        ASSERT_FALSE(recording.problems.empty()) << width;
        EXPECT_EQ(recording.problems.front().kind, ProblemKind::misaligned) << texts(recording);
        EXPECT_EQ(recording.problems.front().place.line, line_of(kKnown, "kiln::load"));
    }
}

// Thread 0 alone runs the loops whose loads a compiler could move before them.
constexpr const char* kAlone = R"(//@ kernel alone
//@ block 64
//@ grid 1
//@ size n = 64
//@ input x [n]
//@ output y [n]
#include "kiln/device.h"

extern "C" __global__ void alone(int n, const float* x, float* y) {
    __shared__ float lead;
    const int t = threadIdx.x;
    if (t == 0) lead = x[0];
    float sum = 0;
    for (int i = t; i < 1; ++i) sum += lead * x[i];
    y[t] = sum;
}
)";

TEST_F(Check, WhatOneThreadAloneUsesInALoop) { EXPECT_EQ(texts(check_text("alone", kAlone)), ""); }

// Another array of the same name is aligned.
constexpr const char* kSameName = R"(//@ kernel same_name
//@ block 16
//@ grid 1
//@ size n = 64
//@ input x [n]
//@ output y [n]
#include "kiln/device.h"

struct alignas(16) Four { float of[4]; };
__device__ float other(const float* x) {
    alignas(16) __shared__ float tile[64];
    for (int i = threadIdx.x; i < 64; i += 16) tile[i] = x[i];
    __syncthreads();
    const float first = reinterpret_cast<const Four*>(tile)[threadIdx.x].of[0];
    __syncthreads();
    return first;
}

extern "C" __global__ void same_name(int n, const float* x, float* y) {
    __shared__ float tile[64];
    const int t = threadIdx.x;
    for (int i = t; i < 64; i += 16) tile[i] = x[i];
    __syncthreads();
    const Four four = reinterpret_cast<const Four*>(tile)[t];
    for (int i = 0; i < 4; ++i) y[4 * t + i] = four.of[i] + other(x);
}
)";

TEST_F(Check, AnArrayOfTheSameNameThatIsAligned) {
    const Recording recording = check_text("same_name", kSameName);
    ASSERT_EQ(recording.problems.size(), 1U) << texts(recording);
    EXPECT_EQ(recording.problems.front().kind, ProblemKind::misaligned);
    EXPECT_EQ(recording.problems.front().place.line, line_of(kSameName, "const Four four ="));
}

// A wait and a barrier that changed places: some threads read what others' copies have not brought yet.
TEST_F(Check, AWaitBehindItsBarrier) {
    EXPECT_EQ(texts(check(variant("gemm_async"))), "");
    const std::string wait = "        copies.wait<STAGES - 2>();\n", barrier = "        __syncthreads();\n";
    const std::string text = changed("gemm_async", wait + barrier, barrier + wait);
    const Recording recording = check_text("gemm_async", text);
    ASSERT_FALSE(recording.problems.empty());
    EXPECT_EQ(recording.problems.front().kind, ProblemKind::race) << texts(recording);
    EXPECT_EQ(recording.problems.front().other.line, line_of(text, "copies.wait<STAGES - 2>()"));
}

// A lane's two stores of one line, one where the picture is and one where it ends, are two requests: none may take
// the other's place.
constexpr const char* kConvolution = R"(// conv2d: a square filter over a picture, zero outside of it.
//@ kernel conv2d
//@ param T type in half, float = half
//@ param KERNEL int in 3, 5, 7 = 7
//@ param TILE int in 8, 16 = 8
//@ param EARLY bool = false  "threads read what others write before the barrier"
//@ block TILE, TILE
//@ grid ceil_div(cols, TILE), ceil_div(rows, TILE)
//@ size rows = 45
//@ size cols = 51
//@ input x [rows, cols]
//@ input w [KERNEL, KERNEL]
//@ output y [rows, cols]
#include "kiln/device.h"

extern "C" __global__ void conv2d(int rows, int cols, const T* x, const T* w, T* y) {
    constexpr int kHalo = KERNEL / 2, kSide = TILE + 2 * kHalo;
    __shared__ T tile[kSide * kSide];
    const int thread = threadIdx.y * TILE + threadIdx.x;
    const int top = blockIdx.y * TILE - kHalo, left = blockIdx.x * TILE - kHalo;
    for (int i = thread; i < kSide * kSide; i += TILE * TILE) {
        const int row = top + i / kSide, col = left + i % kSide;
        const bool in = row >= 0 && row < rows && col >= 0 && col < cols;
        tile[i] = in ? x[row * cols + col] : T(0);
    }
    float sum = 0;
    // An element that only the second turn of a thread writes, whose first was outside of the picture.
    if (EARLY && thread == 0) sum = static_cast<float>(tile[8 * kSide]);
    __syncthreads();
    for (int r = 0; r < KERNEL; ++r)
        for (int c = 0; c < KERNEL; ++c)
            sum += static_cast<float>(w[r * KERNEL + c]) *
                   static_cast<float>(tile[(threadIdx.y + r) * kSide + threadIdx.x + c]);
    const int row = top + kHalo + threadIdx.y, col = left + kHalo + threadIdx.x;
    if (row < rows && col < cols) y[row * cols + col] = T(sum);
}
)";

TEST_F(Check, AConvolutionThatReadsBeforeTheBarrier) {
    const std::string text = kConvolution;
    for (const char* type : {"half", "float"}) {
        SCOPED_TRACE(type);
        EXPECT_EQ(texts(check_text("conv2d", text, {{"T", type}})), "");
        const Recording recording = check_text("conv2d", text, {{"T", type}, {"EARLY", true}});
        ASSERT_EQ(recording.problems.size(), 1U) << texts(recording);
        const AccessProblem& race = recording.problems.front();
        EXPECT_EQ(race.kind, ProblemKind::race);
        EXPECT_EQ(race.place.line, line_of(text, "if (EARLY && thread"));
        EXPECT_EQ(race.other.line, line_of(text, "tile[i] = in"));
        EXPECT_EQ(race.variable, "tile");
        EXPECT_EQ(race.count, recording.blocks_recorded);
    }
}

// Thread by thread each takes the place of its own index, and so meets only what it wrote itself.
TEST_F(Check, AQueueWhosePlacesDependOnTheOrderOfThreads) {
    const std::string text = R"(//@ kernel queue
//@ block 64
//@ grid ceil_div(n, 64)
//@ size n = 128
//@ input x [n] align 16
//@ output y [n] align 16
#include "kiln/device.h"

extern "C" __global__ void queue(int n, const float* x, float* y) {
    __shared__ float places[64];
    __shared__ int many;
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (t == 0) many = 0;
    __syncthreads();
    if (i < n) places[atomicAdd(&many, 1)] = x[i];
    __syncthreads();
    if (i < n) y[i] = places[t];
}
)";
    EXPECT_EQ(texts(check_text("queue", text)), "");
    std::string wrong = text;
    wrong.replace(wrong.rfind("    __syncthreads();\n"), 21, "");
    const Recording recording = check_text("queue", wrong);
    ASSERT_EQ(recording.problems.size(), 1U) << texts(recording);
    const AccessProblem& race = recording.problems.front();
    EXPECT_EQ(race.kind, ProblemKind::race) << texts(recording);
    EXPECT_EQ(race.variable, "places");
}

constexpr const char* kCopies = R"(// copies: through shared memory, by the C library's functions.
//@ kernel copies
//@ param EARLY bool = false  "threads read what others write before the barrier"
//@ param BEYOND int in 0, 4 = 0  "bytes behind the tile"
//@ block 64
//@ grid ceil_div(n, 64)
//@ size n = 128
//@ size bytes = 24
//@ size way = 1
//@ input x [n, 6]
//@ output y [n, 6]
#include "kiln/device.h"
#include <cstring>
#include <string>

extern "C" __global__ void copies(int n, int bytes, int way, const float* x, float* y) {
    __shared__ float tile[64 * 6];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t, other = 63 - t;
    float* const mine = tile + 6 * t + (t == 63 ? BEYOND / 4 : 0);
    if (way == 1) std::memcpy(mine, x + 6 * i, 24);
    if (way == 2) __builtin_memcpy(mine, x + 6 * i, bytes);
    if (way == 3) memmove(mine, x + 6 * i, 24);
    if (way == 4) __builtin_memset(mine, 0, bytes);
    if (way == 5) memset(mine, 0, 24);
    if (!EARLY) __syncthreads();
    memcpy(y + 6 * i, tile + 6 * other, 24);
}
)";

// GCC instruments none of these but the smallest.
TEST_F(Check, WhatMemcpyAndItsLikeAccess) {
    const std::string text = kCopies;
    const Template of = target().parse(text, "copies.cu");
    for (int way = 1; way <= 5; ++way) {
        SCOPED_TRACE(way);
        const std::string made = "if (way == " + std::to_string(way) + ")";
        AnalyzeOptions options;
        options.sizes = {{"way", way}};
        const Recording right = Analyzer(target()).check(of.variant(), options);
        EXPECT_EQ(texts(right), "");
        EXPECT_FALSE(right.shared.empty());
        EXPECT_FALSE(right.global.empty());

        const Recording early = Analyzer(target()).check(of.variant({{"EARLY", true}}), options);
        ASSERT_FALSE(early.problems.empty());
        const AccessProblem& race = early.problems.front();
        EXPECT_EQ(race.kind, ProblemKind::race) << texts(early);
        EXPECT_EQ((std::set{race.place.line, race.other.line}),
                  (std::set{line_of(text, made), line_of(text, "memcpy(y + 6")}))
            << texts(early);

        const Recording beyond = Analyzer(target()).check(of.variant({{"BEYOND", 4}}), options);
        const auto found =
            std::ranges::find(beyond.problems, ProblemKind::out_of_bounds, &AccessProblem::kind);
        ASSERT_NE(found, beyond.problems.end()) << texts(beyond);
        EXPECT_EQ(found->place.line, line_of(text, made));
        EXPECT_EQ(found->variable, "tile");
    }
}

}  // namespace
}  // namespace kiln::test
