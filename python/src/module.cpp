// SPDX-License-Identifier: Apache-2.0
//
// The extension module kiln._kiln: libkiln and libkiln-tools with Python's names. python/kiln has the rest of the package.
#include <kiln/service.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "errors.h"
#include "objects.h"

namespace nb = nanobind;

NB_MODULE(_kiln, module) {
    using namespace kiln::python;
    // Objects that modules still hold when the interpreter ends are no leaks.
    nb::set_leak_warnings(false);
    translate_errors();
    bind_service(module);
    bind_template(module);
    bind_kernel(module);
    bind_symbol(module);
    bind_operation(module);
    bind_tools(module);
    module.attr("__version__") = std::string(kiln::version());
}
