// SPDX-License-Identifier: Apache-2.0
//
// Charts of analyses, for pages and files, each with its title and description.
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

/// The peak rates that a roofline was computed with.
double compute_tflops(const Analysis& analysis);
double memory_gbps(const Analysis& analysis);
/// The measured throughput; nullopt without a time or flops.
std::optional<double> measured_tflops(const ReportItem& item);

/// nullopt: no item has a roofline.
std::optional<Picture> roofline_picture(std::span<const ReportItem> items);

/// Three pictures: blocks by limit, warps over registers, warps over shared bytes; none without an occupancy.
std::vector<Picture> occupancy_pictures(const Analysis& analysis);

/// A request of a warp, as recorded or with its rows moved, mapped to banks.
struct BankRequest {
    std::string name;  ///< "as recorded", "4 bytes more between these rows"
    std::vector<std::optional<std::uint32_t>> addresses;
    Wavefronts taken;
};

/// The most expensive request of a site. If its lanes conflict and read rows of one pitch, it is followed by the
/// same request with the rows moved: by the least padding that helps most, and by a swizzle. The tile may have
/// further rows between those of the request. Empty when no request was kept.
std::vector<BankRequest> bank_requests(const SharedSite& site, const BankModel& model);
Picture access_picture(const BankRequest& request, const SharedSite& site, const BankModel& model);

}  // namespace kiln::inspect
