// SPDX-License-Identifier: Apache-2.0
//
// A variant's text is "NAME KEY=VALUE ...", in the order of its template. Labels are derived from the values
// that differ.
#include "inspect/report_text.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/arch_facts.h"
#include "base/words.h"
#include "format/format.h"
#include "inspect/text_format.h"

namespace kiln::inspect {
namespace {

constexpr std::string_view kThinSpace = "\xE2\x80\xAF";

std::vector<std::string> words_of(const std::string& text) {
    std::vector<std::string> words;
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t end = std::min(text.find(' ', at), text.size());
        if (end > at) words.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return words;
}

/// 0: "A", 25: "Z", 26: "AA"
std::string letter_of(std::size_t index) {
    constexpr std::size_t kLetters = 26;
    std::string text;
    for (++index; index > 0; index = (index - 1) / kLetters)
        text.insert(text.begin(), static_cast<char>('A' + (index - 1) % kLetters));
    return text;
}

}  // namespace

std::string grouped(double whole) {
    std::string text = formatted("{:.0f}", std::abs(whole));
    for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, kThinSpace);
    return (whole < 0 ? "-" : "") + text;
}

std::string count_text(double count) {
    if (std::abs(count) < 1e6)
        return count == std::floor(count) ? grouped(count) : formatted("{:.4g}", count);
    if (std::abs(count) < 1e9) return formatted("{:.4g} million", count / 1e6);
    return std::abs(count) < 1e15 ? formatted("{:.4g} billion", count / 1e9) : formatted("{:.4g}", count);
}

std::string amount_text(double bytes) {
    constexpr double kMost = 1.8e19;
    return bytes_text(static_cast<std::uint64_t>(std::clamp(bytes, 0.0, kMost)));
}

std::string rate_text(double tflops) {
    return tflops < 1 ? formatted("{:.3g} GFLOP/s", 1000 * tflops) : formatted("{:.4g} TFLOP/s", tflops);
}

std::string extents_text(const Dim3& extents) {
    std::string text = grouped(extents.x);
    if (extents.y != 1 || extents.z != 1) text += " × " + grouped(extents.y);
    if (extents.z != 1) text += " × " + grouped(extents.z);
    return text;
}

std::string sizes_text(const Sizes& sizes) {
    std::vector<std::string> words;
    for (const auto& [name, value] : sizes)
        words.push_back(name + "\u00A0=\u00A0" + grouped(static_cast<double>(value)));
    return join(words);
}

std::string sentence(std::string text) {
    const std::size_t end = std::min(text.find_first_of(" ,:"), text.size());
    const bool word = std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end),
                                  [](char c) { return c >= 'a' && c <= 'z'; });
    if (word && end > 0) text[0] = static_cast<char>(text[0] - 'a' + 'A');
    if (!text.empty() && std::string_view(".!?:").find(text.back()) == std::string_view::npos) text += '.';
    return text;
}

std::string Label::name() const { return template_name + (difference.empty() ? "" : " " + difference); }

std::vector<Label> labels_of(std::span<const ReportItem> items) {
    // The values of each parameter over all variants of a template.
    std::map<std::string, std::map<std::string, std::set<std::string>>> seen;
    std::set<std::string> archs;
    const auto split = [](const std::string& word) {
        const std::size_t equals = std::min(word.find('='), word.size());
        return std::pair(word.substr(0, equals), word.substr(equals));
    };
    for (const ReportItem& item : items) {
        const std::vector<std::string> words = words_of(item.analysis.variant);
        const std::string name = words.empty() ? "" : words[0];
        for (std::size_t i = 1; i < words.size(); ++i) {
            const auto [key, value] = split(words[i]);
            seen[name][key].insert(value);
        }
        archs.insert(item.analysis.arch);
    }
    std::vector<Label> labels;
    for (const ReportItem& item : items) {
        Label label;
        label.letter = letter_of(labels.size());
        const std::vector<std::string> words = words_of(item.analysis.variant);
        label.template_name = words.empty() ? "" : words[0];
        std::vector<std::string> different, common;
        for (std::size_t i = 1; i < words.size(); ++i) {
            const bool differs = seen[label.template_name][split(words[i]).first].size() > 1;
            (differs ? different : common).push_back(words[i]);
        }
        if (archs.size() > 1) different.push_back("@" + item.analysis.arch);
        label.difference = join(different, " ");
        label.common = join(common, " ");
        labels.push_back(std::move(label));
    }
    return labels;
}

std::string multiprocessor_text(const std::string& arch) {
    return backend_of_arch(arch) == Backend::hip ? "compute unit" : "multiprocessor";
}

}  // namespace kiln::inspect
