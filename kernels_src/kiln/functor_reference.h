// SPDX-License-Identifier: Apache-2.0
//
// What references make of a function of the caller, a parameter of kind `code`: its value in double, and how far the
// kernel's may be from that. For references, on the host only.
//
// The kernel's argument lies within an error of the reference's. Where the function is monotonic on that interval, as an
// activation is on one of some roundings, its values at the ends are the extremes, so what it carries of the error is
// taken from them. What it rounds itself is not known, since it may be anything: as much as 32 u of its value is allowed
// (erfcf and expf of all platforms and some operations around them stay below), and four times what the same text loses here in
// float, which is much where it cancels, and what 8 u of an argument change of it, since cancelling terms are rounded before.
#pragma once

#include "kiln/reference.h"

namespace kiln {

/// expected, bound: of the function's argument; become those of f(argument). f: called with double and with float. The
/// bound stays where f returns its argument, as the default of most parameters does.
template <class F>
inline void expect_functor(const F& f, double* expected, double* bound) {
    const auto difference = [](double a, double b) { return a < b ? b - a : a - b; };
    const double value = *expected, error = *bound;
    const double result = static_cast<double>(f(value));
    double carried = 0, rounded = 0, largest = 0;
    const double points[] = {value - error, value, value + error};
    for (const double at : points) {
        const double there = static_cast<double>(f(at));
        const auto narrow = static_cast<float>(at);
        carried = fmax(carried, difference(there, result));
        rounded = fmax(rounded, difference(static_cast<double>(f(narrow)),
                                           static_cast<double>(f(static_cast<double>(narrow)))));
        largest = fmax(largest, difference(there, 0));
    }
    const double nudge = 8 * unit_roundoff<float> * difference(value, 0);
    const double nudged = fmax(difference(static_cast<double>(f(value - nudge)), result),
                               difference(static_cast<double>(f(value + nudge)), result));
    const bool is_argument = result == value && rounded == 0;
    *expected = result;
    *bound = is_argument ? carried : carried + nudged + 32 * unit_roundoff<float> * largest + 4 * rounded;
}

}  // namespace kiln
