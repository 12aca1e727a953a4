// SPDX-License-Identifier: Apache-2.0
//
// The attention and decode templates on the host, against their references; and that the references' bounds
// are tight enough: a copy of a template with one small mistake must fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/kiln.h>
#include <kiln/run.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "shared_cache.h"
#include "template/embedded.h"

namespace kiln {
namespace {

using testing::IsEmpty;
using testing::Not;

/// A host service that also finds templates in `directory`.
class Host {
  public:
    explicit Host(const std::filesystem::path& directory = {}) {
        ServiceOptions options;
        options.backend = Backend::host;
        options.cache.directory = test::shared_cache();
        if (!directory.empty()) options.template_directories = {directory};
        service_ = std::make_unique<Service>(options);
    }

    std::vector<std::string> failures(const std::string& name, const Values& values, const Sizes& sizes) {
        RunOptions options;
        options.sizes = sizes;
        options.test_sizes = true;
        options.check = Check::full;
        options.time = false;
        Runner runner(*service_);
        return runner.run(service_->find(name).variant(values), options).failures();
    }

  private:
    std::unique_ptr<Service> service_;
};

struct Case {
    const char* name;
    Values values;
    Sizes sizes;
};

void PrintTo(const Case& item, std::ostream* out) {
    *out << item.name;
    for (const auto& [name, value] : item.values) *out << " " << name << "=" << value.text();
    for (const auto& [name, value] : item.sizes) *out << " " << name << "=" << value;
}

// also the defaults, which tests/kernels runs at many sizes.
class AttentionOnHost : public testing::TestWithParam<Case> {};

TEST_P(AttentionOnHost, IsWithinTheBound) {
    Host host;
    EXPECT_THAT(host.failures(GetParam().name, GetParam().values, GetParam().sizes), IsEmpty());
}

const Values kCausal128 = {{"HEAD_DIM", 128}, {"CAUSAL", true}, {"T", "bfloat16"}};
const Values kCausal96 = {{"HEAD_DIM", 96}, {"CAUSAL", true}};
const Values kCausal192 = {{"HEAD_DIM", 192}, {"VALUE_DIM", 128}, {"CAUSAL", true}};
const Values kCausal256 = {{"HEAD_DIM", 256}, {"CAUSAL", true}};
INSTANTIATE_TEST_SUITE_P(
    Attention, AttentionOnHost,
    testing::Values(
        Case{"attention", kCausal128, {{"queries", 65}, {"keys", 97}}},
        Case{"attention", {{"T", "float"}, {"CAUSAL", true}}, {{"queries", 70}, {"keys", 33}}},
        Case{"attention", {{"BM", 32}}, {{"queries", 1}, {"keys", 1}}},
        Case{"attention_mma", kCausal128, {{"queries", 65}, {"keys", 97}}},
        Case{"attention_mma", {{"WM", 32}, {"CAUSAL", true}}, {{"queries", 70}, {"keys", 33}}},
        Case{"attention_mma", {{"BN", 32}}, {{"queries", 1}, {"keys", 1}}},
        Case{"attention_mma", kCausal96, {{"queries", 65}, {"keys", 97}}},
        Case{"attention_mma", {{"HEAD_DIM", 96}, {"BN", 32}, {"BM", 128}}, {{"keys", 130}}},
        Case{"attention_mma", kCausal192, {{"queries", 129}, {"keys", 150}, {"kv_heads", 2}}},
        Case{"attention_mma", {{"HEAD_DIM", 192}}, {{"queries", 1}, {"keys", 201}}},
        Case{"attention_mma", {{"HEAD_DIM", 256}, {"BM", 128}, {"CAUSAL", true}}, {{"keys", 130}}},
        Case{"attention_mma", {{"HEAD_DIM", 256}, {"BN", 32}}, {{"queries", 65}, {"keys", 31}}},
        Case{"attention_mma", {{"SPLIT_KEYS", 4}}, {{"queries", 37}, {"keys", 301}, {"kv_heads", 2}}},
        Case{"attention_mma", {{"SPLIT_KEYS", 8}, {"CAUSAL", true}}, {{"queries", 130}, {"keys", 201}}},
        Case{"attention_mma", {{"SPLIT_KEYS", 4}, {"CAUSAL", true}}, {{"queries", 70}, {"keys", 33}}},
        Case{"attention_mma",
             {{"SPLIT_KEYS", 32}, {"HEAD_DIM", 128}, {"T", "bfloat16"}},
             {{"queries", 1}, {"keys", 71}, {"group", 5}}},
        Case{"attention_mma",
             {{"SPLIT_KEYS", 2}, {"HEAD_DIM", 192}, {"VALUE_DIM", 128}},
             {{"queries", 50}, {"keys", 130}}},
        Case{"attention_mma", {{"SPLIT_KEYS", 2}, {"BM", 128}, {"WM", 32}}, {{"queries", 100}, {"keys", 0}}},
        Case{"attention_naive", kCausal96, {{"queries", 9}, {"keys", 5}}},
        Case{"attention_naive", kCausal192, {{"queries", 9}, {"keys", 5}}},
        Case{"attention_naive", {{"HEAD_DIM", 256}}, {{"queries", 9}, {"keys", 5}}},
        Case{"attention_naive", kCausal128, {{"queries", 9}, {"keys", 5}}}));
INSTANTIATE_TEST_SUITE_P(
    Decode, AttentionOnHost,
    testing::Values(
        Case{"decode_paged", {{"HEAD_DIM", 64}, {"GQA_GROUP", 8}, {"PAGE_SIZE", 64}}, {{"splits", 16}}},
        Case{"decode_paged", {{"GQA_GROUP", 1}}, {{"max_length", 1}}},
        Case{"decode_paged", {{"T", "bfloat16"}}, {{"max_length", 600}, {"splits", 1}}},
        Case{"decode_persistent",
             {{"PARTITION_SIZE", 128}, {"HEAD_DIM", 64}, {"PAGE_SIZE", 32}},
             {{"batch", 5}}},
        Case{"decode_persistent", {{"GQA_GROUP", 8}}, {{"max_length", 1}}}));

struct Mistake {
    const char* what;
    const char* name;  ///< of the template
    const char* file;  ///< to change, in kernels_src
    const char* right;
    const char* wrong;
    Values values = {};
    Sizes sizes = {};
};

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name << ": " << mistake.what; }

class AttentionMistake : public testing::TestWithParam<Mistake> {};

TEST_P(AttentionMistake, IsBeyondTheBound) {
    const Mistake& mistake = GetParam();
    TemporaryDirectory directory;
    for (const EmbeddedFile& file : embedded_files()) {
        std::string text(file.text);
        if (file.name == mistake.file) {
            const auto at = text.find(mistake.right);
            ASSERT_NE(at, std::string::npos)
                << "nothing to spoil in " << mistake.file << ": " << mistake.right;
            text.replace(at, std::string(mistake.right).size(), mistake.wrong);
        }
        const auto path = directory.path() / file.name;
        std::filesystem::create_directories(path.parent_path());
        write_text(path, text);
    }
    Host host(directory.path());
    EXPECT_THAT(host.failures(mistake.name, mistake.values, mistake.sizes), Not(IsEmpty()));
}

const Sizes kPacked = {{"batch", 3}, {"total_queries", 150}, {"total_keys", 210}};
INSTANTIATE_TEST_SUITE_P(
    Packed, AttentionMistake,
    testing::Values(Mistake{"the last key is missing",
                            "attention_packed_wgmma",
                            "attention_packed_wgmma.cu",
                            "if (!CAUSAL) return keys;",
                            "if (!CAUSAL) return keys - 1;",
                            {{"HEAD_DIM", 64}},
                            kPacked},
                    Mistake{"a query sees the next key",
                            "attention_packed_wgmma",
                            "kiln/attention_wgmma.h",
                            "query + 1 + (keys",
                            "query + 2 + (keys",
                            {{"HEAD_DIM", 64}, {"CAUSAL", true}},
                            kPacked},
                    Mistake{"the sequence before's keys",
                            "attention_packed_wgmma",
                            "attention_packed_wgmma.cu",
                            "from(k_map, work.first_key,",
                            "from(k_map, work.first_key - 1,",
                            {{"HEAD_DIM", 64}},
                            kPacked},
                    Mistake{"tiles have the sequence behind theirs",
                            "attention_packed_wgmma",
                            "kiln/packed.h",
                            "const int tiles =",
                            "low += low + 1 < batch ? 1 : 0; const int tiles =",
                            {{"HEAD_DIM", 64}},
                            kPacked},
                    Mistake{"a query sees the next key",
                            "attention_packed_naive",
                            "attention_packed_naive.cu",
                            "query + 1 - query",
                            "query + 2 - query",
                            {{"CAUSAL", true}}},
                    Mistake{"rounds twice", "attention_packed_naive", "kiln/naive_attention.h",
                            "= T(out[d]);", "= T(static_cast<float>(bfloat16(out[d])));"},
                    Mistake{"rounds twice", "attention_naive", "kiln/naive_attention.h", "= T(out[d]);",
                            "= T(static_cast<float>(bfloat16(out[d])));"},
                    Mistake{"adds weights up in half", "attention_naive", "kiln/naive_attention.h",
                            "sum += softmax.weight(score_of(j));",
                            "sum = static_cast<float>(half(sum + softmax.weight(score_of(j))));"},
                    Mistake{"the other head's keys", "attention_packed_naive", "attention_packed_naive.cu",
                            "+ head / group", "+ head % group"}));
INSTANTIATE_TEST_SUITE_P(
    Attention, AttentionMistake,
    testing::Values(Mistake{"the scale is 1% off", "attention", "kiln/softmax.h", "? 0.125f", "? 0.12625f"},
                    Mistake{"the last key is missing", "attention", "attention.cu",
                            "if (!CAUSAL) return keys;", "if (!CAUSAL) return keys - 1;"},
                    Mistake{"a query sees the key behind it",
                            "attention",
                            "attention.cu",
                            "first + r + 1 +",
                            "first + r + 2 +",
                            {{"CAUSAL", true}}},
                    Mistake{"sums are not rescaled", "attention", "attention.cu", "sums[i] *= rescale;", ""},
                    Mistake{"the other head's keys", "attention", "attention.cu", "k += head / group",
                            "k += head % group"},
                    Mistake{"the scale is 1% off", "attention_mma", "kiln/softmax.h", "? 0.125f",
                            "? 0.12625f"},
                    Mistake{"the last key is missing", "attention_mma", "attention_mma.cu",
                            "if (!CAUSAL) return keys;", "if (!CAUSAL) return keys - 1;"},
                    Mistake{"results are not rescaled", "attention_mma", "attention_mma.cu",
                            "out[m][d](side, 0) *= rescale;", ""},
                    Mistake{"two weights change places", "attention_mma", "attention_mma.cu",
                            "pack2<T>(w(i % 2, 0), w(i % 2, 1))", "pack2<T>(w(i % 2, 1), w(i % 2, 0))"},
                    Mistake{"the scale is 1% off",
                            "attention_mma",
                            "kiln/softmax.h",
                            "? 0.1020620",
                            "? 0.1030827",
                            {{"HEAD_DIM", 96}}},
                    Mistake{"the scale is 1% off",
                            "attention_mma",
                            "kiln/softmax.h",
                            "? 0.0721687",
                            "? 0.0728904",
                            {{"HEAD_DIM", 192}, {"VALUE_DIM", 128}}},
                    Mistake{"the scale is 1% off",
                            "attention_mma",
                            "kiln/softmax.h",
                            "? 0.0625f",
                            "? 0.063125f",
                            {{"HEAD_DIM", 256}}},
                    Mistake{"the other head's values",
                            "attention_mma",
                            "attention_mma.cu",
                            "keys * VALUE_DIM;",
                            "keys * (VALUE_DIM / 2);",  // within the tensor
                            {{"HEAD_DIM", 192}, {"VALUE_DIM", 128}},
                            {{"kv_heads", 2}}},
                    Mistake{"a slice takes the columns of the one before",
                            "attention_mma",
                            "attention_mma.cu",
                            "if (col > 0) loader_.advance(kSlice);",
                            "",
                            {{"HEAD_DIM", 256}}},
                    Mistake{"the first slice's keys for all of them",
                            "attention_mma",
                            "attention_mma.cu",
                            "tile += TileK::Slice::kElements;",
                            "",
                            {{"HEAD_DIM", 192}}},
                    Mistake{"chunks of a row change places only as they are read",
                            "attention_mma",
                            "attention_mma.cu",
                            "Slice::at(row, even % Slice::kChunks + odd)",
                            "row * kSlice + (even % Slice::kChunks + odd) * kVec",
                            {{"HEAD_DIM", 96}}},
                    Mistake{"the tile is not waited for",
                            "attention_mma",
                            "attention_mma.cu",
                            "copies.template wait<1>();",
                            "",
                            {},
                            {{"keys", 200}}}));
INSTANTIATE_TEST_SUITE_P(
    Decode, AttentionMistake,
    testing::Values(
        Mistake{"the scale is 1% off", "decode_paged", "kiln/softmax.h", ": 0.0883883", ": 0.0892722"},
        Mistake{"the last token is missing", "decode_paged", "decode_paged.cu",
                "const int length = lengths[sequence];", "const int length = lengths[sequence] - 1;"},
        Mistake{"pages in the order of the pool", "decode_paged", "kiln/decode.h",
                "cache.page_table[token / PAGE]", "token / PAGE"},
        Mistake{"partial results are merged unscaled", "decode_paged", "kiln/decode.h",
                "value += scale * partials", "value += partials"},
        Mistake{"the last range is not merged", "decode_persistent", "kiln/decode.h",
                "for (int r = 0; r < ranges; ++r) {", "for (int r = 0; r < ranges - 1; ++r) {"}));

}  // namespace
}  // namespace kiln
