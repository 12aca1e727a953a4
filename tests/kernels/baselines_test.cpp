// SPDX-License-Identifier: Apache-2.0
//
// The recorded baselines themselves: results that must be exact are the same bits on every backend, and every
// template is guarded.
#include <gtest/gtest.h>
#include <kiln/kiln.h>
#include <kiln/manifest.h>
#include <kiln/tools/regress.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "base/file.h"

namespace kiln {
namespace {

std::filesystem::path source_directory() {
    const char* directory = std::getenv("KILN_TEST_SOURCE_DIR");
    return directory != nullptr ? directory : ".";
}

Service library() {
    ServiceOptions options;
    options.backend = Backend::host;
    options.compile_only = true;
    options.cache.enabled = false;
    return Service(options);
}

std::map<std::string, Baselines> recorded() {
    std::map<std::string, Baselines> result;
    for (const ManifestTarget& target : RegressOptions::default_targets())
        result[Baselines::file_name(target)] =
            Baselines::load(source_directory() / "cache/baselines", target);
    return result;
}

bool is_exact(const Template& of) {
    return std::ranges::all_of(of.tensors(), [](const TensorArgument& tensor) {
        return tensor.exact || (tensor.role != TensorRole::output && tensor.role != TensorRole::inout);
    });
}

TEST(RecordedBaselines, ExactResultsAreTheSameBitsOnEveryBackend) {
    const Service service = library();
    std::map<std::string, std::map<std::string, std::string>> results;  // variant -> target -> digest
    for (const auto& [file, baselines] : recorded())
        for (const auto& [variant, baseline] : baselines.variants)
            if (!baseline.integer_result.empty() &&
                is_exact(service.find(variant.substr(0, variant.find(' ')))))
                results[variant][file] = baseline.integer_result;
    int compared = 0;
    for (const auto& [variant, by_target] : results) {
        for (const auto& [target, digest] : by_target) {
            EXPECT_EQ(digest, by_target.begin()->second)
                << variant << ": " << target << " and " << by_target.begin()->first;
            compared += by_target.size() > 1;
        }
    }
    EXPECT_GT(compared, 20) << "there is little that two backends have run";
}

// hipRTC's compiler spills scalar registers into lanes of vector registers where it likes; those count there.
TEST(RecordedBaselines, NoKernelSpillsOnCuda) {
    for (const auto& [file, baselines] : recorded()) {
        if (!file.starts_with("cuda")) continue;
        for (const auto& [variant, baseline] : baselines.variants) {
            EXPECT_EQ(baseline.resources.spill_bytes.value_or(0), 0u) << file << ": " << variant;
            EXPECT_EQ(baseline.resources.stack_bytes.value_or(0), 0u) << file << ": " << variant;
        }
    }
}

TEST(RecordedBaselines, NoResultIsBeyondItsBound) {
    for (const auto& [file, baselines] : recorded())
        for (const auto& [variant, baseline] : baselines.variants)
            EXPECT_LE(baseline.worst.value_or(0), 1) << file << ": " << variant;
}

TEST(RecordedBaselines, EveryTemplateIsInTheManifest) {
    const Manifest manifest = Manifest::load(source_directory() / "cache/variants.txt");
    std::set<std::string> named;
    for (const ManifestLine& line : manifest.lines) named.insert(line.template_name);
    for (const Template& one : library().templates())
        EXPECT_TRUE(one.is_reference() || named.contains(one.name())) << one.name();
}

TEST(RecordedBaselines, ThePageOfKernelsIsUpToDate) {
    const auto page = read_text_if_exists(source_directory() / "docs/kernels.md");
    ASSERT_TRUE(page);
    const Service service = library();
    EXPECT_NE(page->find(kernels_page(service, source_directory() / "cache/baselines")), std::string::npos)
        << "write it by 'kiln regress --table --page docs/kernels.md'";
}

}  // namespace
}  // namespace kiln
