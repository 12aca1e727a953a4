// SPDX-License-Identifier: Apache-2.0
//
// What other classes of the library may do with a service, and applications may not.
#pragma once

#include <kiln/service.h>

#include <string>

namespace kiln {

class ServiceAccess {
  public:
    /// To ServiceOptions::on_warning, each text once.
    static void warn_once(const Service& service, const std::string& text);
};

}  // namespace kiln
