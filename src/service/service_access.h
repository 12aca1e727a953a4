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
    /// Whether the caller is a callback of a build in the background, which must not wait for another one.
    static bool is_in_callback(const Service& service);
};

}  // namespace kiln
