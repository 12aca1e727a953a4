// SPDX-License-Identifier: Apache-2.0
//
// Recorder: collects what a service is asked for and writes it to the file of ServiceOptions::record. What is new is
// written at once, but such that writing takes a tenth of the time at most; the rest when the service ends.
#pragma once

#include <kiln/record.h>
#include <kiln/service.h>
#include <kiln/template.h>

#include <chrono>
#include <filesystem>
#include <mutex>

#include "service/service_events.h"

namespace kiln {

/// Thread-safe. Nothing throws: a file that can't be written is told once, and the service goes on.
class Recorder {
  public:
    /// options: of the service; the path of the file is that of now, wherever the process goes.
    Recorder(const ServiceOptions& options, Target target, ServiceEvents& events);
    /// Writes what is left.
    ~Recorder();
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    void note(const Variant& variant) noexcept;
    void note(const Template& of, const Values& fixed, const Sizes& sizes) noexcept;

  private:
    using Clock = std::chrono::steady_clock;

    RecordedValues recorded(const std::string& name, const Values& values) const;
    /// Unlocks for as long as it writes: others only note meanwhile.
    void write_in_time(std::unique_lock<std::mutex>& lock);
    void write(const Record& seen) noexcept;

    const std::filesystem::path file_;
    const Target target_;
    const std::vector<std::string> compile_options_;
    const bool debug_;
    ServiceEvents& events_;
    std::mutex mutex_;
    Record seen_;          ///< by this service
    bool is_new_ = false;  ///< some of it is not in the file
    bool is_writing_ = false;
    Clock::time_point next_;
};

}  // namespace kiln
