// SPDX-License-Identifier: Apache-2.0
//
// ServiceOptions::record: all requests are in the file, even if other processes write to it; a file of another kind
// is not changed.
#include <gmock/gmock.h>
#include <kiln/kiln.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/file.h"
#include "scale_kernel.h"
#include "working_directory.h"

namespace kiln {
namespace {

using test::scale_variant;
using test::ScaleFn;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kTwice = R"(// twice: y = 2 x
//@ kernel twice
//@ param  STEP int in 1, 2 = 1 "elements per thread"
//@ size   n = 64
//@ input  x [n]
//@ output y [n]
//@ block  32
//@ grid   ceil_div(n, 32 * STEP)
#include "kiln/device.h"
extern "C" __global__ void twice(int n, const float* x, float* y) {
    for (int i = (blockIdx.x * 32 + threadIdx.x) * STEP, end = i + STEP; i < end && i < n; ++i) y[i] = 2 * x[i];
}
)";

struct Recording : test::ServiceFixture {
    std::filesystem::path file = directory.path() / "folder" / "app.json";

    ServiceOptions recorded() {
        auto result = options();
        result.record = file;
        return result;
    }
    static std::vector<std::string> factors(const Record& record) {
        std::vector<std::string> found;
        for (const RecordedValues& one : record.variants) found.push_back(one.values.at("FACTOR"));
        return found;
    }
};

TEST_F(Recording, HasWhatWasBuiltAndNothingElse) {
    {
        Service service(recorded());
        service.build<ScaleFn>(scale_variant(service, 3));
        // What is new is there at once: a program may be killed.
        EXPECT_THAT(factors(Record::load(file)), ElementsAre("3"));
        service.build<ScaleFn>(scale_variant(service, 3));
        service.build_async<ScaleFn>(scale_variant(service, 5)).get();
        static_cast<void>(service.explain(scale_variant(service, 7)));
        static_cast<void>(service.compile(scale_variant(service, 9)));
    }
    const Record record = Record::load(file);
    EXPECT_THAT(factors(record), ElementsAre("3", "5"));
    EXPECT_EQ(record.variants.begin()->template_name, "scale");
    EXPECT_EQ(record.variants.begin()->backend, "host");
    EXPECT_THAT(record.operations, IsEmpty());
    EXPECT_TRUE(record.complete);
    EXPECT_THAT(warnings, IsEmpty());
    // From a warm cache too.
    std::filesystem::remove(file);
    Service again(recorded());
    EXPECT_EQ(again.build<ScaleFn>(scale_variant(again, 3)).origin(), Origin::disk);
    EXPECT_THAT(factors(Record::load(file)), ElementsAre("3"));
}

TEST_F(Recording, HasTheSizesOfOperations) {
    {
        Service service(recorded());
        const Operation twice(service, service.parse(kTwice, "twice.cu"), {{"STEP", 2}}, {});
        std::vector<float> x(100, 1), y(100);
        for (const int n : {7, 100, 7}) {
            const float* from = x.data();
            float* to = y.data();
            int size = n;
            void* arguments[] = {&size, &from, &to};
            twice.launch(StreamRef::legacy_default(), arguments);
        }
        twice.prepare(Sizes{{"n", 64}});
        service.record(service.parse(kTwice, "twice.cu"), {}, {{"n", 1}});
    }
    const Record record = Record::load(file);
    ASSERT_EQ(record.operations.size(), 2u);
    EXPECT_EQ(record.variants.size(), 1u);
    const auto& [without, one_shape] = *record.operations.begin();
    EXPECT_THAT(without.values, IsEmpty());
    EXPECT_EQ(one_shape, (std::set<Sizes>{{{"n", 1}}}));
    const auto& [fixed, shapes] = *record.operations.rbegin();
    EXPECT_EQ(fixed.template_name, "twice");
    EXPECT_EQ(fixed.values.at("STEP"), "2");
    EXPECT_EQ(shapes, (std::set<Sizes>{{{"n", 7}}, {{"n", 64}}, {{"n", 100}}}));
}

TEST_F(Recording, LosesNothingWhenProcessesWriteAtOnce) {
    constexpr int kProcesses = 8, kEach = 12;
    std::vector<pid_t> children;
    for (int process = 0; process < kProcesses; ++process) {
        const pid_t child = ::fork();
        if (child == 0) {
            try {
                for (int i = 0; i < kEach; ++i) {
                    Record seen;
                    seen.add({"scale", {{"FACTOR", std::to_string(process * kEach + i)}}, "host", "x86-64"});
                    Record::store(file, seen);
                }
            } catch (...) {
                ::_exit(1);
            }
            ::_exit(0);
        }
        children.push_back(child);
    }
    // A reader sees a whole record at any time.
    for (int i = 0; i < 20; ++i) {
        if (!std::filesystem::exists(file)) continue;
        EXPECT_NO_THROW(Record::load(file));
    }
    for (const pid_t child : children) {
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    EXPECT_EQ(Record::load(file).variants.size(), std::size_t{kProcesses} * kEach);
    for (const auto& item : std::filesystem::directory_iterator(file.parent_path()))
        EXPECT_EQ(item.path(), file);
}

TEST_F(Recording, LeavesAloneWhatIsNoRecord) {
    std::filesystem::create_directories(file.parent_path());
    write_text(file, "{\"my\": \"notes\"}\n");
    {
        Service service(recorded());
        service.build<ScaleFn>(scale_variant(service, 3));
    }
    EXPECT_EQ(read_text_if_exists(file), "{\"my\": \"notes\"}\n");
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_THAT(warnings[0], HasSubstr(file.string() + ":1: this is no record of an application"));
}

TEST_F(Recording, SaysWhyItCantBeWrittenAndGoesOn) {
    write_text(file.parent_path(), "a file");
    Service service(recorded());
    const auto kernel = service.build<ScaleFn>(scale_variant(service, 3));
    test::expect_scales(service, kernel, 3);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_THAT(warnings[0], HasSubstr("the record " + file.string() + " can't be written"));
}

TEST_F(Recording, HasTheOptionsOfTheService) {
    ServiceOptions with = recorded();
    with.compile_options = {"-DMORE=1"};
    with.debug = true;
    {
        Service service(with);
        service.build<ScaleFn>(scale_variant(service, 3));
    }
    const RecordedValues one = *Record::load(file).variants.begin();
    EXPECT_THAT(one.compile_options, ElementsAre("-DMORE=1"));
    EXPECT_TRUE(one.debug);
}

// A daemon or a notebook goes elsewhere.
TEST_F(Recording, RelativePathsAreThoseOfTheBeginning) {
    for (const char* folder : {"here", "there"}) {
        std::filesystem::create_directories(directory.path() / folder / "templates");
        std::string text = test::kScale;
        text.replace(text.find("y = FACTOR"), 1, folder);
        std::ofstream(directory.path() / folder / "templates" / "scale.cu") << text;
    }
    const test::WorkingDirectory in(directory.path() / "here");
    ServiceOptions relative = options();
    relative.record = "app.json";
    relative.template_directories = {"templates"};
    {
        Service service(relative);
        in.go(directory.path() / "there");
        const Template of = service.find("scale");
        EXPECT_THAT(of.summary(), HasSubstr("here"));
        service.build<ScaleFn>(of.variant({{"FACTOR", 3}}));
    }
    EXPECT_TRUE(std::filesystem::exists(directory.path() / "here" / "app.json"));
    EXPECT_FALSE(std::filesystem::exists(directory.path() / "there" / "app.json"));
}

TEST(RecordText, GivesBackWhatItSays) {
    Record record;
    record.add({"softmax", {{"T", "half"}, {"WARPS", "4"}}, "cuda", "sm_90a"});
    record.add({"copy", {}, "hip", "gfx90a"});
    record.add({"copy", {}, "hip", "gfx90a", {"-DA=\"b\"", "--x", "-DNAME=\xc3\xa9"}, true});
    record.add({"gemm_naive", {{"T", "half"}}, "cuda", "sm_90a"}, {{"m", 1}, {"n", 1ll << 40}});
    record.add({"gemm_naive", {{"T", "half"}}, "cuda", "sm_90a"}, {});
    const Record again = Record::parse(record.text(), "app.json");
    EXPECT_EQ(again.variants, record.variants);
    EXPECT_EQ(again.operations, record.operations);
    EXPECT_TRUE(again.complete);
    EXPECT_EQ(again.text(), record.text());
    EXPECT_EQ(Record::parse(Record().text(), "empty").text(), Record().text());
}

TEST(RecordText, SaysWhatIsWrong) {
    const auto problem = [](const std::string& text) {
        try {
            static_cast<void>(Record::parse(text, "app.json"));
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string("none");
    };
    EXPECT_THAT(problem(""), HasSubstr("app.json:1: this is no record of an application: '{' is missing"));
    EXPECT_THAT(problem("{}"), HasSubstr("\"kiln_record\" is missing"));
    EXPECT_THAT(problem("{\"kiln_record\": 2}"), HasSubstr("its version is not 1"));
    EXPECT_THAT(problem("{\"kiln_record\": 1,\n\"variants\": [{\"template\": \"a\\\"\"}]}"),
                HasSubstr("app.json:2"));
    EXPECT_THAT(problem("{\"kiln_record\": 1, \"variants\": [{\"template\": \"a\"}]}"),
                HasSubstr("lacks its template"));
    EXPECT_THAT(problem("{\"kiln_record\": 1} x"), HasSubstr("something follows its end"));
    const std::string whole = [] {
        Record record;
        record.add({"a", {{"B", "1"}}, "cuda", "sm_90"}, {{"m", 1}});
        return record.text();
    }();
    for (std::size_t length = 0; length + 2 < whole.size(); ++length)
        EXPECT_NE(problem(whole.substr(0, length)), "none") << length;
}

TEST(RecordText, HasCodeWithItsQuotes) {
    Record record;
    const std::string code = Value(Code("return \"\\\"\"[0] + x;\n")).text();
    record.add({"a", {{"F", code}}, "cuda", "sm_90"});
    EXPECT_TRUE(record.complete);
    const Record again = Record::parse(record.text(), "app.json");
    EXPECT_EQ(again.variants, record.variants);
    EXPECT_EQ(again.variants.begin()->values.at("F"), code);
}

TEST(RecordText, IsBounded) {
    Record record;
    for (std::size_t i = 0; i <= Record::kMostVariants; ++i)
        record.add({"a", {{"B", std::to_string(i)}}, "cuda", "sm_90"});
    EXPECT_EQ(record.variants.size(), Record::kMostVariants);
    EXPECT_FALSE(record.complete);
    EXPECT_FALSE(Record::parse(record.text(), "app.json").complete);
    Record large;
    for (std::size_t i = 0; i <= Record::kMostShapes; ++i)
        large.add({"a", {{"B", std::to_string(i % 3)}}, "cuda", "sm_90"},
                  {{"n", static_cast<std::int64_t>(i)}});
    EXPECT_EQ(large.shapes, Record::kMostShapes);
    EXPECT_FALSE(large.complete);
    Record strange;  // can't stand in the file
    strange.add({"a\"b", {}, "cuda", "sm_90"});
    EXPECT_THAT(strange.variants, IsEmpty());
    EXPECT_FALSE(strange.complete);
}

}  // namespace
}  // namespace kiln
