// SPDX-License-Identifier: Apache-2.0
//
// The rate is that of the last seconds. Cached entries are a thousand times faster than compiles, so a mean
// over all would be misleading.
#include "cli/progress_bar.h"

#include <algorithm>

#include "cli/text_format.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

constexpr std::chrono::milliseconds kRedraw{100};
constexpr std::chrono::milliseconds kBetweenLines{500};
constexpr std::chrono::seconds kLongestSilence{30};
constexpr std::chrono::seconds kRateWindow{15};
constexpr int kTextColumns = 60;  // "kiln: " and "1234/5678  22%  3.45/s  about 19 min left  12 failed"

std::string time_left(double seconds) {
    if (seconds < 90) return formatted("{:.0f} s", std::max(seconds, 1.0));
    if (seconds < 5400) return formatted("{:.0f} min", seconds / 60);
    return formatted("{:.1f} h", seconds / 3600);
}

}  // namespace

std::string progress_text(const ProgressState& state) {
    std::string text = std::to_string(state.done);
    if (state.total > 0)
        text += formatted("/{}  {:.0f}%", state.total, 100 * double(state.done) / double(state.total));
    if (state.per_second > 0) {
        text += formatted("  {:.3g}/s", state.per_second);
        if (state.total > state.done)
            text +=
                "  about " +
                time_left(std::min(double(state.total - state.done) / state.per_second, state.most_seconds)) +
                " left";
    }
    if (state.failed > 0) text += formatted("  {} failed", state.failed);
    return text;
}

std::string bar_text(const ProgressState& state, int columns) {
    constexpr int kWidest = 30, kNarrowest = 5;
    const int width = std::min(columns - 2, kWidest);
    if (state.total == 0 || width < kNarrowest) return {};
    const auto filled =
        static_cast<std::size_t>(width * double(std::min(state.done, state.total)) / double(state.total));
    return "[" + std::string(filled, '#') + std::string(static_cast<std::size_t>(width) - filled, '-') + "]";
}

double ProgressBar::rate(Clock::time_point now, std::uint64_t done) {
    samples_.push_back({now, done});
    while (samples_.size() > 2 && samples_[1].time < now - kRateWindow) samples_.pop_front();
    const double seconds = std::chrono::duration<double>(now - samples_.front().time).count();
    return seconds > 0 ? double(done - samples_.front().done) / seconds : 0;
}

void ProgressBar::update(std::uint64_t done, std::uint64_t total, std::uint64_t failed, double most_seconds) {
    const auto now = Clock::now();
    const std::uint64_t tenth = total > 0 ? 10 * done / total : 0;
    const bool first = samples_.empty();
    const bool due = terminal_.errors_are_terminal()
                         ? now - told_ >= kRedraw
                         : now - told_ >= kLongestSilence ||
                               (tenth != told_tenth_ && now - told_ >= kBetweenLines && done < total);
    if (!first && !due) return;
    const ProgressState state{done, total, failed, rate(now, done), most_seconds};
    if (!due) return;
    told_ = now;
    told_tenth_ = tenth;
    const std::string text = progress_text(state);
    if (!terminal_.errors_are_terminal()) {
        terminal_.note(what_ + ": " + text);
        return;
    }
    // A bar of constant width, with room for the longest text.
    const std::string bar =
        bar_text(state, terminal_.error_columns() - static_cast<int>(what_.size()) - kTextColumns);
    terminal_.status(what_ + "  " + (bar.empty() ? "" : bar + "  ") + text);
}

}  // namespace kiln::cli
