// SPDX-License-Identifier: Apache-2.0
//
// Damaged templates: each of many deterministic mutations parses and enumerates, or throws Kiln's own errors.
#include <random>

#include "template/tensor_maps.h"
#include "template_support.h"

namespace kiln {
namespace {

constexpr int kIterations = 20000;

constexpr const char* kSeed = R"(// k: C = A * B
//@ kernel  k
//@ param   T    type in half, float = half   "element type"
//@ param   BM   int in 16, 32, 64 = 64       "rows"
//@ param   TM   int in 1..8 = 4              "rows per thread"
//@ param   FAST bool = true
//@ param   ALPHA float in 0, 0.5, -1e-3 = 0.5
//@ require BM % TM == 0 && (FAST || T == half)  "BM must be a multiple of TM"
//@ require shared_bytes <= device.shared_bytes_per_block_optin
//@ block   BM / TM, max(1, TM - 4)
//@ grid    ceil_div(n, BM), n > 5 ? m : 1
//@ shared  (BM * 4 + 1) * sizeof(T)
//@ shared  static 16
//@ cluster 1, 1
//@ backend cuda, host
//@ arch    sm_90a
//@ size    m = 4 test 3                      "rows"
//@ size    n = m * BM test m + 3 multiple 2
//@ input   a [n, 2 * m] in -2..m             "the left operand"
//@ inout   c [m] by c_reference exact
//@ scratch s [max(m, n), TM] = 0
//@ output  i [m]
//@ flops   2 * m * n
//@ bytes   n * sizeof(T)
//@ naive   k_naive
//@ tensormap map = a [n, m] box [1, TM * 8] swizzle FAST ? 128 : 0
#include "own.h"
extern "C" __global__ __launch_bounds__(64) void k(int m, long n, const T* __restrict__ a, float* c, unsigned* s,
    char* i, const __grid_constant__ kiln::TensorMap map) {}
)";

std::string mutated(std::string text, std::mt19937& random) {
    constexpr std::string_view kPieces[] = {"(",           ")",
                                            ",",           "..",
                                            "-",           "9223372036854775807",
                                            "\"",          "\\",
                                            "/*",          "//@ ",
                                            "\n",          "BM",
                                            "T",           "?",
                                            ":",           "%",
                                            "0",           "sizeof(",
                                            "device.",     "R\"(",
                                            "{",           "}",
                                            "#",           "void",
                                            "\xFF",        "'",
                                            "&&",          "!",
                                            " ",           "threads",
                                            "k(",          "extern \"C\"",
                                            "[",           "]",
                                            "..",          "=",
                                            "test",        "by",
                                            "permutation", "1e-9",
                                            "TensorMap"};
    const auto below = [&](std::size_t bound) { return random() % std::max<std::size_t>(bound, 1); };
    for (std::size_t edits = 1 + below(3); edits > 0; --edits) {
        const std::size_t at = below(text.size());
        switch (below(5)) {
            case 0:
                text.erase(at, 1 + below(12));
                break;
            case 1:
                text.insert(at, kPieces[below(std::size(kPieces))]);
                break;
            case 2:
                if (!text.empty()) text[at] = static_cast<char>(below(256));
                break;
            case 3:
                text.insert(below(text.size()), text.substr(at, below(60)));
                break;
            default:
                text.insert(at, std::string(below(300), kPieces[below(std::size(kPieces))][0]));
        }
    }
    return text;
}

TEST(Robustness, MutatedTemplates) {
    std::mt19937 random(20261);
    int parsed = 0, refused = 0, problems = 0, maps = 0;
    for (int i = 0; i < kIterations; ++i) {
        const std::string text = mutated(kSeed, random);
        try {
            const Template made = Template::parse(text, "k.cu", {{"own.h", "int own;\n"}});
            ++parsed;
            Target target = test::cuda_target("sm_90a");
            Values few;
            if (!made.parameters().empty())
                few.emplace(made.parameters()[0].name, made.parameters()[0].default_value);
            int m = 100;
            long n = i;
            const void* none = nullptr;
            // Mutations may add arguments.
            std::vector<void*> arguments(64, &n);
            arguments[0] = &m;
            arguments[2] = &none;
            const Variant variant = made.for_target(target).variant(few);
            EXPECT_FALSE(variant.source(Backend::host).text.empty());
            variant.grid(arguments.data());
            if (tensor_map_count(variant) > 0) maps += !tensor_map_specs(variant, arguments.data()).empty();
            if (made.is_runnable()) {
                for (const bool test : {false, true})
                    for (const Tensor& tensor : variant.problem({}, test).tensors)
                        EXPECT_GE(tensor.count(), 0);
                ++problems;
            }
            EXPECT_LE(made.for_target(target).variants(few).size(), made.variants(few).size());
        } catch (const TemplateError&) {
            ++refused;
        } catch (const VariantError&) {
        }
    }
    // Both ways must be well trodden, or the mutations are no test.
    EXPECT_GT(parsed, kIterations / 20);
    EXPECT_GT(refused, kIterations / 20);
    EXPECT_GT(problems, kIterations / 50);
    EXPECT_GT(maps, kIterations / 50);
}

}  // namespace
}  // namespace kiln
