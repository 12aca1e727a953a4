// SPDX-License-Identifier: Apache-2.0
//
// Equal lines at both ends are removed; the rest is compared by the textbook's dynamic programming.
#include "cache/line_diff.h"

#include <algorithm>
#include <cstdint>

namespace kiln {
namespace {

constexpr std::size_t kMostCells = 4'000'000;

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    while (true) {
        const auto end = text.find('\n');
        lines.push_back(text.substr(0, end));
        if (end == text.npos) return lines;
        text.remove_prefix(end + 1);
    }
}

/// Lengths of the longest common subsequences of all pairs of tails.
class TailTable {
  public:
    TailTable(const std::vector<std::string_view>& a, const std::vector<std::string_view>& b,
              std::size_t begin, std::size_t a_end, std::size_t b_end)
        : begin_(begin), width_(b_end - begin + 1), lengths_((a_end - begin + 1) * width_) {
        for (std::size_t i = a_end; i-- > begin;)
            for (std::size_t j = b_end; j-- > begin;)
                cell(i, j) = a[i] == b[j] ? cell(i + 1, j + 1) + 1 : std::max(cell(i + 1, j), cell(i, j + 1));
    }
    std::uint32_t& cell(std::size_t i, std::size_t j) {
        return lengths_[(i - begin_) * width_ + (j - begin_)];
    }

  private:
    std::size_t begin_, width_;
    std::vector<std::uint32_t> lengths_;
};

}  // namespace

std::optional<std::vector<LineDifference>> diff_lines(std::string_view wanted, std::string_view found) {
    const auto a = lines_of(wanted);
    const auto b = lines_of(found);
    std::size_t begin = 0, a_end = a.size(), b_end = b.size();
    while (begin < a_end && begin < b_end && a[begin] == b[begin]) ++begin;
    while (a_end > begin && b_end > begin && a[a_end - 1] == b[b_end - 1]) --a_end, --b_end;
    if ((a_end - begin + 1) > kMostCells / (b_end - begin + 1)) return std::nullopt;

    TailTable tails(a, b, begin, a_end, b_end);
    std::vector<LineDifference> differences;
    std::size_t i = begin, j = begin;
    while (i < a_end || j < b_end) {
        if (i < a_end && j < b_end && a[i] == b[j]) {
            ++i, ++j;
            continue;
        }
        // A run of lines that are only in one of the texts, up to the next common line.
        std::size_t a_stop = i, b_stop = j;
        while (a_stop < a_end || b_stop < b_end) {
            if (a_stop < a_end && b_stop < b_end && a[a_stop] == b[b_stop]) break;
            if (b_stop == b_end ||
                (a_stop < a_end && tails.cell(a_stop + 1, b_stop) >= tails.cell(a_stop, b_stop + 1)))
                ++a_stop;
            else
                ++b_stop;
        }
        for (; i < a_stop || j < b_stop;) {
            LineDifference difference;
            if (i < a_stop) difference.wanted = a[i], difference.wanted_line = ++i;
            if (j < b_stop) difference.found = b[j], difference.found_line = ++j;
            differences.push_back(difference);
        }
    }
    return differences;
}

}  // namespace kiln
