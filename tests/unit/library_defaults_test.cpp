// SPDX-License-Identifier: Apache-2.0
//
// The built-in templates' defaults: legal for every value of their types and switches, wherever they run.
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <kiln/service.h>

#include <string>
#include <utility>
#include <vector>

namespace kiln {
namespace {

/// Every combination of the values of its type parameters and booleans.
std::vector<Values> switched(const Template& of) {
    std::vector<Values> all = {{}};
    for (const Parameter& parameter : of.parameters()) {
        if (parameter.kind != ParameterKind::type && parameter.kind != ParameterKind::boolean) continue;
        std::vector<Values> more;
        for (const Values& values : all)
            for (const Value& value : parameter.allowed) {
                more.push_back(values);
                more.back().emplace(parameter.name, value);
            }
        all = std::move(more);
    }
    return all;
}

std::string text_of(const Values& values) {
    std::string text;
    for (const auto& [name, value] : values) text += " " + name + "=" + value.text();
    return text;
}

TEST(LibraryDefaults, AreLegalForEveryTypeAndSwitch) {
    const std::pair<Backend, const char*> targets[] = {
        {Backend::cuda, "sm_75"},    {Backend::cuda, "sm_80"},   {Backend::cuda, "sm_89"},
        {Backend::cuda, "sm_90a"},   {Backend::cuda, "sm_100a"}, {Backend::cuda, "sm_120"},
        {Backend::hip, "gfx908"},    {Backend::hip, "gfx90a"},   {Backend::hip, "gfx1030"},
        {Backend::host, "x86-64-v3"}};
    for (const auto& [backend, arch] : targets) {
        ServiceOptions options;
        options.backend = backend;
        options.arch = arch;
        options.compile_only = true;
        options.cache.enabled = false;
        const Service service(options);
        int legal = 0;
        for (const Template& of : service.templates()) {
            if (!of.runs_on(backend, arch)) continue;
            for (const Values& values : switched(of)) {
                SCOPED_TRACE(of.name() + text_of(values) + " on " + arch);
                try {
                    static_cast<void>(of.variant(values));
                    ++legal;
                } catch (const VariantError& error) {
                    // What no choice of the others makes legal, as the template's author meant it.
                    EXPECT_TRUE(of.variants(values).empty()) << error.what();
                }
            }
        }
        EXPECT_GT(legal, 100) << arch;
    }
}

// Up to this k, parts of it and steps ahead of its end are ints; beyond, these kernels would skip them silently.
TEST(LibraryDefaults, VeryLongSumsAreRejectedWhereTheirStepsDoNotFitAnInt) {
    ServiceOptions options;
    options.backend = Backend::cuda;
    options.arch = "sm_90a";
    options.compile_only = true;
    options.cache.enabled = false;
    const Service service(options);
    for (const char* const name : {"gemm_skinny", "gemm_wgmma", "gemm_wgmma_any"}) {
        const Variant variant = service.find(name).variant();
        EXPECT_NO_THROW(static_cast<void>(variant.problem({{"m", 1}, {"n", 8}, {"k", 2147418112}}))) << name;
        EXPECT_THROW(static_cast<void>(variant.problem({{"m", 1}, {"n", 8}, {"k", 2147483640}})),
                     VariantError)
            << name;
    }
}

}  // namespace
}  // namespace kiln
