// SPDX-License-Identifier: Apache-2.0
//
// Specialising: typed constants, the caller's functions and a #line before the template's untouched bytes.
#pragma once

#include <string>

#include "template/template_data.h"

namespace kiln {

/// The text that a compiler gets for these values, which are also given as codes. links: functions of LTO-IR are
/// declared, to be linked; else their bodies are used. real_path: its #line names the file by its absolute path, if
/// there is such a file.
std::string specialised_text(const TemplateContent& content, const Codes& codes, const Values& values,
                             bool links, bool real_path = false);

}  // namespace kiln
