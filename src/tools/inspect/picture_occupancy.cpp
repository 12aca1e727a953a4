// SPDX-License-Identifier: Apache-2.0
//
// What limits the blocks of a multiprocessor, and the effect of other numbers of registers or shared bytes.
#include <kiln/error.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/arch_facts.h"
#include "base/words.h"
#include "format/format.h"
#include "inspect/picture.h"
#include "inspect/plot.h"
#include "inspect/report_text.h"
#include "inspect/text_format.h"

namespace kiln::inspect {
namespace {

constexpr double kWidth = 400;

BlockNeeds needs_of(const Analysis& analysis) {
    return {static_cast<int>(analysis.block.count()), analysis.resources.registers.value_or(0),
            analysis.static_shared_bytes, analysis.dynamic_shared_bytes};
}

/// Resident warps with these needs; nullopt: no block may have them.
std::optional<int> warps_with(const BlockNeeds& needs, const std::string& arch) {
    try {
        return occupancy(needs, backend_of_arch(arch), arch).warps;
    } catch (const UsageError&) {
        return std::nullopt;
    }
}

Picture limits_picture(const Analysis& analysis) {
    constexpr double kRow = 34, kBarLeft = 112, kBarRight = 300, kBar = 16, kTop = 28;
    const Occupancy& found = *analysis.occupancy;
    const std::pair<OccupancyLimit, int> limits[] = {{OccupancyLimit::threads, found.by_threads},
                                                     {OccupancyLimit::registers, found.by_registers},
                                                     {OccupancyLimit::shared, found.by_shared},
                                                     {OccupancyLimit::blocks, found.by_blocks}};
    // At most the number of block slots: a higher limit has no effect.
    const int longest = std::max({1, found.by_blocks, found.blocks});

    Picture picture{Svg(kWidth, kTop + 4 * kRow + 4),
                    "Blocks per " + multiprocessor_text(analysis.arch) + " by limit",
                    {}};
    Svg& svg = picture.svg;
    svg.text(0, 14, picture.title, "heading");
    std::vector<std::string> words;
    double y = kTop;
    for (const auto& [limit, blocks] : limits) {
        const bool binds =
            std::find(found.binding.begin(), found.binding.end(), limit) != found.binding.end();
        const double share = std::min(1.0, static_cast<double>(blocks) / longest);
        svg.text(kBarLeft - 10, y + kBar - 3, name(limit), binds ? "strong" : "", Anchor::end);
        svg.rectangle(kBarLeft, y, std::max(1.0, share * (kBarRight - kBarLeft)), kBar,
                      binds ? "limit binds" : "limit", "rx=\"1.5\"");
        const std::string text = formatted("{}{}", blocks, binds ? " · binds" : "");
        svg.text(kBarLeft + share * (kBarRight - kBarLeft) + 8, y + kBar - 3, text,
                 binds ? "hot-text" : "figure");
        words.push_back(formatted("{} {}{}", name(limit), blocks, binds ? " (binds)" : ""));
        y += kRow;
    }
    picture.description = join(words) + ".";
    return picture;
}

struct Curve {
    std::string title, x_title;
    double low = 0, high = 0, step = 1;
    double point = 0;
    std::function<BlockNeeds(double)> needs;
    std::vector<double> ticks;
};

/// A step chart of warps over the varied quantity, with the variant marked.
Picture curve_picture(const Analysis& analysis, const Curve& curve) {
    constexpr double kHeight = 236, kLeft = 38, kRight = 388, kTop = 58, kBottom = 190;
    const Occupancy& found = *analysis.occupancy;
    const Axis x{curve.low, curve.high, kLeft, kRight, false};
    const Axis y{0, static_cast<double>(std::max(1, found.most_warps)), kBottom, kTop, false};
    Picture picture{Svg(kWidth, kHeight), curve.title, {}};
    Svg& svg = picture.svg;
    svg.text(0, 14, curve.title, "heading");

    std::string steps, under;
    std::optional<int> last;
    double end = curve.low;
    for (double value = curve.low; value <= curve.high; value += curve.step) {
        const auto warps = warps_with(curve.needs(value), analysis.arch);
        if (!warps) break;
        end = value;
        if (last == warps) continue;
        if (!last)
            steps = "M" + coordinate(x.at(value)) + " " + coordinate(y.at(*warps));
        else
            steps += " H" + coordinate(x.at(value)) + " V" + coordinate(y.at(*warps));
        last = warps;
    }
    if (last) {
        steps += " H" + coordinate(x.at(end));
        under = steps + " V" + coordinate(y.first) + " H" + coordinate(x.first) + " Z";
        svg.path(under, "under");
    }
    const std::vector<double> warps_ticks = {0.0, y.high / 4, y.high / 2, 3 * y.high / 4, y.high};
    draw_axes(svg, x, y, curve.x_title, "warps per " + multiprocessor_text(analysis.arch), curve.ticks,
              warps_ticks);
    if (last) svg.path(steps, "curve");

    const double at_x = x.at(curve.point), at_y = y.at(found.warps);
    svg.line(at_x, y.first, at_x, at_y, "drop");
    svg.circle(at_x, at_y, 6, "point here");
    const std::string label = formatted("{} of {}", found.warps, found.most_warps);
    const bool on_left = at_x > (kLeft + kRight) / 2;
    svg.text(at_x + (on_left ? -10 : 10), at_y - 8, label, "roof-name strong",
             on_left ? Anchor::end : Anchor::start);
    picture.description =
        "This variant: " + grouped(curve.point) + " " + curve.x_title + ", " + label + " warps.";
    return picture;
}

}  // namespace

std::vector<Picture> occupancy_pictures(const Analysis& analysis) {
    std::vector<Picture> pictures;
    if (!analysis.occupancy) return pictures;
    pictures.push_back(limits_picture(analysis));
    const BlockNeeds own = needs_of(analysis);
    if (!warps_with(own, analysis.arch)) return pictures;  // an architecture without an occupancy model

    if (analysis.resources.registers) {
        const int most = backend_of_arch(analysis.arch) == Backend::hip ? 512 : 255;
        pictures.push_back(curve_picture(
            analysis, {"Warps over registers", "registers per thread", 1, static_cast<double>(most), 1,
                       static_cast<double>(own.registers),
                       [own](double value) {
                           BlockNeeds needs = own;
                           needs.registers = static_cast<int>(value);
                           return needs;
                       },
                       most > 255 ? std::vector<double>{1, 128, 256, 384, 512}
                                  : std::vector<double>{1, 32, 64, 96, 128, 160, 192, 224, 255}}));
    }
    const double shared = static_cast<double>(own.static_shared_bytes + own.dynamic_shared_bytes);
    const double most = std::max(shared, static_cast<double>(analysis.limits.shared_bytes_per_block_optin));
    constexpr double kStep = 128, kKibi = 1024;
    std::vector<double> ticks;
    for (const double tick : Axis{0, most / kKibi, 0, 1, false}.ticks(6)) ticks.push_back(tick);
    Picture picture = curve_picture(
        analysis, {"Warps over shared memory", "KiB of shared memory per block", 0, most / kKibi,
                   kStep / kKibi, shared / kKibi,
                   [own](double value) {
                       BlockNeeds needs = own;
                       needs.static_shared_bytes = 0;
                       needs.dynamic_shared_bytes = static_cast<std::uint64_t>(std::llround(value * kKibi));
                       return needs;
                   },
                   ticks});
    picture.description = formatted("This variant: {} per block, {} of {} warps.", amount_text(shared),
                                    analysis.occupancy->warps, analysis.occupancy->most_warps);
    pictures.push_back(std::move(picture));
    return pictures;
}

}  // namespace kiln::inspect

namespace kiln {

inline namespace KILN_ABI {

std::string occupancy_svg(const Analysis& analysis) {
    const std::vector<inspect::Picture> parts = inspect::occupancy_pictures(analysis);
    if (parts.empty()) return {};
    constexpr double kMargin = 16;
    double width = 0, height = kMargin;
    std::string description;
    for (const inspect::Picture& part : parts) {
        width = std::max(width, part.svg.width());
        height += part.svg.height() + kMargin;
        description += (description.empty() ? "" : " ") + part.title + ": " + part.description;
    }
    inspect::Svg all(width + 2 * kMargin, height);
    double y = kMargin;
    for (const inspect::Picture& part : parts) {
        all.place(part.svg, kMargin, y);
        y += part.svg.height() + kMargin;
    }
    return all.file("Occupancy of " + analysis.variant, description);
}

}  // namespace KILN_ABI
}  // namespace kiln
