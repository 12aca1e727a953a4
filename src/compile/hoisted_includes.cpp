// SPDX-License-Identifier: Apache-2.0
//
// Walks over blank lines, comments and #include lines to the first line that is none of these.
#include "compile/hoisted_includes.h"

#include <algorithm>
#include <string_view>

namespace kiln {
namespace {

constexpr std::string_view kBlanks = " \t\r\v\f";

std::string_view without_blanks(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    return text;
}

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

}  // namespace

HoistedIncludes hoisted_includes(const Source& source) {
    HoistedIncludes found{{}, source.text};
    bool has_open = false;
    if (source.open_includes.empty()) return found;
    const std::string_view text = source.text;
    const std::size_t own = own_text_begin(text);
    if (own == text.npos) return found;
    for (std::size_t begin = text.find('\n', own); begin < text.size();) {
        const std::size_t start = ++begin, end = std::min(text.find('\n', start), text.size());
        const std::string_view line = without_blanks(text.substr(start, end - start));
        begin = end;
        if (line.find('\\') != line.npos) break;  // it may go on
        if (line.empty() || line.starts_with("//")) continue;
        const std::string_view operand = operand_of(line);
        if (operand.empty()) break;
        const bool is_open = std::ranges::find(source.open_includes, operand) != source.open_includes.end();
        // A header of the template's own may use what the template declares.
        if (!is_open && !operand.substr(1).starts_with("kiln/")) break;
        has_open = has_open || is_open;
        found.lines.append("#include ").append(operand).append("\n");
        std::fill_n(found.rest.begin() + static_cast<std::ptrdiff_t>(start), end - start, ' ');
    }
    if (!has_open) return {{}, source.text};
    found.lines.insert(0, "#include \"kiln/device.h\"\n");
    return found;
}

}  // namespace kiln
