// SPDX-License-Identifier: Apache-2.0
//
// The style sheets and the script of reports, from the files next to this one.
#pragma once

#include <string_view>

namespace kiln::inspect {

extern const std::string_view kPictureStyle;  ///< picture.css
extern const std::string_view kPageStyle;     ///< page.css
extern const std::string_view kPageScript;    ///< page.js

}  // namespace kiln::inspect
