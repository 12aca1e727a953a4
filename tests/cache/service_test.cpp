// SPDX-License-Identifier: Apache-2.0
//
// The service on the host backend: origins, single flight, failures, damage, argument checks.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <kiln/kiln.h>
#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "sanitized.h"
#include "scale_kernel.h"
#include "scoped_variable.h"

namespace kiln {
namespace {

using test::ScopedVariable;

using test::expect_scales;
using test::kScale;
using test::ScaleFn;
using ServiceTest = test::ServiceFixture;

TEST_F(ServiceTest, CompilesOnceThenMemoryThenDisk) {
    Service first(options());
    const auto variant = first.parse(kScale, "scale.cu").variant({{"FACTOR", 3}});
    const auto compiled = first.build<ScaleFn>(variant);
    EXPECT_EQ(compiled.origin(), Origin::compiled);
    expect_scales(first, compiled, 3);
    // Parsed again, it is still the same template.
    EXPECT_EQ(first.build<ScaleFn>(first.parse(kScale, "scale.cu").variant({{"FACTOR", 3}})).origin(),
              Origin::memory);
    EXPECT_EQ(first.counters().compiles, 1u);

    Service second(options());
    const auto again = second.build<ScaleFn>(variant);
    EXPECT_EQ(again.origin(), Origin::disk);
    expect_scales(second, again, 3);
    EXPECT_EQ(second.counters().compiles, 0u);

    auto no_cache = options();
    no_cache.cache.enabled = false;
    Service third(no_cache);
    EXPECT_EQ(third.build<ScaleFn>(variant).origin(), Origin::off);
    EXPECT_EQ(warnings, std::vector<std::string>());
}

TEST_F(ServiceTest, ThreadsThatAskAtOnceCompileOnce) {
    Service service(options());
    const auto scale = service.parse(kScale, "scale.cu");
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
        threads.emplace_back([&] {
            for (int factor : {5, 6})
                expect_scales(service, service.build<ScaleFn>(scale.variant({{"FACTOR", factor}})),
                              static_cast<float>(factor));
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(service.counters().compiles, 2u);
}

TEST_F(ServiceTest, AFailureIsNotRemembered) {
    Service service(options());
    std::string broken = kScale;
    broken.replace(broken.find("FACTOR * x[i]"), 13, "FACTOR + nothing");
    const auto variant = service.parse(broken, "scale.cu").variant();
    for (int attempt = 0; attempt < 2; ++attempt) {
        try {
            service.build<ScaleFn>(variant);
            FAIL() << "it compiled";
        } catch (const BuildError& error) {
            EXPECT_NE(error.log().find("scale.cu:9"), std::string::npos) << error.log();
        }
    }
    EXPECT_EQ(service.counters().compiles, 2u);
    EXPECT_EQ(service.counters().build_failures, 2u);
    EXPECT_TRUE(only_entry().empty());
}

TEST_F(ServiceTest, ADamagedEntryIsReplacedInTheSameCall) {
    const auto variant = [&] {
        Service service(options());
        auto made = service.parse(kScale, "scale.cu").variant();
        service.build<ScaleFn>(made);
        return made;
    }();
    std::fstream(only_entry(), std::ios::in | std::ios::out | std::ios::binary).seekp(1000).put('\x55');
    {
        Service service(options());
        const auto kernel = service.build<ScaleFn>(variant);
        EXPECT_EQ(kernel.origin(), Origin::compiled);
        expect_scales(service, kernel, 2);
        EXPECT_EQ(service.counters().rejected_entries, 1u);
        EXPECT_EQ(warnings.size(), 1u);
    }
    Service service(options());
    EXPECT_EQ(service.build<ScaleFn>(variant).origin(), Origin::disk);
}

TEST_F(ServiceTest, AWrongFnIsRejectedWithTheDeclaration) {
    Service service(options());
    const auto variant = service.parse(kScale, "scale.cu").variant();
    const auto message = [&](auto build) -> std::string {
        try {
            build();
        } catch (const UsageError& error) {
            return error.what();
        }
        return "no error";
    };
    EXPECT_NE(message([&] { service.build<void(int, const float*)>(variant); }).find("has 2 arguments"),
              std::string::npos);
    const auto wrong_type = message([&] { service.build<void(int, const half*, float*)>(variant); });
    EXPECT_NE(wrong_type.find("argument 2 of Fn is const half*"), std::string::npos) << wrong_type;
    EXPECT_NE(wrong_type.find("const float* x"), std::string::npos) << wrong_type;
    EXPECT_NE(message([&] { service.build<void(long long, const float*, float*)>(variant); }), "no error");
    EXPECT_NE(message([&] { service.build<void(int, const float*, const float*)>(variant); }), "no error");
    EXPECT_EQ(message([&] { service.build<void(int, float*, float*)>(variant); }), "no error");
}

TEST_F(ServiceTest, AnUnusableCacheDirectoryIsReportedOnceAndTheJobRuns) {
    write_text(directory.path() / "file", "");
    auto unusable = options();
    unusable.cache.directory = directory.path() / "file" / "cache";
    Service service(unusable);
    const auto scale = service.parse(kScale, "scale.cu");
    for (int factor : {1, 2, 3})
        expect_scales(service, service.build<ScaleFn>(scale.variant({{"FACTOR", factor}})),
                      static_cast<float>(factor));
    EXPECT_EQ(warnings.size(), 1u);
    EXPECT_NE(service.cache_problem().find("file"), std::string::npos);
}

TEST_F(ServiceTest, AsyncGivesTheKernelOrTheError) {
    Service service(options());
    const auto scale = service.parse(kScale, "scale.cu");
    auto good = service.build_async<ScaleFn>(scale.variant());
    expect_scales(service, good.get(), 2);
    auto bad = service.build_async<void(int)>(scale.variant());
    EXPECT_THROW(bad.get(), UsageError);
}

TEST_F(ServiceTest, AFutureOutlivesTheService) {
    std::future<Kernel<ScaleFn>> future;
    {
        Service service(options());
        future = service.build_async<ScaleFn>(service.parse(kScale, "scale.cu").variant());
    }
    Service other(options());
    expect_scales(other, future.get(), 2);  // on another service's stream of the same device
}

TEST_F(ServiceTest, AnEmptyHandleIsAnErrorWhateverItIsAsked) {
    const AnyKernel empty;
    EXPECT_FALSE(empty);
    EXPECT_THROW(empty.variant(), UsageError);
    EXPECT_THROW(empty.info(), UsageError);
    EXPECT_THROW(empty.function_handle(), UsageError);
    EXPECT_THROW(empty.module_handle(), UsageError);
    EXPECT_THROW(empty.launch(Stream(), nullptr), UsageError);
    Service service(options());
    const auto kernel = service.build<ScaleFn>(service.parse(kScale, "scale.cu").variant());
    EXPECT_THROW(kernel(Stream(), 1, nullptr, nullptr), UsageError);
}

TEST_F(ServiceTest, NoPlaceForTheCacheIsAProblemThatIsReported) {
    const ScopedVariable no_directory("KILN_CACHE_DIR", ""), no_cache_home("XDG_CACHE_HOME", ""),
        no_home("HOME", "");
    auto unplaced = options();
    unplaced.cache.directory.reset();
    EXPECT_NE(Service(unplaced).cache_problem().find("HOME"), std::string::npos);
    EXPECT_EQ(warnings.size(), 1u);
    unplaced.cache.enabled = false;
    EXPECT_EQ(Service(unplaced).cache_problem(), "");
}

TEST_F(ServiceTest, NoPlaceForTemporaryFilesIsABuildError) {
    Service service(options());
    const auto variant = service.parse(kScale, "scale.cu").variant();
    const ScopedVariable temporary("TMPDIR", "/proc");
    EXPECT_THROW(service.build<ScaleFn>(variant), BuildError);
}

TEST_F(ServiceTest, ABuildForWhichNoFileCanBeOpenedNamesTheLimit) {
    if (test::kAddressSanitized) GTEST_SKIP() << "UndefinedBehaviorSanitizer needs descriptors";
    Service service(options());
    service.build<ScaleFn>(service.parse(kScale, "scale.cu").variant());
    const auto variant = service.parse(std::string(kScale) + "// another\n", "scale.cu").variant();
    rlimit usual{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
    rlimit limit = usual;
    limit.rlim_cur = static_cast<rlim_t>(FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)).value());
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    std::string error;
    try {
        service.build<ScaleFn>(variant);
    } catch (const BuildError& problem) {
        error = problem.what();
    }
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
    EXPECT_NE(error.find("ulimit -n"), std::string::npos) << error;
    EXPECT_EQ(error.find("TMPDIR"), std::string::npos) << error;
}

TEST_F(ServiceTest, ADirectoryOfTemplatesGoesBeforeTheBuiltInOnes) {
    std::string mine = kScale;
    const auto place = directory.path() / "templates";
    std::filesystem::create_directory(place);
    write_text(place / "another_name.cu", mine);
    auto with_directory = options();
    with_directory.template_directories = {place};
    Service service(with_directory);
    EXPECT_EQ(service.find("scale").file(), (place / "another_name.cu").string());
    EXPECT_EQ(service.find("gemm_tiled").name(), "gemm_tiled");
    EXPECT_EQ(service.templates().size(), Service(options()).templates().size() + 1);
    try {
        service.find("gem_tiled");
        FAIL();
    } catch (const UsageError& error) {
        EXPECT_NE(std::string(error.what()).find("did you mean gemm_tiled"), std::string::npos)
            << error.what();
    }
    // A file that is wrong is no obstacle to the others, and told when its template may be the one.
    write_text(place / "wrong.cu", "//@ kernel\n");
    Service beside_wrong(with_directory);
    EXPECT_EQ(beside_wrong.find("scale").name(), "scale");
    EXPECT_EQ(beside_wrong.find("gemm_naive").name(), "gemm_naive");
    EXPECT_THROW(beside_wrong.find("unknown"), TemplateError);
    EXPECT_THROW(beside_wrong.templates(), TemplateError);
    const std::size_t before = warnings.size();
    for (int i = 0; i < 2; ++i)
        EXPECT_EQ(beside_wrong.readable_templates().size(), Service(options()).templates().size() + 1);
    ASSERT_EQ(warnings.size(), before + 1) << "once";
    EXPECT_NE(warnings.back().find("a template is left out: " + (place / "wrong.cu").string() + ":1:"),
              std::string::npos)
        << warnings.back();

    with_directory.template_directories = {directory.path() / "missing"};
    EXPECT_THROW(Service{with_directory}, TemplateError);
}

// A copy, say, whose name sorts before the template's own file.
TEST_F(ServiceTest, TwoFilesOfOneTemplateAreAnErrorAndTheOneOfItsNameIsUsed) {
    auto with_directory = options();
    with_directory.template_directories = {directory.path() / "templates"};
    std::filesystem::create_directory(with_directory.template_directories[0]);
    const auto mine = with_directory.template_directories[0] / "scale.cu",
               copy = with_directory.template_directories[0] / "scale-old.cu";
    write_text(mine, kScale);
    write_text(copy, kScale);
    Service service(with_directory);
    for (const Template& one : service.readable_templates()) {
        if (one.name() == "scale") {
            EXPECT_EQ(one.file(), mine.string());
        }
    }
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find(copy.string() + ": the template scale is also in " + mine.string()),
              std::string::npos)
        << warnings[0];
    EXPECT_THROW(service.templates(), TemplateError);
    EXPECT_EQ(service.find("scale").file(), mine.string());
    // It hides no template, and a link to one is none.
    EXPECT_THROW(service.find("scael"), UsageError);
    std::filesystem::remove(copy);
    std::filesystem::create_symlink(mine, copy);
    EXPECT_NO_THROW(Service(with_directory).templates());
}

TEST_F(ServiceTest, OfSeveralDirectoriesTheFirstHasPrecedenceWhateverItsFileIsCalled) {
    auto with_directories = options();
    for (const auto& [folder, file] : {std::pair{"first", "other.cu"}, {"second", "scale.cu"}}) {
        with_directories.template_directories.push_back(directory.path() / folder);
        std::filesystem::create_directory(directory.path() / folder);
        write_text(directory.path() / folder / file, kScale);
    }
    const auto file = (directory.path() / "first" / "other.cu").string();
    EXPECT_EQ(Service(with_directories).find("scale").file(), file);
    for (const Template& one : Service(with_directories).templates()) {
        if (one.name() == "scale") {
            EXPECT_EQ(one.file(), file);
        }
    }
}

TEST_F(ServiceTest, ADirectoryOfTemplatesThatCannotBeReadIsATemplateError) {
    const auto place = directory.path() / "templates";
    std::filesystem::create_directory(place);
    const TemplateSet set({place});
    std::filesystem::remove(place);
    for (const std::function<void()>& read :
         {std::function<void()>([&] { set.all(); }), std::function<void()>([&] { set.find("nosuch"); }),
          std::function<void()>([&] { set.find("gemm_naive"); })})
        try {
            read();
            ADD_FAILURE();
        } catch (const TemplateError& error) {
            EXPECT_EQ(error.file(), place.string());
            EXPECT_NE(std::string(error.what()).find("can't be read: No such file"), std::string::npos)
                << error.what();
        }
    // A directory that can't be looked at, be it there or not.
    std::filesystem::create_symlink(place, place);
    try {
        TemplateSet({place});
        ADD_FAILURE();
    } catch (const TemplateError& error) {
        EXPECT_NE(std::string(error.what()).find("can't be read: Too many levels"), std::string::npos)
            << error.what();
    }
}

TEST_F(ServiceTest, BuiltInTemplatesAreNamedAsTheirFiles) {
    Service service(options());
    for (const auto& item : service.templates()) {
        EXPECT_EQ(item.file(), item.name() + ".cu");
        EXPECT_FALSE(item.summary().empty()) << item.name();
    }
}

}  // namespace
}  // namespace kiln
