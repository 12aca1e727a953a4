// SPDX-License-Identifier: Apache-2.0
//
// docs/json.md says what every --json prints: no field is there that it does not name, and none is named that
// is not there.
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "kiln_program.h"
#include "run_templates.h"

namespace kiln::test {
namespace {

using Paths = std::set<std::string>;

/// The block of docs/json.md: a command in the first columns, its fields behind that and on the lines below.
std::map<std::string, Paths> documented(const std::string& text) {
    const std::regex line_form("((?:kiln|jit-gemm|error)[a-z -]*?)?  +(.*)");
    std::map<std::string, Paths> fields;
    std::string command, line, prefix;
    std::istringstream lines(text.substr(text.find("```") + 3));
    while (std::getline(lines, line) && line != "```") {
        std::smatch match;
        if (!std::regex_match(line, match, line_form)) continue;
        if (match[1].matched) command = match[1];
        std::istringstream words(match[2]);
        for (std::string word; words >> word;) {
            if (word[0] == '.') word = prefix + word;
            prefix = word.substr(0, word.rfind('.'));
            fields[command].insert(word);
        }
    }
    return fields;
}

/// The paths of all leaves. What is null or empty stands for whatever it might hold: its path ends in '?'.
void collect(const nlohmann::json& json, const std::string& path, Paths& paths) {
    if (json.is_null() || (json.is_structured() && json.empty()))
        paths.insert(path + "?");
    else if (json.is_object())
        for (const auto& [name, value] : json.items())
            collect(value, path.empty() ? name : path + "." + name, paths);
    else if (json.is_array())
        for (const auto& value : json) collect(value, path + "[]", paths);
    else
        paths.insert(path);
}

bool names(const std::string& documented, const std::string& found) {
    if (found.ends_with('?')) {
        const std::string path = found.substr(0, found.size() - 1);
        return documented == path || documented.starts_with(path + ".") ||
               documented.starts_with(path + "[]");
    }
    if (!documented.ends_with(".*")) return documented == found;
    return found.starts_with(documented.substr(0, documented.size() - 1));
}

class KilnJson : public Kiln {};

TEST_F(KilnJson, FieldsAreThoseOfTheDocument) {
    const char* const source = std::getenv("KILN_TEST_SOURCE_DIR");
    if (source == nullptr) GTEST_SKIP() << "KILN_TEST_SOURCE_DIR is not set";
    const auto document = read_text_if_exists(std::filesystem::path(source) / "docs/json.md");
    ASSERT_TRUE(document.has_value());
    std::map<std::string, Paths> fields = documented(*document);

    std::map<std::string, Paths> found;
    const auto note = [&](const std::string& command, const Outcome& result) {
        ASSERT_NE(result.out, "") << result.err;
        collect(result.json(), "", found[command]);
    };
    const std::string key = build("1").json()["key"];
    const std::string manifest = write("manifest", "tiny ADD=1,7\n"), pack = path("a.pack").string();
    note("error", on_host({"show", "no_such_template", "--json"}));
    note("kiln list", run({"list", "--json"}));
    note("kiln show", on_host({"show", "tiny", "--json"}));
    note("kiln show", run({"show", "gemm_tiled", "--backend", "host", "--json"}));
    note("kiln build", build("1"));
    add_doubling_templates([this](const auto& name, const auto& text) { with_template(name, text); });
    note("kiln run", on_host({"run", "doubling", "FACTOR=3", "--compare", "--graph", "--json"}));
    note("kiln warm", on_host({"warm", manifest, "--json"}));
    const Outcome exported = run({"export", write("exported", "softmax T=half @cuda:sm_80\n"), "--output",
                                  path("c").string(), "--json"});
    if (exported.status == 3)  // no NVRTC
        fields.erase("kiln export");
    else
        note("kiln export", exported);
    note("kiln explain", on_host({"explain", "tiny", "ADD=1", "--json"}));
    note("kiln explain", on_host({"explain", "tiny", "ADD=2", "--json"}));
    const std::string variants = write("variants", "doubling FACTOR=2,3\n"),
                      baselines = path("baselines").string();
    note("kiln regress", on_host({"regress", variants, "--baselines", baselines, "--update", "--json"}));
    add_doubling_templates(
        [this](const auto& name, const auto& text) { with_template(name, text + "// changed\n"); });
    note("kiln regress", on_host({"regress", variants, "--baselines", baselines, "--json"}));
    note("kiln regress", run({"regress", "--table", "--baselines", baselines, "--json"}));
    note("kiln report", on_host({"report", "doubling", "--output", path("report.html").string(), "--json"}));
    const Outcome analysed =
        run({"analyze", "transpose_tiled", "--arch", "sm_90a", "--size", "rows=64,cols=64", "--json"});
    if (analysed.status == 3)  // no NVRTC
        fields.erase("kiln analyze");
    else {
        note("kiln analyze", analysed);
        note("kiln analyze",
             run({"analyze", "gemm_tiled", "--arch", "sm_90a", "--size", "m=64,n=64,k=64", "--json"}));
    }
    const std::string racy = with_template(
        "racy",
        "// racy: for tests.\n//\n//@ kernel racy\n//@ param N int in 1, 2 = 1\n//@ block 64\n//@ grid n\n"
        "//@ size n = 2\n//@ output y [n, 64]\n#include \"kiln/device.h\"\n\n"
        "extern \"C\" __global__ void racy(int n, float* y) {\n    __shared__ float tile[64];\n"
        "    tile[threadIdx.x] = N;\n    y[blockIdx.x * 64 + threadIdx.x] = tile[63 - threadIdx.x];\n}\n");
    note("kiln check", run({"check", "racy", "--template-dir", racy, "--json"}));
    const std::string page = (std::filesystem::path(source) / "tests/inspect/data/ncu_page.csv").string();
    const Outcome profiled = run({"profile", "transpose_tiled", "--size", "rows=256,cols=192", "--backend",
                                  "cuda", "--arch", "sm_90a", "--json", "--read", page});
    if (profiled.status == 3)  // no NVRTC
        fields.erase("kiln profile");
    else
        note("kiln profile", profiled);
    note("kiln bench", run({"bench", "--json"}));
    const std::string record = path("record.json").string();
    note("kiln bench",
         run({"bench", "graphs", "--backend", "host", "--quick", "--resume", record, "--json"}));
    note("kiln bench", run({"bench", "merge", record, "--json"}));
    note("kiln bench", run({"bench", "unseen.histogram", "--list-variants", "--arch", "sm_90a", "--backend",
                            "cuda", "--json"}));
    note("kiln bench page",
         run({"bench", "page", write("page.md", "<!-- kiln bench: record.json runs -->\n<!-- end -->\n"),
              "--json"}));
    const std::string wisdom = path("wisdom.txt").string();
    note("kiln tune", on_host({"tune", "doubling", "--budget", "5", "--output", wisdom, "--json"}));
    std::string times;
    for (int i = 0; i < 120; ++i)
        times += "transpose\tT=float\trows=" + std::to_string(100 + i % 6) +
                 " cols=64\ttranspose_tiled THREADS=" + (i % 2 == 0 ? "64" : "256") + "\tother\t0\t" +
                 std::to_string(5 + i % 7) + "\n";
    note("kiln calibrate", run({"calibrate", "--seconds", "0", "--times", write("times.tsv", times),
                                "--for-device", "mine", "--backend", "cuda", "--arch", "sm_90a", "--output",
                                path("calibration.txt").string(), "--json"}));
    note("kiln wisdom show", run({"wisdom", "show", wisdom, "--json"}));
    note("kiln wisdom export", run({"wisdom", "export", wisdom, "--json"}));
    note("kiln wisdom export",
         run({"wisdom", "export", wisdom, "--output", path("export").string(), "--json"}));
    note("kiln wisdom merge",
         run({"wisdom", "merge", "--output", path("merged").string(), wisdom, "--json"}));
    note("kiln lab banks", run({"lab", "banks", "--arch", "sm_90a", "--json"}));
    note("kiln lab banks", run({"lab", "banks", "--map", "2", "3", "--json"}));
    note("kiln cache stats", run({"cache", "stats", "--json"}));
    note("kiln cache list", run({"cache", "list", "--json"}));
    note("kiln cache show", run({"cache", "show", key, "--json"}));
    note("kiln cache pack", run({"cache", "pack", pack, "--json"}));
    note("kiln cache unpack", run({"cache", "unpack", pack, "--json"}));
    note("kiln cache prune", run({"cache", "prune", "--json"}));
    write("cache/v1/stray", "damage");
    note("kiln cache verify", run({"cache", "verify", "--json"}));
    note("kiln cache clear", run({"cache", "clear", "--yes", "--json"}));
    note("kiln doctor", run({"doctor", "--json"}));
    note("kiln completion", run({"completion", "bash", "--json"}));
    note("kiln --version", run({"--version", "--json"}));
    note("kiln help", run({"help", "--json"}));
    const std::string gemm = (own_directory() / "jit-gemm").string();
    note("jit-gemm", run_program({gemm, "--json", "--backend", "host", "--m", "5", "--n", "6", "--k", "7"},
                                 usual_environment()));
    // What comes from a server has the fields of a pack.
    for (const char* command : {"kiln cache push", "kiln cache pull"}) {
        EXPECT_EQ(fields[command], fields["kiln cache pack"]);
        fields.erase(command);
    }

    for (const auto& [command, paths] : found)
        for (const std::string& path : paths)
            EXPECT_TRUE(std::any_of(fields[command].begin(), fields[command].end(),
                                    [&](const std::string& field) { return names(field, path); }))
                << command << " prints " << path << ", which docs/json.md does not name";
    for (const auto& [command, named] : fields)
        for (const std::string& field : named) {
            const bool there = std::any_of(found[command].begin(), found[command].end(),
                                           [&](const std::string& path) { return names(field, path); });
            EXPECT_TRUE(there) << command << " does not print " << field;
        }
}

}  // namespace
}  // namespace kiln::test
