// SPDX-License-Identifier: Apache-2.0
//
// kiln cache pack --for: from the record of an application to a pack that serves it where there is no compiler, for
// other architectures, and by PTX on a GPU that is newer than all of them.
#include <kiln/kiln.h>

#include <set>

#include "base/host_arch.h"
#include "kiln_program.h"
#include "require.h"
#include "scoped_variable.h"

namespace kiln::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PackFor : public Kiln {
  protected:
    std::string pack() const { return path("app.pack").string(); }
    Outcome pack_for(const Record& record, Arguments more = {}, Environment more_variables = {}) const {
        Arguments arguments = {
            "cache",          "pack",     pack(), "--for", write("app.json", record.text()),
            "--template-dir", templates()};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run(std::move(arguments), std::move(more_variables));
    }
    /// "sm_80 gemm_mma BM=..."
    std::set<std::string> packed() const {
        std::set<std::string> found;
        for (const CacheEntry& entry : list_pack(pack())) found.insert(entry.arch + " " + entry.variant);
        return found;
    }
    /// A service without a compiler that has nothing but the pack.
    ServiceOptions shipped(const std::string& arch) const {
        ServiceOptions options;
        options.arch = arch;
        options.compile_only = true;
        options.cached_only = true;
        options.template_directories = {templates()};
        options.cache.directory = path("empty");
        options.cache.seed_packs = {pack()};
        return options;
    }
    static bool has_nvrtc(const Outcome& outcome) { return outcome.err.find("NVRTC") == std::string::npos; }
};

TEST_F(PackFor, ServesWhatTheApplicationAskedFor) {
    const auto record = path("run.json");
    {
        ServiceOptions options;
        options.backend = Backend::host;
        options.template_directories = {templates()};
        options.cache.directory = path("developer");
        options.record = record;
        Service service(options);
        service.build(service.find("tiny").variant({{"ADD", 3}, {"MUL", 2}}));
        const Operation sum(service, "sum", {{"T", "float"}});
        sum.prepare(Sizes{{"n", 1000}});
    }
    const Outcome outcome = pack_for(Record::load(record), {"--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.json()["failed"], IsEmpty());
    EXPECT_THAT(packed(), Contains(std::string(host_arch()) + " tiny ADD=3 MUL=2"));

    const ScopedVariable no_compiler("PATH", "/nowhere");
    ServiceOptions options = shipped(host_arch());
    options.compile_only = false;
    Service service(options);
    EXPECT_EQ(service.build(service.find("tiny").variant({{"ADD", 3}, {"MUL", 2}})).origin(), Origin::seed);
    const Operation sum(service, "sum", {{"T", "float"}});
    sum.prepare(Sizes{{"n", 1000}});
    EXPECT_EQ(service.counters().compiles, 0U);
    EXPECT_THROW(service.build(service.find("tiny").variant({{"ADD", 4}})), BuildError);
}

// The naive template is the family's first, and none that an Operation chooses where there are others.
TEST_F(PackFor, HasWhatAnOperationChooses) {
    Record record;
    record.add({"gemm_naive", {{"T", "half"}}, "host", std::string(host_arch())},
               {{"m", 64}, {"n", 64}, {"k", 64}});
    const Outcome outcome = pack_for(record);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    ServiceOptions options = shipped(host_arch());
    options.compile_only = false;
    Service service(options);
    const Operation gemm(service, "gemm", {{"T", "half"}});
    gemm.prepare(Sizes{{"m", 64}, {"n", 64}, {"k", 64}});
    EXPECT_EQ(service.counters().compiles, 0U);
    for (const std::string& variant : packed()) EXPECT_THAT(variant, ::testing::Not(HasSubstr("naive")));
}

TEST_F(PackFor, SaysWhyTheUsersWisdomIsIgnored) {
    Record record;
    record.add({"tiny", {{"ADD", "3"}}, "host", std::string(host_arch())});
    const Outcome outcome = pack_for(record, {}, {{"KILN_WISDOM", write("wisdom.txt", "cut\n")}});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("wisdom.txt is ignored"));
}

TEST_F(PackFor, SaysThatTheCacheDoesNotHoldAll) {
    Record record;
    for (const char* add : {"1", "2", "3"})
        record.add({"tiny", {{"ADD", add}}, "host", std::string(host_arch())});
    ASSERT_EQ(pack_for(record).status, 0);
    std::uint64_t largest = 0;
    for (const CacheEntry& entry : list_pack(pack())) largest = std::max(largest, entry.bytes);
    std::filesystem::remove(pack());
    const Outcome outcome = run({"cache", "pack", pack(), "--for", path("app.json").string(),
                                 "--template-dir", templates(), "--cache-dir", path("small").string()},
                                {{"KILN_CACHE_LIMIT", std::to_string(largest + 100)}});
    expect_error(outcome, 2, {"the cache kept 1 of 3 entries", "KILN_CACHE_LIMIT", "no pack was written"});
    EXPECT_FALSE(std::filesystem::exists(pack()));
}

// Each with its own: what one service defines may not compile for the other.
TEST_F(PackFor, CompilesWithTheOptionsOfTheApplication) {
    const std::vector<std::string> defined = {"-DMORE=1"};
    Record record;
    record.add({"tiny", {{"ADD", "3"}}, "host", host_arch(), defined, true});
    record.add({"tiny", {{"ADD", "4"}}, "host", host_arch()});
    const Outcome outcome = pack_for(record, {"--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.json()["entries"], 2);
    ServiceOptions options = shipped(host_arch());
    const auto tier = [&](int add) {
        Service service(options);
        return service.compile(service.find("tiny").variant({{"ADD", add}})).origin;
    };
    EXPECT_EQ(tier(4), Origin::seed);
    EXPECT_THROW(tier(3), BuildError);
    options.compile_options = defined;
    options.debug = true;
    EXPECT_EQ(tier(3), Origin::seed);
    // Those of the command replace them.
    ASSERT_EQ(pack_for(record, {"--define", "MORE=1"}).status, 0);
    options.debug = false;
    EXPECT_EQ(tier(3), Origin::seed);
    EXPECT_EQ(tier(4), Origin::seed);
}

TEST_F(PackFor, SeveralArchitecturesWithoutAGpu) {
    Record record;
    record.add({"tiny", {{"ADD", "2"}}, "cuda", "sm_90a"});
    record.add({"gemm_wgmma", {}, "cuda", "sm_90a"});
    record.add({"gemm_naive", {{"T", "half"}}, "cuda", "sm_90a"}, {{"m", 64}, {"n", 4096}, {"k", 4096}});
    const Outcome outcome = pack_for(record, {"--arch", "sm_80,sm_90a", "--json"});
    KILN_REQUIRE_OR_SKIP("nvrtc", has_nvrtc(outcome), outcome.err);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    // What sm_80 lacks is told, and is no failure; what another template does there is packed.
    std::set<std::string> left_out;
    const auto json = outcome.json();
    for (const auto& one : json["left_out"])
        left_out.insert(one["arch"].get<std::string>() + " " + one["variant"].get<std::string>());
    EXPECT_EQ(left_out, (std::set<std::string>{"compute_90 gemm_wgmma", "sm_80 gemm_wgmma"}));
    std::set<std::string> archs;
    for (const std::string& one : packed()) archs.insert(one.substr(0, one.find(' ')));
    EXPECT_EQ(archs, (std::set<std::string>{"compute_90", "sm_80", "sm_90a"}));
    for (const char* arch : {"sm_80", "sm_90a"}) {
        Service service(shipped(arch));
        EXPECT_EQ(service.compile(service.find("tiny").variant({{"ADD", 2}})).binary.kind, BinaryKind::cubin);
        const Chooser chooser(service);
        const auto all = chooser.alternatives(service.find("gemm_naive"), {{"T", "half"}});
        const Variant best =
            chooser.choose(all, {{"T", "half"}}, {{"m", 64}, {"n", 4096}, {"k", 4096}}).variant;
        EXPECT_EQ(service.compile(best).origin, Origin::seed) << best.text();
    }
}

TEST_F(PackFor, ANewerGpuTakesPtxAndSaysSo) {
    Record record;
    record.add({"tiny", {{"ADD", "2"}}, "cuda", "sm_80"});
    const Outcome outcome = pack_for(record);
    KILN_REQUIRE_OR_SKIP("nvrtc", has_nvrtc(outcome), outcome.err);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(packed().size(), 2U);

    for (const char* newer : {"sm_90a", "sm_121a"}) {
        std::vector<std::string> warnings;
        ServiceOptions options = shipped(newer);
        options.on_warning = [&](std::string_view text) { warnings.emplace_back(text); };
        Service service(options);
        const Compiled found = service.compile(service.find("tiny").variant({{"ADD", 2}}));
        EXPECT_EQ(found.binary.kind, BinaryKind::ptx);
        EXPECT_THAT(
            std::string(reinterpret_cast<const char*>(found.binary.bytes.data()), found.binary.bytes.size()),
            HasSubstr(".target sm_80"));
        ASSERT_EQ(warnings.size(), 1U);
        EXPECT_THAT(warnings[0], HasSubstr("there is no binary of tiny ADD=2 MUL=1 for " +
                                           std::string(newer) + ": the PTX for compute_80 is used"));
    }
    Service older(shipped("sm_75"));
    EXPECT_THROW(older.compile(older.find("tiny").variant({{"ADD", 2}})), BuildError);
    // Its own architecture has a binary.
    Service same(shipped("sm_80"));
    EXPECT_EQ(same.compile(same.find("tiny").variant({{"ADD", 2}})).binary.kind, BinaryKind::cubin);
    // Without it there is nothing for newer ones.
    ASSERT_EQ(pack_for(record, {"--no-ptx"}).status, 0);
    EXPECT_EQ(packed().size(), 1U);
}

TEST_F(PackFor, ReportsWhatFails) {
    const std::string arch(host_arch());
    Record record;
    record.add({"tiny", {{"ADD", "7"}}, "host", arch});
    record.add({"tiny", {{"ADD", "1"}}, "host", arch});
    record.add({"missing", {}, "host", arch});
    const Outcome outcome = pack_for(record, {"--json"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.err, HasSubstr("seven is broken"));
    EXPECT_THAT(outcome.err, HasSubstr("missing"));
    EXPECT_EQ(outcome.json()["failed"].size(), 2U);
    EXPECT_EQ(packed(), (std::set<std::string>{arch + " tiny ADD=1 MUL=1"}));

    const std::string keys = write("app.json", record.text());
    expect_error(run({"cache", "pack", pack(), "1234", "--for", keys}), 2, {"leave one out"});
    for (const Arguments& option : {Arguments{"--arch", "sm_80"},
                                    {"--define", "X=1"},
                                    {"--option=-lineinfo"},
                                    {"--debug"},
                                    {"--no-ptx"},
                                    {"--template-dir", templates()},
                                    {"--include-dir", templates()}}) {
        Arguments arguments = {"cache", "pack", pack()};
        arguments.insert(arguments.end(), option.begin(), option.end());
        expect_error(run(arguments), 2, {option[0].substr(0, option[0].find('=')) + " goes with --for"});
    }
    expect_error(run({"cache", "pack", pack(), "--for", path("none.json").string()}), 2,
                 {"there is no such record"});
    expect_error(run({"cache", "pack", pack(), "--for", write("bad.json", "{}")}), 2,
                 {"bad.json:1: this is no record"});
    expect_error(run({"cache", "pack", pack(), "--for", keys, "--arch", "sm_80,"}), 2,
                 {"an architecture is missing"});
    expect_error(run({"cache", "pack", pack(), "--for", write("empty.json", Record().text())}), 2,
                 {"is empty"});
}

}  // namespace
}  // namespace kiln::test
