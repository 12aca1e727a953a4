// SPDX-License-Identifier: Apache-2.0
//
// The list of counters covers all of them, and Prometheus can read what is written for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/trace.h>

#include <array>
#include <bit>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace kiln {
namespace {

// A different value in each.
Counters numbered(std::uint64_t first) {
    Counters counters;
    for (const auto& field : counter_fields()) counters.*field.value = first++;
    return counters;
}

TEST(Counters, TheListHasEveryMemberOnceAndInOrder) {
    ASSERT_EQ(counter_fields().size() * sizeof(std::uint64_t), sizeof(Counters));
    const Counters counters = numbered(1);
    const auto words =
        std::bit_cast<std::array<std::uint64_t, sizeof(Counters) / sizeof(std::uint64_t)>>(counters);
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < counter_fields().size(); ++i) {
        EXPECT_EQ(words[i], i + 1) << counter_fields()[i].name << " is not in the order of the struct";
        EXPECT_TRUE(names.insert(counter_fields()[i].name).second) << counter_fields()[i].name;
        EXPECT_FALSE(counter_fields()[i].help.empty());
    }
    // A name that belongs to another member would pass the above.
    EXPECT_EQ(counter_fields().front().value, &Counters::memory_hits);
    EXPECT_EQ(counter_fields().front().name, "memory_hits");
    EXPECT_EQ(counter_fields().back().value, &Counters::saved_ms);
    EXPECT_EQ(counter_fields().back().name, "saved_ms");
}

TEST(Counters, AddUp) {
    Counters sum = numbered(1);
    sum += numbered(100);
    sum += Counters{};
    for (std::size_t i = 0; i < counter_fields().size(); ++i)
        EXPECT_EQ(sum.*counter_fields()[i].value, 101 + 2 * i) << counter_fields()[i].name;
    EXPECT_NE(sum, numbered(1));
}

// What promtool checks: every line is HELP, TYPE or a sample; HELP and TYPE of a metric come once and before
// its samples; names and labels are legal, counters end in _total; the text ends with a newline.
std::vector<std::string> faults_of(const std::string& text) {
    static const std::regex help(R"(# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) \S.*)");
    static const std::regex type(R"(# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) counter)");
    static const std::regex sample(
        R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{([a-zA-Z_]\w*="([^"\\\n]|\\["\\n])*",?)*\})? \d+)re");
    std::vector<std::string> faults;
    std::set<std::string> helped, typed, sampled;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::smatch match;
        if (std::regex_match(line, match, help)) {
            if (!helped.insert(match[1]).second) faults.push_back("a second " + line);
        } else if (std::regex_match(line, match, type)) {
            if (!typed.insert(match[1]).second || sampled.count(match[1])) faults.push_back("late: " + line);
        } else if (std::regex_match(line, match, sample)) {
            const std::string metric = match[1];
            if (!helped.count(metric) || !typed.count(metric)) faults.push_back("before its TYPE: " + line);
            if (!metric.ends_with("_total")) faults.push_back("a counter's name: " + line);
            if (!sampled.insert(metric).second) faults.push_back("a second " + line);
        } else {
            faults.push_back("not understood: " + line);
        }
    }
    if (helped != sampled || typed != sampled) faults.push_back("a metric has no sample");
    if (!text.ends_with('\n')) faults.push_back("no newline at the end");
    return faults;
}

TEST(Prometheus, TextIsLegalAndHasEveryCounter) {
    for (const std::string labels : {"", R"(service="a")", R"(host="b\"c",directory="/x")"}) {
        const std::string text = prometheus_text(numbered(7), labels);
        EXPECT_THAT(faults_of(text), testing::IsEmpty());
        for (std::size_t i = 0; i < counter_fields().size(); ++i) {
            const std::string sample = "\nkiln_" + std::string(counter_fields()[i].name) + "_total" +
                                       (labels.empty() ? "" : "{" + labels + "}") + " " +
                                       std::to_string(7 + i) + "\n";
            EXPECT_NE(text.find(sample), std::string::npos) << sample << text;
        }
    }
}

TEST(Prometheus, TheCheckItselfSeesFaults) {
    EXPECT_THAT(faults_of("kiln_a_total 1\n"), testing::Not(testing::IsEmpty()));
    EXPECT_THAT(faults_of("# HELP kiln_a_total x\n# TYPE kiln_a_total counter\nkiln_a_total 1"),
                testing::ElementsAre("no newline at the end"));
    EXPECT_THAT(faults_of("# HELP kiln_a_total x\n# TYPE kiln_a_total counter\nkiln_a_total{a=b} 1\n"),
                testing::Not(testing::IsEmpty()));
}

TEST(TraceKind, EachHasANameOfItsOwn) {
    std::set<std::string_view> names;
    for (int kind = 0; kind <= static_cast<int>(TraceKind::unavailable); ++kind) {
        const auto text = name(static_cast<TraceKind>(kind));
        EXPECT_NE(text, "unknown");
        EXPECT_TRUE(names.insert(text).second) << text;
    }
    EXPECT_EQ(name(TraceKind::take_over), "take_over");
}

}  // namespace
}  // namespace kiln
