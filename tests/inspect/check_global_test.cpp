// SPDX-License-Identifier: Apache-2.0
//
// Analyzer::check and global memory: every access beyond a tensor is told, with its line, the tensor and the distance.
#include "analyzer_support.h"

namespace kiln::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// x: 37 x 41 floats, y as large. Each mistake is made by a line of its own.
constexpr const char* kMistakes = R"(//@ kernel mistakes
//@ param MISTAKE int in 0..17 = 0
//@ block 64
//@ grid ceil_div(rows * cols, 64)
//@ size rows = 37
//@ size cols = 41
//@ input x [rows, cols] align 16
//@ output y [rows, cols]
#include "kiln/async.h"
#include "kiln/device.h"

__constant__ float table[4] = {1, 2, 3, 4};

extern "C" __global__ void mistakes(int rows, int cols, const float* x, float* y) {
    alignas(16) __shared__ float tile[64 * 4];
    alignas(16) __shared__ float other[64 * 4];
    const int n = rows * cols;
    const int i = blockIdx.x * 64 + threadIdx.x;
    kiln::AsyncCopies<4> copies;
    copies.copy<4>(tile + 4 * threadIdx.x, x + i / 4 * 4, kiln::min(4, kiln::max(0, n - i / 4 * 4)));
    copies.commit();
    copies.wait<0>();
    __syncthreads();
    float sum = tile[threadIdx.x % 4] + table[i % 4];
    if (MISTAKE == 1 && i <= n) sum += x[kiln::min(i, n)];
    if (MISTAKE == 2 && i <= n) y[i] = 1;
    if (MISTAKE == 3 && i < n) sum += x[i - 1];
    if (MISTAKE == 4 && i == 0) y[i - 1] = 1;
    if (MISTAKE == 5 && i < n) sum += x[i - cols];
    if (MISTAKE == 6 && i < (n + 3) / 4) sum += kiln::load<4>(x + 4 * i)[0];
    if (MISTAKE == 7 && i < (n + 3) / 4) copies.copy<4>(other + 4 * threadIdx.x, x + 4 * i);
    if (MISTAKE == 8 && i < n) const_cast<float*>(x)[n + 3 + i * 8] = 1;
    if (MISTAKE == 9 && i == 5) atomicAdd(y + n, 1.0f);
    if (MISTAKE == 10 && i == 0) __builtin_strncpy(reinterpret_cast<char*>(y + n - 2), "ab", static_cast<size_t>(rows));
    if (MISTAKE == 11 && i == 7) sum += y[n + (1 << 20)];
    if (MISTAKE == 12 && i < n) sum += x[i];
    if (MISTAKE == 13 && i < n) const_cast<float*>(x)[i] = 1;
    if (MISTAKE == 14 && i == 7) atomicAdd(const_cast<float*>(x) + i, 1.0f);
    if (MISTAKE == 15 && i == 0) __builtin_memset(const_cast<float*>(x) + 1, 0, static_cast<size_t>(rows));
    if (MISTAKE == 16 && i < 4) table[i] = 2;
    if (MISTAKE == 17 && i == 0) __builtin_strncpy(reinterpret_cast<char*>(const_cast<float*>(x) + 1), "ab", static_cast<size_t>(rows));
    copies.commit();
    copies.wait<0>();
    if (i < n) y[i] = sum;
}
)";

class CheckGlobal : public Analyzing {
  protected:
    void SetUp() override {
        (void)target("host");
        try {
            const Compiled made = target().compile(target().find("copy").variant());
            is_clang_ = made.binary.compiler.find("clang") != std::string::npos;
        } catch (const BuildError& error) {
            KILN_REQUIRE_OR_SKIP("host", false, error.what());
        }
    }
    Recording check(const std::string& text, const std::string& name, const Values& values = {}) {
        AnalyzeOptions options;
        options.most_blocks = 1000;
        options.most_ms = 20'000;
        return Analyzer(target()).check(target().parse(text, name + ".cu").variant(values), options);
    }
    static std::string texts(const Recording& recording) {
        std::string all;
        for (const AccessProblem& problem : recording.problems) all += problem.text() + "\n";
        return all;
    }
    bool is_clang_ = false;
};

TEST_F(CheckGlobal, EveryAccessBeyondATensorIsReported) {
    constexpr std::int64_t kBytes = 37 * 41 * 4;
    struct Case {
        int mistake;
        AccessKind access;
        const char* tensor;
        std::int64_t offset;
        int bytes;
        const char* text;
    };
    for (const Case& c : {
             Case{1, AccessKind::load, "x", kBytes, 4, "right after the end of x, which has 6068 bytes"},
             Case{2, AccessKind::store, "y", kBytes, 4, "right after the end of y, which has 6068 bytes"},
             Case{3, AccessKind::load, "x", -4, 4, "4 bytes before the start of x"},
             Case{4, AccessKind::store, "y", -4, 4, "4 bytes before the start of y"},
             Case{5, AccessKind::load, "x", -4 * 41, 4, "164 bytes before the start of x"},
             // Of 16 bytes of which 4 are used clang loads 8.
             Case{6, AccessKind::load, "x", kBytes - 4, is_clang_ ? 8 : 16,
                  is_clang_ ? "4 bytes of them after the end of x" : "12 bytes of them after the end of x"},
             Case{7, AccessKind::load, "x", kBytes - 4, 16, "12 bytes of them after the end of x"},
             Case{8, AccessKind::store, "x", kBytes + 12, 4, "12 bytes after the end of x"},
             Case{9, AccessKind::atomic, "y", kBytes, 4,
                  "atomic by thread 5 of 4 bytes right after the end of y"},
             Case{11, AccessKind::load, "y", kBytes + (4 << 20), 4, "4194304 bytes after the end of y"},
         }) {
        SCOPED_TRACE(c.mistake);
        const std::string text = kMistakes;
        const Recording recording = check(text, "mistakes", {{"MISTAKE", c.mistake}});
        ASSERT_EQ(recording.problems.size(), 1U) << texts(recording);
        const AccessProblem& problem = recording.problems.front();
        EXPECT_EQ(problem.kind, ProblemKind::out_of_bounds);
        EXPECT_EQ(problem.place.line, line_of(text, "if (MISTAKE == " + std::to_string(c.mistake) + " &&"))
            << problem.text();
        EXPECT_EQ(problem.access, c.access);
        EXPECT_EQ(problem.tensor, c.tensor);
        EXPECT_EQ(problem.offset, c.offset);
        EXPECT_EQ(problem.bytes, c.bytes);
        EXPECT_THAT(problem.text(), HasSubstr(c.text));
    }
}

// What `align` promises, and not where the tensor happens to be. A kernel that looks at the address itself is right.
TEST_F(CheckGlobal, AVectorOfATensorThatIsNotDeclaredAligned) {
    const auto text = [](const std::string& align, const std::string& where) {
        return "//@ kernel vectors\n//@ block 32\n//@ grid 1\n//@ size n = 64\n//@ input x [n]" + align +
               "\n//@ output y [n] align 8\n#include \"kiln/device.h\"\nusing Two = unsigned long long;\n"
               "extern \"C\" __global__ void vectors(int n, const float* x, float* y) {\n"
               "    const int i = 2 * threadIdx.x;\n    if (" +
               where +
               ") *reinterpret_cast<Two*>(y + i) = *reinterpret_cast<const Two*>(x + i);\n"
               "    else { y[i] = x[i]; y[i + 1] = x[i + 1]; }\n}\n";
    };
    EXPECT_EQ(texts(check(text(" align 8", "n > 0"), "vectors")), "");
    EXPECT_EQ(texts(check(text("", "reinterpret_cast<unsigned long long>(x) % 8 == 0"), "vectors")), "");
    const Recording recording = check(text("", "n > 0"), "vectors");
    ASSERT_EQ(recording.problems.size(), 1U) << texts(recording);
    EXPECT_EQ(recording.problems.front().kind, ProblemKind::misaligned);
    EXPECT_EQ(recording.problems.front().tensor, "x");
    EXPECT_THAT(recording.problems.front().text(), HasSubstr("unless it is declared `align 8`"));
}

TEST_F(CheckGlobal, AnAsynchronousCopyOfATensorThatIsNotDeclaredAligned) {
    const auto text = [](const std::string& align) {
        return "//@ kernel copied\n//@ block 32\n//@ grid 1\n//@ size n = 127\n//@ input x [n]" + align +
               "\n//@ output y [n]\n#include \"kiln/async.h\"\n"
               "extern \"C\" __global__ void copied(int n, const float* x, float* y) {\n"
               "    alignas(16) __shared__ float tile[128];\n    const int i = 4 * threadIdx.x;\n"
               "    kiln::AsyncCopies<> copies;\n    copies.copy<4>(tile + i, x + i, n - i < 4 ? n - i : "
               "4);\n"
               "    copies.commit();\n    copies.wait<0>();\n"
               "    for (int j = i; j < i + 4 && j < n; ++j) y[j] = tile[j];\n}\n";
    };
    EXPECT_EQ(texts(check(text(" align 16"), "copied")), "");
    const Recording recording = check(text(""), "copied");
    // The last copy reads less than 16 bytes.
    ASSERT_FALSE(recording.problems.empty());
    for (const AccessProblem& problem : recording.problems) {
        EXPECT_EQ(problem.kind, ProblemKind::misaligned);
        EXPECT_EQ(problem.place.line, line_of(text(""), "copies.copy<4>(tile"));
        EXPECT_EQ(problem.tensor, "x");
    }
    EXPECT_THAT(recording.problems.front().text(), HasSubstr("unless it is declared `align 16`"));
}

TEST_F(CheckGlobal, WithinTensorsNothingIsReported) {
    for (const int right : {0, 12}) EXPECT_EQ(texts(check(kMistakes, "mistakes", {{"MISTAKE", right}})), "");
}

// What the C library writes is not recorded by every compiler; the guard bytes show it in any case.
TEST_F(CheckGlobal, AnOverrunThatIsNotRecordedShowsInTheGuards) {
    const Recording recording = check(kMistakes, "mistakes", {{"MISTAKE", 10}});
    ASSERT_EQ(recording.problems.size(), 1U) << texts(recording);
    EXPECT_EQ(recording.problems.front().kind, ProblemKind::out_of_bounds);
    EXPECT_EQ(recording.problems.front().tensor, "y");
    EXPECT_THAT(recording.problems.front().text(),
                AllOf(HasSubstr("something that the recording can't see"),
                      HasSubstr("after the end of y, which has 6068 bytes")));
}

TEST_F(CheckGlobal, AWriteToAnInputIsReported) {
    const std::string text = kMistakes;
    for (const int mistake : {13, 14, 15}) {
        SCOPED_TRACE(mistake);
        const Recording recording = check(text, "mistakes", {{"MISTAKE", mistake}});
        // What the C library writes may have no line; and what of it is out of line is misaligned as well.
        const auto found =
            std::ranges::find(recording.problems, ProblemKind::read_only, &AccessProblem::kind);
        ASSERT_NE(found, recording.problems.end()) << texts(recording);
        EXPECT_EQ(found->tensor, "x");
        EXPECT_THAT(found->text(), HasSubstr("x, which is an input"));
        if (mistake == 15) continue;
        EXPECT_EQ(recording.problems.size(), 1U) << texts(recording);
        EXPECT_EQ(found->place.line, line_of(text, "if (MISTAKE == " + std::to_string(mistake) + " &&"));
        EXPECT_EQ(found->access, mistake == 13 ? AccessKind::store : AccessKind::atomic);
        EXPECT_EQ(found->offset, mistake == 13 ? 0 : 28);
        EXPECT_EQ(found->bytes, 4);
        EXPECT_EQ(found->count, mistake == 13 ? 37U * 41U : 1U);
    }
}

TEST_F(CheckGlobal, AWriteToAnInputThatIsNotRecordedIsReported) {
    const Recording recording = check(kMistakes, "mistakes", {{"MISTAKE", 17}});
    ASSERT_EQ(recording.problems.size(), 1U) << texts(recording);
    EXPECT_EQ(recording.problems.front().kind, ProblemKind::read_only);
    EXPECT_THAT(
        recording.problems.front().text(),
        HasSubstr("something that the recording can't see, such as a function of the C library, wrote to x"));
}

TEST_F(CheckGlobal, AWriteToAConstantIsReported) {
    const std::string text = kMistakes;
    const Recording recording = check(text, "mistakes", {{"MISTAKE", 16}});
    ASSERT_EQ(recording.problems.size(), 1U) << texts(recording);
    const AccessProblem& problem = recording.problems.front();
    EXPECT_EQ(problem.kind, ProblemKind::read_only);
    EXPECT_EQ(problem.place.line, line_of(text, "if (MISTAKE == 16 &&"));
    EXPECT_EQ(problem.variable, "table");
    EXPECT_EQ(problem.count, 4U);
    EXPECT_THAT(problem.text(), HasSubstr("at offset 0 of table, which is __constant__"));
}

// Through a pointer, so that no extent is known to the compiler; the others lie on both sides.
constexpr const char* kTaps = R"(//@ kernel taps
//@ param TAPS int in 9, 10 = 9
//@ param WIDE bool = false
//@ block 64
//@ grid 1
//@ size n = 64
//@ input x [n]
//@ input w [9]
//@ output y [n]
#include "kiln/device.h"

__constant__ float before[3] = {1, 2, 3};
__constant__ float w[9];
__constant__ const float behind[5] = {1, 2, 3, 4, 5};
__device__ float more;

__device__ float sum_of(const float* taps, int count) {
    float sum = 0;
    for (int i = 0; i < count; ++i) sum += taps[i];
    return sum;
}

extern "C" __global__ void taps(int n, const float* x, float* y) {
    const int t = threadIdx.x;
    const double pair = reinterpret_cast<const double*>(w)[WIDE ? 4 : 3];
    y[t] = x[t] * sum_of(w, n - 64 + TAPS) + (pair == 1) + before[t % 3] + behind[t % 5] + more;
}
)";

TEST_F(CheckGlobal, AReadBehindAConstantIsReported) {
    EXPECT_EQ(texts(check(kTaps, "taps", {})), "");
    for (const Values& wrong : {Values{{"TAPS", 10}}, Values{{"WIDE", true}}}) {
        const Recording recording = check(kTaps, "taps", wrong);
        ASSERT_EQ(recording.problems.size(), 1U) << texts(recording);
        const AccessProblem& problem = recording.problems.front();
        EXPECT_EQ(problem.kind, ProblemKind::out_of_bounds);
        EXPECT_EQ(problem.tensor, "w");
        EXPECT_EQ(problem.count, 64U);
        EXPECT_THAT(problem.text(), HasSubstr("w, which has 36 bytes"));
    }
}

TEST_F(CheckGlobal, ATensorMapThatIsLargerThanItsTensor) {
    const std::string text = R"(//@ kernel boxes
//@ param MORE int in 0, 1 = 0
//@ block 32
//@ grid 2
//@ size rows = 31
//@ input x [rows, 32]
//@ output y [rows, 32]
//@ tensormap x_map = x [rows + MORE, 32] box [16, 32]
//@ tensormap y_map = y [rows + MORE, 32] box [16, 32]
#include "kiln/device.h"
#include "kiln/tma.h"
extern "C" __global__ void boxes(int rows, const float* x, float* y, const __grid_constant__ kiln::TensorMap x_map,
                                 const __grid_constant__ kiln::TensorMap y_map) {
    alignas(1024) __shared__ float tile[16 * 32];
    __shared__ kiln::Barrier full;
    kiln::TmaStores stores;
    const int row = 16 * blockIdx.x;
    if (threadIdx.x == 0) {
        kiln::barrier_init(&full, 1);
        kiln::barrier_arrive_and_expect_tx(&full, sizeof(tile));
        kiln::tma_load(tile, x_map, &full, row, 0);
        kiln::barrier_wait(&full, 0);
        stores.store(y_map, tile, row, 0);
        stores.commit();
        stores.wait<0>();
    }
}
)";
    EXPECT_EQ(texts(check(text, "boxes", {{"MORE", 0}})), "");
    const Recording recording = check(text, "boxes", {{"MORE", 1}});
    ASSERT_EQ(recording.problems.size(), 2U) << texts(recording);
    EXPECT_EQ(recording.problems[0].access, AccessKind::bulk_load);
    EXPECT_EQ(recording.problems[0].tensor, "x");
    EXPECT_EQ(recording.problems[0].place.line, line_of(text, "kiln::tma_load(tile"));
    EXPECT_EQ(recording.problems[1].access, AccessKind::bulk_store);
    EXPECT_EQ(recording.problems[1].tensor, "y");
    EXPECT_EQ(recording.problems[1].place.line, line_of(text, "stores.store(y_map"));
}

}  // namespace
}  // namespace kiln::test
