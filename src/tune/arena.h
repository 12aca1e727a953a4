// SPDX-License-Identifier: Apache-2.0
//
// The memory of one problem, in which candidates are launched one after the other: checked once, timed as often
// as is asked.
#pragma once

#include <kiln/run.h>
#include <kiln/service.h>
#include <kiln/timing.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "run/guarded_tensor.h"
#include "run/reference.h"

namespace kiln {

/// Not thread-safe.
class Arena {
  public:
    /// host: the service that builds references.
    Arena(Service& service, Service& host, bool cold_l2, std::uint64_t seed);
    ~Arena();

    /// Launches the kernel on fresh outputs, once with random inputs, and where the device has room for them once with
    /// those that make each contribution visible; what is wrong with the results, in a sentence; empty: nothing. Throws
    /// what building and launching throw.
    std::string check(const AnyKernel& kernel, const Problem& problem);
    /// One launch, between events.
    double time_ms(const AnyKernel& kernel, const Problem& problem);
    /// As many launches as `most`, but none after one that took longer than `enough_ms`. In a child process, where
    /// the service isolates: then after one more, which meets the child's memory for the first time.
    std::vector<double> times_ms(const AnyKernel& kernel, const Problem& problem, std::size_t most,
                                 double enough_ms);
    /// The memory that a launch needs: before a child that launches is made, so that all have it.
    void prepare(const Problem& problem);
    /// What scratch memory holds may no longer be what a launch may expect: the next gets it anew.
    void drop_scratch();
    /// Gives the memory back.
    void clear();
    /// Device memory of the tensors.
    std::uint64_t held_bytes() const;

  private:
    struct Expected;

    static std::string identity(const Tensor& tensor, Data data);
    GuardedTensor& tensor(const Tensor& tensor, Data data, bool fresh);
    std::optional<Problem> with_patterns(const Variant& variant, const Problem& problem);
    void launch(const AnyKernel& kernel, const Problem& problem, Data data, bool fresh);
    void drop_spare_scratch(const Problem& problem);
    void prepare(const Problem& problem, Data data);
    const Expected& expected(const Variant& variant, const Problem& problem, const Tensor& output, Data data);
    void prepare_expected(const Variant& variant, const Problem& problem, Data data);
    std::string problem_of(const AnyKernel& kernel, const Problem& problem, Data data);

    Service& service_;
    Service& host_;
    const std::uint64_t seed_;
    std::map<std::string, std::unique_ptr<GuardedTensor>> tensors_;
    std::map<std::string, std::unique_ptr<Expected>> expected_;
    std::optional<CacheFlusher> flusher_;
    Event start_, end_;
};

}  // namespace kiln
