// SPDX-License-Identifier: Apache-2.0
//
// Regression over a template of the test's own, on the host: what is recorded, what moves, what fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <kiln/tools/regress.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/host_arch.h"
#include "require.h"

namespace kiln {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kDouble = R"(// twice: y = FACTOR * x
//@ kernel  twice
//@ param   FACTOR int in 1..4 = 2
//@ size    n = 1000 test 37
//@ input   x [n]
//@ output  y [n] by twice_reference exact
//@ block   32
//@ grid    ceil_div(n, 32)
#include "kiln/device.h"
extern "C" __global__ void twice(int n, const float* x, float* y) {
    const int i = blockIdx.x * 32 + threadIdx.x;
    if (i < n) y[i] = FACTOR * x[i];
}
)";

constexpr const char* kReference = R"(// twice_reference: FACTOR * x
//@ kernel  twice_reference
//@ param   FACTOR int in 1..4 = 2
//@ backend host
//@ block   1
//@ grid    count
#include "kiln/reference.h"
extern "C" __global__ void twice_reference(long long count, const long long* which, double* expected, double* bound,
                                           const float* x) {
    const long long i = blockIdx.x;
    expected[i] = FACTOR * double(x[which ? which[i] : i]);
    bound[i] = kiln::unit_roundoff<float> * fabs(expected[i]);
}
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
}

class Regress : public testing::Test {
  protected:
    Regress() {
        write("twice.cu", kDouble);
        write("twice_reference.cu", kReference);
        options_.service.template_directories = {templates_.path()};
        options_.targets = {{Backend::host, host_arch()}};
        options_.baselines = baselines_.path() / "baselines";
    }

    void write(const std::string& name, const std::string& text) {
        write_text(templates_.path() / name, text);
    }

    RegressReport run(const std::string& manifest = "twice FACTOR=2,3", bool update = false) {
        options_.update = update;
        return regress({Manifest::parse(manifest, "variants.txt")}, options_);
    }
    std::filesystem::path file() const {
        return options_.baselines / Baselines::file_name(options_.targets.front());
    }

    TemporaryDirectory templates_, baselines_;
    RegressOptions options_;
};

TEST_F(Regress, RecordsThenFindsTheSame) {
    const RegressReport fresh = run();
    ASSERT_THAT(fresh.results, SizeIs(2));
    EXPECT_EQ(fresh.results[0].status, RegressStatus::fresh);
    EXPECT_FALSE(fresh.pass()) << "what has no baseline is not guarded";
    EXPECT_FALSE(std::filesystem::exists(file())) << "nothing is written without --update";

    (void)run("twice FACTOR=2,3", true);
    const RegressReport again = run();
    ASSERT_THAT(again.results, SizeIs(2));
    for (const RegressResult& result : again.results) {
        EXPECT_EQ(result.status, RegressStatus::same) << result.variant;
        EXPECT_THAT(result.failures, IsEmpty());
        EXPECT_TRUE(result.run);
    }
    EXPECT_TRUE(again.pass());
    EXPECT_THAT(again.gone, IsEmpty());

    const Baselines recorded = Baselines::load(options_.baselines, options_.targets.front());
    ASSERT_THAT(recorded.variants, SizeIs(2));
    const Baseline& two = recorded.variants.at("twice FACTOR=2");
    EXPECT_THAT(two.ingredients, SizeIs(64));
    EXPECT_THAT(two.random_result, SizeIs(64));
    EXPECT_THAT(two.integer_result, SizeIs(64));
    EXPECT_NE(two.integer_result, recorded.variants.at("twice FACTOR=3").integer_result);
    EXPECT_GT(two.resources.binary_bytes, 0u);
    EXPECT_EQ(two.worst, 0) << "a product by two is exact";
}

TEST_F(Regress, AChangedTemplateFailsUntilItIsRecorded) {
    (void)run("twice", true);
    write("twice.cu", replaced(kDouble, "FACTOR * x[i];", "x[i] * FACTOR;"));
    const RegressReport changed = run("twice");
    ASSERT_THAT(changed.results, SizeIs(1));
    EXPECT_EQ(changed.results[0].status, RegressStatus::failed);
    EXPECT_THAT(changed.results[0].moves, Contains(Field(&Move::what, "ingredients")));
    EXPECT_THAT(changed.results[0].failures, IsEmpty()) << "it is still right";
    (void)run("twice", true);
    EXPECT_TRUE(run("twice").pass());
}

TEST_F(Regress, AWrongResultFailsAndIsNeverRecorded) {
    (void)run("twice", true);
    const std::string recorded = *read_text_if_exists(file());
    write("twice.cu", replaced(kDouble, "if (i < n)", "if (i < n - 1)"));
    const RegressReport wrong = run("twice", true);
    ASSERT_THAT(wrong.results, SizeIs(1));
    EXPECT_EQ(wrong.results[0].status, RegressStatus::failed);
    EXPECT_THAT(wrong.results[0].failures, Contains(HasSubstr("y")));
    EXPECT_EQ(*read_text_if_exists(file()), recorded);
}

constexpr const char* kExactOutput = "//@ output  y [n] by twice_reference exact\n";

/// The template with `total` behind or instead of y: the same, and a little more; of any order.
std::string with_any_order(const std::string& y_line, const std::string& little) {
    std::string text =
        replaced(kDouble, kExactOutput, y_line + "//@ output  total [n] by about_reference any_order\n");
    text = replaced(
        text, "const float* x, float* y)",
        y_line.empty() ? "const float* x, float* total)" : "const float* x, float* y, float* total)");
    return replaced(text, "if (i < n) y[i] = FACTOR * x[i];",
                    "if (i >= n) return;\n    total[i] = FACTOR * x[i] + " + little + ";\n" +
                        (y_line.empty() ? "" : "    y[i] = FACTOR * x[i];"));
}

class RegressAnyOrder : public Regress {
  protected:
    RegressAnyOrder() {
        std::string about = replaced(kReference, "void twice_reference", "void about_reference");
        about = replaced(about, "// twice_reference", "// about_reference");
        about = replaced(about, "kernel  twice_reference", "kernel  about_reference");
        write("about_reference.cu",
              replaced(about, "kiln::unit_roundoff<float> * fabs(expected[i])", "1e-3"));
    }
};

TEST_F(RegressAnyOrder, BitsMayDifferFromLaunchToLaunch) {
    for (const std::string y : {"", kExactOutput}) {
        write("twice.cu", kDouble);
        (void)run("twice", true);  // digests of y, which go with it
        write("twice.cu", with_any_order(y, "1e-6f * (clock64() / 16 % 500)"));
        for (const RegressResult& result : run("twice", true).results)
            EXPECT_THAT(result.failures, IsEmpty());
        const Baselines recorded = Baselines::load(options_.baselines, options_.targets.front());
        const Baseline& two = recorded.variants.at("twice FACTOR=2");
        EXPECT_THAT(two.random_result, SizeIs(y.empty() ? 0 : 64));
        EXPECT_THAT(two.integer_result, SizeIs(y.empty() ? 0 : 64));
        for (const RegressResult& result : run("twice").results) {
            EXPECT_EQ(result.status, RegressStatus::same);
            EXPECT_THAT(result.failures, IsEmpty());
        }
    }
}

TEST_F(RegressAnyOrder, OtherOutputsMayNot) {
    write("twice.cu", with_any_order("//@ output  y [n] by about_reference\n", "0"));
    (void)run("twice", true);
    Baselines recorded = Baselines::load(options_.baselines, options_.targets.front());
    recorded.variants.at("twice FACTOR=2").random_result[0] = '_';
    recorded.save(options_.baselines, options_.targets.front());
    EXPECT_THAT(run("twice").results.at(0).moves, Contains(Field(&Move::what, "result of random data")));
}

// Each run has a process of its own; the first, that of the fresh kernel, leaves its number as a link.
TEST_F(RegressAnyOrder, TheCachedKernelIsHeldToTheReferenceToo) {
    options_.service.isolate_host = true;
    const std::string link = '"' + (baselines_.path() / "first").string() + '"';
    write("twice.cu",
          replaced(with_any_order("", "(is_first_process() ? 0 : 1)"), "extern \"C\"",
                   "#include <unistd.h>\n\n#include <string>\n\nbool is_first_process() {\n"
                   "    const std::string own = std::to_string(getpid());\n    if (symlink(own.c_str(), " +
                       link + ") == 0) return true;\n    char first[32] = {};\n    return readlink(" + link +
                       ", first, 31) > 0 && own == first;\n}\n\nextern \"C\""));
    EXPECT_THAT(run("twice").results.at(0).failures,
                Contains(HasSubstr(
                    "random inputs: the cached kernel: 37 of 37 checked elements of total are wrong")));
}

TEST_F(Regress, ATemplateThatDoesNotCompileIsOneFailureAmongOthers) {
    write("broken.cu",
          replaced(replaced(replaced(kDouble, "twice: y", "broken: y"), "kernel  twice", "kernel  broken"),
                   "void twice(", "void broken(") +
              "int x = ;\n");
    const RegressReport report = run("broken\ntwice");
    ASSERT_THAT(report.results, SizeIs(2));
    EXPECT_EQ(report.results[0].status, RegressStatus::failed);
    EXPECT_THAT(report.results[0].failures, Contains(HasSubstr("broken.cu")));
    EXPECT_TRUE(report.results[1].failures.empty());
}

TEST_F(Regress, ReportsBaselinesThatNoManifestNamesAndRemovesThem) {
    (void)run("twice FACTOR=2,3", true);
    const RegressReport one = run("twice");
    ASSERT_THAT(one.gone, SizeIs(1));
    EXPECT_THAT(one.gone[0], HasSubstr("FACTOR=3"));
    EXPECT_TRUE(one.pass());
    options_.templates = {"twice"};
    EXPECT_THAT(run("twice").gone, IsEmpty()) << "a part of the manifest says nothing of the rest";
    options_.templates.clear();
    (void)run("twice", true);
    EXPECT_THAT(Baselines::load(options_.baselines, options_.targets.front()).variants, SizeIs(1));
}

TEST_F(Regress, KeepsTheBaselinesOfTemplatesThatTheManifestsDoNotName) {
    write("thrice.cu",
          replaced(replaced(replaced(kDouble, "twice: y", "thrice: y"), "kernel  twice", "kernel  thrice"),
                   "void twice(", "void thrice("));
    (void)run("twice\nthrice", true);
    EXPECT_THAT(run("twice", true).gone, IsEmpty());
    EXPECT_THAT(Baselines::load(options_.baselines, options_.targets.front()).variants, SizeIs(2));
    std::filesystem::remove(templates_.path() / "thrice.cu");
    EXPECT_THAT(run("twice", true).gone, IsEmpty()) << "it may lie in another directory";
    EXPECT_THAT(Baselines::load(options_.baselines, options_.targets.front()).variants, SizeIs(2));
    options_.service.template_directories.clear();
    EXPECT_THAT(run("copy", true).gone, IsEmpty()) << "nor is it gone where no directory is named";
    EXPECT_THAT(Baselines::load(options_.baselines, options_.targets.front()).variants, SizeIs(3));
}

TEST_F(Regress, AMistakeInAHeaderIsAFailureAndNoMissingCompiler) {
    (void)run("twice", true);
    const TemporaryDirectory headers;
    write_text(headers.path() / "table.h", "asm(\".incbin \\\"table.bin\\\"\");\n");
    options_.service.include_directories = {headers.path()};
    write("a_table.cu",
          replaced(replaced(replaced(replaced(kDouble, "twice: y", "a_table: y"), "kernel  twice",
                                     "kernel  a_table"),
                            "void twice(", "void a_table("),
                   "#include \"kiln/device.h\"", "#include \"kiln/device.h\"\n#include <table.h>"));
    write("twice.cu", replaced(kDouble, "FACTOR * x[i];", "FACTOR * x[i] + 1;"));
    const RegressReport report = run("a_table\ntwice");
    EXPECT_THAT(report.skipped, IsEmpty());
    ASSERT_THAT(report.results, SizeIs(2));
    for (const RegressResult& result : report.results)
        EXPECT_EQ(result.status, RegressStatus::failed) << result.variant;
    EXPECT_THAT(report.results[0].failures, Contains(HasSubstr("table.h")));
}

TEST_F(Regress, RunsAtTheSameTimeKeepEachOthersBaselines) {
    const auto recorded = [&] {
        std::vector<std::string> texts;
        for (const auto& [text, baseline] : Baselines::load(options_.baselines, options_.targets[0]).variants)
            texts.push_back(text);
        return texts;
    };
    // The other run begins and ends in this one.
    const auto with_another = [&](const RegressOptions& one, const std::string& manifest,
                                  RegressOptions other, const std::string& others_manifest) {
        RegressOptions options = one;
        options.update = other.update = true;
        options.on_result = [&](const RegressResult&, std::size_t, std::size_t) {
            (void)regress({Manifest::parse(others_manifest, "variants.txt")}, other);
        };
        (void)regress({Manifest::parse(manifest, "variants.txt")}, options);
    };
    RegressOptions first = options_, second = options_;
    first.shards = second.shards = 2;
    second.shard = 1;
    with_another(first, "twice FACTOR=2,3", second, "twice FACTOR=2,3");
    EXPECT_THAT(recorded(), ElementsAre("twice FACTOR=2", "twice FACTOR=3"));

    RegressOptions part = options_;
    part.templates = {"twice"};
    with_another(options_, "twice FACTOR=2", part, "twice FACTOR=4");
    EXPECT_THAT(recorded(), ElementsAre("twice FACTOR=2", "twice FACTOR=4"))
        << "what no manifest named when the run began goes, and nothing else";
    EXPECT_FALSE(std::filesystem::exists(file().string() + ".lock"));
}

TEST_F(Regress, KeepsWhatCouldNotBeMeasured) {
    (void)run("twice", true);
    Baselines recorded = Baselines::load(options_.baselines, options_.targets.front());
    recorded.variants.at("twice FACTOR=2").speeds["NVIDIA H200"] = {0.5, 3.25, 0.8, "copy",
                                                                    std::string(64, 'a')};
    recorded.save(options_.baselines, options_.targets.front());
    (void)run("twice", true);
    const Baselines after = Baselines::load(options_.baselines, options_.targets.front());
    const Speed& speed = after.variants.at("twice FACTOR=2").speeds.at("NVIDIA H200");
    EXPECT_EQ(speed.median_ms, 0.5);
    EXPECT_EQ(speed.times_naive, 3.25);
    EXPECT_EQ(speed.ceiling, "copy");
}

TEST_F(Regress, AManifestThatNamesWhatIsNotThereIsRejectedWithItsLine) {
    try {
        (void)run("\ntwixe");
        FAIL();
    } catch (const TemplateError& error) {
        EXPECT_THAT(error.what(), HasSubstr("variants.txt:2"));
        EXPECT_THAT(error.what(), HasSubstr("twice"));
    }
}

TEST_F(Regress, ADamagedBaselineFileIsRejectedWithItsPlace) {
    (void)run("twice", true);
    write_text(file(), "[twice FACTOR=2]\ningredients = ab\nregisters = many\n");
    try {
        (void)run("twice");
        FAIL();
    } catch (const UsageError& error) {
        EXPECT_THAT(error.what(), HasSubstr("many"));
        EXPECT_THAT(error.what(), HasSubstr("twice FACTOR=2"));
        EXPECT_THAT(error.what(), HasSubstr("delete the file"));
    }
    write_text(file(), "[twice FACTOR=2]\ningredients = ab\nworst = nan\n");
    EXPECT_THROW((void)run("twice"), UsageError);
    write_text(file(), "[twice\n");
    EXPECT_THROW((void)run("twice"), UsageError);
}

TEST_F(Regress, ATemplateThatNoManifestNamesIsRejected) {
    options_.templates = {"twixe"};
    try {
        (void)run("twice");
        FAIL();
    } catch (const UsageError& error) {
        EXPECT_THAT(error.what(), HasSubstr("did you mean twice?"));
    }
}

TEST_F(Regress, AnArchitectureChoosesAmongTheTargets) {
    options_.arch = host_arch();
    const RegressReport report = run("twice\ntwice FACTOR=3 @hip:gfx90a", true);
    ASSERT_THAT(report.results, SizeIs(1));
    EXPECT_EQ(report.results[0].variant, "twice FACTOR=2");
    EXPECT_FALSE(std::filesystem::exists(options_.baselines / "hip-gfx90a.ini"));
}

TEST_F(Regress, NothingToTestIsRejected) {
    options_.backend = Backend::hip;
    EXPECT_THROW((void)run("twice"), UsageError);
}

TEST_F(Regress, ATargetWithoutAnArchitectureIsTheDevicesOwn) {
    const RegressReport report = run("twice\ntwice FACTOR=2,3 @host", true);
    ASSERT_THAT(report.results, SizeIs(2)) << "the same target by two names is one";
    EXPECT_THAT(report.results[1].target.arch, testing::Not(IsEmpty()));
    EXPECT_THAT(Baselines::load(options_.baselines, report.results[1].target).variants,
                Contains(testing::Key("twice FACTOR=3")));
}

TEST_F(Regress, WhatIsStoppedInTheSecondTargetChangesNoBaselineOfTheFirst) {
    options_.targets.push_back({Backend::host, host_arch() == "x86-64" ? "x86-64-v2" : "x86-64"});
    if (!host_arch().starts_with("x86-64")) GTEST_SKIP() << "this machine has one architecture";
    std::stop_source stop;
    options_.service.stop = stop.get_token();
    options_.on_result = [&](const RegressResult&, std::size_t done, std::size_t) {
        if (done == 2) stop.request_stop();
    };
    EXPECT_THROW((void)run("twice", true), UsageError);
    EXPECT_FALSE(std::filesystem::exists(file()));
    options_.service.stop = {};
    options_.on_result = {};
    (void)run("twice", true);
    for (const ManifestTarget& target : options_.targets)
        EXPECT_THAT(Baselines::load(options_.baselines, target).variants, SizeIs(1)) << target.arch;
}

// compare()

Baseline baseline() {
    Baseline result;
    result.ingredients = std::string(64, 'a');
    result.compiler = "NVRTC 13.0";
    result.resources.registers = 40;
    result.resources.spill_bytes = 0;
    result.resources.stack_bytes = 0;
    result.resources.binary_bytes = 10000;
    result.resources.instructions = {{"HMMA", 64}, {"LDS.128", 8}, {"total", 900}, {"FFMA", 3}};
    result.integer_result = std::string(64, 'b');
    result.random_result = std::string(64, 'c');
    return result;
}

bool fails(const Baseline& was, const Baseline& now) {
    return std::ranges::any_of(compare(was, now), &Move::fails);
}

TEST(RegressCompare, WhatMayNotMove) {
    EXPECT_THAT(compare(baseline(), baseline()), IsEmpty());
    Baseline now = baseline();
    now.resources.spill_bytes = 8;
    EXPECT_TRUE(fails(baseline(), now));
    EXPECT_FALSE(fails(now, baseline())) << "fewer spills are no failure";
    EXPECT_THAT(compare(now, baseline()), SizeIs(1));
    now = baseline();
    now.resources.stack_bytes = 16;
    EXPECT_TRUE(fails(baseline(), now));
    now = baseline();
    now.resources.instructions.erase("HMMA");
    EXPECT_TRUE(fails(baseline(), now));
    now.resources.instructions["HMMA"] = 32;
    EXPECT_FALSE(fails(baseline(), now));
    now = baseline();
    now.resources.instructions.erase("FFMA");
    EXPECT_FALSE(fails(baseline(), now)) << "no feature is lost with an FFMA";
    now.resources.instructions.clear();
    EXPECT_THAT(compare(baseline(), now), SizeIs(1)) << "one line says that the code can't be read";
    EXPECT_TRUE(fails(baseline(), now)) << "a guard that sees nothing guards nothing";
    now = baseline();
    now.integer_result[0] = 'x';
    EXPECT_TRUE(fails(baseline(), now));
    now.compiler = "NVRTC 13.1";
    EXPECT_TRUE(fails(baseline(), now)) << "exact results are exact with every compiler";
}

TEST(RegressCompare, WhatACompilerMayMove) {
    Baseline now = baseline();
    now.random_result[0] = 'x';
    EXPECT_TRUE(fails(baseline(), now));
    now.compiler = "NVRTC 13.1";
    now.resources.instructions.erase("LDS.128");
    EXPECT_FALSE(fails(baseline(), now)) << "how wide an access is, is the compiler's choice";
    now.resources.instructions.erase("HMMA");
    EXPECT_TRUE(fails(baseline(), now)) << "matrix cores are the template's";
    now.resources.instructions = baseline().resources.instructions;
    now.resources.registers = 48;
    now.resources.binary_bytes = 12000;
    now.resources.stack_bytes = 24;
    now.resources.spill_bytes = 48;
    EXPECT_FALSE(fails(baseline(), now)) << "how many registers it needs, too";
    EXPECT_THAT(compare(baseline(), now), SizeIs(6)) << "but all of it is told";
}

TEST(RegressCompare, WhatWasNotMeasuredIsNotCompared) {
    Baseline now = baseline();
    now.integer_result.clear();
    EXPECT_TRUE(fails(baseline(), now)) << "it ran, and is no longer exact";
    now.random_result.clear();
    now.resources.registers.reset();
    EXPECT_THAT(compare(baseline(), now), IsEmpty());
}

TEST(RegressBaselines, AFileGivesBackWhatWasWritten) {
    const TemporaryDirectory directory;
    const ManifestTarget target{Backend::cuda, "sm_90a"};
    Baselines written;
    Baseline one = baseline();
    one.worst = 0.03125;
    one.resources.accumulator_registers = 4;
    one.resources.scalar_registers = 5;
    one.resources.static_shared_bytes = 4096;
    one.speeds["NVIDIA H200"] = {0.125, 5.5, 0.75, "matrix", std::string(64, 'a')};
    one.speeds["NVIDIA A100-SXM4-80GB"] = {0.25, std::nullopt, std::nullopt, "", std::string(64, 'd')};
    written.variants["kernel A=1 T=half"] = one;
    written.variants["other"] = baseline();
    written.save(directory.path(), target);
    const Baselines read = Baselines::load(directory.path(), target);
    ASSERT_THAT(read.variants, SizeIs(2));
    const Baseline& back = read.variants.at("kernel A=1 T=half");
    EXPECT_THAT(compare(one, back), IsEmpty());
    EXPECT_EQ(back.worst, one.worst);
    EXPECT_EQ(back.resources.static_shared_bytes, 4096u);
    EXPECT_EQ(back.resources.instructions, one.resources.instructions);
    EXPECT_EQ(back.speeds.at("NVIDIA H200").share, 0.75);
    EXPECT_EQ(back.speeds.at("NVIDIA A100-SXM4-80GB").times_naive, std::nullopt);
    EXPECT_EQ(Baselines::file_name(target), "cuda-sm_90a.ini");
    EXPECT_THAT(Baselines::load(directory.path() / "none", target).variants, IsEmpty());
}

}  // namespace
}  // namespace kiln
