// SPDX-License-Identifier: Apache-2.0
//
// Every built-in template, at its defaults and with each parameter at the ends of its list, compiled for
// real for every architecture: no GPU is needed for that.
#include <gtest/gtest.h>
#include <kiln/kiln.h>

#include <cstring>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "compile/compiler.h"
#include "require.h"

namespace kiln {
namespace {

struct Case {
    Backend backend;
    std::string arch;
};

void PrintTo(const Case& item, std::ostream* out) { *out << name(item.backend) << "_" << item.arch; }

// The compiler's absence as text; empty when it is there.
std::string missing_compiler(Backend backend) {
    try {
        const auto compiler = backend == Backend::cuda ? std::unique_ptr<Compiler>(make_nvrtc_compiler())
                              : backend == Backend::hip
                                  ? make_hiprtc_compiler(std::make_shared<WorkerPool>(WorkerLimits{}))
                                  : make_host_compiler({});
        (void)compiler->identity();
        return {};
    } catch (const BuildError& error) {
        return error.what();
    }
}

const char* requirement(Backend backend) {
    return backend == Backend::cuda ? "nvrtc" : backend == Backend::hip ? "hiprtc" : "host";
}

// The default, and for each parameter its first and last value in the legal variant that changes the
// fewest of the other values.
std::vector<Variant> corners(const Template& item) {
    const Variant defaults = item.variant();
    std::vector<Variant> result = {defaults};
    for (const auto& parameter : item.parameters()) {
        const auto ends = parameter.allowed.empty()
                              ? std::vector<Value>{Value(static_cast<long long>(parameter.min)),
                                                   Value(static_cast<long long>(parameter.max))}
                              : std::vector<Value>{parameter.allowed.front(), parameter.allowed.back()};
        for (const Value& value : ends) {
            const auto legal = item.variants({{parameter.name, value}});
            const Variant* best = nullptr;
            int best_changes = 0;
            for (const auto& candidate : legal) {
                int changes = 0;
                for (const auto& [key, chosen] : candidate.values())
                    changes += !(chosen == defaults.value(key));
                if (best == nullptr || changes < best_changes) best = &candidate, best_changes = changes;
            }
            // A value that no legal variant has is there to be refused with a reason (TILE = 64).
            if (best != nullptr) result.push_back(*best);
        }
    }
    return result;
}

class Templates : public testing::TestWithParam<Case> {};

TEST_P(Templates, CompileAtDefaultsAndCorners) {
    const auto& [backend, arch] = GetParam();
    const std::string missing = missing_compiler(backend);
    KILN_REQUIRE_OR_SKIP(requirement(backend), missing.empty(), missing);
    ServiceOptions options;
    options.backend = backend;
    options.arch = arch;
    options.compile_only = true;
    options.cache.enabled = false;
    Service service(options);

    int compiled = 0;
    for (const auto& item : service.templates()) {
        std::set<std::string> done;
        for (const auto& variant : corners(item)) {
            if (!done.insert(variant.text()).second) continue;
            SCOPED_TRACE(variant.text() + " for " + arch);
            const Binary binary = service.compile(variant).binary;
            ++compiled;
            EXPECT_EQ(binary.entry, item.name());
            ASSERT_GE(binary.bytes.size(), 4u);
            EXPECT_EQ(std::memcmp(binary.bytes.data(), "\177ELF", 4), 0);
            if (backend != Backend::cuda) continue;
            // "N bytes spill stores". A few are ptxas's own trade for another block per multiprocessor, and
            // differ from one version to the next; more would be a template's mistake.
            std::smatch spills;
            ASSERT_TRUE(std::regex_search(binary.log, spills, std::regex("([0-9]+) bytes spill stores")))
                << binary.log;
            EXPECT_LE(std::stoi(spills[1].str()), 64) << binary.log;
            EXPECT_EQ(binary.log.find("warning"), std::string::npos) << binary.log;
        }
    }
    EXPECT_GT(compiled, 20);
}

INSTANTIATE_TEST_SUITE_P(Nvrtc, Templates,
                         testing::Values(Case{Backend::cuda, "sm_75"}, Case{Backend::cuda, "sm_80"},
                                         Case{Backend::cuda, "sm_90a"}, Case{Backend::cuda, "sm_100a"}),
                         [](const auto& item) { return item.param.arch; });
INSTANTIATE_TEST_SUITE_P(Hiprtc, Templates,
                         testing::Values(Case{Backend::hip, "gfx90a"}, Case{Backend::hip, "gfx1030"}),
                         [](const auto& item) { return item.param.arch; });
INSTANTIATE_TEST_SUITE_P(Host, Templates,
                         testing::Values(Case{Backend::host, "x86-64-v2"}, Case{Backend::host, "x86-64-v3"}),
                         [](const auto& item) { return item.param.arch == "x86-64-v2" ? "v2" : "v3"; });

}  // namespace
}  // namespace kiln
