// SPDX-License-Identifier: Apache-2.0
//
// Errors of the library as exceptions of Python: the classes of python/kiln/errors.py, which mirror kiln/error.h.
#pragma once

#include <exception>

namespace kiln::python {

/// Sets Python's error for one of kiln::Error's classes. False: it is another exception.
bool set_error(const std::exception_ptr& error);
/// Has nanobind do so for all functions that it binds.
void translate_errors();

}  // namespace kiln::python
