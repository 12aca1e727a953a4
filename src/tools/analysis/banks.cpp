// SPDX-License-Identifier: Apache-2.0
//
// Counts, for each phase of an access, how many different words the busiest bank has to serve.
//
// Sources. NVIDIA: CUDA C++ Programming Guide, "Shared Memory" of compute capability 5.x and later (32 banks
// of 4 bytes; lanes in one word do not conflict, for loads and stores); half- and quarter-warps for 8 and 16
// bytes: GTC 2019, session S9593; merging of equal pairs: an NVIDIA engineer on compute capability 7.x,
// forums.developer.nvidia.com/t/77228; that the ideal counts merged phases once: Nsight Compute's counters.
// AMD: ROCm documentation, Composable Kernel, "Understanding AMD GPU LDS and Bank Conflicts" (phases of
// 16-byte reads and writes); RDNA: "RDNA 2 Instruction Set Architecture", chapter "Local Data Share" (32
// banks per half).
#include <kiln/error.h>
#include <kiln/tools/banks.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <string_view>

#include "format/format.h"

namespace kiln {
namespace {

using Addresses = std::span<const std::optional<std::uint32_t>>;

BankModel cdna_model() {
    BankModel model;
    model.lanes = 64;
    // Four lanes, and the four diagonally opposite in the other half of 32: 0-3 with 20-23, 4-7 with 16-19,
    // ...
    for (const int base : {0, 32})
        for (const int first : {0, 4, 8, 12})
            for (const int start : {base + first, base + 16 + (first ^ 4)})
                for (int lane = start; lane < start + 4; ++lane) model.load_order_of_16.push_back(lane);
    return model;
}

bool is_nvidia(std::string_view arch) {
    if (!arch.starts_with("sm_")) return false;
    arch.remove_prefix(3);
    if (arch.ends_with('a') || arch.ends_with('f')) arch.remove_suffix(1);
    int number = 0;
    const auto [end, error] = std::from_chars(arch.data(), arch.data() + arch.size(), number);
    constexpr int kFirst = 50, kLast = 199;  // before that banks could be switched to 8 bytes
    return error == std::errc() && end == arch.data() + arch.size() && number >= kFirst && number <= kLast;
}

/// Whether each lane has the same address as the lane whose number differs in `bit`, if both are active.
bool pairs_equal(Addresses addresses, std::size_t bit) {
    for (std::size_t lane = 0; lane < addresses.size(); ++lane) {
        const std::size_t other = lane ^ bit;
        if (other < addresses.size() && addresses[lane] && addresses[other] &&
            *addresses[lane] != *addresses[other])
            return false;
    }
    return true;
}

constexpr std::size_t kMostLanes = 64, kMostBanks = 128, kMostWidth = 16;

/// The distinct words of one phase, in a linked list per bank.
class Phase {
  public:
    explicit Phase(std::size_t banks) : banks_(banks), mask_(banks - 1) {}

    void clear() {
        words_ = 0;
        busiest_ = 0;
        std::fill_n(first_.begin(), banks_, kNone);
        std::fill_n(count_.begin(), banks_, std::uint16_t{0});
    }
    void add(std::uint64_t word) {
        const std::size_t bank = word & mask_;
        for (std::uint16_t at = first_[bank]; at != kNone; at = next_[at])
            if (word_[at] == word) return;
        word_[words_] = word;
        next_[words_] = first_[bank];
        first_[bank] = static_cast<std::uint16_t>(words_++);
        busiest_ = std::max<int>(busiest_, ++count_[bank]);
    }
    /// The largest number of distinct words in one bank.
    int busiest() const { return busiest_; }

  private:
    static constexpr std::uint16_t kNone = 0xffff;
    // A misaligned access touches one word more than an aligned one. Banks of one byte give the most words.
    static constexpr std::size_t kMostWords = kMostLanes * (kMostWidth + 1);

    std::size_t banks_;
    std::uint64_t mask_;  // the number of banks is a power of two
    std::size_t words_ = 0;
    int busiest_ = 0;
    std::array<std::uint16_t, kMostBanks> first_, count_;
    std::array<std::uint64_t, kMostWords> word_;
    std::array<std::uint16_t, kMostWords> next_;
};

bool is_power_of_two(int number) { return number > 0 && std::has_single_bit(static_cast<unsigned>(number)); }

void check(Addresses addresses, int width_bytes, const BankModel& model) {
    if (width_bytes > 16 || !is_power_of_two(width_bytes))
        throw UsageError(formatted("an access is 1, 2, 4, 8 or 16 bytes wide, not {}", width_bytes));
    if (addresses.size() > static_cast<std::size_t>(model.lanes))
        throw UsageError(formatted("{} addresses are more than a warp has lanes: {} lanes", addresses.size(),
                                   model.lanes));
    if (model.lanes > static_cast<int>(kMostLanes) || model.banks > static_cast<int>(kMostBanks) ||
        !is_power_of_two(model.banks) || !is_power_of_two(model.bank_bytes) ||
        std::min({model.lanes_of_4, model.lanes_of_8, model.lanes_of_16}) < 1)
        throw UsageError(
            "a bank model has up to 64 lanes, 1, 2, 4 to 128 banks of 1, 2, 4, ... bytes, and no phase "
            "without lanes");
}

}  // namespace

inline namespace KILN_ABI {

BankModel bank_model(const std::string& arch) {
    const std::string_view name = std::string_view(arch).substr(0, arch.find(':'));
    if (is_nvidia(name)) {
        BankModel model;
        model.equal_pairs_merge = true;
        return model;
    }
    for (const std::string_view cdna : {"gfx900", "gfx906", "gfx908", "gfx90a", "gfx940", "gfx941", "gfx942"})
        if (name == cdna) return cdna_model();
    if (name.size() == 7 && (name.starts_with("gfx10") || name.starts_with("gfx11"))) return {};
    throw UsageError("the shared-memory banks of \"" + arch +
                     "\" are not known; there are models of sm_50 to sm_199, gfx900, gfx906, gfx908, gfx90a, "
                     "gfx940, gfx941, gfx942, gfx10.. and gfx11..");
}

int bank_of(std::uint32_t byte_address, const BankModel& model) {
    return static_cast<int>(byte_address / static_cast<unsigned>(model.bank_bytes) %
                            static_cast<unsigned>(model.banks));
}

Wavefronts wavefronts(Addresses byte_addresses, int width_bytes, const BankModel& model,
                      SharedAccess access) {
    check(byte_addresses, width_bytes, model);
    const auto width = static_cast<std::uint64_t>(width_bytes);
    const int shift = std::countr_zero(static_cast<unsigned>(model.bank_bytes));
    const auto lanes = static_cast<std::size_t>(model.lanes);
    auto together = static_cast<std::size_t>(width_bytes <= 4   ? model.lanes_of_4
                                             : width_bytes == 8 ? model.lanes_of_8
                                                                : model.lanes_of_16);
    const bool load = access == SharedAccess::load;
    const bool reordered = load && width_bytes == 16 && model.load_order_of_16.size() == lanes;

    Wavefronts result;
    result.merged = load && model.equal_pairs_merge && width_bytes > 4 &&
                    (pairs_equal(byte_addresses, 1) || pairs_equal(byte_addresses, 2));
    if (result.merged) together *= 2;
    Phase phase(static_cast<std::size_t>(model.banks));
    for (std::size_t first = 0; first < lanes; first += together) {
        phase.clear();
        for (std::size_t at = first; at < std::min(first + together, lanes); ++at) {
            const std::size_t lane = reordered ? static_cast<std::size_t>(model.load_order_of_16[at]) : at;
            if (lane >= byte_addresses.size() || !byte_addresses[lane]) continue;
            const std::uint64_t address = *byte_addresses[lane];
            if ((address & (width - 1)) != 0) result.aligned = false;
            const std::uint64_t last = (address + width - 1) >> shift;
            for (std::uint64_t word = address >> shift; word <= last; ++word) phase.add(word);
        }
        result.actual += phase.busiest();
        result.ideal += phase.busiest() > 0;
        result.degree = std::max(result.degree, phase.busiest());
    }
    return result;
}

}  // namespace KILN_ABI
}  // namespace kiln
