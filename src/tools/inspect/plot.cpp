// SPDX-License-Identifier: Apache-2.0
//
// Ticks at round numbers.
#include "inspect/plot.h"

#include <algorithm>
#include <cmath>

#include "format/format.h"
#include "inspect/report_text.h"
#include "inspect/text_format.h"

namespace kiln::inspect {
namespace {

constexpr double kTolerance = 1e-9;  // of a step; tolerance for an end that is a tick except for rounding

std::vector<double> logarithmic_ticks(const Axis& axis, const std::vector<double>& of_decade) {
    std::vector<double> ticks;
    if (!(axis.low > 0) || !std::isfinite(axis.high)) return ticks;
    const int first = static_cast<int>(std::floor(std::log10(axis.low) + kTolerance));
    const int last = static_cast<int>(std::ceil(std::log10(axis.high) - kTolerance));
    for (int power = first; power <= last; ++power) {
        for (const double factor : of_decade) {
            const double tick = factor * std::pow(10.0, power);
            if (tick >= axis.low * (1 - kTolerance) && tick <= axis.high * (1 + kTolerance))
                ticks.push_back(tick);
        }
    }
    return ticks;
}

}  // namespace

double Axis::at(double value) const {
    value = std::clamp(value, low, high);
    const double share = logarithmic ? std::log(value / low) / std::log(high / low)
                                     : (high > low ? (value - low) / (high - low) : 0);
    return first + share * (last - first);
}

std::vector<double> Axis::ticks(int wanted) const {
    if (logarithmic) {
        const std::vector<double> decades = logarithmic_ticks(*this, {1});
        return decades.size() < 2 ? logarithmic_ticks(*this, {1, 2, 5}) : decades;
    }
    const double rough = (high - low) / std::max(1, wanted);
    if (!(rough > 0) || !std::isfinite(rough)) return {low};
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    double step = 10 * power;
    for (const double factor : {5.0, 2.0, 1.0})
        if (factor * power >= rough * (1 - kTolerance)) step = factor * power;
    std::vector<double> ticks;
    for (double i = std::ceil(low / step - kTolerance); i * step <= high + kTolerance * step; ++i)
        ticks.push_back(i * step);
    return ticks;
}

std::string tick_text(double value) {
    if (value == std::floor(value) && std::abs(value) < 1e7) return grouped(value);
    return formatted("{:.3g}", value);
}

void draw_axes(Svg& picture, const Axis& x, const Axis& y, std::string_view x_title, std::string_view y_title,
               const std::vector<double>& x_ticks, const std::vector<double>& y_ticks) {
    constexpr double kTick = 5, kFigure = 18, kTitle = 36, kLift = 4;
    for (const double tick : x_ticks) {
        picture.line(x.at(tick), y.first, x.at(tick), y.last, "grid");
        picture.text(x.at(tick), y.first + kFigure, tick_text(tick), "figure", Anchor::middle);
    }
    for (const double tick : y_ticks) {
        picture.line(x.first, y.at(tick), x.last, y.at(tick), "grid");
        picture.text(x.first - kTick - 1, y.at(tick) + kLift, tick_text(tick), "figure", Anchor::end);
    }
    picture.line(x.first, y.first, x.last, y.first, "axis");
    picture.text((x.first + x.last) / 2, y.first + kTitle, x_title, "title", Anchor::middle);
    picture.text(0, y.last - 12, y_title, "title");
}

}  // namespace kiln::inspect
