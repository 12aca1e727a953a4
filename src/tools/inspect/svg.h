// SPDX-License-Identifier: Apache-2.0
//
// Writing SVG and the text in it: escaping, coordinates, elements, the palette that pictures and page share.
#pragma once

#include <string>
#include <string_view>

namespace kiln::inspect {

/// For XML and HTML, in content and in attributes: the five special characters as entities; bytes that are no
/// UTF-8, and control characters, which XML can't hold, as U+FFFD.
std::string escaped(std::string_view text);

/// A coordinate: at most two decimals, no trailing zeros, no exponent.
std::string coordinate(double value);

/// The rules of the classes that pictures use, for a <style> element: once in a page.
std::string_view picture_style();

/// The fill of the nth of a series; white text is readable on each of them.
std::string_view series_colour(std::size_t index);

enum class Anchor { start, middle, end };

/// Builds a picture. Classes are those of picture_style(); `more`: further attributes, inserted unchanged.
class Svg {
  public:
    /// The extents are in units of about a CSS pixel.
    Svg(double width, double height) : width_(width), height_(height) {}

    void rectangle(double x, double y, double width, double height, std::string_view classes,
                   std::string_view more = {});
    void line(double x1, double y1, double x2, double y2, std::string_view classes,
              std::string_view more = {});
    void circle(double x, double y, double radius, std::string_view classes, std::string_view more = {});
    /// d: of the path element.
    void path(std::string_view d, std::string_view classes, std::string_view more = {});
    /// The text is escaped.
    void text(double x, double y, std::string_view text, std::string_view classes,
              Anchor anchor = Anchor::start, std::string_view more = {});
    /// As it is.
    void raw(std::string_view elements) { body_ += elements; }
    /// Another picture's elements, translated.
    void place(const Svg& other, double x, double y);

    double width() const { return width_; }
    double height() const { return height_; }

    /// A separate file, with name space and style. Title and description are for screen readers.
    std::string file(std::string_view title, std::string_view description) const;
    /// For a page. id: not used by another element of the page.
    std::string inlined(std::string_view id, std::string_view title, std::string_view description) const;

  private:
    std::string element(std::string_view id, std::string_view attributes, std::string_view style,
                        std::string_view title, std::string_view description) const;

    double width_, height_;
    std::string body_;
};

}  // namespace kiln::inspect
