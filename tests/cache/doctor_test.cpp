// SPDX-License-Identifier: Apache-2.0
//
// doctor: what is well, what is missing, and what is said about things that were broken on purpose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/doctor.h>
#include <sys/resource.h>

#include <set>

#include "admin_support.h"
#include "redis_server.h"
#include "rejected.h"
#include "scoped_variable.h"
#include "service/doctor_parts.h"

namespace kiln {
namespace {

namespace admin = test::admin;

using test::ScopedVariable;
using testing::HasSubstr;
using testing::Not;

using Part = void (*)(const ServiceOptions&, Findings&);

struct Doctor : admin::AdminFixture {
    ServiceOptions service_options() {
        ServiceOptions result;
        result.cache = options();
        return result;
    }
    static Finding find(const std::vector<Finding>& findings, const std::string& area,
                        const std::string& subject) {
        for (const auto& finding : findings)
            if (finding.area == area && finding.subject == subject) return finding;
        ADD_FAILURE() << "nothing is said of " << subject;
        return {};
    }
    // Compilers take seconds to start, and are left out where they are not what is tested.
    static Finding find(Part part, const ServiceOptions& options, const std::string& area,
                        const std::string& subject) {
        Findings findings;
        part(options, findings);
        return find(findings.list, area, subject);
    }
};

void expect(const Finding& finding, FindingStatus status, const std::string& text) {
    EXPECT_EQ(name(finding.status), name(status)) << finding.text;
    EXPECT_THAT(finding.text, HasSubstr(text));
    EXPECT_EQ(finding.remedy.empty(), status == FindingStatus::good) << finding.text << finding.remedy;
}

TEST_F(Doctor, AllAreasAreLookedAt) {
    fill(1, 3);
    Cache(options()).pack(home.path() / "seed.pack");
    auto all = service_options();
    all.cache.seed_packs = {home.path() / "seed.pack"};
    const auto findings = examine(all);
    std::set<std::string> areas;
    for (const auto& finding : findings) {
        areas.insert(finding.area);
        EXPECT_FALSE(finding.subject.empty());
        EXPECT_FALSE(finding.text.empty()) << finding.subject;
        EXPECT_EQ(finding.remedy.empty(), finding.status == FindingStatus::good) << finding.text;
    }
    for (const auto* area : {"compilers", "devices", "workers", "limits", "cache", "seed packs"})
        EXPECT_TRUE(areas.count(area)) << area;
    expect(find(findings, "compilers", "C++ compiler"), FindingStatus::good, "; compiles for ");
    expect(find(findings, "devices", "host 0"), FindingStatus::good, "threads");
    expect(find(findings, "workers", "processes"), FindingStatus::good, "at once");
    expect(find(findings, "seed packs", "seed.pack"), FindingStatus::good, "3 entries");
    expect(find(findings, "cache", "usage"), FindingStatus::good, "3 entries");
    expect(find(findings, "cache", "directory"), FindingStatus::good, "mode 0700, writable");
}

TEST_F(Doctor, ACompilerThatWasNamedAndIsNotThereIsAProblem) {
    const ScopedVariable nvrtc("KILN_NVRTC", "/nowhere/libnvrtc.so"), hiprtc("KILN_HIPRTC", "/nowhere/hip");
    const ScopedVariable cxx("KILN_HOST_CXX", "/nowhere/c++");
    Findings findings;
    examine_compilers(service_options(), findings);
    expect(find(findings.list, "compilers", "NVRTC"), FindingStatus::problem, "/nowhere/libnvrtc.so");
    expect(find(findings.list, "compilers", "hipRTC"), FindingStatus::problem, "/nowhere/hip");
    expect(find(findings.list, "compilers", "C++ compiler"), FindingStatus::problem, "/nowhere/c++");
}

TEST_F(Doctor, ALibraryThatIsNoLibraryIsAProblem) {
    write_text(home.path() / "libnvrtc.so", "no library");
    const ScopedVariable nvrtc("KILN_NVRTC", (home.path() / "libnvrtc.so").string());
    expect(find(examine_compilers, service_options(), "compilers", "NVRTC"), FindingStatus::problem,
           "no ELF library");
}

TEST_F(Doctor, ADeviceThatWasAskedForAndIsNotThereIsAProblem) {
    auto cuda = service_options();
    cuda.backend = Backend::cuda;
    if (!Device::list(Backend::cuda).empty()) GTEST_SKIP() << "there is one";
    expect(find(examine_compilers, cuda, "devices", "cuda"), FindingStatus::problem, "none: ");
    cuda.compile_only = true;
    expect(find(examine_compilers, cuda, "devices", "cuda"), FindingStatus::note, "none: ");
}

TEST_F(Doctor, AWorkerProgramThatIsNotThereIsAProblemWhereItWasNamed) {
    {
        const ScopedVariable worker("KILN_COMPILE_WORKER", "/nowhere/worker");
        expect(find(examine_workers, service_options(), "workers", "kiln-compile-worker"),
               FindingStatus::problem, "/nowhere/worker");
    }
    write_text(home.path() / "worker", "#!/bin/sh\n");
    const ScopedVariable worker("KILN_COMPILE_WORKER", (home.path() / "worker").string());
    std::filesystem::permissions(home.path() / "worker", std::filesystem::perms::owner_read);
    expect(find(examine_workers, service_options(), "workers", "kiln-compile-worker"), FindingStatus::problem,
           "can't be run");
}

TEST_F(Doctor, AServiceHasAsManyWorkersAsTheEnvironmentMaySay) {
    for (const int workers : {-7, 1025, 1 << 30}) {
        auto options = service_options();
        options.workers = workers;
        EXPECT_THAT(test::rejected<UsageError>([&] { const Service service(options); }),
                    testing::HasSubstr("ServiceOptions::workers must be an integer from 1 to 1024; " +
                                       std::to_string(workers)));
    }
}

TEST_F(Doctor, BadNumbersInTheEnvironmentAreProblemsWhichNameThem) {
    const ScopedVariable workers("KILN_WORKERS", "many");
    expect(find(examine_workers, service_options(), "workers", "KILN_WORKERS"), FindingStatus::problem,
           "many");
    const ScopedVariable limit("KILN_CACHE_LIMIT", "plenty");
    expect(find(examine(service_options()), "cache", "cache"), FindingStatus::problem, "plenty");
}

// NVRTC is not used with it, and there is nothing to be said of NVRTC itself.
TEST_F(Doctor, AChoiceThatIsNoneIsAProblemOfItsVariable) {
    const ScopedVariable pch("KILN_PCH", "2");
    Findings findings;
    examine_compilers(service_options(), findings);
    const Finding found = find(findings.list, "compilers", "KILN_PCH");
    expect(found, FindingStatus::problem, "KILN_PCH is set to \"2\"; it is either 0 or 1.");
    EXPECT_EQ(found.remedy, "Set KILN_PCH to 0 or 1.");
    for (const Finding& one : findings.list) {
        EXPECT_NE(one.subject, "NVRTC") << one.text;
        EXPECT_THAT(one.remedy, Not(HasSubstr("KILN_NVRTC")));
    }
}

TEST_F(Doctor, MistypedVariablesAreFound) {
    const ScopedVariable typo("KILN_CAHCE_DIR", "/x"), other("KILN_ZZZZZZZZZZZZZZZZ", "1");
    const auto mistyped = find(examine_environment, service_options(), "environment", "KILN_CAHCE_DIR");
    expect(mistyped, FindingStatus::problem, "no such variable");
    EXPECT_THAT(mistyped.remedy, HasSubstr("KILN_CACHE_DIR"));
    expect(find(examine_environment, service_options(), "environment", "KILN_ZZZZZZZZZZZZZZZZ"),
           FindingStatus::note, "no such variable");
    const ScopedVariable path("KILN_TEMPLATE_PATH", "/nowhere/templates");
    expect(find(examine_environment, service_options(), "environment", "templates"), FindingStatus::problem,
           "/nowhere/templates");
}

TEST_F(Doctor, FilesOfTemplatesThatAreWrongAreProblems) {
    auto with_templates = service_options();
    with_templates.template_directories = {home.path() / "templates"};
    std::filesystem::create_directory(home.path() / "templates");
    write_text(home.path() / "templates/wrong.cu", "//@ kernel wrong\n//@ parm N int\n");
    write_text(home.path() / "templates/also_wrong.cu", "no template\n");
    Findings findings;
    examine_environment(with_templates, findings);
    std::string problems;
    for (const Finding& finding : findings.list)
        if (finding.status == FindingStatus::problem) problems += finding.text + "\n";
    EXPECT_THAT(problems,
                testing::AllOf(HasSubstr("templates/wrong.cu:2"), HasSubstr("templates/also_wrong.cu")));
}

TEST_F(Doctor, FewOpenFilesAreNoted) {
    rlimit old;
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
    const rlimit few{200, old.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    const auto finding = find(examine_limits, service_options(), "limits", "open files");
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
    expect(finding, FindingStatus::note, "200");
}

TEST_F(Doctor, TemporaryFilesNeedAPlace) {
    const ScopedVariable nowhere("TMPDIR", "/nowhere/at/all");
    expect(find(examine_limits, service_options(), "limits", "temporary files"), FindingStatus::problem,
           "no directory");
}

TEST_F(Doctor, ADirectoryThatCantBeUsedIsAProblem) {
    write_text(home.path() / "cache", "a file");
    expect(find(examine_cache, service_options(), "cache", "directory"), FindingStatus::problem,
           (home.path() / "cache").string());
}

TEST_F(Doctor, ADirectoryThatOthersMayWriteToIsAProblem) {
    std::filesystem::create_directory(home.path() / "cache");
    std::filesystem::permissions(home.path() / "cache", std::filesystem::perms::all);
    expect(find(examine_cache, service_options(), "cache", "directory"), FindingStatus::problem,
           "others may write");
}

TEST_F(Doctor, NoDirectoryAndNoCacheAreReported) {
    const ScopedVariable cache_dir("KILN_CACHE_DIR", ""), xdg("XDG_CACHE_HOME", ""), no_home("HOME", "");
    auto none = service_options();
    none.cache.directory.reset();
    expect(find(examine_cache, none, "cache", "directory"), FindingStatus::problem, "KILN_CACHE_DIR");
    none.cache.enabled = false;
    expect(find(examine_cache, none, "cache", "directory"), FindingStatus::note, "switched off");
}

TEST_F(Doctor, AFileSystemWithoutRoomForTheLimitIsNoted) {
    auto huge = service_options();
    huge.cache.limit_bytes = std::uint64_t{1} << 60;
    expect(find(examine_cache, huge, "cache", "file system"), FindingStatus::note, "may grow by");
}

TEST_F(Doctor, FileSystemsInMemoryAreNoted) {
    const FileSystem system = file_system_of("/dev/shm");
    if (system.name != "tmpfs") GTEST_SKIP() << "/dev/shm is " << system.name;
    EXPECT_THAT(system.meaning, HasSubstr("memory"));
    EXPECT_THROW(file_system_of("/nowhere"), std::system_error);
}

TEST_F(Doctor, BadSeedPacksAreProblems) {
    write_text(home.path() / "bad.pack", "no pack");
    auto with_packs = service_options();
    with_packs.cache.seed_packs = {home.path() / "bad.pack", home.path() / "missing.pack"};
    expect(find(examine_seeds, with_packs, "seed packs", "bad.pack"), FindingStatus::problem,
           (home.path() / "bad.pack").string());
    expect(find(examine_seeds, with_packs, "seed packs", "missing.pack"), FindingStatus::problem,
           "No such file");
}

TEST_F(Doctor, ARemoteThatAnswersIsDescribed) {
    KILN_REQUIRE_REDIS();
    const test::RedisServer server({"--requirepass", "open-sesame"});
    auto with_remote = service_options();
    with_remote.cache.remote->url = server.url();
    with_remote.cache.remote->password_file = home.path() / "password";
    with_remote.cache.remote->signature_key_file = home.path() / "key";
    with_remote.cache.remote->timeout = std::chrono::seconds(10);
    with_remote.cache.remote->read_only = true;
    write_text(home.path() / "password", "open-sesame\n");
    write_text(home.path() / "key", "0123456789abcdef");
    std::filesystem::permissions(home.path() / "password", std::filesystem::perms(0600));
    std::filesystem::permissions(home.path() / "key", std::filesystem::perms(0644));
    Findings findings;
    examine_remote(with_remote, findings);
    const auto found = find(findings.list, "remote", "server");
    expect(found, FindingStatus::good, std::to_string(server.port()));
    EXPECT_THAT(found.text, testing::AllOf(HasSubstr("Redis "), HasSubstr(" ms"), HasSubstr("read only")));
    expect(find(findings.list, "remote", "signatures"), FindingStatus::good, "on");
    expect(find(findings.list, "remote", "signature key"), FindingStatus::note, "0644");
    for (const auto& finding : findings.list) {
        EXPECT_NE(finding.subject, "password file") << finding.text;
        EXPECT_THAT(finding.text + finding.remedy, Not(HasSubstr("open-sesame")));
        EXPECT_THAT(finding.text + finding.remedy, Not(HasSubstr("0123456789abcdef")));
    }
}

TEST_F(Doctor, ARemoteThatDoesNotAnswerOrIsWrongIsAProblem) {
    auto dead = service_options();
    dead.cache.remote->url = "redis://:secret-word@127.0.0.1:" + std::to_string(test::free_port());
    Findings findings;
    examine_remote(dead, findings);
    expect(find(findings.list, "remote", "server"), FindingStatus::problem, "127.0.0.1");
    expect(find(findings.list, "remote", "signatures"), FindingStatus::note, "off");
    for (const auto& finding : findings.list)
        EXPECT_THAT(finding.text + finding.remedy, Not(HasSubstr("secret-word")));
    dead.cache.remote->url = "redis://:secret-word@cache.invalid";
    dead.cache.remote->timeout = std::chrono::milliseconds(100);
    expect(find(examine_remote, dead, "remote", "TLS"), FindingStatus::note, "the password");
    dead.cache.remote->url = "http://somewhere";
    expect(find(examine_remote, dead, "remote", "set-up"), FindingStatus::problem, "rediss://");
}

TEST_F(Doctor, VariablesOfARemoteWithoutItsUrlAreAProblem) {
    const ScopedVariable url("KILN_REMOTE", ""), key("KILN_REMOTE_KEY_FILE", "/key");
    auto none = service_options();
    none.cache.remote.reset();
    expect(find(examine_remote, none, "remote", "KILN_REMOTE"), FindingStatus::problem, "not set");
}

}  // namespace
}  // namespace kiln
