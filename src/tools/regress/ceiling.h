// SPDX-License-Identifier: Apache-2.0
//
// The references of recorded times, measured in the same run: the naive template, and a copy of memory.
#pragma once

#include <kiln/run.h>
#include <kiln/tools/resources.h>

#include <map>
#include <optional>
#include <string>

namespace kiln {

class Ceiling {
  public:
    /// Measures the copy. Both must outlive it.
    Ceiling(Service& service, Runner& runner);

    /// nullopt when the template names no naive one, or that one does not support these sizes.
    std::optional<double> times_naive(const Variant& variant, const RunResult& timed);

    struct Share {
        std::optional<double> value;
        std::string limit;  ///< "copy", "matrix" or "fma"; empty: nothing is known
    };
    /// The roofline lower bound of its time, divided by its median. The peak rate is the data sheet's rate of
    /// the tensor cores if the code has their instructions, else that of FP32 FMAs.
    Share share(const RunResult& timed, const Resources& resources) const;

  private:
    Service& service_;
    Runner& runner_;
    double copy_bytes_per_ms_ = 0;
    std::map<std::string, double> naive_ms_;  ///< by variant and sizes
};

}  // namespace kiln
