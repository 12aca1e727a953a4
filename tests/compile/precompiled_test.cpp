// SPDX-License-Identifier: Apache-2.0
//
// Headers of include directories that NVRTC precompiles: bytes are the same with and without, variants behind the first take
// a part of the time, and a header that was changed is never taken from a PCH.
#include <gmock/gmock.h>
#include <kiln/kiln.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>
#include <optional>
#include <set>
#include <thread>

#include "base/file.h"
#include "compile/compiler.h"
#include "compile/hoisted_includes.h"
#include "compile/include_guard.h"
#include "compile/precompiled_headers.h"
#include "nvrtc_version.h"
#include "require.h"
#include "scoped_variable.h"

namespace kiln::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::string hoisted(const std::string& own, std::vector<std::string> open = {"<a.h>", "\"dir/b.h\""}) {
    Source source;
    source.text = "#include \"kiln/device.h\"\nconstexpr int N = 1;\n#line 1 \"k.cu\"\n" + own;
    source.open_includes = std::move(open);
    return hoisted_includes(source);
}

TEST(HoistedIncludes, AreThoseThatTheTextBeginsWith) {
    const std::string head = "#include \"kiln/device.h\"\n";
    EXPECT_EQ(hoisted("// k: of\n//@ kernel k\n\n#include <a.h>\n#include \"kiln/reduce.h\"\n"
                      "#  include \"dir/b.h\"  // for b\nint x;\n#include <a.h>\n"),
              head + "#include <a.h>\n#include \"kiln/reduce.h\"\n#include \"dir/b.h\"\n");
    EXPECT_EQ(hoisted("#include <a.h>"), head + "#include <a.h>\n");
    EXPECT_EQ(hoisted("#include <a.h>\n#define X\n#include \"dir/b.h\"\n"), head + "#include <a.h>\n");
    EXPECT_EQ(hoisted("#include <a.h>\n#include \"own.h\"\n#include \"dir/b.h\"\n"),
              head + "#include <a.h>\n");
    EXPECT_THAT(hoisted("#define X\n#include <a.h>\n"), IsEmpty());
    EXPECT_THAT(hoisted("#include \"kiln/reduce.h\"\n"), IsEmpty());
    EXPECT_THAT(hoisted("// goes on \\\n#include <a.h>\n"), IsEmpty());
    EXPECT_THAT(hoisted("#if X\n#include <a.h>\n#endif\n"), IsEmpty());
    EXPECT_THAT(hoisted("#include <a.h>\n", {}), IsEmpty());
}

TEST(HoistedIncludes, AreBlankInWhatIsLeft) {
    Source source;
    source.text =
        "#include \"kiln/device.h\"\n#line 1 \"k.cu\"\n// k\n  #include <a.h>  // for a\n#include <a.h>\nint "
        "x;\n#include <a.h>\n";
    source.open_includes = {"<a.h>"};
    EXPECT_EQ(without_hoisted_includes(source), "#include \"kiln/device.h\"\n#line 1 \"k.cu\"\n// k\n" +
                                                    std::string(26, ' ') + "\n" + std::string(14, ' ') +
                                                    "\nint x;\n#include <a.h>\n");
    source.open_includes = {"<b.h>"};
    EXPECT_EQ(without_hoisted_includes(source), source.text);
}

// Headers that take some time, and what the constants must not be to them.
class Precompiled : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string missing;
        try {
            (void)make_nvrtc_compiler()->identity();
        } catch (const BuildError& error) {
            missing = error.what();
        }
        KILN_REQUIRE_OR_SKIP("nvrtc", missing.empty(), missing);
        std::filesystem::create_directories(path("lib/big/detail"));
        write_text(path("lib/big/detail/more.h"), "#pragma once\n" + many_templates());
        set_factor("2.0f");
    }

    /// So that compiling them is most of the time.
    static std::string many_templates() {
        std::string text =
            "template <int N> struct Chain { static constexpr int value = Chain<N - 1>::value + 1; };\n"
            "template <> struct Chain<0> { static constexpr int value = 0; };\n";
        for (int i = 0; i < 400; ++i)
            text += "namespace part" + std::to_string(i) +
                    " {\ntemplate <class T> struct Box { T t; template <class U> __device__ U as() const { "
                    "return U(t); } };\n"
                    "__device__ inline float sum(float x) { return Box<float>{x}.as<float>() + Chain<" +
                    std::to_string(100 + i % 300) + ">::value; }\n}\n";
        return text;
    }
    void set_factor(const std::string& value) const {
        write_text(path("lib/big/factor.h"),
                   "#pragma once\n#include \"detail/more.h\"\n__device__ inline float factor() { return " +
                       value + "; }\n");
    }
    static std::string text(const std::string& includes = "#include <big/factor.h>\n") {
        return "// scaled: for tests\n//@ kernel scaled\n//@ param N int in 1..8 = 1\n//@ block 32\n//@ grid "
               "n\n" +
               includes +
               "extern \"C\" __global__ void scaled(int n, float* x) {\n"
               "    x[threadIdx.x] = N * factor() * x[threadIdx.x] + part7::sum(n);\n}\n";
    }
    std::filesystem::path path(const std::string& name) const { return directory_.path() / name; }

    Service service() const {
        ServiceOptions options;
        options.backend = Backend::cuda;
        options.arch = "sm_90a";
        options.compile_only = true;
        options.cache.enabled = false;
        options.include_directories = {path("lib").string()};
        return Service(options);
    }
    static Bytes compiled(Service& service, const std::string& text, std::int64_t n) {
        return service.compile(Template::parse(text, "scaled.cu").variant({{"N", n}})).binary.bytes;
    }
    Bytes without(const std::string& text, std::int64_t n) const {
        const ScopedVariable off("KILN_PCH", "0");
        Service plain = service();
        return compiled(plain, text, n);
    }
    static bool nvrtc_precompiles() { return nvrtc_version() >= std::pair(12, 8); }
    static double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

  private:
    TemporaryDirectory directory_;
};

TEST_F(Precompiled, BytesAreTheSameAndLaterVariantsTakeAPartOfTheTime) {
    Service one = service();
    std::vector<double> seconds;
    for (const std::int64_t n : {1, 2, 3, 4}) {
        const double before = processor_seconds();
        const Bytes bytes = compiled(one, text(), n);
        seconds.push_back(processor_seconds() - before);
        EXPECT_EQ(bytes, without(text(), n)) << n;
    }
    if (nvrtc_precompiles()) {
        EXPECT_LT(*std::min_element(seconds.begin() + 1, seconds.end()), 0.7 * seconds[0])
            << ::testing::PrintToString(seconds);
    }
}

TEST(IncludeGuard, EndsWhereCodeMayBegin) {
    const auto end = [](const std::string& text) { return include_guard_end(text); };
    EXPECT_EQ(end("#pragma once\nint x;\n"), 13u);
    EXPECT_EQ(end("/* a\n#if */ // b\n# pragma once // c\n"), 0u);  // a directive in a comment
    EXPECT_EQ(end("// a\n#ifndef G\n# define G 1\nint x;\n#if X\n#else\n#endif\n#endif // G\n"), 28u);
    EXPECT_EQ(end("#ifndef G\n#define G\n#endif"), 20u);
    EXPECT_EQ(end("#ifndef G\n#define G\n#endif\nint behind;\n"), 0u);
    EXPECT_EQ(end("#ifndef G\n#define G\n#else\nint second;\n#endif\n"), 0u);
    EXPECT_EQ(end("#ifndef G\n#define H\n#endif\n"), 0u);
    EXPECT_EQ(end("#ifndef G\n#define G \\\n 1\n#endif\n"), 0u);
    EXPECT_EQ(end("int x;\n#pragma once\n"), 0u);
    EXPECT_EQ(end("#pragma unroll\n"), 0u);
    EXPECT_EQ(end(""), 0u);
}

// Compiles by writing the file that it is told to write.
class PrecompiledFiles : public ::testing::Test {
  protected:
    std::optional<CompileResponse> ask(PrecompiledHeaders& headers, const std::string& key,
                                       bool creates = true) {
        return headers.compile(key, creates, [&](const std::vector<std::string>& options) {
            options_ = options.at(0);
            const std::filesystem::path file = options_.substr(options_.find('=') + 1);
            if (options_.starts_with("--create")) write_text(file, key);
            EXPECT_EQ(read_text_if_exists(file), key);
            CompileResponse response;
            if (fails_) response.status = CompileStatus::refused;
            return response;
        });
    }
    /// The keys of those that are on the disk.
    std::set<std::string> files() const {
        std::set<std::string> all;
        for (const auto& at : std::filesystem::recursive_directory_iterator(directory_.path()))
            if (at.path().extension() == ".pch") all.insert(read_text_if_exists(at.path()).value());
        return all;
    }

    std::string options_;
    bool fails_ = false;

  private:
    TemporaryDirectory directory_;
    ScopedVariable temporary_{"TMPDIR", directory_.path().string()};
};

TEST_F(PrecompiledFiles, AreAsManyAsTheyMayBe) {
    PrecompiledHeaders headers({2, 0});
    for (const char* key : {"a", "b"}) EXPECT_TRUE(ask(headers, key));
    EXPECT_THAT(files(), ElementsAre("a", "b"));
    // Alternately: a third one does not drive out what is used as often.
    for (int i = 0; i < 3; ++i) {
        EXPECT_FALSE(ask(headers, "c"));
        for (const char* key : {"a", "b"}) EXPECT_TRUE(ask(headers, key));
        EXPECT_THAT(options_, StartsWith("--use-pch="));
    }
    // From now on it is used alone.
    EXPECT_FALSE(ask(headers, "c"));
    EXPECT_TRUE(ask(headers, "c"));
    EXPECT_THAT(files(), ElementsAre("b", "c")) << "the one that was used last has gone";
    EXPECT_TRUE(headers.lacks("a"));
    for (int i = 0; i < 10; ++i) {
        (void)ask(headers, std::string(1, static_cast<char>('d' + i)));
        (void)ask(headers, std::string(1, static_cast<char>('d' + i)));
        EXPECT_EQ(files().size(), 2u);
    }
}

TEST_F(PrecompiledFiles, AreNotMadeWhereThereIsNoRoom) {
    PrecompiledHeaders headers({2, std::numeric_limits<std::uintmax_t>::max()});
    EXPECT_FALSE(ask(headers, "a"));
    EXPECT_THAT(files(), IsEmpty());
    EXPECT_TRUE(headers.lacks("a")) << "there may be room later";
}

TEST_F(PrecompiledFiles, DoNotStayWhereTheyAreOfNoUse) {
    PrecompiledHeaders headers({2, 0});
    fails_ = true;
    EXPECT_FALSE(ask(headers, "a"));
    EXPECT_THAT(files(), IsEmpty());
    headers.compiled_without("a", false);
    fails_ = false;
    EXPECT_TRUE(ask(headers, "a"));
    fails_ = true;
    EXPECT_FALSE(ask(headers, "a"));
    EXPECT_THAT(files(), ElementsAre("a")) << "the source may be what is wrong";
    headers.compiled_without("a", true);
    EXPECT_THAT(files(), IsEmpty());
}

// A process that compiles one variant must not pay for headers that it never takes.
TEST_F(Precompiled, TheFirstCompileCreatesNothingAndAnIdleWorkerDoes) {
    if (!nvrtc_precompiles()) GTEST_SKIP() << "this NVRTC precompiles nothing";
    const auto pch_files = [&] {
        std::size_t count = 0;
        std::error_code error;
        const std::filesystem::recursive_directory_iterator end;
        for (std::filesystem::recursive_directory_iterator at(path("tmp"), error); !error && at != end;
             at.increment(error))
            if (at->path().extension() == ".pch") ++count;
        return count;
    };
    std::filesystem::create_directories(path("tmp"));
    const ScopedVariable temporary("TMPDIR", path("tmp").string());
    Service here = service();
    const Bytes first = compiled(here, text(), 1);
    EXPECT_EQ(pch_files(), 0u);
    const Bytes second = compiled(here, text(), 2);
    EXPECT_EQ(pch_files(), 1u);

    Service there = service();
    const auto in_worker = [&](std::int64_t n) {
        return there.compile_async(Template::parse(text(), "scaled.cu").variant({{"N", n}}))
            .get()
            .binary.bytes;
    };
    EXPECT_EQ(in_worker(1), first);
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (pch_files() < 2 && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(pch_files(), 2u);
    EXPECT_EQ(in_worker(2), second);
}

TEST_F(Precompiled, AHeaderThatWasChangedIsSeen) {
    Service one = service();
    const Bytes before = compiled(one, text(), 1);
    (void)compiled(one, text(), 2);
    set_factor("3.0f");
    const Bytes after = compiled(one, text(), 1);
    EXPECT_NE(after, before);
    EXPECT_EQ(after, without(text(), 1));
    set_factor("2.0f");
    EXPECT_EQ(compiled(one, text(), 1), before);
}

TEST_F(Precompiled, AHeaderThatUsesAConstantIsCompiledBehindIt) {
    write_text(
        path("lib/big/factor.h"),
        "#pragma once\n#include \"detail/more.h\"\n__device__ inline float factor() { return N + 1.0f; }\n");
    Service one = service();
    for (const std::int64_t n : {1, 2, 3}) EXPECT_EQ(compiled(one, text(), n), without(text(), n));
}

// The precompiled lines are not included once more by the source itself.
TEST_F(Precompiled, AHeaderWithoutAGuardIsIncludedOnce) {
    write_text(path("lib/big/factor.h"),
               "#ifndef FACTOR\n#define FACTOR 1.0f\n#include \"detail/more.h\"\n"
               "#else\n#undef FACTOR\n#define FACTOR 5.0f\n#endif\n");
    std::string once = text();
    once.replace(once.find("factor()"), 8, "FACTOR");
    Service one = service();
    for (const std::int64_t n : {1, 2, 3}) EXPECT_EQ(compiled(one, once, n), without(once, n)) << n;
}

TEST_F(Precompiled, ErrorsAreThoseOfTheSource) {
    Service one = service();
    const auto error_of = [&](Service& by, const std::string& wrong) -> std::string {
        try {
            (void)compiled(by, wrong, 1);
        } catch (const BuildError& error) {
            return error.log();
        }
        ADD_FAILURE() << "no BuildError";
        return {};
    };
    std::string wrong = text();
    wrong.replace(wrong.find("part7::sum"), 10, "part7::sun");
    const std::string log = error_of(one, wrong);
    EXPECT_THAT(log, HasSubstr("scaled.cu(8): error"));
    const ScopedVariable off("KILN_PCH", "0");
    Service plain = service();
    EXPECT_EQ(error_of(plain, wrong), log);
    EXPECT_FALSE(compiled(one, text(), 1).empty());
    EXPECT_FALSE(compiled(one, text(), 2).empty());
}

TEST_F(Precompiled, ThreadsGetTheSameBytes) {
    Service one = service();
    std::vector<Bytes> bytes(4);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < bytes.size(); ++i)
        threads.emplace_back(
            [&, i] { bytes[i] = compiled(one, text(), static_cast<std::int64_t>(i % 2 + 1)); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(bytes[0], bytes[2]);
    EXPECT_EQ(bytes[1], bytes[3]);
    EXPECT_EQ(bytes[0], without(text(), 1));
}

}  // namespace
}  // namespace kiln::test
