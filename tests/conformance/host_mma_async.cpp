// SPDX-License-Identifier: Apache-2.0
//
// kiln/async.h on the host: a copy arrives with the wait that covers its group and not before, edges are
// filled with zeros, and misuse is an error. And where kiln/tile_layout.h puts the elements of a tile.
#include <gmock/gmock.h>

#include <set>
#include <string>
#include <vector>

#include "host_kernel.h"
#include "rejected.h"

namespace kiln {
namespace {

using test::HostKernel;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(HostAsync, CopiesArriveWithTheWaitForTheirGroup) {
    const HostKernel kernel(R"(
#include "kiln/async.h"
extern "C" __global__ void kernel(const int* in, int* out) {
    __shared__ __align__(16) int tile[16];
    kiln::AsyncCopies<> copies;
    for (int group = 0; group < 4; ++group) {
        copies.copy<4>(tile + 4 * group, in + 4 * group);
        copies.commit();
    }
    for (int i = 0; i < 4; ++i) out[i] = tile[4 * i];
    copies.wait<2>();
    for (int i = 0; i < 4; ++i) out[4 + i] = tile[4 * i];
    copies.commit();  // an empty group
    copies.wait<2>();
    for (int i = 0; i < 4; ++i) out[8 + i] = tile[4 * i];
    copies.wait<0>();
    for (int i = 0; i < 16; ++i) out[12 + i] = tile[i];
})");
    std::vector<int> in(16), out(28);
    for (int i = 0; i < 16; ++i) in[static_cast<std::size_t>(i)] = 100 + i;
    kernel({}, {1, 1, 1}, 0, in.data(), out.data());
    EXPECT_THAT(std::vector<int>(out.begin(), out.begin() + 4), Each(-1));
    EXPECT_THAT(std::vector<int>(out.begin() + 4, out.begin() + 8), ElementsAre(100, 104, -1, -1));
    EXPECT_THAT(std::vector<int>(out.begin() + 8, out.begin() + 12), ElementsAre(100, 104, 108, -1));
    EXPECT_EQ(std::vector<int>(out.begin() + 12, out.end()), in);
}

TEST(HostAsync, ReadsTheSourceAsLateAsItMay) {
    const HostKernel kernel(R"(
#include "kiln/async.h"
extern "C" __global__ void kernel(int* in, int* out) {
    __shared__ int tile[1];
    kiln::AsyncCopies<> copies;
    copies.copy<1>(tile, in);
    copies.commit();
    in[0] = 2;
    copies.wait<0>();
    out[0] = tile[0];
})");
    int in = 1, out = 0;
    kernel({}, {1, 1, 1}, 0, &in, &out);
    EXPECT_EQ(out, 2);
}

TEST(HostAsync, FillsTheRestWithZeros) {
    const HostKernel kernel(R"(
#include "kiln/async.h"
extern "C" __global__ void kernel(const kiln::half* in, float* out) {
    __shared__ __align__(16) kiln::half tile[9 * 8];
    kiln::AsyncCopies<> copies;
    for (int count = 0; count <= 8; ++count) copies.copy<8>(tile + 8 * count, count == 0 ? nullptr : in, count);
    copies.commit();
    copies.wait<0>();
    for (int i = 0; i < 9 * 8; ++i) out[i] = float(tile[i]);
})");
    alignas(16) half in[8];
    for (int i = 0; i < 8; ++i) in[i] = half(static_cast<float>(i + 1));
    std::vector<float> out(72);
    kernel({}, {1, 1, 1}, 0, static_cast<const half*>(in), out.data());
    for (int count = 0; count <= 8; ++count) {
        for (int i = 0; i < 8; ++i)
            EXPECT_EQ(out[static_cast<std::size_t>(8 * count + i)], i < count ? static_cast<float>(i + 1) : 0)
                << count;
    }
}

// What a thread leaves behind without a wait is gone with it.
TEST(HostAsync, NothingReachesTheNextBlock) {
    const HostKernel kernel(R"(
#include "kiln/async.h"
extern "C" __global__ void kernel(const int* in, int* out) {
    int* const tile = kiln::dynamic_shared<int>();
    if (blockIdx.x % 2 == 0) {
        kiln::AsyncCopies<> copies;
        copies.copy<1>(tile + threadIdx.x, in);
        copies.commit();
        return;
    }
    tile[threadIdx.x] = int(blockIdx.x);
    __syncthreads();
    kiln::AsyncCopies<> copies;
    copies.commit();
    copies.wait<0>();
    out[blockIdx.x * 32 + threadIdx.x] = tile[31 - threadIdx.x];
})");
    const int in = 77;
    std::vector<int> out(8 * 32, -1);
    kernel({8, 1, 1}, {32, 1, 1}, 128, &in, out.data());
    for (int i = 0; i < 8 * 32; ++i)
        ASSERT_EQ(out[static_cast<std::size_t>(i)], i / 32 % 2 == 0 ? -1 : i / 32);
}

TEST(HostAsync, ReportsMisuse) {
    const auto message = [](const std::string& statement) {
        const HostKernel kernel(R"(
#include "kiln/async.h"
extern "C" __global__ void kernel(const float* in) {
    __shared__ __align__(16) float tile[64];
    kiln::AsyncCopies<4> copies;
    )" + statement + "\n}");
        alignas(16) const float in[64] = {};
        return test::rejected<DeviceError>([&] { kernel({}, {1, 1, 1}, 0, static_cast<const float*>(in)); });
    };
    EXPECT_THAT(message("copies.copy<4>(tile, in + 1);"), HasSubstr("not aligned to its size"));
    EXPECT_THAT(message("copies.copy<2>(tile + 1, in);"), HasSubstr("not aligned to its size"));
    EXPECT_THAT(message("copies.copy<4>(tile, in, 5);"), HasSubstr("more elements than its width"));
    EXPECT_THAT(message("for (int i = 0; i < 5; ++i) copies.copy<1>(tile + i, in);"),
                HasSubstr("the capacity"));
}

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

}  // namespace
}  // namespace kiln
