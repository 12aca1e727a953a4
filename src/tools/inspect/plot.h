// SPDX-License-Identifier: Apache-2.0
//
// Axes: map values to coordinates, and compute the ticks.
#pragma once

#include <string>
#include <vector>

#include "inspect/svg.h"

namespace kiln::inspect {

struct Axis {
    double low = 0, high = 1;    ///< values; with `logarithmic` above zero
    double first = 0, last = 1;  ///< their coordinates
    bool logarithmic = false;

    /// The coordinate of a value; values beyond the axis are at its end.
    double at(double value) const;
    /// Round values on the axis, ascending: of a logarithmic one powers of ten, or for less than two of these
    /// 1, 2 and 5 of each; else multiples of 1, 2 or 5 times a power of ten, about `wanted` of them.
    std::vector<double> ticks(int wanted = 5) const;
};

/// Grid lines and tick labels of a plot whose corners are the axes' ends, with a title for each axis.
void draw_axes(Svg& picture, const Axis& x, const Axis& y, std::string_view x_title, std::string_view y_title,
               const std::vector<double>& x_ticks, const std::vector<double>& y_ticks);

/// "0.01", "5", "10 000", "2.5"
std::string tick_text(double value);

}  // namespace kiln::inspect
