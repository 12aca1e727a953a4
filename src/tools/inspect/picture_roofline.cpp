// SPDX-License-Identifier: Apache-2.0
//
// The roofline, with two logarithmic axes: the slope of memory bandwidth up to the ridge point, and a flat
// roof for each arithmetic unit.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/words.h"
#include "format/format.h"
#include "inspect/picture.h"
#include "inspect/plot.h"
#include "inspect/report_text.h"
#include "inspect/text_format.h"

namespace kiln::inspect {
namespace {

constexpr double kRooflineWidth = 520, kRooflineHeight = 420;
constexpr double kLeft = 58, kRight = 508, kTop = 34, kBottom = 366;
constexpr double kMarker = 9;  // radius
constexpr Unit kUnits[] = {Unit::fma_f32, Unit::fma_f16, Unit::fma_f64, Unit::matrix_f16};

struct Roof {
    std::string name;
    double tflops = 0;
    bool bearing = false;  ///< a variant computes under it

    bool operator==(const Roof&) const = default;
};

struct Slope {
    double gbps = 0;
    std::string name;
    bool measured = false;  ///< a copy's, below the data sheet's
};

struct Point {
    double intensity = 0;
    double tflops = 0;
    std::size_t item = 0;
    bool hollow = false;
    std::optional<double> roof_tflops;  ///< the intensity above which it does not reach the roof
};

struct Roofs {
    std::vector<Roof> roofs;
    std::vector<Slope> slopes;
};

/// The roofs of the items' chips, without duplicates. Those that a variant was analysed with come first.
/// Whether an item has a roofline to draw.
bool has_place(const Analysis& analysis) {
    return analysis.roofline && analysis.roofline->intensity > 0 &&
           analysis.roofline->attainable_tflops > 0 && compute_tflops(analysis) > 0 &&
           memory_gbps(analysis) > 0;
}

Roofs roofs_of(std::span<const ReportItem> items) {
    Roofs all;
    std::set<std::string> chips;
    for (const ReportItem& item : items)
        if (has_place(item.analysis)) chips.insert(item.analysis.chip_name);
    const auto of_chip = [&](const Analysis& analysis) {
        return chips.size() > 1 ? " of " + analysis.chip_name : std::string();
    };
    const auto same = [](double a, double b) { return std::abs(a - b) < 1e-3 * b; };
    const auto add_roof = [&](const Roof& roof) {
        for (Roof& known : all.roofs) {
            if (!same(known.tflops, roof.tflops) || known.name != roof.name) continue;
            known.bearing = known.bearing || roof.bearing;
            return;
        }
        all.roofs.push_back(roof);
    };
    const auto add_slope = [&](const Slope& slope) {
        for (const Slope& known : all.slopes)
            if (same(known.gbps, slope.gbps) && known.name == slope.name) return;
        all.slopes.push_back(slope);
    };
    for (const ReportItem& item : items) {
        const Analysis& analysis = item.analysis;
        if (!has_place(analysis)) continue;
        const std::string more = of_chip(analysis);
        add_roof({std::string(name(analysis.roofline->unit)) + more, compute_tflops(analysis), true});
        add_slope({memory_gbps(analysis), "memory" + more, false});
        if (analysis.chip == nullptr) continue;
        for (const Unit unit : kUnits)
            if (const auto tflops = analysis.chip->tflops(unit); tflops && unit != analysis.roofline->unit)
                add_roof({std::string(name(unit)) + more, *tflops, false});
        if (analysis.chip->measured_copy_gbps > 0)
            add_slope({analysis.chip->measured_copy_gbps, "a copy, measured" + more, true});
    }
    return all;
}

std::vector<Point> points_of(std::span<const ReportItem> items) {
    std::vector<Point> points;
    for (std::size_t i = 0; i < items.size(); ++i) {
        const Analysis& analysis = items[i].analysis;
        if (!has_place(analysis)) continue;
        const Roofline& roofline = *analysis.roofline;
        const auto tiled = analysis.traffic.tiled_bytes;
        if (tiled && *tiled > 0) {
            const double intensity = static_cast<double>(analysis.problem.flops) / *tiled;
            const double slope = memory_gbps(analysis) * intensity / 1000;
            points.push_back(
                {intensity,
                 analysis.roofline->compute_ms > 0 ? std::min(slope, compute_tflops(analysis)) : slope, i,
                 true, std::nullopt});
        }
        const auto measured = measured_tflops(items[i]);
        points.push_back({roofline.intensity, measured.value_or(roofline.attainable_tflops), i, false,
                          measured ? std::optional(roofline.attainable_tflops) : std::nullopt});
    }
    return points;
}

/// The places that are taken by letters and names.
class OccupiedAreas {
  public:
    /// The first free position at or below y.
    double free_row(double x, double y, double width) {
        for (const Box& box : boxes_)
            if (x < box.x + box.width && box.x < x + width && std::abs(y - box.y) < kRow)
                return free_row(x, box.y + kRow + 0.5, width);
        keep(x, y, width);
        return y;
    }
    void keep(double x, double y, double width) { boxes_.push_back({x, y, width}); }

    bool is_free(double x, double y, double width) const {
        return std::none_of(boxes_.begin(), boxes_.end(), [&](const Box& box) {
            return x < box.x + box.width && box.x < x + width && std::abs(y - box.y) < kRow;
        });
    }

  private:
    static constexpr double kRow = 2 * kMarker;
    struct Box {
        double x, y, width;
    };
    std::vector<Box> boxes_;
};

void draw_roofs(Svg& svg, const Roofs& all, const Axis& x, const Axis& y, OccupiedAreas& taken) {
    const double highest =
        std::max_element(all.roofs.begin(), all.roofs.end(), [](const Roof& a, const Roof& b) {
            return a.tflops < b.tflops;
        })->tflops;
    const double widest = std::max_element(all.slopes.begin(), all.slopes.end(),
                                           [](const Slope& a, const Slope& b) { return a.gbps < b.gbps; })
                              ->gbps /
                          1000;
    for (const Slope& slope : all.slopes) {
        const double tbps = slope.gbps / 1000;
        const double from = std::max(x.low, y.low / tbps), to = std::min(x.high, highest / tbps);
        if (from >= to) continue;
        const double x1 = x.at(from), y1 = y.at(from * tbps), x2 = x.at(to), y2 = y.at(to * tbps);
        svg.line(x1, y1, x2, y2, slope.measured ? "roof measured" : "roof bearing");
        // Along the line from its lower end: the data sheet's label above it, the copy's below.
        constexpr double kIn = 14;
        const double length = std::hypot(x2 - x1, y2 - y1), lift = slope.measured ? 16 : -7;
        const double turn = std::atan2(y2 - y1, x2 - x1) * 180 / std::acos(-1.0);
        const double at_x = x1 + kIn * (x2 - x1) / length, at_y = y1 + kIn * (y2 - y1) / length;
        const std::string text = formatted("{} {:.4g} GB/s", slope.name, slope.gbps);
        constexpr double kLetter = 6.5;
        for (double along = 0; along < kLetter * static_cast<double>(text.size()); along += kMarker)
            taken.keep(at_x + (along * (x2 - x1) - lift * (y2 - y1)) / length - kMarker,
                       at_y + (along * (y2 - y1) + lift * (x2 - x1)) / length, 2 * kMarker);
        svg.text(0, lift, text, "roof-name", Anchor::start,
                 "transform=\"translate(" + coordinate(at_x) + " " + coordinate(at_y) + ") rotate(" +
                     coordinate(turn) + ")\"");
    }
    std::vector<Roof> roofs = all.roofs;
    std::sort(roofs.begin(), roofs.end(), [](const Roof& a, const Roof& b) { return a.tflops > b.tflops; });
    double last = -100;
    for (const Roof& roof : roofs) {
        const double at = y.at(roof.tflops);
        svg.line(x.at(std::max(x.low, roof.tflops / widest)), at, x.last, at,
                 roof.bearing ? "roof bearing" : "roof");
        constexpr double kLine = 15, kLift = 6;
        // Names of roofs that are close together are above and below them; there is no room for a third.
        const bool below = at - last < kLine;
        const std::string text = roof.name + " " + rate_text(roof.tflops);
        double foot = below ? at + kLine - 1 : at - kLift;
        // At the right end of the roof, or at the left end if points are in the way.
        constexpr double kLetter = 7, kIn = 12, kMiddle = 4;
        const double width = kLetter * static_cast<double>(text.size());
        const double ridge = x.at(std::max(x.low, roof.tflops / widest)) + kIn;
        const bool right = taken.is_free(x.last - width, foot - kMiddle, width) ||
                           !taken.is_free(ridge, foot - kMiddle, width) || ridge + width > x.last;
        // Points are in the way at both ends: above the points.
        if (right && !below && !taken.is_free(x.last - width, foot - kMiddle, width)) foot -= kMarker;
        svg.text(right ? x.last - 4 : ridge, foot, text, roof.bearing ? "roof-name strong" : "roof-name",
                 right ? Anchor::end : Anchor::start);
        taken.keep(right ? x.last - width : ridge, foot - kMiddle, width);
        last = below ? at + kLine : at;
    }
}

void draw_letter(Svg& svg, double x, double y, const Point& point, const std::vector<Label>& labels) {
    const std::string colour(series_colour(point.item));
    if (point.hollow)
        svg.circle(x, y, kMarker - 1, "hollow", "stroke=\"" + colour + "\"");
    else
        svg.circle(x, y, kMarker, "point", "fill=\"" + colour + "\"");
    svg.text(x, y + 4, labels[point.item].letter, point.hollow ? "hollow-letter" : "letter", Anchor::middle);
}

/// A single point has its letter inside. Points at the same position share a dot, with their letters at its
/// lower right, where there is no roof.
void draw_points(Svg& svg, const std::vector<Point>& points, const std::vector<Label>& labels, const Axis& x,
                 const Axis& y, OccupiedAreas& taken) {
    constexpr std::size_t kMostLetters = 8;
    constexpr double kStep = 2 * kMarker, kDot = 4.5, kAway = 18;
    const auto place = [&](const Point& point) {
        return std::pair(x.at(point.intensity), y.at(point.tflops));
    };
    std::vector<std::vector<std::size_t>> groups;
    for (std::size_t i = 0; i < points.size(); ++i) {
        const auto here = place(points[i]);
        const auto near = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
            const auto there = place(points[group[0]]);
            return points[group[0]].hollow == points[i].hollow &&
                   std::hypot(there.first - here.first, there.second - here.second) < kMarker;
        });
        if (near != groups.end())
            near->push_back(i);
        else
            groups.push_back({i});
    }
    for (const auto& group : groups) {
        const Point& first = points[group[0]];
        const auto [at_x, at_y] = place(first);
        if (first.roof_tflops) svg.line(at_x, at_y, at_x, y.at(*first.roof_tflops), "drop");
    }
    // Lines are drawn first, so that none crosses a letter.
    struct Row {
        double left, y;
    };
    std::vector<Row> rows;
    for (const auto& group : groups) {
        const auto [at_x, at_y] = place(points[group[0]]);
        if (group.size() == 1) {
            rows.push_back({at_x - kMarker, at_y});
            continue;
        }
        const std::size_t boxes = std::min(group.size(), kMostLetters + 1);
        const double width = kStep * static_cast<double>(boxes);
        const double left = std::max(x.first, std::min(at_x + kDot + 4, x.last - width));
        rows.push_back({left, taken.free_row(left, std::min(at_y + kAway, y.first - kMarker), width)});
        svg.line(at_x, at_y, left + kMarker, rows.back().y, "leader");
    }
    for (std::size_t i = 0; i < groups.size(); ++i) {
        const auto& group = groups[i];
        const Point& first = points[group[0]];
        const auto [at_x, at_y] = place(first);
        if (group.size() > 1) svg.circle(at_x, at_y, kDot, first.hollow ? "hollow dot" : "dot");
        const std::size_t shown = std::min(group.size(), kMostLetters);
        double centre = rows[i].left + kMarker;
        for (std::size_t k = 0; k < shown; ++k, centre += kStep)
            draw_letter(svg, centre, rows[i].y, points[group[k]], labels);
        if (shown < group.size())
            svg.text(centre - kMarker + 2, rows[i].y + 4, formatted("+{}", group.size() - shown), "strong");
    }
}

std::string description_of(std::span<const ReportItem> items, const std::vector<Label>& labels) {
    std::vector<std::string> sentences;
    for (std::size_t i = 0; i < items.size(); ++i) {
        const auto& roofline = items[i].analysis.roofline;
        if (!roofline) continue;
        std::string text =
            formatted("{}, {}: {:.4g} flops per byte, {}, at most {}", labels[i].letter, labels[i].name(),
                      roofline->intensity, roofline->memory_bound ? "bound by memory" : "bound by arithmetic",
                      rate_text(roofline->attainable_tflops));
        if (const auto measured = measured_tflops(items[i])) text += ", measured " + rate_text(*measured);
        sentences.push_back(text + ".");
    }
    return join(sentences, " ");
}

}  // namespace

double compute_tflops(const Analysis& analysis) {
    const Roofline& roofline = *analysis.roofline;
    return roofline.compute_ms > 0 ? static_cast<double>(analysis.problem.flops) / (roofline.compute_ms * 1e9)
                                   : 0;
}

double memory_gbps(const Analysis& analysis) {
    // Computed from the intensity, which defines which bytes are counted.
    const Roofline& roofline = *analysis.roofline;
    if (!(roofline.memory_ms > 0) || !(roofline.intensity > 0)) return 0;
    return static_cast<double>(analysis.problem.flops) / roofline.intensity / (roofline.memory_ms * 1e6);
}

std::optional<double> measured_tflops(const ReportItem& item) {
    if (!item.measured_ms || !(*item.measured_ms > 0) || item.analysis.problem.flops <= 0)
        return std::nullopt;
    return static_cast<double>(item.analysis.problem.flops) / (*item.measured_ms * 1e9);
}

std::optional<Picture> roofline_picture(std::span<const ReportItem> items) {
    const Roofs roofs = roofs_of(items);
    const std::vector<Point> points = points_of(items);
    if (points.empty() || roofs.roofs.empty() || roofs.slopes.empty()) return std::nullopt;

    double least_x = 1e30, most_x = 0, least_y = 1e30, most_y = 0;
    for (const Point& point : points) {
        least_x = std::min(least_x, point.intensity / 2);
        most_x = std::max(most_x, point.intensity * 2);
        least_y = std::min(least_y, point.tflops / 2);
    }
    double fastest = 0;
    for (const Slope& slope : roofs.slopes) fastest = std::max(fastest, slope.gbps / 1000);
    for (const Roof& roof : roofs.roofs) {
        most_y = std::max(most_y, roof.tflops * 2);
        least_y = std::min(least_y, roof.tflops / 4);
        // The axis shows every roof from its ridge point on, and part of the slope below the lowest.
        least_x = std::min(least_x, roof.tflops / fastest / 8);
        most_x = std::max(most_x, roof.tflops / fastest * 3);
    }
    const Axis x{least_x, most_x, kLeft, kRight, true};
    const Axis y{least_y, most_y, kBottom, kTop, true};
    Picture picture{Svg(kRooflineWidth, kRooflineHeight), "Roofline",
                    description_of(items, labels_of(items))};
    draw_axes(picture.svg, x, y, "flops per byte of device memory", "TFLOP/s", x.ticks(), y.ticks());
    // Points are placed first; labels avoid them.
    OccupiedAreas taken;
    for (const Point& point : points)
        taken.keep(x.at(point.intensity) - kMarker, y.at(point.tflops), 2 * kMarker);
    draw_roofs(picture.svg, roofs, x, y, taken);
    draw_points(picture.svg, points, labels_of(items), x, y, taken);
    return picture;
}

}  // namespace kiln::inspect

namespace kiln {

inline namespace KILN_ABI {

std::string roofline_svg(std::span<const ReportItem> items) {
    const auto picture = inspect::roofline_picture(items);
    return picture ? picture->file() : std::string();
}

}  // namespace KILN_ABI
}  // namespace kiln
