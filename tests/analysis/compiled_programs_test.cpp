// SPDX-License-Identifier: Apache-2.0
//
// Random kernels as the host's compiler makes them, with the copies and the order of accesses that it chooses:
// AccessRecorder finds in each what a recording that merges nothing finds.
#include <kiln/error.h>
#include <kiln/service.h>

#include <random>

#include "compare_recordings.h"
#include "require.h"

namespace kiln::test {
namespace {

/// One kernel of many programs, of which its argument chooses one, so that all are compiled at once.
class RandomKernel {
  public:
    explicit RandomKernel(unsigned seed) : random_(seed) {}

    std::string text(unsigned programs) {
        std::string text =
            "//@ kernel programs\n//@ block 72\n//@ grid 2\n#include \"kiln/device.h\"\n"
            "extern \"C\" __global__ void programs(int program, const int* x) {\n"
            "    __shared__ int ints[64];\n    __shared__ short shorts[64];\n"
            "    __shared__ unsigned char bytes[96];\n    __shared__ kiln::half halves[80];\n"
            "    __shared__ long long words[40];\n    __shared__ int result[72];\n"
            "    const int t = threadIdx.x;\n    int sum = 0;\n    result[t] = 0;\n"
            "    __syncthreads();\n";
        for (unsigned i = 0; i < programs; ++i) {
            text += "    if (program == " + std::to_string(i) + ") {\n" + statements(2, true) + "    }\n";
        }
        return text + "    result[t] = sum;\n}\n";
    }

  private:
    unsigned below(unsigned end) { return static_cast<unsigned>(random_() % end); }
    template <class... T>
    std::string one_of(T... choices) {
        const std::array<const char*, sizeof...(T)> all{choices...};
        return all[below(sizeof...(T))];
    }
    static std::string number(unsigned n) { return std::to_string(n); }

    std::string condition() {
        return one_of("t % 3 == 1", "t < 40", "(t ^ 5) % 4 < 2", "x[t] % 2 == 0", "t == 7", "t / 8 % 2 == 0");
    }
    /// An element: mostly the thread's own.
    std::string element(const std::string& array, const std::string& i) {
        const unsigned size = array == "words" ? 40 : array == "bytes" ? 96 : array == "halves" ? 80 : 64;
        const std::string own = "(t + 72 * " + i + ")";
        const std::string place =
            below(4) != 0 ? own : "(" + number(1 + below(3)) + " * t + " + i + " + " + number(below(9)) + ")";
        return array + "[" + place + " % " + number(size) + "]";
    }
    std::string array() { return one_of("ints", "shorts", "bytes", "halves", "words"); }
    static std::string value_type(const std::string& array) {
        return array == "halves"   ? "kiln::half"
               : array == "words"  ? "(long long)"
               : array == "ints"   ? "(int)"
               : array == "shorts" ? "(short)"
                                   : "(unsigned char)";
    }

    std::string statements(unsigned depth, bool uniform) {
        std::string text;
        const unsigned count = 2 + below(4);
        for (unsigned i = 0; i < count; ++i) text += statement(depth, uniform, "0");
        return text;
    }
    std::string statement(unsigned depth, bool uniform, const std::string& i) {
        const std::string a = array(), type = value_type(a);
        switch (below(uniform ? 12 : 9)) {
            case 0:
            case 1:
                return element(a, i) + " = " + condition() + " ? " + type + "(x[t + " + i + "]) : " + type +
                       "(0);\n";
            case 2:
                return element(a, i) + " = " + type + "(t);\n";
            case 3:
            case 4:
                return "sum += (int)(float)" + element(a, i) + ";\n";
            case 5:
                return "atomicAdd(&" + element("ints", i) + ", 1);\n";
            case 6:
                return "if (" + condition() + ") {\n" +
                       (depth > 0 ? statement(depth - 1, false, i) : "sum += 1;\n") + "} else {\n" +
                       statement(0, false, i) + "}\n";
            case 7:
                if (depth == 0) return "sum += (int)(float)" + element(a, i) + ";\n";
                return "for (int i = 0; i < " + one_of("t % 4", "3", "x[t] % 3", "(t < 9 ? 2 : 1)") +
                       "; ++i) {\n" + statement(depth - 1, false, "i") + statement(depth - 1, false, "i") +
                       "}\n";
            case 8:
                return "if (" + condition() + ") sum += (int)(float)" + element(a, i) + ";\n";
            case 9:
                return "__syncwarp();\n";
            default:
                return "__syncthreads();\n";
        }
    }

    std::mt19937 random_;
};

class CompiledPrograms : public ::testing::TestWithParam<unsigned> {};

TEST_P(CompiledPrograms, EqualAPlainRecording) {
    constexpr unsigned kPrograms = 40;
    RecorderOptions chosen;
    chosen.banks = bank_model("sm_90a");
    chosen.most_blocks = 100;
    chosen.most_ms = 1e9;
    unsigned racy = 0, clean = 0, empty = 0;

    // The service has one observer for its life.
    struct Switch final : AccessObserver {
        std::unique_ptr<Both> to;
        void begin_launch(const ObservedLaunch& launch) override { to->begin_launch(launch); }
        bool begin_block(Dim3 index) override { return to->begin_block(index); }
        void accesses(unsigned thread, std::span<const ObservedAccess> list) override {
            to->accesses(thread, list);
        }
        void bad_index(unsigned thread, const ObservedBadIndex& what) override {
            to->bad_index(thread, what);
        }
        void meeting(std::span<const unsigned> threads, bool whole) override { to->meeting(threads, whole); }
        void exchange(std::span<const unsigned> threads) override { to->exchange(threads); }
        void release(unsigned thread, std::uint64_t object) override { to->release(thread, object); }
        void acquire(unsigned thread, std::uint64_t object) override { to->acquire(thread, object); }
        void end_block() override { to->end_block(); }
        void end_launch() override { to->end_launch(); }
    };
    const auto observer = std::make_shared<Switch>();
    ServiceOptions options;
    options.backend = Backend::host;
    options.observer = observer;
    options.cache.enabled = false;
    Service service(std::move(options));
    const std::string text = RandomKernel(GetParam()).text(kPrograms);
    const auto built = [&]() -> std::optional<Kernel<void(int, const int*)>> {
        try {
            return service.build<void(int, const int*)>(service.parse(text, "programs.cu").variant());
        } catch (const BuildError& error) {
            if (std::string_view(error.what()).find("programs.cu:") != std::string_view::npos) throw;
            return std::nullopt;
        }
    }();
    KILN_REQUIRE_OR_SKIP("host", built.has_value(), "no C++ compiler here");
    Buffer x = service.device().allocate(4096);
    std::vector<int> values(1024);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i * 2654435761u % 97);
    x.copy_from(std::as_bytes(std::span(values)));

    for (unsigned program = 0; program < kPrograms; ++program) {
        SCOPED_TRACE("program " + std::to_string(program));
        AccessRecorder recorder(chosen);
        PlainRecording plain(chosen.banks);
        observer->to = std::make_unique<Both>(recorder, plain);
        (*built)(service.stream(), static_cast<int>(program), x.as<int>());
        const Recording recording = recorder.recording();
        ASSERT_LT(recording.problems.size(), 100u);
        expect_races(recording, plain);
        expect_uninitialised(recording, plain);
        EXPECT_TRUE(plain.out_of_bounds.empty());
        for (const AccessProblem& problem : recording.problems)
            EXPECT_NE(problem.kind, ProblemKind::out_of_bounds) << problem.text();
        if (HasFailure()) FAIL() << text;
        racy += !plain.racy.empty();
        clean += plain.racy.empty();
        empty += !plain.must_be_empty.empty();
    }
    for (const unsigned some : {racy, clean, empty}) EXPECT_GT(some, 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, CompiledPrograms, ::testing::Range(1u, 5u));

}  // namespace
}  // namespace kiln::test
