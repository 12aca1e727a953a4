// SPDX-License-Identifier: Apache-2.0
//
// Pictures of analyses, to stand in a page or in a file; each has its words with it.
#pragma once

#include <kiln/tools/report.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "inspect/svg.h"

namespace kiln::inspect {

struct Picture {
    Svg svg;
    std::string title;
    std::string description;

    std::string file() const { return svg.file(title, description); }
    std::string inlined(std::string_view id) const { return svg.inlined(id, title, description); }
};

/// The flops and bytes per second that a roofline was drawn up with.
double compute_tflops(const Analysis& analysis);
double memory_gbps(const Analysis& analysis);
/// What it reached; nullopt without a time or flops.
std::optional<double> measured_tflops(const ReportItem& item);

/// nullopt: no item has a roofline.
std::optional<Picture> roofline_picture(std::span<const ReportItem> items);

/// Three pictures: blocks by limit, warps over registers, warps over shared bytes; none without an occupancy.
std::vector<Picture> occupancy_pictures(const Analysis& analysis);

/// A request of a warp, maybe with its rows moved, over the banks.
struct BankRequest {
    std::string name;  ///< "as recorded", "4 bytes more between these rows"
    std::vector<std::optional<std::uint32_t>> addresses;
    Wavefronts taken;
};

/// The worst request of a site first; then, where its lanes conflict and read rows of one pitch, what moving
/// these rows would do: the least distance that helps most, and a swizzle. A tile may have rows between them, of
/// which the request does not tell. Empty when no request was kept.
std::vector<BankRequest> bank_requests(const SharedSite& site, const BankModel& model);
Picture access_picture(const BankRequest& request, const SharedSite& site, const BankModel& model);

}  // namespace kiln::inspect
