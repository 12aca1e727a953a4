// SPDX-License-Identifier: Apache-2.0
//
// Mistakes that a test of the library must see: a barrier removed, an edge check forgotten, a wrong index. Each is
// made in the text of a built-in template, and found by running it on the host in a few orders of threads.
#include <kiln/error.h>

#include "library.h"
#include "template/embedded.h"

namespace kiln {
namespace {

std::string file_text(const std::string& file) {
    for (const EmbeddedFile& one : embedded_files())
        if (one.name == file) return std::string(one.text);
    ADD_FAILURE() << file;
    return {};
}

// The text with the n-th `from` replaced, from 0; nullopt when there are fewer.
std::optional<std::string> broken(std::string text, const std::string& from, const std::string& to, int n) {
    std::size_t at = text.find("#include \"kiln/");
    for (int i = 0; i <= n; ++i) {
        at = text.find(from, at + 1);
        if (at == std::string::npos) return std::nullopt;
    }
    return text.replace(at, from.size(), to);
}

// Whether one of a few orders of threads gives a wrong result or ends the launch with an error.
bool is_caught(const std::string& text, const std::string& file, const Values& values = {}) {
    for (const std::optional<unsigned> seed : {std::optional<unsigned>(), std::optional(1u),
                                               std::optional(2u), std::optional(3u), std::optional(4u)}) {
        test::HostLibrary library(seed);
        const Variant variant = library.service().parse(text, file).variant(values);
        for (const Data data : {Data::random, Data::integers}) {
            try {
                if (!library.runner().run(variant, test::once({}, data)).pass()) return true;
            } catch (const DeviceError&) {
                return true;
            }
        }
    }
    return false;
}

struct Removal {
    std::string file;
    Values values = {};
    int first = 0;    ///< barrier that these values reach
    int most = 1000;  ///< barriers that they reach
};

class RemovedBarrier : public testing::TestWithParam<Removal> {};

TEST_P(RemovedBarrier, IsCaught) {
    const std::string text = file_text(GetParam().file);
    EXPECT_FALSE(is_caught(text, GetParam().file, GetParam().values)) << "the template itself is wrong";
    int removed = 0;
    for (; removed < GetParam().most; ++removed) {
        const int number = GetParam().first + removed;
        const auto without = broken(text, "__syncthreads();", ";", number);
        if (!without) break;
        EXPECT_TRUE(is_caught(*without, GetParam().file, GetParam().values))
            << "barrier " << number + 1 << " of " << GetParam().file;
    }
    EXPECT_GT(removed, 0);
}

INSTANTIATE_TEST_SUITE_P(Kernels, RemovedBarrier,
                         testing::Values(Removal{"gemm_square.cu"}, Removal{"gemm_tiled.cu"},
                                         Removal{"column_sum_tile.cu"}, Removal{"transpose_narrow.cu"},
                                         Removal{"transpose_tiled.cu", {}, 1},
                                         Removal{"transpose_tiled.cu", {{"ANY_ROWS", true}}, 0, 1},
                                         Removal{"gemm_skinny.cu"}),
                         [](const auto& item) {
                             return item.param.file.substr(0, item.param.file.find('.')) +
                                    (item.param.values.empty() ? "" : "_any");
                         });

TEST(BrokenTemplate, AForgottenEdgeIsCaught) {
    const std::string text = file_text("gemm_naive.cu");
    const auto without = broken(text, "if (row >= m || col >= n) return;", "if (row >= m) return;", 0);
    ASSERT_TRUE(without);
    EXPECT_TRUE(is_caught(*without, "gemm_naive.cu"));
}

TEST(BrokenTemplate, AWrongScaleIsCaught) {
    const std::string text = file_text("softmax.cu");
    const auto wrong = broken(text, "(value - largest) * kiln::kLog2E", "(value - largest) * 1.4425f", 0);
    ASSERT_TRUE(wrong);
    EXPECT_TRUE(is_caught(*wrong, "softmax.cu", {{"T", "float"}, {"VEC", 1}, {"ITEMS", 8}}));
}

TEST(BrokenTemplate, ALostElementIsCaught) {
    const std::string text = file_text("sum_shuffle.cu");
    const auto wrong = broken(text, "if (i < n)", "if (i < n - 1)", 0);
    ASSERT_TRUE(wrong);
    EXPECT_TRUE(is_caught(*wrong, "sum_shuffle.cu"));
}

}  // namespace
}  // namespace kiln
