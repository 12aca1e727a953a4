// SPDX-License-Identifier: Apache-2.0
//
// base: digests, files, ELF identities, nearest words, 16-bit conversions.
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <kiln/types.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>
#include <random>
#include <vector>

#include "base/digest.h"
#include "base/dynamic_library.h"
#include "base/file.h"
#include "base/words.h"
#include "scoped_variable.h"

namespace kiln {
namespace {

TEST(Digest, IsBlake2b256) {
    // BLAKE2b-256 of nothing and of "abc", as other implementations give them.
    EXPECT_EQ(digest_hex(""), "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
    EXPECT_EQ(digest_hex("abc"), "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
}

TEST(File, MissingIsNotAnErrorAndADirectoryIs) {
    const TemporaryDirectory directory;
    EXPECT_EQ(read_bytes_if_exists(directory.path() / "none"), std::nullopt);
    EXPECT_THROW(read_bytes_if_exists(directory.path()), std::system_error);
    // A file that reports size 0 and has content.
    EXPECT_FALSE(read_text_if_exists("/proc/self/status")->empty());
}

TEST(TemporaryDirectory, IsPrivateAndGoesAway) {
    std::filesystem::path path;
    {
        const TemporaryDirectory directory;
        path = directory.path();
        write_text(path / "file", "x");
        struct stat status;
        ASSERT_EQ(::stat(path.c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 0777u, 0700u);
    }
    EXPECT_FALSE(std::filesystem::exists(path));
}

/// What is in a directory, in the order of names.
std::vector<std::filesystem::path> listed(const std::filesystem::path& directory) {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) found.push_back(entry.path());
    std::ranges::sort(found);
    return found;
}

TEST(TemporaryDirectory, OfAKilledProcessIsRemovedByALaterOne) {
    const TemporaryDirectory place;
    const test::ScopedVariable variable("TMPDIR", place.path().string());
    const pid_t child = ::fork();
    if (child == 0) {
        write_text((new TemporaryDirectory)->path() / "half-written.o", "x");
        ::raise(SIGKILL);
    }
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    ASSERT_EQ(listed(place.path()).size(), 1u);
    const TemporaryDirectory alive;
    EXPECT_EQ(listed(place.path()).size(), 2u) << "one that is young may not be locked yet";
    const std::filesystem::path other = place.path() / "kiln-another",
                                link = alive.path().string().substr(0, alive.path().string().size() - 6) +
                                       "linked";
    const std::filesystem::path results = place.path() / "kiln-tmp-results";
    std::filesystem::create_directory(other);
    std::filesystem::create_directory(results);
    std::filesystem::create_directory_symlink(other, link);
    const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
    for (const auto& path : listed(place.path())) std::filesystem::last_write_time(path, long_ago);
    { const TemporaryDirectory sweeps; }
    std::vector<std::filesystem::path> kept = {alive.path(), other, link, results};
    std::ranges::sort(kept);
    EXPECT_EQ(listed(place.path()), kept) << "whose owner lives, or which was never one";
}

TEST(ElfIdentity, DependsOnTheBytesAndNotOnThePath) {
    const TemporaryDirectory directory;
    const auto self = std::filesystem::canonical("/proc/self/exe");
    const auto identity = elf_identity(self);
    ASSERT_TRUE(identity);
    std::filesystem::copy_file(self, directory.path() / "copy");
    EXPECT_EQ(elf_identity(directory.path() / "copy"), identity);
    EXPECT_NE(elf_identity("/bin/sh"), identity);
    write_text(directory.path() / "text",
               "no ELF file, and long enough to hold the header of one, nearly....");
    EXPECT_EQ(elf_identity(directory.path() / "text"), std::nullopt);
    EXPECT_EQ(elf_identity(directory.path() / "none"), std::nullopt);
    EXPECT_EQ(own_directory(), self.parent_path());
}

TEST(Nearest, FindsTyposAndNothingElse) {
    const std::vector<std::string> known = {"gemm_naive", "gemm_square", "gemm_tiled"};
    EXPECT_EQ(nearest("gemm_tile", known), "gemm_tiled");
    EXPECT_EQ(nearest("GEMM_NAIVE", known), "gemm_naive");
    EXPECT_EQ(nearest("gird", {"block", "grid"}), "grid");
    EXPECT_EQ(nearest("transpose", known), std::nullopt);
    EXPECT_EQ(nearest("", known), std::nullopt);
}

TEST(Half, EveryPatternSurvivesARoundTrip) {
    for (unsigned bits = 0; bits < 65536; ++bits) {
        half value;
        value.bits = static_cast<std::uint16_t>(bits);
        const float wide = static_cast<float>(value);
        if (std::isnan(wide)) {
            EXPECT_TRUE(std::isnan(static_cast<float>(half(wide))));
            continue;
        }
        ASSERT_EQ(half(wide).bits, bits);
    }
}

// The nearest half by search: of the two neighbours of a float the nearer one, ties to the even one.
TEST(Half, RoundsToNearestEven) {
    std::mt19937 random(7);
    std::uniform_int_distribution<std::uint32_t> word;
    const auto value_of = [](unsigned bits) {
        half value;
        value.bits = static_cast<std::uint16_t>(bits);
        return static_cast<double>(static_cast<float>(value));
    };
    for (int i = 0; i < 200000; ++i) {
        // Exponents around the range of half, subnormals included.
        const float x = std::bit_cast<float>((word(random) & 0x007fffffu) | (95 + word(random) % 50) << 23);
        unsigned low = 0, high = 0x7c00;
        while (low + 1 < high) {
            const unsigned middle = (low + high) / 2;
            (value_of(middle) <= static_cast<double>(x) ? low : high) = middle;
        }
        const double below = value_of(low);
        const double above = low + 1 == 0x7c00 ? 65536.0 : value_of(low + 1);
        const double to_below = static_cast<double>(x) - below, to_above = above - static_cast<double>(x);
        const unsigned expected =
            to_below < to_above || (to_below == to_above && low % 2 == 0) ? low : low + 1;
        ASSERT_EQ(half(x).bits, x >= 65536.0f ? 0x7c00 : expected) << x;
    }
    EXPECT_EQ(half(-65520.0f).bits, 0xfc00);
    EXPECT_EQ(half(65519.9f).bits, 0x7bff);
    EXPECT_EQ(half(0x1p-25f).bits, 0);
    EXPECT_EQ(half(0x1.000002p-25f).bits, 1);
    EXPECT_EQ(half(std::numeric_limits<float>::infinity()).bits, 0x7c00);
    EXPECT_EQ(half(-0.0f).bits, 0x8000);
}

TEST(Bfloat16, RoundsToNearestEven) {
    const auto rounded = [](std::uint32_t word) { return bfloat16(std::bit_cast<float>(word)).bits; };
    EXPECT_EQ(rounded(0x3f808000), 0x3f80);
    EXPECT_EQ(rounded(0x3f818000), 0x3f82);
    EXPECT_EQ(rounded(0x3f808001), 0x3f81);
    EXPECT_EQ(rounded(0x7f7fffff), 0x7f80);
    EXPECT_EQ(rounded(0xff800000), 0xff80);
    EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(std::bit_cast<float>(0x7f800001u)))));
    EXPECT_EQ(static_cast<float>(bfloat16(-1.5f)), -1.5f);
}

TEST(Backend, NamesAreTheirInverse) {
    for (const Backend backend : {Backend::cuda, Backend::hip, Backend::host})
        EXPECT_EQ(parse_backend(name(backend)), backend);
    EXPECT_THROW(parse_backend("CUDA"), UsageError);
}

}  // namespace
}  // namespace kiln
