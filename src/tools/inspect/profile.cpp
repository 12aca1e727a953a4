// SPDX-License-Identifier: Apache-2.0
//
// Runs a profiler, repeats the run without counters that it rejects, and explains errors.
#include <kiln/error.h>
#include <kiln/tools/profile.h>

#include <algorithm>
#include <string>

#include "base/file.h"
#include "base/process.h"
#include "base/words.h"
#include "inspect/profile_page.h"
#include "inspect/profile_tools.h"

namespace kiln {
namespace {

constexpr std::string_view kNotPermitted =
    "Nsight Compute may not read this GPU's counters (ERR_NVGPUCTRPERM). Run kiln profile as administrator "
    "or "
    "with CAP_SYS_ADMIN, in a container that was started with --cap-add=SYS_ADMIN;\n"
    "or allow them for all users: the line 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' in a file "
    "in "
    "/etc/modprobe.d, then load the driver again (reboot).";

/// The last lines with text, for a message.
std::string tail(const std::string& text) {
    constexpr std::size_t kMost = 1500;
    std::string end = text.size() <= kMost ? text : text.substr(text.find('\n', text.size() - kMost) + 1);
    while (!end.empty() && (end.back() == '\n' || end.back() == ' ')) end.pop_back();
    return end;
}

/// Lines with an error of ncu.
std::vector<std::string> error_lines(const std::string& text) {
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        std::string one = text.substr(at, end - at);
        if (one.find("==ERROR==") != std::string::npos || one.find("==WARNING==") != std::string::npos)
            lines.push_back(std::move(one));
        at = end + 1;
    }
    return lines;
}

/// The counters that an error names. ncu writes names as patterns: dots are escaped, and a list of choices may
/// follow the first dot.
std::vector<std::string> refused_counters(const std::string& text, const std::vector<std::string>& counters) {
    std::vector<std::string> refused;
    for (std::string one : error_lines(text)) {
        if (one.find("etric") == std::string::npos) continue;
        std::erase(one, '\\');
        std::string best;
        for (const std::string& counter : counters) {
            const std::string base = counter.substr(0, counter.find('.'));
            const bool named = one.find(counter) != std::string::npos || one.find(base) != std::string::npos;
            if (named && counter.size() > best.size()) best = counter;
        }
        if (!best.empty() && std::ranges::find(refused, best) == refused.end()) refused.push_back(best);
    }
    return refused;
}

/// One run under the profiler.
struct Attempt {
    ProcessResult process;
    std::string page;
    std::vector<Measured> launches;  ///< of the kernel

    std::string words() const { return process.error + "\n" + process.output; }
};

class Runs {
  public:
    Runs(const Profiler& profiler, const ProfileRequest& request) : profiler_(profiler), request_(request) {}

    Attempt attempt(const std::vector<std::string>& counters, std::vector<std::string>& notes) const {
        const TemporaryDirectory folder;
        ProcessRequest process;
        process.arguments = profiler_command(profiler_, request_, counters, folder.path());
        process.timeout = request_.timeout;
        process.stop = request_.stop;
        Attempt result;
        result.process = run_process(process);
        result.page = profiler_page(profiler_, result.process.output, folder.path());
        result.launches = read_profile_page(result.page, &notes);
        std::erase_if(result.launches,
                      [&](const Measured& launch) { return launch.kernel != request_.kernel; });
        return result;
    }

    /// Throws with the reason why there is no result.
    [[noreturn]] void fail(const Attempt& attempt) const {
        const ProcessResult& process = attempt.process;
        const std::string tool(name(profiler_.tool));
        const std::string program = profiler_.program.string();
        if (!process.started)
            throw DeviceError(program + " could not be started: " + process.start_error, tool);
        if (process.stopped) throw DeviceError("stopped while " + tool + " ran.", tool);
        if (attempt.words().find("ERR_NVGPUCTRPERM") != std::string::npos)
            throw DeviceError(std::string(kNotPermitted), tool);
        const std::string said = tail(process.error + process.output);
        const std::string shown = said.empty() ? " It printed nothing." : " It said:\n" + said;
        if (process.timed_out)
            throw DeviceError(tool + " " + process.how_it_ended(request_.timeout) +
                                  " and was stopped; smaller sizes take less." + shown,
                              tool);
        if (!process.succeeded())
            throw DeviceError(tool + " " + process.how_it_ended(request_.timeout) +
                                  " and measured no launch of " + request_.kernel + "." + shown,
                              tool);
        throw DeviceError(tool + " saw no launch of " + request_.kernel + "." + shown, tool);
    }

    std::string version() const {
        ProcessRequest process;
        process.arguments = {profiler_.program.string(), "--version"};
        process.timeout = std::chrono::seconds(20);
        process.stop = request_.stop;
        return version_in(run_process(process).output);
    }

  private:
    const Profiler& profiler_;
    const ProfileRequest& request_;
};

}  // namespace

inline namespace KILN_ABI {

ProfileResult run_profiler(const Profiler& profiler, const ProfileRequest& request) {
    if (request.command.empty()) throw UsageError("there is no command to run under the profiler.");
    const Runs runs(profiler, request);
    const bool nvidia = profiler.tool == ProfileTool::ncu;
    std::vector<std::string> counters = nvidia ? ncu_metrics() : rocprof_counters();
    ProfileResult result;
    result.version = runs.version();
    const std::string who =
        std::string(name(profiler.tool)) + (result.version.empty() ? "" : " " + result.version);
    const auto drop = [&](const std::vector<std::string>& refused) {
        for (const std::string& counter : refused) {
            std::erase(counters, counter);
            result.notes.push_back(who + " does not know " + counter + "; it was left out.");
        }
    };
    bool reduced = false;
    for (;;) {
        Attempt attempt = runs.attempt(counters, result.notes);
        if (!attempt.launches.empty()) {
            if (!attempt.process.succeeded())
                result.notes.push_back(who + " " + attempt.process.how_it_ended(request.timeout) +
                                       ", after it had measured.");
            result.launches = std::move(attempt.launches);
            result.page = std::move(attempt.page);
            return result;
        }
        const bool again = attempt.process.started && !attempt.process.timed_out && !attempt.process.stopped;
        std::vector<std::string> refused;
        if (again && nvidia) refused = refused_counters(attempt.words(), counters);
        // With an unknown counter, rocprofv3 ends without a message or a page; the last counter is the
        // newest.
        if (again && !nvidia && !reduced && attempt.page.empty()) {
            refused = {counters.back()};
            reduced = true;
        }
        if (refused.empty() || refused.size() == counters.size()) runs.fail(attempt);
        drop(refused);
    }
}

}  // namespace KILN_ABI
}  // namespace kiln
