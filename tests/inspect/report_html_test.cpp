// SPDX-License-Identifier: Apache-2.0
//
// Fragments of page/report.html: places, sections, escaping, and what is wrong with a page's code.
#include "inspect/report_html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace kiln::inspect::test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ReportHtml, EscapesTextAndTakesHtmlAsItIs) {
    EXPECT_EQ(html("fact", {{"name", "a < \"b\" & c"}, {"figure", "<b>1</b>"}}),
              "<div><dt>a &lt; &quot;b&quot; &amp; c</dt><dd><b>1</b></dd></div>\n");
}

TEST(ReportHtml, ShowsSectionsWhoseValueIsThere) {
    EXPECT_EQ(html("figure", {{"text", "12"}, {"best", flag(true)}}), "12 <span class=\"best\">best</span>");
    EXPECT_EQ(html("figure", {{"text", "12"}, {"best", flag(false)}}), "12");
    EXPECT_THAT(html("figure", {{"text", ""}, {"best", ""}}),
                EndsWith("<span class=\"unseen\">not known</span>"));
}

TEST(ReportHtml, ATagAloneTakesTheLineBreakWithIt) {
    EXPECT_EQ(html("advice", {{"list", "<li>a</li>\n"}}),
              "<h3>Advice</h3>\n<ul class=\"advice\">\n<li>a</li>\n</ul>\n");
    EXPECT_THAT(html("card", {{"badge", ""}, {"letter", "A"}, {"name", ""}, {"facts", ""}, {"warning", ""}}),
                EndsWith("<dl>\n</dl>\n</li>\n"));
}

TEST(ReportHtml, ValuesAreNotReadAsTemplates) {
    EXPECT_THAT(html("fact", {{"name", "{{figure}}"}, {"figure", "{{{name}}}{{#name}}"}}),
                HasSubstr("<dt>{{figure}}</dt><dd>{{{name}}}{{#name}}</dd>"));
}

TEST(ReportHtml, NamesThatDoNotExistAreErrors) {
    EXPECT_THAT([] { html("nothing", {}); },
                ThrowsMessage<std::logic_error>(HasSubstr("no fragment 'nothing'")));
    EXPECT_THAT(
        [] {
            html("fact", {{"name", "x"}});
        },
        ThrowsMessage<std::logic_error>(HasSubstr("'fact' has no value for figure")));
}

}  // namespace
}  // namespace kiln::inspect::test
