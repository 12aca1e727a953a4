// SPDX-License-Identifier: Apache-2.0
//
// The model held to hardware: every row that was measured on a GPU is predicted again, without one, and must come
// out as it was measured, or as the row says and explains.
#include <gtest/gtest.h>
#include <kiln/error.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <thread>

#include "base/file.h"
#include "model_data.h"
#include "require.h"

namespace kiln::test {
namespace {

std::filesystem::path source_directory() {
    const char* directory = std::getenv("KILN_TEST_SOURCE_DIR");
    return directory != nullptr ? directory : ".";
}

constexpr int kLeastRegisters = 16;

model::Data data() { return model::load(source_directory() / "tests/model/data/h200_counters.csv"); }

TEST(MeasuredData, CoversWhatTheModelIsAbout) {
    const model::Data all = data();
    EXPECT_GE(all.rows.size(), 60u);
    std::map<std::string, int> count;
    std::set<std::string> seen, pads;
    int conflicts = 0;
    for (const model::Row& row : all.rows) {
        EXPECT_TRUE(seen.insert(row.variant + " " + row.sizes).second) << row.variant << " is there twice";
        ++count[row.template_name()];
        if (row.template_name() == "gemm_tiled") {
            const std::size_t at = row.variant.find(" PAD=");
            pads.insert(row.variant.substr(at + 5, row.variant.find(' ', at + 1) - at - 5));
        }
        conflicts += row.wavefronts > row.ideal;
        EXPECT_GE(row.wavefronts, row.ideal) << row.variant;
        EXPECT_NE(row.explanation, model::kUnexplained) << row.variant;
    }
    EXPECT_GE(count["transpose_tiled"], 16);
    EXPECT_GE(count["gemm_tiled"], 15);
    EXPECT_GE(count["lab_banks"], 19);
    EXPECT_GE(count.size(), 20u) << "templates";
    EXPECT_EQ(pads, (std::set<std::string>{"0", "1", "2", "4", "8"}));
    EXPECT_GE(conflicts, 20) << "a model that knows no conflict would pass";
    for (const char* what : {"machine: ", "driver: ", "profiler: ", "compiler: ", "date: "})
        EXPECT_TRUE(std::ranges::any_of(all.about, [&](const auto& one) { return one.starts_with(what); }))
            << what;
}

TEST(MeasuredData, IsWrittenAsItIsRead) {
    const auto file = source_directory() / "tests/model/data/h200_counters.csv";
    EXPECT_EQ(model::text(data()), read_text_if_exists(file).value_or(""));
}

TEST(MeasuredData, IsTheTableOfTheDocument) {
    const auto page = read_text_if_exists(source_directory() / "docs/counters.md");
    ASSERT_TRUE(page);
    EXPECT_NE(page->find(model::table(data())), std::string::npos)
        << "put the output of 'model_table tests/model/data/h200_counters.csv' into docs/counters.md";
}

TEST(Model, PredictsWhatWasMeasured) {
    std::string compiler;
    {
        ServiceOptions options;
        options.backend = Backend::cuda;
        options.arch = "sm_90a";
        options.compile_only = true;
        options.cache.enabled = false;
        Service service(options);
        std::string why;
        try {
            compiler = service.compile(service.find("copy").variant()).binary.compiler;
        } catch (const BuildError& error) {
            why = error.what();
        }
        KILN_REQUIRE_OR_SKIP("nvrtc", why.empty(), why);
    }
    const model::Data all = data();
    // Another compiler may use more or fewer registers.
    const bool is_compiler_of_data = std::ranges::any_of(all.about, [&](const std::string& line) {
        return compiler.starts_with(line.substr(line.find(' ') + 1));
    });
    const TemporaryDirectory cache;
    const auto found =
        model::predict(all, "sm_90a", cache.path(), std::max(2u, std::thread::hardware_concurrency()));
    for (std::size_t i = 0; i < found.size(); ++i) {
        const model::Row& row = all.rows[i];
        const model::Prediction& one = found[i];
        const std::string what = row.variant + " " + row.sizes;
        EXPECT_EQ(one.problem, "") << what;
        std::string lines;
        for (const std::string& line : one.lines) lines += "\n    " + line;
        EXPECT_EQ(one.wavefronts, row.expected_wavefronts())
            << what << ", measured " << row.wavefronts << lines;
        EXPECT_EQ(one.ideal, row.expected_ideal()) << what << ", measured " << row.ideal << lines;
        // The profiler tells what a launch takes, which is 16 registers at least.
        if (is_compiler_of_data && row.registers) {
            EXPECT_EQ(static_cast<std::uint64_t>(std::max(one.registers.value_or(0), kLeastRegisters)),
                      *row.registers)
                << what;
        }
    }
}

}  // namespace
}  // namespace kiln::test
