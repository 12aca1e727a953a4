// SPDX-License-Identifier: Apache-2.0
//
// Each number is a function of the seed, the family, the problem's number and what is drawn. So a further property of
// a family leaves the others as they were.
#include "bench/unseen_problems.h"

#include <kiln/error.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "format/format.h"
#include "run/inputs.h"

namespace kiln::bench {
namespace {

constexpr double kKilobyte = 1024, kMegabyte = 1024 * kKilobyte, kGigabyte = 1024 * kMegabyte;
constexpr std::int64_t kAligned = 8;        // elements: 16 bytes of half
constexpr std::int64_t kLongest = 1 << 30;  // elements of a tensor of attention, at most
constexpr double kMostFlops = 2e12;         // of a launch: some milliseconds

/// Random numbers of one problem, by the name of what they are for.
class Draw {
  public:
    Draw(std::string_view family, std::uint64_t seed, int number)
        : seed_(random_word(tensor_seed(seed, family), static_cast<std::uint64_t>(number))),
          number_(number) {}

    /// Each third problem, the third first.
    bool unaligned() const { return number_ % 3 == 2; }
    /// In [0, 1).
    double uniform(std::string_view what) const { return static_cast<double>(word(what) >> 11) * 0x1p-53; }
    double log_uniform(std::string_view what, double low, double high) const {
        return low * std::pow(high / low, uniform(what));
    }
    std::int64_t size(std::string_view what, double low, double high) const {
        return std::llround(log_uniform(what, low, high));
    }
    template <class T, std::size_t N>
    T pick(std::string_view what, const std::array<T, N>& of) const {
        return of[below(word(what), N)];
    }
    /// Of a tensor's rows: a multiple of `multiple`, or not if the problem is unaligned.
    std::int64_t row(std::string_view what, double low, double high, std::int64_t multiple = kAligned) const {
        return fitted(size(what, low, high), multiple, unaligned());
    }
    static std::int64_t fitted(std::int64_t size, std::int64_t multiple, bool unaligned) {
        if (unaligned) return size % kAligned == 0 ? size + 1 : size;
        return std::max(multiple, (size + multiple / 2) / multiple * multiple);
    }

  private:
    std::uint64_t word(std::string_view what) const { return tensor_seed(seed_, what); }

    std::uint64_t seed_;
    int number_;
};

const std::array<std::string, 2> kHalves = {"half", "bfloat16"};
const std::array<std::string, 3> kTypes = {"half", "bfloat16", "float"};

std::int64_t bytes_of(const std::string& type) { return type == "float" ? 4 : 2; }

std::string text_of(std::int64_t value) { return std::to_string(value); }
std::string by(std::int64_t a, std::int64_t b) { return text_of(a) + " x " + text_of(b); }

DrawnProblem gemm(const Draw& draw, bool half, bool tiny) {
    const double most = tiny ? 48 : 16384;
    DrawnProblem problem;
    const std::string type = half ? draw.pick("T", kHalves) : "float";
    const bool is_tn = half && draw.uniform("layout") < 0.5;
    std::int64_t m = draw.size("m", 1, most), n = draw.size("n", 1, most), k = draw.size("k", 1, most);
    if (!draw.unaligned()) {
        n = Draw::fitted(n, kAligned, false);
        k = Draw::fitted(k, kAligned, false);
    } else if (n % kAligned == 0 && k % kAligned == 0) {
        (draw.uniform("which") < 0.5 ? n : k) += 1;
    }
    problem.fixed = {{"T", type}};
    if (half) problem.fixed.emplace("TRANS_B", is_tn);
    problem.sizes = {{"m", m}, {"n", n}, {"k", k}};
    problem.text = type + (half ? is_tn ? " TN " : " NN " : " ") + by(m, n) + " x " + text_of(k);
    return problem;
}

DrawnProblem gemm_half(const Draw& draw, bool tiny) { return gemm(draw, true, tiny); }
DrawnProblem gemm_float(const Draw& draw, bool tiny) { return gemm(draw, false, tiny); }

/// What is done with the product, as kiln/gemm_epilogue.h has it.
struct Epilogue {
    std::string_view text;
    std::int64_t bias, activation;
};
constexpr Epilogue kBias = {", bias", 1, 0}, kBiasRelu = {", bias, relu", 1, 1},
                   kBiasGelu = {", bias, gelu", 1, 2};

/// With 16-bit output or an epilogue, or both. FP32 output without one is that of gemm-f16.
DrawnProblem gemm_epilogue(const Draw& draw, bool tiny) {
    DrawnProblem problem = gemm(draw, true, tiny);
    const bool is_float = draw.uniform("out") < 0.5;
    const std::string out = is_float ? "float" : problem.fixed.at("T").text();
    const Epilogue epilogue =
        is_float ? draw.pick("epilogue", std::array{kBias, kBiasRelu, kBiasGelu})
                 : draw.pick("epilogue", std::array{Epilogue{"", 0, 0}, kBias, kBiasRelu, kBiasGelu});
    problem.fixed.insert({{"OUT", out}, {"BIAS", epilogue.bias}, {"ACTIVATION", epilogue.activation}});
    problem.text += " to " + out + std::string(epilogue.text);
    return problem;
}

/// Elements of a query or key, and of a value.
struct Head {
    std::int64_t keys, values;
};
constexpr std::array kHeads = {Head{64, 64}, Head{96, 96}, Head{128, 128}, Head{192, 128}, Head{256, 256}};

/// What all kinds of attention have.
struct AttentionKind {
    std::string type;
    Head head;
    bool causal, differ;  ///< differ: queries and keys in length, in half of those that see all keys
    std::int64_t group, heads;

    explicit AttentionKind(const Draw& draw)
        : type(draw.pick("T", kHalves)),
          head(draw.pick("head", kHeads)),
          causal(draw.uniform("causal") < 0.5),
          differ(!causal && draw.uniform("differ") < 0.5),
          group(draw.pick("group", std::array<std::int64_t, 4>{1, 2, 4, 8})),
          heads(draw.pick("heads", std::array<std::int64_t, 4>{1, 2, 4, 8})) {}

    /// Of so many pairs of a query and a key, in each head.
    double flops(double pairs) const {
        return 2.0 * static_cast<double>(heads * group * (head.keys + head.values)) * pairs;
    }
    /// Without the sizes of lengths; the text goes on with how many sequences there are.
    DrawnProblem problem(std::int64_t batch, std::int64_t queries, std::int64_t keys) const {
        DrawnProblem made;
        made.sizes = {{"batch", batch}, {"kv_heads", heads}, {"group", group}};
        made.fixed = {{"T", type}, {"HEAD_DIM", head.keys}, {"CAUSAL", causal}};
        if (head.keys != head.values) made.fixed.emplace("VALUE_DIM", head.values);
        made.text = type + " head " + text_of(head.keys) +
                    (head.keys != head.values ? "/" + text_of(head.values) : "") +
                    (causal ? " causal " : " full ");
        if (differ) made.text += text_of(queries) + " queries ";
        made.text += text_of(keys) + (differ ? " keys" : " tokens");
        return made;
    }
};

DrawnProblem attention(const Draw& draw, bool tiny) {
    AttentionKind kind(draw);
    const double most = tiny ? 48 : 65536;
    const std::int64_t keys = draw.row("keys", 16, most, 16);
    const std::int64_t queries = kind.differ ? draw.row("queries", 16, most, 16) : keys;
    std::int64_t batch = draw.size("batch", 1, tiny ? 2 : 64);
    while (kind.flops(static_cast<double>(batch) * static_cast<double>(queries) * static_cast<double>(keys)) >
               kMostFlops ||
           batch * kind.heads * kind.group * std::max(queries, keys) * kind.head.keys > kLongest / 4) {
        std::int64_t& largest = batch > 1 ? batch : kind.group > 1 ? kind.group : kind.heads;
        if (largest == 1) break;
        largest /= 2;
    }
    DrawnProblem problem = kind.problem(batch, queries, keys);
    problem.sizes.insert({{"queries", queries}, {"keys", keys}});
    problem.text += ", batch " + text_of(batch) + ", heads " + by(kind.heads, kind.group);
    problem.torch = "attention " + text_of(batch) + " " + text_of(kind.heads) + " " + text_of(queries) + " " +
                    text_of(kind.head.keys) + (kind.causal ? " 1 " : " 0 ") + text_of(kind.group) + " " +
                    text_of(keys) + " " + kind.type + " " + text_of(kind.head.values);
    return problem;
}

std::string offsets_text(std::int64_t sequences, std::int64_t rows) {
    std::string text;
    for (std::int64_t i = 0; i <= sequences; ++i)
        text += (i == 0 ? "" : ",") + text_of(packed_offset(i, sequences, rows));
    return text;
}

/// Sequences of different lengths, one behind the other.
DrawnProblem attention_packed(const Draw& draw, bool tiny) {
    AttentionKind kind(draw);
    const std::int64_t batch = draw.size("batch", 2, tiny ? 3 : 128);
    const auto total_of = [&](std::string_view what) {
        return draw.row(what, tiny ? 16 : 1024, tiny ? 48 : 65536, 16);
    };
    const std::int64_t keys = total_of("keys");
    const std::int64_t queries = kind.differ ? total_of("queries") : keys;
    const double pairs =
        static_cast<double>(queries) * static_cast<double>(keys) / static_cast<double>(batch);
    while (kind.flops(pairs) > kMostFlops ||
           kind.heads * kind.group * std::max(queries, keys) * kind.head.keys > kLongest / 4) {
        std::int64_t& largest = kind.group > 1 ? kind.group : kind.heads;
        if (largest == 1) break;
        largest /= 2;
    }
    DrawnProblem problem = kind.problem(batch, queries, keys);
    problem.sizes.insert({{"total_queries", queries}, {"total_keys", keys}});
    problem.text += " of " + text_of(batch) + " sequences, heads " + by(kind.heads, kind.group);
    problem.torch = "packed_attention " + text_of(kind.heads) + " " + text_of(kind.head.keys) +
                    (kind.causal ? " 1 " : " 0 ") + text_of(kind.group) + " " + kind.type + " " +
                    text_of(kind.head.values) + " " + offsets_text(batch, queries) + " " +
                    offsets_text(batch, keys);
    return problem;
}

DrawnProblem decode(const Draw& draw, bool tiny) {
    const std::string type = draw.pick("T", kHalves);
    const auto head = draw.pick("head", std::array<std::int64_t, 2>{64, 128});
    const auto group = draw.pick("group", std::array<std::int64_t, 4>{1, 2, 4, 8});
    const auto page = draw.pick("page", std::array<std::int64_t, 4>{16, 32, 64, 128});
    // Half of the steps have one new token per sequence, the others 2 to 16, as speculative decoding has.
    const std::int64_t added = draw.uniform("many") < 0.5 ? 1 : draw.size("new", 2, 16);
    const auto heads = draw.pick("heads", std::array<std::int64_t, 3>{2, 4, 8});
    std::int64_t batch = draw.size("batch", 1, tiny ? 3 : 256);
    const double bytes = draw.log_uniform("bytes", 32 * kMegabyte, 2 * kGigabyte);
    const auto tokens = [&] { return bytes / static_cast<double>(2 * 2 * batch * heads * head); };
    while (!tiny && tokens() > 131072) batch *= 2;
    while (!tiny && batch > 1 && tokens() < static_cast<double>(8 * page)) batch /= 2;
    const std::int64_t length =
        tiny ? 70 : Draw::fitted(std::max<std::int64_t>(16, std::llround(tokens())), page, draw.unaligned());
    DrawnProblem problem;
    problem.fixed = {{"T", type}, {"HEAD_DIM", head}, {"GQA_GROUP", group}, {"PAGE_SIZE", page}};
    if (added > 1) problem.fixed.emplace("NEW_TOKENS", added);
    problem.sizes = {{"batch", batch}, {"kv_heads", heads}, {"max_length", length}};
    problem.text = type + " head " + text_of(head) + ", batch " + text_of(batch) + ", " + text_of(length) +
                   " tokens, heads " + by(heads, group) + ", pages of " + text_of(page) +
                   (added > 1 ? ", " + text_of(added) + " new tokens" : "");
    return problem;
}

/// A matrix of a total number of bytes, read and written, of any aspect.
struct Matrix {
    std::string type;
    std::int64_t rows, cols;
};

Matrix matrix(const Draw& draw, bool tiny, double least_cols, double most_cols, double accesses) {
    const std::string type = draw.pick("T", kTypes);
    const double bytes = tiny ? 8 * kKilobyte : draw.log_uniform("bytes", kMegabyte, 2 * kGigabyte);
    const double elements = bytes / accesses / static_cast<double>(bytes_of(type));
    const double high = std::min(tiny ? 64.0 : most_cols, elements);
    const std::int64_t cols = draw.row("cols", std::min(least_cols, high), high);
    return {type, std::max<std::int64_t>(1, std::llround(elements / static_cast<double>(cols))), cols};
}

DrawnProblem on_matrix(const Matrix& of, const std::string& torch) {
    DrawnProblem problem;
    problem.fixed = {{"T", of.type}};
    problem.sizes = {{"rows", of.rows}, {"cols", of.cols}};
    problem.text = of.type + " " + by(of.rows, of.cols);
    problem.torch = torch + " " + text_of(of.rows) + " " + text_of(of.cols) + " " + of.type;
    return problem;
}

DrawnProblem softmax(const Draw& draw, bool tiny) {
    return on_matrix(matrix(draw, tiny, 16, 262144, 2), "softmax");
}
DrawnProblem layer_norm(const Draw& draw, bool tiny) {
    return on_matrix(matrix(draw, tiny, 16, 262144, 2), "layer_norm");
}

DrawnProblem rms_norm(const Draw& draw, bool tiny) {
    const bool residual = draw.uniform("residual") < 0.5;
    DrawnProblem problem = on_matrix(matrix(draw, tiny, 16, 262144, residual ? 4 : 2), "rms_norm");
    problem.fixed.emplace("RESIDUAL", residual);
    problem.text += residual ? ", residual added" : "";
    problem.torch += residual ? " 1" : " 0";
    return problem;
}

DrawnProblem transpose(const Draw& draw, bool tiny) {
    Matrix of = matrix(draw, tiny, 8, 1 << 24, 2);
    of.rows = Draw::fitted(of.rows, kAligned, draw.unaligned());
    return on_matrix(of, "transpose");
}

DrawnProblem column_sum(const Draw& draw, bool tiny) {
    return on_matrix(matrix(draw, tiny, 8, 1 << 24, 1), "column_sum");
}

DrawnProblem sum(const Draw& draw, bool tiny) {
    const std::string type = draw.pick("T", kTypes);
    const double bytes = tiny ? 8 * kKilobyte : draw.log_uniform("bytes", kMegabyte, 2 * kGigabyte);
    const std::int64_t n =
        Draw::fitted(std::llround(bytes / static_cast<double>(bytes_of(type))), kAligned, draw.unaligned());
    DrawnProblem problem;
    problem.fixed = {{"T", type}};
    problem.sizes = {{"n", n}};
    problem.text = type + " " + text_of(n);
    problem.torch = "sum " + text_of(n) + " " + type;
    return problem;
}

DrawnProblem histogram(const Draw& draw, bool tiny) {
    const std::int64_t n =
        Draw::fitted(tiny ? 5000 : draw.size("bytes", kMegabyte, 2 * kGigabyte - 64), 16, draw.unaligned());
    DrawnProblem problem;
    problem.fixed = {{"SET", true}};
    problem.sizes = {{"n", n}};
    problem.text = "bytes " + text_of(n);
    return problem;
}

using Maker = DrawnProblem (*)(const Draw&, bool tiny);
struct Known {
    DrawnFamily family;
    Maker make;
};

constexpr std::string_view kTuned = "cublasLt best of 8, after tuning";
/// Of the time of the best variant that is known, in that of the chosen one.
constexpr DrawnAim kChoice = {"best known variant", 1 / 1.05, 1, 1 / 1.15, 1, 10};

DrawnFamily gemm_half_family(std::string_view part, std::vector<std::string_view> of) {
    return {part,
            std::move(of),
            Peer::cublas_half,
            {{"cublasLt first heuristic", 0.97, 1.05, 0.75, 0.9},
             {"cublasLt best of 8", 0.93, 1.0, 0.7, 0.85},
             {kTuned, 1.0, 1.05, 0.9, 0.95},
             kChoice},
            true,
            true};
}

DrawnFamily bandwidth_bound(std::string_view part, std::string_view of, Peer peer) {
    const DrawnAim aim = peer == Peer::torch ? DrawnAim{"PyTorch", 1.25, 1.5, 0.95, 1.1}
                                             : DrawnAim{"best of the others", 1.0, 1.1, 0.8, 0.95};
    if (peer == Peer::torch) return {part, {of}, peer, {aim, kCopyOfAsManyBytes, kChoice}};
    return {part, {of}, peer, {aim, kChoice}};
}

const std::vector<Known>& table() {
    static const std::vector<Known> kTable = {
        {gemm_half_family("gemm-f16", {"gemm_mma", "gemm_tiled"}), gemm_half},
        {gemm_half_family("gemm-epilogue", {"gemm_skinny"}), gemm_epilogue},
        {{"gemm-f32", {"gemm_tiled"}, Peer::cublas_float, {{"cuBLAS", 0.95, 1.02, 0.75, 0.9}, kChoice}, true},
         gemm_float},
        {{"attention",
          {"attention_wgmma", "attention_mma", "attention"},
          Peer::attention,
          {{"cuDNN or FlashAttention", 0.97, 1.08, 0.8, 0.95}, kChoice},
          true,
          true},
         attention},
        {{"attention-packed",
          {"attention_packed_wgmma"},
          Peer::flash,
          {{"FlashAttention", 0.97, 1.08, 0.8, 0.95}, kChoice},
          true,
          true},
         attention_packed},
        {{"decode",
          {"decode_mma", "decode_paged"},
          Peer::copy,
          {{"copy", 0.85, 0.95, 0.6, 0.75}, kCopyOfAsManyBytes, kChoice}},
         decode},
        {bandwidth_bound("softmax", "softmax", Peer::torch), softmax},
        {bandwidth_bound("layer-norm", "layer_norm", Peer::torch), layer_norm},
        {bandwidth_bound("rms-norm", "rms_norm", Peer::torch), rms_norm},
        {bandwidth_bound("transpose", "transpose_tiled", Peer::memory), transpose},
        {bandwidth_bound("reduction", "sum_shuffle", Peer::memory), sum},
        {bandwidth_bound("column-reduction", "column_sum", Peer::memory), column_sum},
        {bandwidth_bound("histogram", "histogram", Peer::memory), histogram},
    };
    return kTable;
}

}  // namespace

std::span<const DrawnFamily> drawn_families() {
    static const std::vector<DrawnFamily> kFamilies = [] {
        std::vector<DrawnFamily> list;
        for (const Known& one : table()) list.push_back(one.family);
        return list;
    }();
    return kFamilies;
}

std::vector<DrawnProblem> drawn_problems(std::string_view part, std::uint64_t seed, int count, bool tiny) {
    const auto known =
        std::ranges::find_if(table(), [&](const Known& one) { return one.family.part == part; });
    if (known == table().end()) throw UsageError("no problems are drawn for '" + std::string(part) + "'");
    std::vector<DrawnProblem> problems;
    std::set<std::string> seen;
    for (int number = 0; number < count; ++number) {
        const Draw draw(part, seed, number);
        DrawnProblem problem = known->make(draw, tiny);
        problem.unaligned = draw.unaligned();
        if (!seen.insert(problem.text).second) continue;
        problem.text += formatted(" (seed {})", seed);
        problems.push_back(std::move(problem));
    }
    return problems;
}

}  // namespace kiln::bench
