// SPDX-License-Identifier: Apache-2.0
//
// The HTML, the style sheets and the script of reports, from the files next to this one.
#pragma once

#include <string_view>

namespace kiln::inspect {

extern const std::string_view kPictureStyle;  ///< picture.css
extern const std::string_view kPageStyle;     ///< page.css
extern const std::string_view kPageScript;    ///< page.js
extern const std::string_view kReportHtml;    ///< report.html

}  // namespace kiln::inspect
