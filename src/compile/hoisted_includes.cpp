// SPDX-License-Identifier: Apache-2.0
//
// Walks over blank lines, comments and #include lines to the first line that is none of these.
#include "compile/hoisted_includes.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/words.h"

namespace kiln {
namespace {

// "<cub/cub.cuh>" of `#include <cub/cub.cuh>  // for BlockScan`; empty: the line is something else.
std::string_view operand_of(std::string_view line) {
    if (!line.starts_with('#')) return {};
    line = without_blanks(line.substr(1));
    constexpr std::string_view kInclude = "include";
    if (!line.starts_with(kInclude)) return {};
    line = without_blanks(line.substr(kInclude.size()));
    if (line.empty() || (line.front() != '<' && line.front() != '"')) return {};
    const std::size_t end = line.find(line.front() == '<' ? '>' : '"', 1);
    if (end == line.npos) return {};
    const std::string_view rest = without_blanks(line.substr(end + 1));
    return rest.empty() || rest.starts_with("//") ? line.substr(0, end + 1) : std::string_view();
}

struct Line {
    std::size_t begin, end;  // in the text
    std::string_view operand;
};

std::vector<Line> hoisted_lines(const Source& source) {
    std::vector<Line> lines;
    bool has_open = false;
    if (source.open_includes.empty()) return lines;
    const std::string_view text = source.text;
    const std::size_t own = own_text_begin(text);
    if (own == text.npos) return lines;
    for (std::size_t at = text.find('\n', own); at < text.size();) {
        const std::size_t begin = ++at, end = std::min(text.find('\n', begin), text.size());
        const std::string_view line = without_blanks(text.substr(begin, end - begin));
        at = end;
        if (line.find('\\') != line.npos) break;  // it may go on
        if (line.empty() || line.starts_with("//")) continue;
        const std::string_view operand = operand_of(line);
        if (operand.empty()) break;
        const bool is_open = std::ranges::find(source.open_includes, operand) != source.open_includes.end();
        // A header of the template's own may use what the template declares.
        if (!is_open && !operand.substr(1).starts_with("kiln/")) break;
        has_open = has_open || is_open;
        lines.push_back({begin, end, operand});
    }
    if (!has_open) lines.clear();
    return lines;
}

}  // namespace

std::string hoisted_includes(const Source& source) {
    std::string text;
    for (const Line& line : hoisted_lines(source)) {
        if (text.empty()) text = "#include \"kiln/device.h\"\n";
        text.append("#include ").append(line.operand).append("\n");
    }
    return text;
}

std::string without_hoisted_includes(const Source& source) {
    std::string text = source.text;
    for (const Line& line : hoisted_lines(source))
        text.replace(line.begin, line.end - line.begin, line.end - line.begin, ' ');
    return text;
}

}  // namespace kiln
