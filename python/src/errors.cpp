// SPDX-License-Identifier: Apache-2.0
#include "errors.h"

#include <kiln/error.h>
#include <kiln/operation.h>
#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace kiln::python {
namespace {

nb::object make(const char* type, const kiln::Error& error) {
    return nb::module_::import_("kiln.errors").attr(type)(nb::str(error.what()));
}

void raise(const nb::object& exception) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
}

}  // namespace

bool set_error(const std::exception_ptr& error) {
    try {
        try {
            std::rethrow_exception(error);
        } catch (const TemplateError& e) {
            nb::object exception = make("TemplateError", e);
            exception.attr("file") = nb::str(e.file().c_str());
            exception.attr("line") = e.line();
            exception.attr("column") = e.column();
            raise(exception);
        } catch (const VariantError& e) {
            nb::object exception = make("VariantError", e);
            exception.attr("rule") = nb::str(e.rule().c_str());
            raise(exception);
        } catch (const BuildError& e) {
            nb::object exception = make("BuildError", e);
            exception.attr("log") = nb::str(e.log().c_str());
            raise(exception);
        } catch (const DeviceError& e) {
            nb::object exception = make("DeviceError", e);
            exception.attr("call") = nb::str(e.call().c_str());
            exception.attr("code") = e.code();
            raise(exception);
        } catch (const NotReadyError& e) {
            nb::object exception = make("NotReadyError", e);
            nb::dict sizes;
            for (const auto& [name, value] : e.sizes()) sizes[name.c_str()] = value;
            exception.attr("sizes") = sizes;
            raise(exception);
        } catch (const CacheError& e) {
            raise(make("CacheError", e));
        } catch (const UsageError& e) {
            raise(make("UsageError", e));
        } catch (const Error& e) {
            raise(make("Error", e));
        }
    } catch (nb::python_error& e) {  // the classes could not be imported
        e.restore();
    } catch (...) {
        return false;
    }
    return true;
}

void translate_errors() {
    nb::register_exception_translator([](const std::exception_ptr& error, void*) {
        if (!set_error(error)) std::rethrow_exception(error);
    });
}

}  // namespace kiln::python
