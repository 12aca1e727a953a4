// SPDX-License-Identifier: Apache-2.0
//
// Packs on machines with no compiler or another one: what the application names serves, whichever compiler made it.
#include <gmock/gmock.h>
#include <kiln/kiln.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "base/host_arch.h"
#include "cache/key_text.h"
#include "require.h"
#include "scale_kernel.h"
#include "scoped_variable.h"

namespace kiln {
namespace {

using test::expect_scales;
using test::scale_variant;
using test::ScaleFn;
using test::ScopedVariable;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct AnyCompiler : test::ServiceFixture {
    using Variables = std::vector<std::unique_ptr<ScopedVariable>>;

    // None of the three, as on a machine where nothing is installed.
    static Variables no_compiler() {
        Variables variables;
        variables.push_back(std::make_unique<ScopedVariable>("PATH", "/nowhere"));
        variables.push_back(std::make_unique<ScopedVariable>("KILN_HOST_CXX", ""));
        variables.push_back(std::make_unique<ScopedVariable>("KILN_NVRTC", "/nowhere/libnvrtc.so"));
        variables.push_back(std::make_unique<ScopedVariable>("KILN_HIPRTC", "/nowhere/libhiprtc.so"));
        return variables;
    }
    ServiceOptions in(const std::string& name) {
        auto result = options();
        result.cache.directory = directory.path() / name;
        return result;
    }
    static ServiceOptions for_backend(ServiceOptions result, Backend backend) {
        result.backend = backend;
        result.compile_only = true;
        result.arch = backend == Backend::cuda ? "sm_90a" : backend == Backend::hip ? "gfx90a" : host_arch();
        return result;
    }
    // A pack of scale with FACTOR=3, made by that compiler; an empty path where there is none.
    std::filesystem::path pack_by(const std::string& cxx, Backend backend = Backend::host) {
        const auto file = directory.path() / (cxx + std::string(name(backend)) + ".pack");
        const ScopedVariable chosen("KILN_HOST_CXX", cxx);
        try {
            Service service(for_backend(in("made-by-" + cxx + std::string(name(backend))), backend));
            service.compile(scale_variant(service, 3));
            Cache(service.options().cache).pack(file);
        } catch (const BuildError&) {
            return {};
        }
        return file;
    }
    std::string made_by(const std::vector<std::filesystem::path>& packs) {
        auto with_packs = in("empty");
        with_packs.cache.seed_packs = packs;
        Service service(with_packs);
        const auto kernel = service.build<ScaleFn>(scale_variant(service, 3));
        EXPECT_EQ(kernel.origin(), Origin::seed);
        EXPECT_EQ(service.counters().compiles, 0u);
        expect_scales(service, kernel, 3);
        // The key is that of the entry.
        EXPECT_THAT(kernel.info().key.text, HasSubstr("\ncompiler "));
        EXPECT_TRUE(parse_key_text(kernel.info().key.text));
        EXPECT_EQ(list_pack(packs[0]).size(), 1u);
        return kernel.info().compiler;
    }
};

TEST_F(AnyCompiler, ANamedPackServesAMachineWithoutACompiler) {
    const auto pack = pack_by("c++");
    KILN_REQUIRE_OR_SKIP("host", !pack.empty(), "no C++ compiler");
    const auto hidden = no_compiler();
    EXPECT_THAT(made_by({pack}), HasSubstr("version"));

    auto with_pack = in("empty");
    with_pack.cache.seed_packs = {pack};
    Service service(with_pack);
    const auto why = service.explain(scale_variant(service, 3));
    EXPECT_EQ(why.tier, Origin::seed);
    EXPECT_EQ(why.place, pack.string());
    EXPECT_THAT(why.compiler, HasSubstr("version"));
    EXPECT_THAT(why.no_compiler, HasSubstr("none of c++, g++ and clang++ is in PATH"));
    EXPECT_EQ(why.key.digest, "");
    EXPECT_EQ(why.nearest_key, list_pack(pack)[0].key);
    // What the pack lacks is told as ever.
    try {
        service.compile(scale_variant(service, 4));
        ADD_FAILURE();
    } catch (const BuildError& error) {
        EXPECT_THAT(error.what(), HasSubstr("needs a C++ compiler"));
    }
    EXPECT_FALSE(service.explain(scale_variant(service, 4)).tier);
}

// The developer's processor is older than the customer's.
TEST_F(AnyCompiler, APackForALowerLevelOfX86ServesAndSaysSo) {
    if (!is_lower_level("x86-64", host_arch())) GTEST_SKIP() << "this processor has the lowest level";
    const auto pack = directory.path() / "old.pack";
    {
        auto old = for_backend(in("old"), Backend::host);
        old.arch = "x86-64";
        Service service(old);
        service.compile(scale_variant(service, 3));
        Cache(old.cache).pack(pack);
    }
    auto with_pack = in("empty");
    with_pack.cache.seed_packs = {pack};
    with_pack.cached_only = true;
    {
        Service service(with_pack);
        const auto kernel = service.build<ScaleFn>(scale_variant(service, 3));
        EXPECT_EQ(kernel.origin(), Origin::seed);
        expect_scales(service, kernel, 3);
        ASSERT_EQ(warnings.size(), 1u);
        EXPECT_THAT(warnings[0],
                    AllOf(HasSubstr("there is no binary of scale FACTOR=3 for " + host_arch()),
                          HasSubstr("that for x86-64 is used"), HasSubstr("--arch " + host_arch())));
        EXPECT_EQ(service.stored(service.parse(test::kScale, "scale.cu")).size(), 1u);
        EXPECT_THROW(service.build<ScaleFn>(scale_variant(service, 4)), BuildError);
    }
    with_pack.cached_only = false;  // who can compile does
    Service service(with_pack);
    EXPECT_EQ(service.build<ScaleFn>(scale_variant(service, 3)).origin(), Origin::compiled);
}

// The headers were the developer's.
TEST_F(AnyCompiler, APackForALowerLevelServesWithoutHeadersOfIncludeDirectories) {
    if (!is_lower_level("x86-64", host_arch())) GTEST_SKIP() << "this processor has the lowest level";
    const auto pack = directory.path() / "old.pack", library = directory.path() / "library";
    std::filesystem::create_directory(library);
    std::ofstream(library / "factor.h") << "#define FACTOR_OF_LIBRARY 5\n";
    std::string text(test::kScale);
    text.replace(text.find("#include"), 8, "#include <factor.h>\n#include");
    const auto variant = [&](Service& service) {
        return service.parse(text, "scale.cu").variant({{"FACTOR", 3}});
    };
    {
        auto old = for_backend(in("old"), Backend::host);
        old.arch = "x86-64";
        old.include_directories = {library};
        Service service(old);
        service.compile(variant(service));
        Cache(old.cache).pack(pack);
    }
    auto with_pack = in("empty");
    with_pack.cache.seed_packs = {pack};
    with_pack.cached_only = true;
    Service service(with_pack);
    EXPECT_EQ(service.build<ScaleFn>(variant(service)).origin(), Origin::seed);
}

TEST_F(AnyCompiler, AnErrorSaysWhatThePacksHaveItFor) {
    auto made = for_backend(in("made"), Backend::host);
    made.arch = "x86-64-v3";
    const auto pack = directory.path() / "v3.pack";
    try {
        Service service(made);
        service.compile(scale_variant(service, 3));
    } catch (const BuildError& error) {
        GTEST_SKIP() << error.what();
    }
    Cache(made.cache).pack(pack);
    auto older = for_backend(in("empty"), Backend::host);
    older.arch = "x86-64-v2";
    older.cached_only = true;
    older.cache.seed_packs = {pack};
    Service service(older);
    const auto message = [&](int factor) -> std::string {
        try {
            service.compile(scale_variant(service, factor));
        } catch (const BuildError& error) {
            return error.what();
        }
        return "none";
    };
    EXPECT_THAT(message(3), AllOf(HasSubstr("is in no tier of the cache for x86-64-v2"),
                                  HasSubstr("the packs have it for x86-64-v3")));
    EXPECT_THAT(message(4), Not(HasSubstr("the packs have it")));
}

TEST_F(AnyCompiler, EveryBackendsPacksServeWithoutItsCompiler) {
    for (const Backend backend : {Backend::cuda, Backend::hip, Backend::host}) {
        SCOPED_TRACE(name(backend));
        const auto pack = pack_by("c++", backend);
        if (pack.empty()) continue;  // made where its compiler is
        const auto hidden = no_compiler();
        auto with_pack = for_backend(in("empty"), backend);
        with_pack.cache.seed_packs = {pack};
        Service service(with_pack);
        const auto compiled = service.compile(scale_variant(service, 3));
        EXPECT_EQ(compiled.origin, Origin::seed);
        EXPECT_EQ(compiled.key.digest, list_pack(pack)[0].key);
        EXPECT_EQ(compiled.binary.compiler, list_pack(pack)[0].compiler);
        EXPECT_EQ(service.explain(scale_variant(service, 3)).compiler, compiled.binary.compiler);
    }
}

TEST_F(AnyCompiler, TheOrderOfThePacksDecides) {
    const auto gcc = pack_by("g++"), clang = pack_by("clang++");
    KILN_REQUIRE_OR_SKIP("clang", !gcc.empty() && !clang.empty(), "needs both g++ and clang++");
    for (const char* present : {"g++", "clang++", "/nowhere"}) {
        const ScopedVariable chosen("KILN_HOST_CXX", present);
        EXPECT_THAT(made_by({gcc, clang}), HasSubstr("gcc")) << present;
        EXPECT_THAT(made_by({clang, gcc}), HasSubstr("clang")) << present;
    }
    const ScopedVariable chosen("KILN_HOST_CXX", "g++");
    auto with_pack = in("empty");
    with_pack.cache.seed_packs = {clang};
    Service service(with_pack);
    const auto why = service.explain(scale_variant(service, 3));
    EXPECT_THAT(why.compiler, HasSubstr("clang"));
    ASSERT_FALSE(why.differences.empty());
    EXPECT_EQ(why.differences[0].ingredient, "compiler");
    for (const auto& one : why.differences)
        EXPECT_THAT(one.ingredient, testing::AnyOf("compiler", "compiler-option", "environment"));
}

TEST_F(AnyCompiler, APackOfTheEnvironmentServesItsExactKeyUnlessNothingMayBeCompiled) {
    const auto gcc = pack_by("g++"), clang = pack_by("clang++");
    KILN_REQUIRE_OR_SKIP("clang", !gcc.empty() && !clang.empty(), "needs both g++ and clang++");
    const ScopedVariable packs("KILN_SEED_PACKS", clang.string());
    const ScopedVariable chosen("KILN_HOST_CXX", "g++");
    {
        Service service(in("one"));
        EXPECT_EQ(service.compile(scale_variant(service, 3)).origin, Origin::compiled);
        EXPECT_FALSE(service.explain(scale_variant(service, 5)).tier);
    }
    auto cached_only = in("two");
    cached_only.cached_only = true;
    Service service(cached_only);
    EXPECT_EQ(service.compile(scale_variant(service, 3)).origin, Origin::seed);
    const auto hidden = no_compiler();
    const ScopedVariable none("KILN_HOST_CXX", "/nowhere");
    Service without(cached_only);
    expect_scales(without, without.build<ScaleFn>(scale_variant(without, 3)), 3);
    EXPECT_THROW(without.compile(scale_variant(without, 4)), BuildError);
    EXPECT_THROW(Service(in("three")).compile(scale_variant(without, 3)), BuildError);
}

TEST_F(AnyCompiler, ADirectoryThatWasFilledElsewhereServesWhereNothingMayBeCompiled) {
    KILN_REQUIRE_OR_SKIP("host", !pack_by("c++").empty(), "no C++ compiler");
    const auto hidden = no_compiler();
    auto cached_only = in("made-by-c++host");
    cached_only.cached_only = true;
    Service service(cached_only);
    const auto kernel = service.build<ScaleFn>(scale_variant(service, 3));
    EXPECT_EQ(kernel.origin(), Origin::disk);
    expect_scales(service, kernel, 3);
    EXPECT_EQ(service.explain(scale_variant(service, 3)).tier, Origin::disk);
}

}  // namespace
}  // namespace kiln
