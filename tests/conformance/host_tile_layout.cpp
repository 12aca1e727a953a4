// SPDX-License-Identifier: Apache-2.0
//
// kiln/tile_layout.h: where the elements of a tile lie in shared memory, that reads and writes meet no bank twice, and that a layout
// which would put two elements in one place does not compile.
#include <gmock/gmock.h>
#include <kiln/error.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "host_kernel.h"
#include "rejected.h"

namespace kiln {
namespace {

using test::HostKernel;
using test::rejected;
using testing::HasSubstr;

// Every element of a tile has a place of its own, and where VEC elements take 16 bytes, those of eight neighbouring rows lie
// in eight different groups of four banks: reads down a column take the fewest wavefronts.
TEST(HostTileLayout, VectorsOfAColumnMeetNoBankTwice) {
    struct Shape {
        std::string type, layout;
        int size, cols;  // bytes of an element; columns
    };
    std::vector<Shape> shapes;
    for (const auto& [type, size] : {std::pair{"kiln::half", 2}, {"float", 4}, {"double", 8}}) {
        const std::string vec = std::to_string(16 / size);
        for (const int vectors : {2, 4, 8, 16, 32}) {
            const int cols = vectors * 16 / size;
            const std::string text = std::to_string(cols);
            shapes.push_back(
                {type, text + ", 0, kiln::LineSwizzle<T, " + text + ", " + vec + ">", size, cols});
            shapes.push_back({type,
                              text + ", " + vec + ", kiln::LineSwizzle<T, " + text + ", " + vec + ", false>",
                              size, cols});
        }
    }
    for (const Shape& shape : shapes) {
        SCOPED_TRACE(shape.type + " " + shape.layout);
        constexpr int kRows = 32;
        const HostKernel kernel(R"(
#include "kiln/tile_layout.h"
using T = )" + shape.type + R"(;
using Layout = kiln::TileLayout<)" +
                                shape.layout + R"(>;
extern "C" __global__ void kernel(int rows, int* pitch, int* period, int* place, int* place_of_group) {
    constexpr int kGroup = Layout::kPeriod > 1 ? 16 / int(sizeof(T)) : 1;
    *pitch = Layout::kPitch, *period = Layout::kPeriod;
    for (int row = 0; row < rows; ++row)
        for (int col = 0; col < Layout::kCols; ++col) {
            place[row * Layout::kCols + col] = Layout::at(row, col);
            place_of_group[row * Layout::kCols + col] = Layout::group_at(row, col / kGroup) + col % kGroup;
        }
})");
        int rows = kRows, pitch = 0, period = 0;
        std::vector<int> place(kRows * 512, -1), place_of_group = place;
        kernel({}, {1, 1, 1}, 0, rows, &pitch, &period, place.data(), place_of_group.data());
        EXPECT_EQ(place, place_of_group);
        const auto at = [&](int row, int col) {
            return place[static_cast<std::size_t>(row * shape.cols + col)];
        };
        const std::set<int> taken(place.begin(), place.begin() + rows * shape.cols);
        EXPECT_EQ(taken.size(), static_cast<std::size_t>(rows * shape.cols));
        EXPECT_EQ(*taken.begin(), 0);
        EXPECT_LT(*taken.rbegin(), rows * pitch);
        const int vec = 16 / shape.size;
        for (int row = 0; row < rows; ++row) {
            for (int col = 0; col < shape.cols; ++col) {
                EXPECT_EQ(at(row, col) / pitch, row) << "an element leaves its row";
                EXPECT_EQ(at(row, col), at(row, col / vec * vec) + col % vec) << "a vector is torn";
                EXPECT_EQ(at(row, col) - row * pitch, at(row % period, col) - row % period * pitch);
            }
        }
        for (int row = 0; row < rows; row += 8) {
            for (int col = 0; col < shape.cols; col += vec) {
                std::set<int> banks;
                for (int i = 0; i < 8; ++i) banks.insert(at(row + i, col) * shape.size % 128 / 16);
                ASSERT_EQ(banks.size(), 8U) << "at row " << row << ", column " << col;
            }
        }
    }
}

// The table of the PTX ISA for a swizzle of 128 bytes: 16-byte pieces, by the row modulo 8.
TEST(HostTileLayout, IsThatOfTmaForRowsOf128Bytes) {
    const HostKernel kernel(R"(
#include "kiln/tma.h"
extern "C" __global__ void kernel(unsigned* place) {
    for (unsigned row = 0; row < 16; ++row)
        for (unsigned byte = 0; byte < 128; ++byte) place[row * 128 + byte] = kiln::swizzled(row, byte);
})");
    std::vector<unsigned> place(16 * 128);
    kernel({}, {1, 1, 1}, 0, place.data());
    for (unsigned i = 0; i < place.size(); ++i)
        ASSERT_EQ(place[i], i / 128 * 128 + (i % 128 / 16 ^ i / 128 % 8) * 16 + i % 16) << i;
}

// kiln/gemm_tile.h: a warp that transposes a tile on its way writes to each bank once.
TEST(HostTileLayout, TransposingThreadsMeetNoBankTwice) {
    const HostKernel kernel(R"(
#include "kiln/gemm_tile.h"
using Tile = kiln::OperandTile<float, 16, 64, true, 4, 128, 0, true>;
extern "C" __global__ void kernel(int* elements, int* place) {
    *elements = Tile::kElements;
    for (int k = 0; k < 16; ++k)
        for (int row = 0; row < 64; ++row) place[k * 64 + row] = Tile::Layout::at(k, row);
})");
    int elements = 0;
    std::vector<int> place(16 * 64);
    kernel({}, {1, 1, 1}, 0, &elements, place.data());
    const std::set<int> taken(place.begin(), place.end());
    EXPECT_EQ(taken.size(), place.size());
    EXPECT_EQ(*taken.begin(), 0);
    EXPECT_EQ(*taken.rbegin(), elements - 1);
    for (int first = 0; first < 64; first += 8) {
        for (int v = 0; v < 4; ++v) {
            std::set<int> banks;
            for (int lane = 0; lane < 32; ++lane)
                banks.insert(place[static_cast<std::size_t>((lane % 4 * 4 + v) * 64 + first + lane / 4)] %
                             32);
            ASSERT_EQ(banks.size(), 32U) << "row " << first << ", step " << v;
        }
    }
}

TEST(HostTileLayout, ThatWouldLeaveARowDoesNotCompile) {
    const auto message = [](const std::string& declaration) {
        return rejected<BuildError>([&] {
            HostKernel("#include \"kiln/async_tile.h\"\n" + declaration +
                       "\nextern \"C\" __global__ void kernel(int* place) { *place = Layout::at(1, 0); }\n");
        });
    };
    EXPECT_THAT(message("using Layout = kiln::TileLayout<96, 0, kiln::LineSwizzle<kiln::half, 96, 8>>;"),
                HasSubstr("a swizzled group would leave its row"));
    EXPECT_THAT(message("using Layout = kiln::TileLayout<64, 0, kiln::Swizzle<8, 1, 3>>;"),
                HasSubstr("an XOR needs powers of two"));
    EXPECT_THAT(message("using Layout = kiln::TileLayout<64, 0, kiln::Swizzle<4, 1, 8>>;\n"
                        "constexpr int k = kiln::AsyncTile<kiln::half, 8, Layout, 8, 64>::kElements;"),
                HasSubstr("a swizzle would tear chunks"));
}

}  // namespace
}  // namespace kiln
