// SPDX-License-Identifier: Apache-2.0
//
// Mistakes that no choice of inputs can stand for, each made in the source of a template: masks, the width of an
// accumulator, a result that is rounded on its way, an index that wraps. Running the template finds every one.
#include "library.h"
#include "template/embedded.h"

namespace kiln {
namespace {

struct Mutant {
    const char* what;
    const char* name;  ///< of the template
    const char* right;
    const char* wrong;
    Values values = {};
    Sizes sizes = {};
};

void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.name << ": " << mutant.what; }

class Mutants : public testing::TestWithParam<Mutant> {};

std::string source_text(const std::string& name) {
    for (const EmbeddedFile& file : embedded_files())
        if (file.name == name + ".cu") return std::string(file.text);
    return {};
}

TEST_P(Mutants, AreFound) {
    const Mutant& mutant = GetParam();
    std::string text = source_text(mutant.name);
    const std::string right = mutant.right;
    const std::size_t at = text.find(right);
    ASSERT_NE(at, std::string::npos) << "nothing to change: " << right;
    ASSERT_EQ(text.find(right, at + 1), std::string::npos) << "there twice: " << right;
    test::HostLibrary library;
    const RunOptions options = test::once(mutant.sizes);
    const auto run = [&](const std::string& source) {
        return library.runner().run(
            library.service().parse(source, std::string(mutant.name) + ".cu").variant(mutant.values),
            options);
    };
    const RunResult unchanged = run(text);
    EXPECT_TRUE(unchanged.pass()) << test::failures_text(unchanged);
    text.replace(at, right.size(), mutant.wrong);
    EXPECT_FALSE(run(text).pass()) << mutant.right << " -> " << mutant.wrong;
}

const Values kCausal = {{"CAUSAL", true}};
const Values kNewTokens = {{"NEW_TOKENS", 4}};
const Sizes kSelf = {{"batch", 1}, {"kv_heads", 1}, {"group", 1}, {"queries", 257}, {"keys", 257}};

INSTANTIATE_TEST_SUITE_P(
    Masks, Mutants,
    testing::Values(
        Mutant{"a query sees the next key", "attention", "first + r + 1 +", "first + r + 2 +", kCausal,
               kSelf},
        Mutant{"a query does not see its own key", "attention", "first + r + 1 +", "first + r +", kCausal,
               kSelf},
        Mutant{"a query sees the next key", "attention_mma", "= row + 1 + (", "= row + 2 + (", kCausal},
        Mutant{"a query does not see its own key", "attention_mma", "= row + 1 + (", "= row + (", kCausal},
        Mutant{"a query does not see its own key", "attention_naive", "? row % queries + 1 + keys",
               "? row % queries + keys", kCausal},
        Mutant{"keys behind the last are seen", "attention",
               "const bool seen = whole || begin + x + j * kLanes < visible(row);",
               "const bool seen = true;"},
        Mutant{"keys behind the last are seen", "attention_mma", "if (begin + BN > whole_end) {",
               "if (false) {"},
        Mutant{"the last columns of keys count as nothing",
               "attention_mma",
               "slice < kStepsD / kSteps; ++slice",
               "slice < kStepsD / kSteps - 1; ++slice",
               {{"HEAD_DIM", 256}}},
        Mutant{"keys between two parts are left out",
               "attention_mma",
               "static_cast<int>(tiles_of_keys * part / SPLIT_KEYS)",
               "static_cast<int>((tiles_of_keys * part + SPLIT_KEYS - 1) / SPLIT_KEYS)",
               {{"SPLIT_KEYS", 4}},
               {{"keys", 301}}},
        Mutant{"the queries of a group see another head's keys",
               "attention_mma",
               "kv_head = FOLDED ? head : head / group",
               "kv_head = head / group",
               {{"SPLIT_KEYS", 4}},
               {{"kv_heads", 2}}},
        Mutant{"tokens behind the last are seen", "decode_mma",
               "% 2 >= seen) score =", "% 2 > seen) score ="},
        Mutant{"a new token sees the next one", "decode_mma", "NEW_TOKENS - 1 - token_of(",
               "NEW_TOKENS - 2 - token_of(", kNewTokens},
        Mutant{"new tokens see the same", "decode_mma", "NEW_TOKENS - 1 - token_of(", "0 * token_of(",
               kNewTokens},
        Mutant{"a new token reads the query of another", "decode_mma",
               "element / kGroup * ((kv_heads - 1) * kGroup)", "0", kNewTokens},
        Mutant{"a token too few", "decode_naive", "(NEW_TOKENS - 1 -", "(NEW_TOKENS -"},
        Mutant{"a new token sees the next one", "decode_naive", "(NEW_TOKENS - 1 -", "(NEW_TOKENS - 2 -",
               kNewTokens},
        Mutant{
            "a row's last column is left out of its sum", "softmax_naive",
            "for (int col = 0; col < cols; ++col) sum +=", "for (int col = 0; col < cols - 1; ++col) sum +="},
        Mutant{"a row's first column is left out of its squares", "layer_norm_naive",
               "squares = 0.0f;\n    for (int col = 0;", "squares = 0.0f;\n    for (int col = 1;"}));

const Sizes kLongK = {{"m", 9}, {"n", 11}, {"k", 4096}};

INSTANTIATE_TEST_SUITE_P(
    Roundings, Mutants,
    testing::Values(
        Mutant{"adds up in half", "gemm_naive",
               "sum += static_cast<float>(a_row[i]) * static_cast<float>(*b_col);",
               "sum = static_cast<float>(kiln::half(sum + static_cast<float>(a_row[i]) * "
               "static_cast<float>(*b_col)));"},
        Mutant{"adds up in half",
               "gemm_naive",
               "sum += static_cast<float>(a_row[i]) * static_cast<float>(*b_col);",
               "sum = static_cast<float>(kiln::half(sum + static_cast<float>(a_row[i]) * "
               "static_cast<float>(*b_col)));",
               {},
               kLongK},
        Mutant{"rounds to bfloat16", "gemm_naive", "epilogue(sum,",
               "epilogue(static_cast<float>(kiln::bfloat16(sum)),"},
        Mutant{"rounds to bfloat16",
               "gemm_naive",
               "epilogue(sum,",
               "epilogue(static_cast<float>(kiln::bfloat16(sum)),",
               {},
               kLongK},
        Mutant{"rounds to half",
               "gemm_naive",
               "epilogue(sum,",
               "epilogue(static_cast<float>(kiln::half(sum)),",
               {},
               kLongK},
        Mutant{"adds up in half", "column_sum_naive", "sum += static_cast<float>(x[row * cols + col]);",
               "sum = static_cast<float>(kiln::half(sum + static_cast<float>(x[row * cols + col])));"},
        Mutant{"rounds to bfloat16", "sum_naive", "*sum = mine;",
               "*sum = static_cast<float>(kiln::bfloat16(mine));"},
        Mutant{"rounds twice", "attention", "values[e] = T(out[i][c][e] * scale);",
               "values[e] = T(static_cast<float>(kiln::bfloat16(out[i][c][e] * scale)));"},
        Mutant{"rounds twice", "decode_naive", "= T(out[d]);",
               "= T(static_cast<float>(kiln::bfloat16(out[d])));"},
        Mutant{"rounds twice", "softmax_naive",
               "y[col] = T(expf(static_cast<float>(x[col]) - largest) * factor);",
               "y[col] = T(static_cast<float>(kiln::bfloat16(expf(static_cast<float>(x[col]) - largest) * "
               "factor)));"},
        Mutant{"rounds twice", "layer_norm_naive", "static_cast<float>(bias[col]));",
               "static_cast<float>(kiln::bfloat16(static_cast<float>(bias[col]))));"},
        Mutant{"adds up in half", "layer_norm_naive", "sum += static_cast<float>(x[col]);",
               "sum = static_cast<float>(kiln::half(sum + static_cast<float>(x[col])));"}));

// A softmax is the same for each shift of a row.
INSTANTIATE_TEST_SUITE_P(Shifts, Mutants,
                         testing::Values(Mutant{"the maximum is not subtracted", "softmax_naive",
                                                "float sum = 0.0f;", "float sum = 0.0f; largest = 0.0f;"},
                                         Mutant{"the maximum begins at zero", "softmax_naive",
                                                "float largest = static_cast<float>(x[0]);",
                                                "float largest = 0.0f;"},
                                         Mutant{"the maximum is not subtracted",
                                                "softmax_naive",
                                                "float sum = 0.0f;",
                                                "float sum = 0.0f; largest = 0.0f;",
                                                {{"T", "float"}},
                                                {{"rows", 1}, {"cols", 7}}},
                                         Mutant{"the maximum begins at zero", "softmax",
                                                "float largest = kiln::kMinusInfinity;\n    row.visit",
                                                "float largest = 0.0f;\n    row.visit"},
                                         Mutant{"the maximum begins at zero",
                                                "softmax",
                                                "float largest = kiln::kMinusInfinity, base",
                                                "float largest = 0.0f, base",
                                                {{"ITEMS", 1}, {"THREADS", 32}}}));

// What a 32-bit index does at 2^31 elements, at as few as a test has: it wraps at 2^14 or 2^16.
INSTANTIATE_TEST_SUITE_P(
    Indices, Mutants,
    testing::Values(
        Mutant{"an index wraps", "sum_naive", "static_cast<float>(x[i])",
               "static_cast<float>(x[i & 0xffff])"},
        Mutant{"an index wraps", "column_sum_naive", "x[row * cols + col]", "x[(row * cols + col) & 0xfff]"},
        Mutant{"an index wraps", "softmax_naive", "x += row * cols;", "x += (row * cols) & 0x3fff;"},
        Mutant{"an index wraps", "softmax_naive", "y += row * cols;", "y += (row * cols) & 0x3fff;"},
        Mutant{"an index wraps", "transpose_naive", "in[row * cols + col]", "in[(row * cols + col) & 0x1ff]"},
        Mutant{"an index wraps", "gemm_naive", "row : row * k)", "row : (row * k) & 0x1ff)"},
        Mutant{"an index wraps", "gemm_naive", "c[row * n + col]", "c[(row * n + col) & 0x3ff]"},
        Mutant{"an index wraps", "attention_naive", "v + kv_head * keys * VALUE_DIM",
               "v + ((kv_head * keys * VALUE_DIM) & 0x1fff)"},
        Mutant{"an index wraps", "decode_naive", "return (page * PAGE_SIZE + token % PAGE_SIZE) * HEAD_DIM;",
               "return ((page * PAGE_SIZE + token % PAGE_SIZE) * HEAD_DIM) & 0x7fff;"},
        Mutant{"an index wraps", "histogram_naive", "x[i]", "x[i & 0xffff]"}));

INSTANTIATE_TEST_SUITE_P(
    Clearing, Mutants,
    testing::Values(
        Mutant{"does not clear", "histogram", "counts[value] = 0;", "", {{"SET", true}, {"THREADS", 256}}},
        Mutant{"clears some",
               "histogram",
               "value < kValues; value += kiln::kWarpSize",
               "value < 255; value += kiln::kWarpSize",
               {{"SET", true}, {"THREADS", 256}}}));

}  // namespace
}  // namespace kiln
