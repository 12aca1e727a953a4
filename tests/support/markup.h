// SPDX-License-Identifier: Apache-2.0
//
// A strict reader of markup: XML, and HTML as reports write it. It finds what browsers forgive.
#pragma once

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln::test {

struct Tag {
    std::string name;
    std::map<std::string, std::string> attributes;
    std::string text;  ///< directly in it, entities as they are written

    std::string attribute(const std::string& key) const {
        const auto found = attributes.find(key);
        return found == attributes.end() ? "" : found->second;
    }
};

/// The elements in the order of their start tags, or what is wrong with the text.
struct Markup {
    std::vector<Tag> tags;
    std::string error;

    std::vector<Tag> named(const std::string& name) const {
        std::vector<Tag> found;
        for (const Tag& tag : tags)
            if (tag.name == name) found.push_back(tag);
        return found;
    }
    std::vector<Tag> with(const std::string& attribute, const std::string& value) const {
        std::vector<Tag> found;
        for (const Tag& tag : tags)
            if (tag.attributes.count(attribute) != 0 && tag.attribute(attribute) == value)
                found.push_back(tag);
        return found;
    }
};

class MarkupReader {
  public:
    MarkupReader(std::string_view text, bool html) : all_(text), left_(text), html_(html) {}

    Markup read() {
        if (html_ && !take("<!doctype html>")) fail("no doctype");
        while (result_.error.empty() && !left_.empty()) {
            if (left_.front() == '<')
                tag();
            else
                content();
        }
        if (result_.error.empty() && !open_.empty())
            fail("<" + result_.tags[open_.back()].name + "> is not closed");
        return std::move(result_);
    }

  private:
    void fail(const std::string& what) {
        if (!result_.error.empty()) return;
        const std::size_t at = all_.size() - left_.size();
        result_.error = what + " before: " + std::string(all_.substr(at, 80));
        left_ = {};
    }
    bool take(std::string_view word) {
        if (!left_.starts_with(word)) return false;
        left_.remove_prefix(word.size());
        return true;
    }
    void space() {
        while (!left_.empty() && std::isspace(static_cast<unsigned char>(left_.front())) != 0)
            left_.remove_prefix(1);
    }
    std::string name() {
        std::size_t length = 0;
        while (length < left_.size() && (std::isalnum(static_cast<unsigned char>(left_[length])) != 0 ||
                                         left_[length] == '-' || left_[length] == ':'))
            ++length;
        const std::string found(left_.substr(0, length));
        left_.remove_prefix(length);
        if (found.empty()) fail("a name is missing");
        return found;
    }
    void check_text(std::string_view text) {
        static const std::set<std::string_view> kEntities = {"amp", "lt", "gt", "quot", "#39"};
        for (std::size_t i = 0; i < text.size(); ++i) {
            const auto c = static_cast<unsigned char>(text[i]);
            if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7F) return fail("a control character");
            if (c == '<') return fail("a < in text");
            if (c != '&') continue;
            const std::size_t end = text.find(';', i);
            if (end == text.npos || kEntities.count(text.substr(i + 1, end - i - 1)) == 0)
                return fail("no entity: " + std::string(text.substr(i, 12)));
        }
    }
    void content() {
        const std::string_view text = left_.substr(0, left_.find('<'));
        check_text(text);
        if (!result_.error.empty()) return;
        if (open_.empty() && text.find_first_not_of(" \n") != text.npos)
            return fail("text outside of all elements");
        if (!open_.empty()) result_.tags[open_.back()].text += text;
        left_.remove_prefix(text.size());
    }
    void tag() {
        if (take("</")) {
            const std::string closed = name();
            if (open_.empty() || result_.tags[open_.back()].name != closed)
                return fail("</" + closed + "> closes nothing");
            open_.pop_back();
            space();
            if (!take(">")) fail("> is missing");
            return;
        }
        take("<");
        Tag tag{name(), {}, {}};
        if (open_.empty() && !result_.tags.empty()) return fail("a second root");
        while (result_.error.empty()) {
            const std::size_t before = left_.size();
            space();
            if (take("/>")) {
                result_.tags.push_back(tag);
                return html_ && !inside("svg") ? fail("/> in HTML") : void();
            }
            if (take(">")) break;
            if (left_.size() == before) return fail("no space between attributes");
            attribute(tag);
        }
        if (!result_.error.empty()) return;
        result_.tags.push_back(tag);
        static const std::set<std::string_view> kVoid = {"meta", "link", "input", "br", "hr", "img"};
        if (html_ && kVoid.count(tag.name) != 0) return;
        open_.push_back(result_.tags.size() - 1);
        if (html_ && (tag.name == "script" || tag.name == "style")) {
            const std::size_t end = left_.find("</" + tag.name);
            if (end == left_.npos) return fail("no end of " + tag.name);
            result_.tags.back().text = left_.substr(0, end);
            left_.remove_prefix(end);
        }
    }
    void attribute(Tag& tag) {
        const std::string key = name();
        std::string value;
        if (take("=")) {
            if (!take("\"")) return fail("a value without quotes");
            const std::string_view text = left_.substr(0, left_.find('"'));
            check_text(text);
            if (!result_.error.empty()) return;
            value = text;
            left_.remove_prefix(std::min(text.size() + 1, left_.size()));
        } else if (!html_) {
            return fail("an attribute without a value");
        }
        if (!tag.attributes.emplace(key, value).second) fail("attribute " + key + " twice");
    }
    bool inside(std::string_view name) const {
        for (const std::size_t at : open_)
            if (result_.tags[at].name == name) return true;
        return false;
    }

    std::string_view all_, left_;
    bool html_;
    Markup result_;
    std::vector<std::size_t> open_;
};

inline Markup read_xml(std::string_view text) { return MarkupReader(text, false).read(); }
inline Markup read_html(std::string_view text) { return MarkupReader(text, true).read(); }

}  // namespace kiln::test
