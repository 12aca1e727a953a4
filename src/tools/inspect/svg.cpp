// SPDX-License-Identifier: Apache-2.0
//
// Elements are appended as text.
#include "inspect/svg.h"

#include <array>
#include <cmath>

#include "format/format.h"
#include "inspect/page/assets.h"
#include "inspect/text_format.h"

namespace kiln::inspect {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// The length of the well-formed UTF-8 sequence at the start of text; 0: there is none.
std::size_t sequence_length(std::string_view text) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
    const unsigned first = byte(0);
    const std::size_t length = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (length == 0 || first > 0xF4 || text.size() < length) return 0;
    unsigned point = length == 1 ? first : first & (0xFFU >> (length + 1));
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xC0U) != 0x80) return 0;
        point = point << 6 | (byte(i) & 0x3FU);
    }
    const bool shortest = length < 3 || point >= (length == 3 ? 0x800U : 0x10000U);
    const bool is_character =
        point < 0xD800 || (point > 0xDFFF && point < 0xFFFE) || (point > 0xFFFF && point <= 0x10FFFF);
    return shortest && is_character ? length : 0;
}

std::string attributes_of(std::string_view classes, std::string_view more) {
    std::string text;
    if (!classes.empty()) text += " class=\"" + std::string(classes) + "\"";
    if (!more.empty()) text += " " + std::string(more);
    return text;
}

/// name="VALUE", with a space in front.
std::string attribute(std::string_view name, double value) {
    return " " + std::string(name) + "=\"" + coordinate(value) + "\"";
}

}  // namespace

std::string escaped(std::string_view text) {
    std::string result;
    result.reserve(text.size() + text.size() / 8);
    while (!text.empty()) {
        const std::size_t length = sequence_length(text);
        const auto first = static_cast<unsigned char>(text[0]);
        if (length == 0)
            result += kReplacement;
        else if (length > 1)
            // The C1 controls are legal in XML, and are not in HTML.
            result += first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0 ? kReplacement
                                                                                  : text.substr(0, length);
        else if (first == '&')
            result += "&amp;";
        else if (first == '<')
            result += "&lt;";
        else if (first == '>')
            result += "&gt;";
        else if (first == '"')
            result += "&quot;";
        else if (first == '\'')
            result += "&#39;";
        else if ((first < 0x20 && first != '\n' && first != '\t') || first == 0x7F)
            result += kReplacement;
        else
            result += text[0];
        text.remove_prefix(length == 0 ? 1 : length);
    }
    return result;
}

std::string coordinate(double value) {
    if (!std::isfinite(value)) value = 0;
    std::string text = formatted("{:.2f}", value);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.ends_with('.')) text.pop_back();
    return text == "-0" ? "0" : text;
}

std::string_view picture_style() { return kPictureStyle; }

std::string_view series_colour(std::size_t index) {
    constexpr std::array<std::string_view, 8> kColours = {"#0b63a5", "#b54708", "#00735a", "#9c3f78",
                                                          "#7a5c00", "#5b4fa0", "#2f6b75", "#5c5f66"};
    return kColours[index % kColours.size()];
}

void Svg::rectangle(double x, double y, double width, double height, std::string_view classes,
                    std::string_view more) {
    body_ += "<rect" + attribute("x", x) + attribute("y", y) + attribute("width", width) +
             attribute("height", height) + attributes_of(classes, more) + "/>\n";
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view classes, std::string_view more) {
    body_ += "<line" + attribute("x1", x1) + attribute("y1", y1) + attribute("x2", x2) + attribute("y2", y2) +
             attributes_of(classes, more) + "/>\n";
}

void Svg::circle(double x, double y, double radius, std::string_view classes, std::string_view more) {
    body_ += "<circle" + attribute("cx", x) + attribute("cy", y) + attribute("r", radius) +
             attributes_of(classes, more) + "/>\n";
}

void Svg::path(std::string_view d, std::string_view classes, std::string_view more) {
    body_ += "<path d=\"" + std::string(d) + "\"" + attributes_of(classes, more) + "/>\n";
}

void Svg::text(double x, double y, std::string_view text, std::string_view classes, Anchor anchor,
               std::string_view more) {
    body_ += "<text" + attribute("x", x) + attribute("y", y) + attributes_of(classes, more);
    if (anchor != Anchor::start)
        body_ += anchor == Anchor::middle ? " text-anchor=\"middle\"" : " text-anchor=\"end\"";
    body_ += ">" + escaped(text) + "</text>\n";
}

void Svg::place(const Svg& other, double x, double y) {
    body_ +=
        "<g transform=\"translate(" + coordinate(x) + " " + coordinate(y) + ")\">\n" + other.body_ + "</g>\n";
}

std::string Svg::file(std::string_view title, std::string_view description) const {
    const std::string extents = attribute("width", width_) + attribute("height", height_);
    return element("picture", " xmlns=\"http://www.w3.org/2000/svg\"" + extents, picture_style(), title,
                   description) +
           "\n";
}

std::string Svg::inlined(std::string_view id, std::string_view title, std::string_view description) const {
    // The width of a picture in its own units: the page shows it hardly larger than that.
    return element(id, " style=\"--width:" + coordinate(width_) + "px\"", {}, title, description);
}

std::string Svg::element(std::string_view id, std::string_view attributes, std::string_view style,
                         std::string_view title, std::string_view description) const {
    const std::string name(id);
    std::string text = "<svg";
    // The name space comes first: tools that guess a file's type look at its first bytes.
    text += std::string(attributes) + " class=\"kiln-picture\" viewBox=\"0 0 " + coordinate(width_) + " " +
            coordinate(height_) + "\" role=\"img\" aria-labelledby=\"" + name + "-title " + name +
            "-text\">\n<title id=\"" + name + "-title\">" + escaped(title) + "</title>\n<desc id=\"" + name +
            "-text\">" + escaped(description) + "</desc>\n";
    if (!style.empty())
        text += "<style>" + std::string(style) +
                "</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n";
    return text + body_ + "</svg>";
}

}  // namespace kiln::inspect
