// SPDX-License-Identifier: Apache-2.0
//
// A warp's request mapped to banks: one column per bank, one row per line of all banks that it accesses.
#include <kiln/error.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "base/words.h"
#include "format/format.h"
#include "inspect/picture.h"
#include "inspect/report_text.h"
#include "inspect/text_format.h"

namespace kiln::inspect {
namespace {

using Addresses = std::vector<std::optional<std::uint32_t>>;

constexpr std::uint32_t kChunkBytes = 16;
constexpr std::uint32_t kMostPad = 64;

SharedAccess shared_access(AccessKind kind) {
    return kind == AccessKind::store || kind == AccessKind::matrix_store || kind == AccessKind::async_copy
               ? SharedAccess::store
               : SharedAccess::load;
}

/// The pitch of the rows that the lanes read: the greatest distance that divides the starts of all contiguous
/// parts, if no part is longer. nullopt: there is one part only, or parts overlap other rows.
std::optional<std::uint32_t> pitch_of(const Addresses& addresses, std::uint32_t width) {
    std::set<std::uint32_t> sorted;
    for (const auto& address : addresses)
        if (address) sorted.insert(*address);
    if (sorted.empty()) return std::nullopt;
    std::uint32_t pitch = 0, longest = width, start = *sorted.begin(), last = start;
    for (const std::uint32_t address : sorted) {
        if (address > last + width) {
            pitch = std::gcd(pitch, address - start);
            start = address;
        }
        longest = std::max(longest, address + width - start);
        last = address;
    }
    if (pitch == 0 || longest > pitch) return std::nullopt;
    return pitch;
}

std::uint32_t least_of(const Addresses& addresses) {
    std::uint32_t least = UINT32_MAX;
    for (const auto& address : addresses)
        if (address) least = std::min(least, *address);
    return least;
}

/// The same addresses with rows `pad` bytes further apart.
Addresses padded(const Addresses& addresses, std::uint32_t pitch, std::uint32_t pad) {
    const std::uint32_t least = least_of(addresses);
    Addresses moved = addresses;
    for (auto& address : moved)
        if (address) *address += (*address - least) / pitch * pad;
    return moved;
}

/// XORs the 16-byte chunks of a row with the row's number, within one line of all banks.
Addresses swizzled(const Addresses& addresses, std::uint32_t pitch, const BankModel& model) {
    const auto line = static_cast<std::uint32_t>(model.banks * model.bank_bytes);
    std::uint32_t chunks = 1;
    while (chunks * 2 * kChunkBytes <= std::min(pitch, line)) chunks *= 2;
    const std::uint32_t rows_per_line = std::max(1U, line / pitch), least = least_of(addresses);
    Addresses moved = addresses;
    for (auto& address : moved) {
        if (!address) continue;
        const std::uint32_t row = (*address - least) / pitch;
        *address ^= row / rows_per_line % chunks * kChunkBytes;
    }
    return moved;
}

struct Load {
    /// For each accessed word, the lanes that request a byte of it.
    std::map<std::uint32_t, std::vector<std::size_t>> lanes_of_word;
    std::vector<std::set<std::uint32_t>> words_of_bank;  ///< of the phase that is shown
};

/// The phase in which one bank has to serve the most words; without the lanes of other phases.
Load worst_phase(const Addresses& addresses, std::uint32_t width, const BankModel& model,
                 SharedAccess access) {
    const auto lanes = static_cast<std::size_t>(model.lanes);
    const auto together = static_cast<std::size_t>(width <= 4   ? model.lanes_of_4
                                                   : width == 8 ? model.lanes_of_8
                                                                : model.lanes_of_16);
    const bool reordered =
        access == SharedAccess::load && width == 16 && model.load_order_of_16.size() == lanes;
    Load worst;
    std::size_t most = 0;
    for (std::size_t first = 0; first < lanes; first += together) {
        Load load;
        load.words_of_bank.resize(static_cast<std::size_t>(model.banks));
        for (std::size_t i = first; i < std::min(first + together, lanes); ++i) {
            const std::size_t lane = reordered ? static_cast<std::size_t>(model.load_order_of_16[i]) : i;
            if (lane >= addresses.size() || !addresses[lane]) continue;
            const auto bank_bytes = static_cast<std::uint32_t>(model.bank_bytes);
            for (std::uint32_t word = *addresses[lane] / bank_bytes;
                 word <= (*addresses[lane] + width - 1) / bank_bytes; ++word) {
                load.lanes_of_word[word].push_back(lane);
                load.words_of_bank[word % load.words_of_bank.size()].insert(word);
            }
        }
        std::size_t busiest = 0;
        for (const auto& words : load.words_of_bank) busiest = std::max(busiest, words.size());
        if (busiest <= most) continue;
        most = busiest;
        worst = std::move(load);
    }
    return worst;
}

std::string taken_text(const Wavefronts& taken) {
    return formatted(
        "{}, ideal {}{}{}", counted(static_cast<std::uint64_t>(taken.actual), "wavefront", "wavefronts"),
        taken.ideal,
        taken.degree > 1 && taken.actual > taken.ideal ? formatted(", {}-way conflict", taken.degree)
                                                       : std::string(),
        taken.aligned ? "" : ", misaligned");
}

}  // namespace

std::vector<BankRequest> bank_requests(const SharedSite& site, const BankModel& model) {
    const int width = site.as_written.bytes;
    const SharedAccess access = shared_access(site.kind);
    const bool any =
        std::any_of(site.worst.begin(), site.worst.end(), [](const auto& lane) { return !!lane; });
    if (!any || site.worst.size() > static_cast<std::size_t>(model.lanes)) return {};
    const auto taken = [&](const Addresses& addresses) {
        return wavefronts(addresses, width, model, access);
    };
    std::vector<BankRequest> requests;
    const auto add = [&](std::string name, const Addresses& addresses) {
        requests.push_back({std::move(name), addresses, taken(addresses)});
    };
    add("as recorded", site.worst);
    if (requests[0].taken.actual <= requests[0].taken.ideal) return requests;
    const auto pitch = pitch_of(site.worst, static_cast<std::uint32_t>(width));
    if (!pitch) return requests;

    // The smallest padding with the fewest wavefronts.
    const auto step = static_cast<std::uint32_t>(width);
    std::uint32_t best = 0;
    int least = requests[0].taken.actual;
    for (std::uint32_t pad = step; pad <= kMostPad; pad += step) {
        const int actual = taken(padded(site.worst, *pitch, pad)).actual;
        if (actual >= least) continue;
        least = actual;
        best = pad;
    }
    if (best > 0)
        add(counted(best, "byte", "bytes") + " more between these rows", padded(site.worst, *pitch, best));
    if (*pitch % kChunkBytes == 0 && *pitch > kChunkBytes)
        add("these rows swizzled by 16 bytes", swizzled(site.worst, *pitch, model));
    return requests;
}

Picture access_picture(const BankRequest& request, const SharedSite& site, const BankModel& model) {
    constexpr double kLeft = 46, kTop = 54, kCell = 13, kHigh = 12, kGap = 10;
    constexpr std::size_t kMostRows = 32;
    const auto banks = static_cast<std::size_t>(model.banks);
    const Load load = worst_phase(request.addresses, static_cast<std::uint32_t>(site.as_written.bytes), model,
                                  shared_access(site.kind));
    std::set<std::uint32_t> all_rows;
    for (const auto& [word, lanes] : load.lanes_of_word)
        all_rows.insert(word / static_cast<std::uint32_t>(banks));
    const std::size_t shown = std::min(all_rows.size(), kMostRows);
    const std::vector<std::uint32_t> rows(all_rows.begin(),
                                          std::next(all_rows.begin(), static_cast<std::ptrdiff_t>(shown)));
    const auto follows_a_gap = [&](std::size_t i) { return i > 0 && rows[i] != rows[i - 1] + 1; };
    double gaps = 0;
    for (std::size_t i = 0; i < shown; ++i) gaps += follows_a_gap(i) ? kGap : 0;

    constexpr double kLoads = 34;
    const double bottom = kTop + static_cast<double>(shown) * kHigh + gaps;
    Picture picture{Svg(kLeft + static_cast<double>(banks) * kCell + 4, bottom + kLoads), request.name,
                    request.name + ": " + taken_text(request.taken) + "."};
    Svg& svg = picture.svg;
    svg.text(0, 14, request.name, "heading");
    svg.text(0, 31, taken_text(request.taken),
             request.taken.actual > request.taken.ideal ? "hot-text" : "figure");
    for (std::size_t bank = 0; bank < banks; bank += 4)
        svg.text(kLeft + (static_cast<double>(bank) + 0.5) * kCell, kTop - 5, std::to_string(bank), "tiny",
                 Anchor::middle);
    svg.text(kLeft - 8, kTop - 5, "bank", "tiny", Anchor::end);

    double y = kTop;
    for (std::size_t i = 0; i < shown; ++i) {
        if (follows_a_gap(i)) {
            svg.text(kLeft - 12, y + kGap - 2, "⋮", "tiny", Anchor::middle);
            y += kGap;
        }
        const std::uint32_t first = rows[i] * static_cast<std::uint32_t>(banks);
        svg.text(kLeft - 8, y + kHigh - 2.5, grouped(first * static_cast<double>(model.bank_bytes)), "tiny",
                 Anchor::end);
        svg.rectangle(kLeft, y, static_cast<double>(banks) * kCell - 1, kHigh - 1, "cell");
        for (std::uint32_t bank = 0; bank < banks; ++bank) {
            const auto found = load.lanes_of_word.find(first + bank);
            if (found == load.lanes_of_word.end()) continue;
            const bool conflict = load.words_of_bank[bank].size() > 1;
            const double x = kLeft + bank * kCell;
            svg.rectangle(x, y, kCell - 1, kHigh - 1, conflict ? "cell conflict" : "cell asked");
            svg.text(x + (kCell - 1) / 2, y + kHigh - 3, std::to_string(found->second.front()), "cell-text",
                     Anchor::middle);
        }
        y += kHigh;
    }
    if (all_rows.size() > shown)
        svg.text(kLeft, y + 11, formatted("and {} lines more", all_rows.size() - shown), "tiny");
    // Below the columns, the number of words that each bank has to serve, if more than one.
    for (std::size_t bank = 0; bank < banks; ++bank) {
        const std::size_t words = load.words_of_bank.empty() ? 0 : load.words_of_bank[bank].size();
        if (words > 1)
            svg.text(kLeft + (static_cast<double>(bank) + 0.5) * kCell, bottom + 24, formatted("×{}", words),
                     "count", Anchor::middle);
    }
    return picture;
}

}  // namespace kiln::inspect

namespace kiln {

inline namespace KILN_ABI {

std::string access_map_svg(const SharedSite& site, const BankModel& model) {
    const std::vector<inspect::BankRequest> requests = inspect::bank_requests(site, model);
    if (requests.empty()) return {};
    constexpr double kMargin = 16;
    double width = kMargin, height = 0;
    std::vector<inspect::Picture> parts;
    std::string description;
    for (const inspect::BankRequest& request : requests) {
        parts.push_back(inspect::access_picture(request, site, model));
        width += parts.back().svg.width() + kMargin;
        height = std::max(height, parts.back().svg.height());
        description += (description.empty() ? "" : " ") + parts.back().description;
    }
    inspect::Svg all(width, height + 2 * kMargin);
    double x = kMargin;
    for (const inspect::Picture& part : parts) {
        all.place(part.svg, x, kMargin);
        x += part.svg.width() + kMargin;
    }
    return all.file("Banks of the " + std::string(name(site.kind)) + " at " + site.place.text(), description);
}

}  // namespace KILN_ABI
}  // namespace kiln
