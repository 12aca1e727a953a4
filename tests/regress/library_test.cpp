// SPDX-License-Identifier: Apache-2.0
//
// The library's own variants against their recorded baselines: what `kiln regress` says of this tree. Host: built
// and run; CUDA and HIP: built for their architectures, and run where such a device is here. All of them, or a sample.
#include <gtest/gtest.h>
#include <kiln/tools/regress.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <set>

#include "require.h"

namespace kiln {
namespace {

const char* requirement(Backend backend) {
    return backend == Backend::cuda ? "nvrtc" : backend == Backend::hip ? "hiprtc" : "host";
}

class Library : public testing::TestWithParam<Backend> {};

void expect_as_recorded(Backend backend, bool sample) {
    const char* const source = std::getenv("KILN_TEST_SOURCE_DIR");
    ASSERT_NE(source, nullptr);
    const std::filesystem::path cache = std::filesystem::path(source) / "cache";
    RegressOptions options;
    options.backend = backend;
    options.sample = sample;
    options.baselines = cache / "baselines";
    const RegressReport report = regress({Manifest::load(cache / "variants.txt")}, options);
    KILN_REQUIRE_OR_SKIP(requirement(backend), report.skipped.empty(), report.skipped.front());
    EXPECT_GT(report.results.size(), 100u);
    const auto is_built = [](const RegressResult& result) { return !result.found.compiler.empty(); };
    EXPECT_GT(std::ranges::count_if(report.results, is_built), 30);
    for (const RegressResult& result : report.results) {
        for (const std::string& failure : result.failures) ADD_FAILURE() << result.variant << ": " << failure;
        for (const Move& move : result.moves) {
            // By another compiler than the baseline's: not wrong, but worth a look.
            if (!move.fails && (move.what == "stack bytes" || move.what == "spill bytes"))
                std::cout << "note: " << result.variant << ": " << move.what << " was " << move.was << ", is "
                          << move.now << " with " << result.found.compiler << "\n";
            EXPECT_FALSE(move.fails) << result.variant << ": " << move.what << " was " << move.was << ", is "
                                     << move.now;
        }
        EXPECT_NE(result.status, RegressStatus::fresh)
            << result.variant << " has no baseline; 'kiln regress --update' records it";
    }
    for (const std::string& variant : report.gone) ADD_FAILURE() << variant << " is in no manifest any more";
    // Those of a template that no line names are nobody's, but stay.
    std::set<std::string> named;
    for (const RegressResult& result : report.results)
        named.insert(result.target.arch + " " + result.variant.substr(0, result.variant.find(' ')));
    for (const auto& file : std::filesystem::directory_iterator(options.baselines)) {
        if (!file.path().filename().string().starts_with(name(backend))) continue;
        const std::string arch = file.path().stem().string().substr(name(backend).size() + 1);
        for (const auto& [variant, baseline] : Baselines::load(options.baselines, {backend, arch}).variants)
            EXPECT_TRUE(named.contains(arch + " " + variant.substr(0, variant.find(' '))))
                << variant << " of " << file.path().filename()
                << " is of a template that no manifest names; delete its lines";
    }
}

TEST_P(Library, IsWhatItsBaselinesSay) { expect_as_recorded(GetParam(), false); }

TEST_P(Library, SampleIsWhatItsBaselinesSay) { expect_as_recorded(GetParam(), true); }

INSTANTIATE_TEST_SUITE_P(Backends, Library, testing::Values(Backend::host, Backend::cuda, Backend::hip),
                         [](const auto& item) { return std::string(name(item.param)); });

}  // namespace
}  // namespace kiln
