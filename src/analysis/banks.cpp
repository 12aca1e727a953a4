// SPDX-License-Identifier: Apache-2.0
//
// Counts, phase by phase, how many different words the busiest bank has to serve.
//
// Sources. NVIDIA: CUDA C++ Programming Guide, "Shared Memory" of compute capability 5.x and later (32 banks
// of 4 bytes; lanes in one word do not conflict, for loads and stores); half- and quarter-warps for 8 and 16
// bytes: GTC 2019, session S9593; merging of equal pairs: an NVIDIA engineer on compute capability 7.x,
// forums.developer.nvidia.com/t/77228.
// AMD: ROCm documentation, Composable Kernel, "Understanding AMD GPU LDS and Bank Conflicts" (phases of
// 16-byte reads and writes); RDNA: "RDNA 2 Instruction Set Architecture", chapter "Local Data Share" (32
// banks per half).
#include <kiln/banks.h>
#include <kiln/error.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

namespace kiln {
namespace {

using Addresses = std::span<const std::optional<std::uint32_t>>;

BankModel cdna_model() {
    BankModel model;
    model.lanes = 64;
    // Four lanes, and the four of the other half of 32 that lie crosswise: 0-3 with 20-23, 4-7 with 16-19,
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

/// Whether each lane has the address of the lane whose number differs in `bit`, as far as both take part.
bool pairs_equal(Addresses addresses, std::size_t bit) {
    for (std::size_t lane = 0; lane < addresses.size(); ++lane) {
        const std::size_t other = lane ^ bit;
        if (other < addresses.size() && addresses[lane] && addresses[other] &&
            *addresses[lane] != *addresses[other])
            return false;
    }
    return true;
}

}  // namespace

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
    throw UsageError("the banks of \"" + arch +
                     "\" are not known; there are models of sm_50 to sm_199, gfx900, gfx906, gfx908, gfx90a, "
                     "gfx940, gfx941, gfx942, gfx10.. and gfx11..");
}

int bank_of(std::uint32_t byte_address, const BankModel& model) {
    return static_cast<int>(byte_address / static_cast<unsigned>(model.bank_bytes) %
                            static_cast<unsigned>(model.banks));
}

Wavefronts wavefronts(Addresses byte_addresses, int width_bytes, const BankModel& model,
                      SharedAccess access) {
    const bool width_known =
        width_bytes == 1 || width_bytes == 2 || width_bytes == 4 || width_bytes == 8 || width_bytes == 16;
    if (!width_known)
        throw UsageError("an access is 1, 2, 4, 8 or 16 bytes wide, not " + std::to_string(width_bytes));
    if (byte_addresses.size() > static_cast<std::size_t>(model.lanes))
        throw UsageError(std::to_string(byte_addresses.size()) + " addresses are more than a warp's " +
                         std::to_string(model.lanes) + " lanes");

    const auto width = static_cast<std::uint64_t>(width_bytes);
    const auto lanes = static_cast<std::size_t>(model.lanes);
    const auto phase_lanes = static_cast<std::size_t>(width_bytes <= 4   ? model.lanes_of_4
                                                      : width_bytes == 8 ? model.lanes_of_8
                                                                         : model.lanes_of_16);
    const bool load = access == SharedAccess::load;
    const bool merged = load && model.equal_pairs_merge && width_bytes > 4 &&
                        (pairs_equal(byte_addresses, 1) || pairs_equal(byte_addresses, 2));
    const bool reordered = load && width_bytes == 16 && model.load_order_of_16.size() == lanes;
    const auto address_at = [&](std::size_t position) -> std::optional<std::uint32_t> {
        const std::size_t lane =
            reordered ? static_cast<std::size_t>(model.load_order_of_16[position]) : position;
        return lane < byte_addresses.size() ? byte_addresses[lane] : std::nullopt;
    };

    // How many wavefronts phases of that many lanes take, with the busiest bank's share of one phase.
    struct Served {
        int phases = 0, wavefronts = 0, busiest = 0;
    };
    const auto serve = [&](std::size_t together) {
        Served served;
        for (std::size_t first = 0; first < lanes; first += together) {
            std::vector<std::set<std::uint64_t>> words(static_cast<std::size_t>(model.banks));
            for (std::size_t i = first; i < std::min(first + together, lanes); ++i) {
                const auto address = address_at(i);
                if (!address) continue;
                const auto bank_bytes = static_cast<std::uint64_t>(model.bank_bytes);
                const std::uint64_t last = (*address + width - 1) / bank_bytes;
                for (std::uint64_t word = *address / bank_bytes; word <= last; ++word)
                    words[word % words.size()].insert(word);
            }
            std::size_t most = 0;
            for (const auto& bank : words) most = std::max(most, bank.size());
            served.phases += most > 0;
            served.wavefronts += static_cast<int>(most);
            served.busiest = std::max(served.busiest, static_cast<int>(most));
        }
        return served;
    };
    const Served apart = serve(phase_lanes);
    const Served served = merged ? serve(2 * phase_lanes) : apart;

    Wavefronts result;
    result.actual = served.wavefronts;
    result.ideal = apart.phases;
    result.degree = served.busiest;
    for (const auto& address : byte_addresses)
        if (address && *address % width != 0) result.aligned = false;
    return result;
}

}  // namespace kiln
