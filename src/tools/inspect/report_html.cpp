// SPDX-License-Identifier: Apache-2.0
//
// Fills the fragments of page/report.html, a subset of Mustache.
#include "inspect/report_html.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "format/format.h"
#include "inspect/page/assets.h"
#include "inspect/svg.h"

namespace kiln::inspect {
namespace {

constexpr std::string_view kBegin = "\n<!-- ", kEnd = " -->\n", kInline = " inline";

/// By their names.
std::map<std::string_view, std::string_view> fragments_of(std::string_view file) {
    std::map<std::string_view, std::string_view> fragments;
    for (std::size_t at = file.find(kBegin); at != file.npos;) {
        const std::size_t name_begin = at + kBegin.size(), name_end = file.find(kEnd, at);
        std::string_view name = file.substr(name_begin, name_end - name_begin);
        const std::size_t text = name_end + kEnd.size();
        at = file.find(kBegin, text - 1);
        const bool is_inline = name.ends_with(kInline);
        if (is_inline) name.remove_suffix(kInline.size());
        const std::size_t end = at == file.npos ? file.size() : at + 1;
        fragments[name] = file.substr(text, end - text - (is_inline ? 1 : 0));
    }
    return fragments;
}

class Filling {
  public:
    Filling(std::string_view name, std::string_view text, Values values)
        : name_(name), text_(text), values_(values) {}

    std::string result() {
        section({}, true);
        return std::move(result_);
    }

  private:
    /// From here to the end of the section `name`, or to that of the fragment.
    void section(std::string_view name, bool shown) {
        while (true) {
            const std::size_t begin = std::min(text_.find("{{", at_), text_.size());
            if (shown) result_ += text_.substr(at_, begin - at_);
            at_ = begin;
            if (begin == text_.size()) return;
            const bool is_html = text_.substr(begin, 3) == "{{{";
            const std::size_t braces = is_html ? 3 : 2, end = text_.find("}}", begin);
            const std::string_view tag = text_.substr(begin + braces, end - begin - braces);
            at_ = end + braces;
            const bool starts_line = begin == 0 || text_[begin - 1] == '\n';
            if (starts_line && text_.substr(at_, 1) == "\n") ++at_;
            if (tag == "/" + std::string(name)) return;
            if (tag.starts_with('#') || tag.starts_with('^'))
                section(tag.substr(1), shown && value(tag.substr(1)).empty() == tag.starts_with('^'));
            else if (shown)
                result_ += is_html ? std::string(value(tag)) : escaped(value(tag));
        }
    }

    std::string_view value(std::string_view name) const {
        const auto found = std::ranges::find(values_, name, [](const auto& one) { return one.first; });
        if (found == values_.end())
            throw std::logic_error(formatted("page/report.html: '{}' has no value for {}", name_, name));
        return found->second;
    }

    std::string_view name_, text_;
    Values values_;
    std::size_t at_ = 0;
    std::string result_;
};

}  // namespace

std::string html(std::string_view fragment, Values values) {
    static const auto fragments = fragments_of(kReportHtml);
    const auto found = fragments.find(fragment);
    if (found == fragments.end())
        throw std::logic_error(formatted("page/report.html has no fragment '{}'", fragment));
    return Filling(fragment, found->second, values).result();
}

std::string exactly(double value) { return formatted("{:.17g}", value); }

}  // namespace kiln::inspect
