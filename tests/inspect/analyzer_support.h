// SPDX-License-Identifier: Apache-2.0
//
// Analyses without a GPU: for sm_90a or gfx90a, with templates of the test's own and one cache for all tests.
#pragma once

#include <gmock/gmock.h>
#include <kiln/error.h>
#include <kiln/tools/analyze.h>

#include <memory>
#include <string>

#include "base/file.h"
#include "require.h"

namespace kiln::test {

class Analyzing : public ::testing::Test {
  protected:
    /// A template that find() sees; before the first target().
    void add_template(const std::string& name, const std::string& text) {
        write_text(folder_.path() / (name + ".cu"), text);
    }

    /// The text of a built-in template with one piece of it replaced, which must be there once.
    static std::string changed(const std::string& built_in, const std::string& from, const std::string& to) {
        ServiceOptions options;
        options.backend = Backend::host;
        options.compile_only = true;
        options.cache.enabled = false;
        Service service(std::move(options));
        const Variant variant = service.find(built_in).variant();
        std::string text = service.source(variant).text;
        text.erase(0, text.find('\n', text.find("#line 1 ")) + 1);
        const std::size_t at = text.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        EXPECT_EQ(text.find(from, at + 1), std::string::npos) << from;
        return at == std::string::npos ? text : text.replace(at, from.size(), to);
    }
    /// The number of the line that holds `piece`.
    static int line_of(const std::string& text, const std::string& piece) {
        const std::size_t at = text.find(piece);
        EXPECT_NE(at, std::string::npos) << piece;
        return 1 + static_cast<int>(
                       std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    }

    Service& target(const std::string& arch = "sm_90a") {
        if (!service_) service_ = std::make_unique<Service>(target_options(arch, cache().path()));
        return *service_;
    }
    ServiceOptions target_options(const std::string& arch, const std::filesystem::path& cache) const {
        ServiceOptions options;
        if (arch == "host")
            options.backend = Backend::host;
        else
            options.arch = arch;
        options.compile_only = true;
        options.template_directories = {folder_.path()};
        options.cache.directory = cache;
        return options;
    }
    Variant variant(const std::string& name, const Values& values = {}) {
        return target().find(name).variant(values);
    }

    static const Advice* advice_with(const Analysis& analysis, const std::string& words) {
        for (const Advice& one : analysis.advice)
            if (one.text.find(words) != std::string::npos) return &one;
        return nullptr;
    }
    static std::string all_advice(const Analysis& analysis) {
        std::string text;
        for (const Advice& one : analysis.advice) text += one.text + "\n";
        return text;
    }

  private:
    static TemporaryDirectory& cache() {
        static TemporaryDirectory directory;
        return directory;
    }

    TemporaryDirectory folder_;
    std::unique_ptr<Service> service_;
};

}  // namespace kiln::test

/// Goes on where NVRTC and a C++ compiler are here.
#define KILN_ANALYZE_OR_SKIP()                                         \
    try {                                                              \
        (void)target().compile(target().find("gemm_naive").variant()); \
    } catch (const kiln::BuildError& error) {                          \
        KILN_REQUIRE_OR_SKIP("nvrtc", false, error.what());            \
    }                                                                  \
    static_assert(true)
