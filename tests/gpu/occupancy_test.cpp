// SPDX-License-Identifier: Apache-2.0
//
// Occupancy as it is calculated from a binary, against the driver's own answer for the same kernel.
// KILN_WRITE_OCCUPANCY=FILE writes what the driver said, as data for a test without a GPU.
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <kiln/occupancy.h>
#include <kiln/service.h>
#include <kiln/tools/resources.h>

#include <cstdlib>
#include <deque>
#include <random>

#include "base/file.h"
#include "require.h"
#include "variants.h"

namespace kiln::test {
namespace {

constexpr std::size_t kVariants = 200;

/// Of all templates that run on the service's target, one after the other, a random variant each time.
std::vector<Variant> some_variants(const Service& service) {
    std::mt19937 random(20261121);
    std::vector<std::deque<Variant>> drawn;
    for (const Template& one : service.templates()) {
        if (one.is_reference() || !one.runs_on(Backend::cuda, service.target().arch)) continue;
        auto variants = random_variants(one, random, kVariants / 10);
        drawn.emplace_back(variants.begin(), variants.end());
    }
    std::vector<Variant> result;
    for (bool any = true; any && result.size() < kVariants;) {
        any = false;
        for (std::deque<Variant>& variants : drawn) {
            if (variants.empty() || result.size() == kVariants) continue;
            any = true;
            result.push_back(variants.front());
            variants.pop_front();
        }
    }
    return result;
}

TEST(OccupancyOnGpu, IsWhatTheDriverSaysOf200RandomVariants) {
    std::string reason;
    KILN_REQUIRE_OR_SKIP("gpu", !Device::list(Backend::cuda, &reason).empty(), reason);
    const TemporaryDirectory cache;
    ServiceOptions options;
    options.backend = Backend::cuda;
    options.cache.directory = cache.path();
    Service service(options);
    const std::vector<Variant> variants = some_variants(service);
    ASSERT_EQ(variants.size(), kVariants);

    // All cores compile; loading is quick.
    std::vector<std::future<Compiled>> compiling;
    for (const Variant& variant : variants) compiling.push_back(service.compile_async(variant));
    const std::string& arch = service.target().arch;
    std::string rows = "arch,threads,registers,static,dynamic,blocks,variant\n";
    std::set<int> answers;
    for (std::size_t i = 0; i < kVariants; ++i) {
        const std::string& what = variants[i].text();
        const Resources resources = resources_of(compiling[i].get().binary);
        const BuildInfo info = service.build(variants[i]).info();
        if (!info.blocks_per_multiprocessor) {
            ADD_FAILURE() << what << ": the driver gave no answer";
            continue;
        }
        BlockNeeds needs;
        needs.threads = static_cast<int>(variants[i].block().count());
        needs.registers = resources.registers.value_or(-1);
        needs.static_shared_bytes = resources.static_shared_bytes.value_or(0);
        needs.dynamic_shared_bytes = variants[i].dynamic_shared_bytes();
        EXPECT_EQ(needs.registers, info.registers) << what;
        EXPECT_EQ(needs.static_shared_bytes, info.static_shared_bytes) << what;
        const Occupancy found = occupancy(needs, Backend::cuda, arch);
        EXPECT_EQ(found.blocks, *info.blocks_per_multiprocessor)
            << what << ": by threads " << found.by_threads << ", registers " << found.by_registers
            << ", shared memory " << found.by_shared << ", blocks " << found.by_blocks;
        answers.insert(*info.blocks_per_multiprocessor);
        rows += arch + "," + std::to_string(needs.threads) + "," + std::to_string(needs.registers) + "," +
                std::to_string(needs.static_shared_bytes) + "," + std::to_string(needs.dynamic_shared_bytes) +
                "," + std::to_string(*info.blocks_per_multiprocessor) + "," + what + "\n";
    }
    EXPECT_GE(answers.size(), 8u) << "the variants are too much alike to prove anything";
    if (const char* file = std::getenv("KILN_WRITE_OCCUPANCY")) write_text(file, rows);
}

}  // namespace
}  // namespace kiln::test
