// SPDX-License-Identifier: Apache-2.0
//
// Pages as a headless Chromium shows them, at the width of a phone and of a desk: check_page.py says what is looked
// at. Screenshots stay in the build folder. Skipped, loudly, where there is no browser.
#include <gtest/gtest.h>
#include <kiln/tools/report.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/dynamic_library.h"
#include "base/file.h"
#include "base/process.h"
#include "report_sample.h"
#include "require.h"

namespace kiln::test {
namespace {

/// The first of these in PATH; empty: none.
std::string program(const std::vector<std::string>& names) {
    const char* const path = std::getenv("PATH");
    std::string left = path == nullptr ? "" : path;
    std::vector<std::string> folders;
    for (std::size_t end = 0; !left.empty(); left.erase(0, end + 1)) {
        end = std::min(left.find(':'), left.size() - 1);
        folders.push_back(left.substr(0, left.find(':')));
    }
    std::error_code ignored;
    for (const std::string& name : names)
        for (const std::string& folder : folders)
            if (std::filesystem::exists(std::filesystem::path(folder) / name, ignored))
                return folder + "/" + name;
    return {};
}

class ReportBrowser : public ::testing::Test {
  protected:
    void SetUp() override {
        browser_ = program({"chromium", "chromium-browser", "google-chrome", "chrome-headless-shell"});
        KILN_REQUIRE_OR_SKIP("browser", !browser_.empty(),
                             "no Chromium in PATH (apt-get install chromium): the page is not looked at");
        python_ = program({"python3"});
        KILN_REQUIRE_OR_SKIP("browser", !python_.empty(), "no python3 in PATH: the page is not looked at");
    }

    void expect_good(const std::string& name, const std::vector<ReportItem>& items,
                     const ReportOptions& options = {}) {
        const auto folder = own_directory().parent_path() / "reports";
        std::filesystem::create_directories(folder);
        const auto page = folder / (name + ".html");
        write_text(page, report_html(items, options));
        ProcessRequest request;
        request.arguments = {
            python_, std::string(std::getenv("KILN_TEST_SOURCE_DIR")) + "/tests/browser/check_page.py",
            browser_, page.string(), folder.string()};
        request.timeout = std::chrono::seconds(200);
        const ProcessResult result = run_process(request);
        EXPECT_EQ(result.exit_status, 0) << result.output << result.error;
        EXPECT_TRUE(std::filesystem::exists(folder / (name + "-phone-dark.png")));
    }

    std::string browser_, python_;
};

TEST_F(ReportBrowser, OneVariant) { expect_good("one", {sample_item(0)}); }

TEST_F(ReportBrowser, EightVariants) {
    std::vector<ReportItem> items;
    for (int pad = 0; pad < 8; ++pad) items.push_back(sample_item(pad));
    items[3].measured_ms = 0.2;
    expect_good("eight", items,
                {"", "kiln report tile PAD=0,1,2,3,4,5,6,7 --arch sm_90a --size n=4096 --output report.html",
                 "Linux x86_64, 2 cores", "2026-11-21 22:05 UTC", "0.1.0"});
}

// Words without a place to break, and markup in all of them.
TEST_F(ReportBrowser, HostileText) {
    ReportItem item = sample_item(0);
    const std::string word = std::string(300, 'w') + "<script>console.error('ran')</script>";
    item.summary = word;
    item.analysis.variant = "tile T=" + word;
    item.analysis.advice = {{Advice::Weight::warning, word, word}};
    item.analysis.shared[0].site.variable = word;
    item.analysis.chip_name = word;
    item.source += word;
    expect_good("hostile", {item}, {word, word, word, word, word});
}

}  // namespace
}  // namespace kiln::test
