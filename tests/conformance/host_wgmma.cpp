// SPDX-License-Identifier: Apache-2.0
//
// Hopper's matrix instruction and its copies as the host emulates them: where bytes lie in shared memory and
// results in registers, as the PTX ISA has it, and that mistakes in the order of things show.
#include <gmock/gmock.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "host_kernel.h"
#include "rejected.h"

namespace kiln {
namespace {

using test::HostKernel;
using testing::HasSubstr;

constexpr const char* kIncludes = "#include \"kiln/tma.h\"\n#include \"kiln/wgmma.h\"\n";

/// As a kernel takes it: the bytes of a kiln_host::TensorMap, innermost dimension first.
struct alignas(64) PassedMap {
    void* base;
    unsigned rank;
    unsigned element_bytes;
    unsigned long long extents[5];
    unsigned long long stride_bytes[5];
    unsigned box[5];
    unsigned swizzle_bytes;
};
static_assert(sizeof(PassedMap) == 128);

PassedMap map_of(void* base, unsigned element_bytes, const std::vector<unsigned>& extents,
                 const std::vector<unsigned>& box, unsigned swizzle_bytes) {
    PassedMap map{};
    map.base = base;
    map.rank = static_cast<unsigned>(extents.size());
    map.element_bytes = element_bytes;
    unsigned long long stride = element_bytes;
    for (std::size_t i = 0; i < extents.size(); ++i) {
        map.extents[i] = extents[i];
        map.stride_bytes[i] = stride;
        map.box[i] = box[i];
        stride *= extents[i];
    }
    map.swizzle_bytes = swizzle_bytes;
    return map;
}

// Loads one box and copies the bytes of shared memory out as they lie.
constexpr const char* kLoad = R"(
extern "C" __global__ void kernel(const __grid_constant__ kiln::TensorMap map, int slice, int row, int column,
                                  unsigned bytes, unsigned char* out) {
    unsigned char* const shared = kiln::dynamic_shared<unsigned char>();
    kiln::Barrier* const barrier = reinterpret_cast<kiln::Barrier*>(shared + bytes);
    if (threadIdx.x == 0) {
        kiln::barrier_init(barrier, 1);
        kiln::barrier_init_fence();
        kiln::barrier_arrive_and_expect_tx(barrier, bytes);
        if (RANK == 3)
            kiln::tma_load(shared, map, barrier, slice, row, column);
        else
            kiln::tma_load(shared, map, barrier, row, column);
    }
    __syncthreads();
    kiln::barrier_wait(barrier, 0);
    for (unsigned i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = shared[i];
})";

HostKernel load_kernel(int rank) {
    return HostKernel(kIncludes + ("constexpr int RANK = " + std::to_string(rank) + ";") + kLoad);
}

// PTX ISA, "Swizzling modes": the 16-byte pieces of 8 rows of 128 bytes, 4 times 2 rows of 64, 4 of 32.
TEST(HostTma, PutsPiecesWhereTheSwizzleSays) {
    constexpr unsigned kPieces128[8][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6},
                                           {2, 3, 0, 1, 6, 7, 4, 5}, {3, 2, 1, 0, 7, 6, 5, 4},
                                           {4, 5, 6, 7, 0, 1, 2, 3}, {5, 4, 7, 6, 1, 0, 3, 2},
                                           {6, 7, 4, 5, 2, 3, 0, 1}, {7, 6, 5, 4, 3, 2, 1, 0}};
    constexpr unsigned kPieces64[8][4] = {{0, 1, 2, 3}, {0, 1, 2, 3}, {1, 0, 3, 2}, {1, 0, 3, 2},
                                          {2, 3, 0, 1}, {2, 3, 0, 1}, {3, 2, 1, 0}, {3, 2, 1, 0}};
    constexpr unsigned kPieces32[8][2] = {{0, 1}, {0, 1}, {0, 1}, {0, 1}, {1, 0}, {1, 0}, {1, 0}, {1, 0}};
    const auto load = load_kernel(2);
    for (const unsigned swizzle : {0u, 32u, 64u, 128u}) {
        constexpr unsigned kRows = 24, kColumns = 160, kBoxRows = 16, kRow = 5, kColumn = 32;
        const unsigned box_columns = (swizzle == 0 ? 128 : swizzle) / 2;
        std::vector<unsigned short> tensor(kRows * kColumns);
        for (unsigned i = 0; i < tensor.size(); ++i) tensor[i] = static_cast<unsigned short>(i);
        std::vector<unsigned char> out(std::size_t{kBoxRows} * box_columns * 2);
        const auto bytes = static_cast<unsigned>(out.size());
        load({}, {64, 1, 1}, bytes + 8,
             map_of(tensor.data(), 2, {kColumns, kRows}, {box_columns, kBoxRows}, swizzle), 0, int{kRow},
             int{kColumn}, bytes, out.data());
        for (unsigned row = 0; row < kBoxRows; ++row) {
            for (unsigned column = 0; column < box_columns; ++column) {
                const unsigned piece = column / 8;
                const unsigned place = swizzle == 128  ? kPieces128[row % 8][piece]
                                       : swizzle == 64 ? kPieces64[row % 8][piece]
                                       : swizzle == 32 ? kPieces32[row % 8][piece]
                                                       : piece;
                unsigned short found;
                std::memcpy(&found, &out[(row * box_columns + place * 8 + column % 8) * 2], 2);
                ASSERT_EQ(found, (kRow + row) * kColumns + kColumn + column)
                    << "swizzle " << swizzle << ", row " << row << ", column " << column;
            }
        }
    }
}

TEST(HostTma, FillsWithZeroWhatLiesOutside) {
    const auto load = load_kernel(3);
    constexpr int kSlices = 3, kRows = 5, kColumns = 7;
    std::vector<float> tensor(kSlices * kRows * kColumns);
    for (std::size_t i = 0; i < tensor.size(); ++i) tensor[i] = static_cast<float>(i + 1);
    for (const auto& [slice, row, column] :
         {std::array{0, 0, 0}, {2, 3, 4}, {-1, -2, -3}, {9, 9, 9}, {-9, 1, 1}}) {
        std::vector<float> out(2 * 4 * 8, -1.0F);
        const auto bytes = static_cast<unsigned>(out.size() * sizeof(float));
        load({}, {32, 1, 1}, bytes + 8, map_of(tensor.data(), 4, {kColumns, kRows, kSlices}, {8, 4, 2}, 0),
             slice, row, column, bytes, reinterpret_cast<unsigned char*>(out.data()));
        for (int i = 0; i < 64; ++i) {
            const int s = slice + i / 32, r = row + i / 8 % 4, c = column + i % 8;
            const bool inside = s >= 0 && s < kSlices && r >= 0 && r < kRows && c >= 0 && c < kColumns;
            ASSERT_EQ(out[static_cast<std::size_t>(i)],
                      inside ? tensor[static_cast<std::size_t>((s * kRows + r) * kColumns + c)] : 0.0F)
                << i << " of the box at " << slice << ", " << row << ", " << column;
        }
    }
}

// Two boxes, the second of which reaches past the last row and column; CHANGE and WAIT are the mistakes.
constexpr const char* kStore = R"(
extern "C" __global__ void kernel(const __grid_constant__ kiln::TensorMap map) {
    unsigned char* const shared = kiln::dynamic_shared<unsigned char>();
    kiln::TmaStores stores;
    for (int box = 0; box < 2; ++box) {
        for (unsigned i = threadIdx.x; i < 8 * 32; i += 32) {
            *reinterpret_cast<float*>(shared + box * 1024 + kiln::swizzled(i / 32, i % 32 * 4)) = 1000 * box + i;
        }
        kiln::fence_async_proxy();
        __syncwarp();
        if (threadIdx.x == 0) {
            stores.store(map, shared + box * 1024, box * 8, box * 32);
            stores.commit();
        }
        CHANGE
    }
    if (threadIdx.x == 0) { WAIT }
})";

TEST(HostTma, StoresWhatLiesInside) {
    constexpr unsigned kRows = 13, kColumns = 44;
    const auto store = [&](const char* change, const char* wait) {
        std::vector<float> tensor(kRows * kColumns + 100, -1.0F);
        const HostKernel kernel(kIncludes + ("#define CHANGE " + std::string(change)) + "\n#define WAIT " +
                                wait + "\n" + kStore);
        kernel({}, {32, 1, 1}, 2048, map_of(tensor.data(), 4, {kColumns, kRows}, {32, 8}, 128));
        return tensor;
    };
    const auto tensor = store("", "stores.wait_read<0>();");
    const auto one_group = store("", "stores.wait<1>();");
    for (unsigned i = 0; i < tensor.size(); ++i) {
        const unsigned row = i / kColumns, column = i % kColumns;
        const bool first = row < 8 && column < 32, second = row >= 8 && row < kRows && column >= 32;
        const auto value = static_cast<float>(first    ? row * 32 + column
                                              : second ? 1000 + (row - 8) * 32 + column - 32
                                                       : 0);
        ASSERT_EQ(tensor[i], first || second ? value : -1.0F) << i;
        ASSERT_EQ(one_group[i], first ? value : -1.0F) << "the last group is not waited for: " << i;
    }
    EXPECT_THAT(test::rejected<DeviceError>([&] { store("shared[4] = 7;", "stores.wait_read<0>();"); }),
                HasSubstr("source of a TMA store was written to"));
}

TEST(HostTma, BarriersRejectWhatCantBe) {
    const auto error = [](const std::string& body, std::size_t shared_bytes = 64) {
        const HostKernel kernel(kIncludes + (R"(extern "C" __global__ void kernel() {
            kiln::Barrier* const barrier = kiln::dynamic_shared<kiln::Barrier>();
            if (threadIdx.x == 0) { barrier->word = 0;)" +
                                             body + "}}"));
        return test::rejected<DeviceError>([&] { kernel({}, {32, 1, 1}, shared_bytes); });
    };
    EXPECT_THAT(error("kiln::barrier_wait(barrier, 0);"), HasSubstr("not initialised"));
    EXPECT_THAT(error("kiln::barrier_arrive(barrier);"), HasSubstr("not initialised"));
    EXPECT_THAT(error("kiln::barrier_init(barrier, 0);"), HasSubstr("1 to 2^20 - 1"));
    EXPECT_THAT(error("kiln::barrier_init(barrier, 2); kiln::barrier_arrive_and_expect_tx(barrier, 8);"
                      "kiln::barrier_arrive(barrier); kiln::barrier_arrive(barrier);"),
                HasSubstr("more threads arrive"));
    EXPECT_THAT(
        error("kiln::barrier_init(barrier, 1); kiln::barrier_arrive_and_expect_tx(barrier, 1 << 20);"),
        HasSubstr("2^20 - 1"));
    EXPECT_THAT(error("kiln::barrier_init(barrier, 1); kiln::barrier_arrive_and_expect_tx(barrier, 8); "
                      "kiln::barrier_wait(barrier, 0);"),
                HasSubstr("waits in kernel.cu:6 for a condition"));
}

// One product of a 64 x 16 with a 16 x N piece out of larger tiles, by 4 warps that are not the first, from
// bytes that the test lays out. KERNEL_* are the mistakes.
constexpr const char* kDescribedProduct = R"(
#ifndef FENCE
#define FENCE kiln::wgmma_fence();
#define COMMIT kiln::wgmma_commit();
#define WAIT kiln::wgmma_wait<0>(sums);
#define BEFORE_WAIT
#endif
extern "C" __global__ void kernel(const unsigned char* image, unsigned bytes, unsigned a_at, unsigned b_at,
                                  unsigned a_step, unsigned b_step, unsigned a_slice, unsigned b_slice, int steps,
                                  int first_accumulates, float* out) {
    unsigned char* const shared = kiln::dynamic_shared<unsigned char>();
    for (unsigned i = threadIdx.x; i < bytes; i += blockDim.x) shared[i] = image[i];
    kiln::fence_async_proxy();
    __syncthreads();
    if (threadIdx.x < 128) return;
    const int thread = threadIdx.x % 128;
    const auto a = A_MN ? kiln::wgmma_mn_major(shared, a_slice) : kiln::wgmma_k_major(shared);
    const auto b = B_MN ? kiln::wgmma_mn_major(shared + b_at, b_slice) : kiln::wgmma_k_major(shared + b_at);
    kiln::WgmmaAccumulator<N> sums;
    for (int i = 0; i < N / 2; ++i) sums.values[i] = 0.5f;
    FENCE
    for (int i = 0; i < steps; ++i)
        kiln::wgmma<T, A_MN, B_MN>(sums, a + kiln::wgmma_advance(a_at + i * a_step), b + kiln::wgmma_advance(i * b_step),
                                   i > 0 || first_accumulates != 0);
    COMMIT
    BEFORE_WAIT
    WAIT
    for (int row = 0; row < sums.kRows; ++row)
        for (int col = 0; col < sums.kCols; ++col)
            out[sums.row_of(thread, row) * N + sums.col_of(thread, col)] = sums(row, col);
})";

// An operand with `rows` of m or n and 64 of k, in small integers, and its image in shared memory.
template <class T>
struct Operand {
    Operand(unsigned rows_, bool mn_major, unsigned seed) : rows(rows_), image(std::size_t{rows_} * 128) {
        for (unsigned mn = 0; mn < rows; ++mn) {
            for (unsigned k = 0; k < 64; ++k) {
                seed = seed * 1664525 + 1013904223;
                values.push_back(static_cast<float>(static_cast<int>(seed >> 24) % 5 - 2));
                // K-major: a row of 128 bytes for each m or n. MN-major: slices of 64, in each a row for each
                // k.
                const unsigned row = mn_major ? mn / 64 * 64 + k : mn;
                const unsigned byte = (mn_major ? mn % 64 : k) * 2;
                const T value(values.back());
                std::memcpy(&image[row * 128 + (byte / 16 ^ row % 8) * 16 + byte % 16], &value, 2);
            }
        }
    }
    float at(unsigned mn, unsigned k) const { return values[std::size_t{mn} * 64 + k]; }

    unsigned rows;
    std::vector<float> values;
    std::vector<unsigned char> image;
};

std::string product_text(const char* type, int n, bool a_mn, bool b_mn) {
    return kIncludes + ("using T = kiln::" + std::string(type) + "; constexpr int N = " + std::to_string(n)) +
           "; constexpr bool A_MN = " + std::to_string(a_mn) + ", B_MN = " + std::to_string(b_mn) + ";" +
           kDescribedProduct;
}

// Rows 64 to 127 of A, in 3 steps of 16 from k = 16 on.
template <class T>
void expect_product(const char* type, unsigned n, bool a_mn, bool b_mn, bool first_accumulates) {
    SCOPED_TRACE(std::string(type) + ", N = " + std::to_string(n) + (a_mn ? ", A along m" : ", A along k") +
                 (b_mn ? ", B along n" : ", B along k"));
    const Operand<T> a(128, a_mn, 1), b((n + 63) / 64 * 64, b_mn, 2);
    std::vector<unsigned char> image = a.image;
    image.insert(image.end(), b.image.begin(), b.image.end());
    const HostKernel kernel(product_text(type, static_cast<int>(n), a_mn, b_mn));
    std::vector<float> out(std::size_t{64} * n, -1.0F);
    const unsigned slice = 64 * 128;
    const unsigned a_step = a_mn ? 16 * 128 : 32, b_step = b_mn ? 16 * 128 : 32;
    kernel({}, {256, 1, 1}, image.size(), image.data(), static_cast<unsigned>(image.size()), slice + a_step,
           static_cast<unsigned>(a.image.size()), a_step, b_step, slice, slice, 3, int{first_accumulates},
           out.data());
    for (unsigned row = 0; row < 64; ++row) {
        for (unsigned column = 0; column < n; ++column) {
            float sum = first_accumulates ? 0.5F : 0.0F;
            for (unsigned k = 0; k < 48; ++k) sum += a.at(64 + row, 16 + k) * b.at(column, k);
            ASSERT_EQ(out[row * n + column], sum) << "row " << row << ", column " << column;
        }
    }
}

TEST(HostWgmma, MultipliesWhatTheDescriptorsDescribe) {
    for (const unsigned n : {64u, 96u, 128u, 144u, 160u, 176u, 192u, 256u})
        expect_product<half>("half", n, false, true, false);
    expect_product<half>("half", 128, false, false, true);
    expect_product<bfloat16>("bfloat16", 128, true, true, true);
    expect_product<bfloat16>("bfloat16", 256, true, false, false);
}

// PTX ISA, the figure of the accumulator of wgmma .m64nNk16.
TEST(HostWgmma, SpreadsTheResultOverThreadsAsTheDeviceDoes) {
    const HostKernel kernel(std::string(kIncludes) + R"(
constexpr bool lies(int thread, int i, int row, int column) {
    using C = kiln::WgmmaAccumulator<256>;
    return C::row_of(thread, i % 4 / 2) == row && C::col_of(thread, i / 4 * 2 + i % 2) == column;
}
static_assert(lies(0, 0, 0, 0) && lies(0, 1, 0, 1) && lies(0, 2, 8, 0) && lies(0, 3, 8, 1) && lies(0, 4, 0, 8));
static_assert(lies(1, 0, 0, 2) && lies(3, 1, 0, 7) && lies(4, 0, 1, 0) && lies(31, 3, 15, 7));
static_assert(lies(32, 0, 16, 0) && lies(96, 2, 56, 0) && lies(127, 127, 63, 255));
extern "C" __global__ void kernel(bool* right) {
    kiln::WgmmaAccumulator<256> sums;
    *right = true;
    for (int i = 0; i < 128; ++i) *right = *right && &sums(i % 4 / 2, i / 4 * 2 + i % 2) == &sums.values[i];
})");
    bool right = false;
    kernel({}, {}, 0, &right);
    EXPECT_TRUE(right);
}

TEST(HostWgmma, MistakesInTheOrderShow) {
    constexpr unsigned kN = 64;
    const Operand<half> a(64, false, 1), b(kN, true, 2);
    std::vector<unsigned char> image = a.image;
    image.insert(image.end(), b.image.begin(), b.image.end());
    const std::string fence = "kiln::wgmma_fence();", commit = "kiln::wgmma_commit();",
                      wait = "kiln::wgmma_wait<0>(sums);";
    const auto run = [&](const std::string& fence_text, const std::string& commit_text,
                         const std::string& before, const std::string& wait_text, unsigned a_at = 0) {
        const HostKernel kernel("#define FENCE " + fence_text + "\n#define COMMIT " + commit_text +
                                "\n#define BEFORE_WAIT " + before + "\n#define WAIT " + wait_text + "\n" +
                                product_text("half", kN, false, true));
        std::vector<float> out(64 * kN);
        kernel({}, {256, 1, 1}, image.size(), image.data(), static_cast<unsigned>(image.size()), a_at,
               static_cast<unsigned>(a.image.size()), 32u, 2048u, 8192u, 8192u, 4, 0, out.data());
        return out;
    };
    const auto right = run(fence, commit, "", wait);
    EXPECT_NE(run(fence, commit, "", ""), right) << "no wait";
    EXPECT_NE(run(fence, commit, "", "kiln::wgmma_wait<1>(sums);"), right) << "a wait for older groups only";
    EXPECT_NE(run(fence, "", "", wait), right) << "no commit";
    EXPECT_NE(run(fence, commit, "if (threadIdx.x == 128) shared[b_at + 1] = 0x44;", wait), right)
        << "an operand that is overwritten before the wait";
    EXPECT_EQ(run(fence, commit, "", wait + " if (threadIdx.x == 255) shared[b_at + 1] = 0x44;"), right)
        << "and after it";
    EXPECT_THAT(test::rejected<DeviceError>([&] { run("", commit, "", wait); }),
                HasSubstr("without a wgmma_fence"));
    EXPECT_THAT(test::rejected<DeviceError>([&] { run(fence, commit, "kiln::wgmma_define(sums);", wait); }),
                HasSubstr("while wgmma of its sums are under way"));
    EXPECT_NE(run(fence, commit, "", wait + " kiln::wgmma_define(sums);"), right) << "sums that are lost";
    EXPECT_THAT(test::rejected<DeviceError>([&] { run(fence, commit, "", wait, 128); }),
                HasSubstr("inside a group of 8 rows"));
    EXPECT_THAT(test::rejected<DeviceError>([&] { run(fence, commit, "", wait, 1024 * 15); }),
                HasSubstr("past the dynamic shared memory"));
}

}  // namespace
}  // namespace kiln
