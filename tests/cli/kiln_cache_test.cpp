// SPDX-License-Identifier: Apache-2.0
//
// kiln cache ..., each with its flags.
#include <regex>
#include <set>

#include "kiln_program.h"
#include "redis_server.h"
#include "require.h"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class KilnCache : public Kiln {
  protected:
    std::string place_of(const std::string& key) const {
        return run({"cache", "show", key, "--json"}).json()["place"];
    }
    nlohmann::json entries(const Arguments& more = {}) const {
        Arguments arguments = {"cache", "list", "--json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome result = run(arguments);
        EXPECT_EQ(result.status, 0) << result.err;
        return result.json()["entries"];
    }
};

TEST_F(KilnCache, Stats) {
    EXPECT_EQ(run({"cache", "stats", "--json"}).json()["entries"], 0);
    build("1");
    build("1");
    const auto json = run({"cache", "stats", "--json"}).json();
    EXPECT_EQ(json["directory"], path("cache").string());
    EXPECT_EQ(json["entries"], 1);
    EXPECT_GT(json["bytes"], 1000);
    EXPECT_EQ(json["limit_bytes"], 1 << 30);
    EXPECT_EQ(json["counters"]["compiles"], 1);
    EXPECT_EQ(json["counters"]["disk_hits"], 1);
    const Outcome text = run({"cache", "stats"});
    EXPECT_THAT(text.out, HasSubstr(path("cache").string()));
    EXPECT_TRUE(std::regex_search(text.out, std::regex("compiles +1 "))) << text.out;
}

TEST_F(KilnCache, StatsForPrometheus) {
    build("1");
    const Outcome result = run({"cache", "stats", "--prometheus"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("# TYPE kiln_compiles_total counter\nkiln_compiles_total 1\n"));
    EXPECT_THAT(result.out, HasSubstr("# TYPE kiln_cache_entries gauge\nkiln_cache_entries 1\n"));
    const std::regex line("(# (HELP|TYPE) kiln_[a-z_]+ .+|kiln_[a-z_]+ [0-9]+)");
    for (std::size_t at = 0; at < result.out.size();) {
        const std::size_t end = result.out.find('\n', at);
        EXPECT_TRUE(std::regex_match(result.out.substr(at, end - at), line))
            << result.out.substr(at, end - at);
        at = end + 1;
    }
    EXPECT_EQ(run({"cache", "stats", "--prometheus", "--json"}).status, 2);
}

TEST_F(KilnCache, ListWithSortAndLimit) {
    EXPECT_THAT(run({"cache", "list"}).out, HasSubstr("no entries"));
    for (const char* add : {"3", "1", "2"}) build(add);
    const auto named = entries({"--sort", "name"});
    ASSERT_EQ(named.size(), 3U);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(named[std::size_t(i)]["variant"], "tiny ADD=" + std::to_string(i + 1) + " MUL=1");
        EXPECT_EQ(named[std::size_t(i)]["backend"], "host");
        EXPECT_TRUE(named[std::size_t(i)]["last_used"].is_string());
    }
    EXPECT_EQ(entries({"--sort", "name", "--limit", "2"}).size(), 2U);
    const auto by_time = entries({"--sort", "time"});
    EXPECT_GE(by_time[0]["compile_ms"], by_time[1]["compile_ms"]);
    EXPECT_GE(entries({"--sort", "size"})[0]["bytes"], entries({"--sort", "size"})[2]["bytes"]);
    const Outcome text = run({"cache", "list"});
    EXPECT_THAT(text.out, HasSubstr("tiny ADD=3 MUL=1\n"));
    EXPECT_THAT(text.out, HasSubstr(named[0]["key"].get<std::string>().substr(0, 12)));
    expect_error(run({"cache", "list", "--sort", "szie"}), 2,
                 {"--sort", "used, size, time or name", "size?"});
    expect_error(run({"cache", "list", "--limit", "0"}), 2, {"--limit"});
}

TEST_F(KilnCache, Show) {
    const std::string key = build("5").json()["key"];
    const auto json = run({"cache", "show", key.substr(0, 10), "--json"}).json();
    EXPECT_EQ(json["key"], key);
    EXPECT_EQ(json["variant"], "tiny ADD=5 MUL=1");
    EXPECT_TRUE(std::filesystem::exists(json["place"].get<std::string>()));
    std::set<std::string> names;
    std::string source;
    for (const auto& ingredient : json["ingredients"]) {
        names.insert(ingredient["name"].get<std::string>());
        if (ingredient["name"] == "source") source = ingredient["value"];
    }
    for (const char* name : {"backend", "arch", "compiler", "option", "file", "entry", "header", "source"})
        EXPECT_EQ(names.count(name), 1U) << name;
    EXPECT_THAT(source, HasSubstr("x[i] = MUL * x[i] + ADD;\n}\n"));
    const Outcome text = run({"cache", "show", key});
    EXPECT_THAT(text.out, HasSubstr("  arch "));
    EXPECT_TRUE(std::regex_search(text.out, std::regex("constexpr .*ADD = 5"))) << text.out;
    EXPECT_THAT(text.out, Not(HasSubstr("blockIdx"))) << "the template's text is in its file";
    expect_error(run({"cache", "show", "0123456789abcdef"}), 2, {"0123456789abcdef"});
    expect_error(run({"cache", "show", "zzz"}), 2, {"zzz"});
}

TEST_F(KilnCache, VerifyFindsAndRemovesDamage) {
    const std::string key = build("1").json()["key"];
    build("2");
    EXPECT_EQ(run({"cache", "verify"}).status, 0);
    const std::string file = place_of(key);
    std::string bytes = *read_text_if_exists(file);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    write_text(file, bytes);
    const Outcome found = run({"cache", "verify", "--json"});
    EXPECT_EQ(found.status, 1);
    EXPECT_EQ(found.json()["sound"], 1);
    ASSERT_EQ(found.json()["damaged"].size(), 1U);
    EXPECT_EQ(found.json()["damaged"][0]["file"], file);
    EXPECT_THAT(run({"cache", "verify"}).out, HasSubstr(file));
    EXPECT_TRUE(std::filesystem::exists(file)) << "without --remove it stays";
    EXPECT_EQ(run({"cache", "verify", "--remove"}).status, 1);
    EXPECT_FALSE(std::filesystem::exists(file));
    EXPECT_EQ(run({"cache", "verify"}).status, 0);
}

TEST_F(KilnCache, Prune) {
    for (const char* add : {"1", "2", "3"}) build(add);
    EXPECT_EQ(run({"cache", "prune", "--json"}).json()["entries"], 0) << "within the cache's own limit";
    const std::uint64_t bytes = run({"cache", "stats", "--json"}).json()["bytes"];
    const Outcome result = run({"cache", "prune", "--limit", std::to_string(bytes - 1), "--json"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.json()["entries"], 1);
    EXPECT_EQ(entries().size(), 2U);
    EXPECT_THAT(run({"cache", "prune", "--limit", "0"}).out, HasSubstr("2 entries"));
    EXPECT_EQ(entries().size(), 0U);
    for (const char* limit : {"lots", "-1", "5XB", "1e99", "MiB"})
        expect_error(run({"cache", "prune", "--limit", limit}), 2, {"--limit", "64MiB", limit});
    for (const char* limit : {"1.5GiB", "64MiB", "2G", "100 KiB", "5000000"})
        EXPECT_EQ(run({"cache", "prune", "--limit", limit}).status, 0) << limit;
}

TEST_F(KilnCache, ClearAsksAndWithoutAnAnswerDoesNothing) {
    build("1");
    expect_error(run({"cache", "clear"}), 2, {"--yes", path("cache").string()});
    EXPECT_EQ(entries().size(), 1U);
    const auto json = run({"cache", "clear", "--yes", "--json"}).json();
    EXPECT_EQ(json["entries"], 1);
    EXPECT_GT(json["bytes"], 1000);
    EXPECT_EQ(json.size(), 2U) << "nothing of an exchange";
    EXPECT_EQ(entries().size(), 0U);
    EXPECT_EQ(run({"cache", "stats", "--json"}).json()["counters"]["compiles"], 0);
}

TEST_F(KilnCache, ClearOnATerminal) {
    const bool has_script = run_in_shell("command -v script >/dev/null").status == 0;
    KILN_REQUIRE_OR_SKIP("script", has_script, "the program script, which makes a terminal, is not here");
    build("1");
    const auto answered = [&](const std::string& answer) {
        return run_in_shell("{ sleep 0.3; echo " + answer +
                            "; } | script -qec \"'$0' cache clear\" /dev/null");
    };
    EXPECT_THAT(answered("n").out, HasSubstr("remove 1 entry from " + path("cache").string() + "? [y/N]"));
    EXPECT_EQ(entries().size(), 1U);
    answered("y");
    EXPECT_EQ(entries().size(), 0U);
}

TEST_F(KilnCache, PackAndUnpack) {
    const std::string one = build("1").json()["key"];
    build("2");
    const std::string all = path("all.kiln").string(), single = path("single.kiln").string();
    EXPECT_EQ(run({"cache", "pack", all, "--json"}).json()["entries"], 2);
    EXPECT_EQ(run({"cache", "pack", single, one.substr(0, 8), "--json"}).json()["entries"], 1);
    const auto packed = entries({"--pack", single});
    ASSERT_EQ(packed.size(), 1U);
    EXPECT_EQ(packed[0]["key"], one);
    EXPECT_TRUE(packed[0]["last_used"].is_null());
    run({"cache", "clear", "--yes"});
    EXPECT_EQ(on_host({"build", "tiny", "ADD=1", "--seed-pack", single, "--json"}).json()["tier"], "seed");
    run({"cache", "clear", "--yes"});
    const Outcome unpacked = run({"cache", "unpack", all, "--json"});
    EXPECT_EQ(unpacked.status, 0) << unpacked.err;
    EXPECT_EQ(unpacked.json()["entries"], 2);
    EXPECT_EQ(run({"cache", "unpack", all, "--json"}).json()["already_there"], 2);
    EXPECT_EQ(build("1").json()["tier"], "disk");
    expect_error(run({"cache", "pack", path("x.kiln").string(), "ffffffffffff"}), 2, {"ffffffffffff"});
    EXPECT_FALSE(std::filesystem::exists(path("x.kiln")));
    expect_error(run({"cache", "unpack", write("junk", "no pack at all")}), 2, {path("junk").string()});
    expect_error(run({"cache", "list", "--pack", path("none").string()}), 2, {path("none").string()});
}

TEST_F(KilnCache, PushAndPull) {
    KILN_REQUIRE_OR_SKIP("redis", !find_program("redis-server").empty(), "redis-server is not here");
    const RedisServer server({"--requirepass", "s3cr3t"});
    const auto from = [&](const char* directory, Arguments arguments) {
        arguments.insert(arguments.end(), {"--remote", server.url(), "--json"});
        return run(arguments, {{"KILN_CACHE_DIR", path(directory).string()},
                               {"KILN_REMOTE_PASSWORD_FILE", write("password", "s3cr3t\n")}});
    };
    build("1");
    build("2");
    const Outcome pushed = from("cache", {"cache", "push"});
    ASSERT_EQ(pushed.status, 0) << pushed.err;
    EXPECT_EQ(pushed.json()["entries"], 2);
    EXPECT_EQ(from("cache", {"cache", "push"}).json()["already_there"], 2);
    EXPECT_EQ(from("other", {"cache", "pull"}).json()["entries"], 2);
    EXPECT_EQ(
        from("third", {"build", "tiny", "--backend", "host", "--template-dir", templates()}).json()["tier"],
        "remote");
    const Outcome refused = run({"cache", "pull", "--remote", server.url()});
    EXPECT_NE(refused.status, 0) << "without the password";
}

}  // namespace
}  // namespace kiln::test
