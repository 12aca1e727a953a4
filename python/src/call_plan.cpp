// SPDX-License-Identifier: Apache-2.0
#include "call_plan.h"

#include <kiln/error.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "objects.h"

namespace nb = nanobind;

namespace kiln::python {
namespace {

std::uint64_t bits_of_half(double value, bool is_bfloat) {
    return is_bfloat ? bfloat16(static_cast<float>(value)).bits : half(static_cast<float>(value)).bits;
}

bool fits(std::int64_t value, DlDataType type) {
    if (type.bits >= 64) return type.code == kDlInt || value >= 0;
    if (type.code == kDlBool) return value == 0 || value == 1;
    if (type.code == kDlUint) return value >= 0 && value < std::int64_t{1} << type.bits;
    const std::int64_t limit = std::int64_t{1} << (type.bits - 1);
    return value >= -limit && value < limit;
}

std::string ordinal_dimension(std::size_t axis) { return "dimension " + std::to_string(axis); }

}  // namespace

CallPlan::CallPlan(std::string name, const Variant& variant, const std::vector<std::string>& only,
                   Backend backend, int device)
    : name_(std::move(name)),
      variant_(variant),
      backend_(backend),
      device_(device),
      takes_workspace_(!only.empty()) {
    const Template of = variant.origin();
    const std::vector<KernelArgument>& declared = variant.arguments();
    if (only.empty()) {
        for (const KernelArgument& argument : declared) add_argument(argument, of);
    } else {
        for (const std::string& wanted : only)
            if (const auto found = std::ranges::find(declared, wanted, &KernelArgument::name);
                found != declared.end())
                add_argument(*found, of);
            else
                throw UsageError(name_ + ": " + of.name() + " has no argument " + wanted);
    }
    if (arguments_.size() >= kMostCallArguments)
        throw UsageError(name_ + " has " + std::to_string(arguments_.size()) +
                         " arguments; kernels with up to " + std::to_string(kMostCallArguments - 1) +
                         " can be called from Python");
    find_extents();
}

void CallPlan::add_argument(const KernelArgument& declared, const Template& of) {
    CallArgument argument;
    argument.name = declared.name;
    argument.type = declared.type;
    argument.interned = PyUnicode_InternFromString(declared.name.c_str());
    std::string scalar = declared.type;
    const bool is_pointer = scalar.ends_with('*');
    if (is_pointer) scalar.pop_back();
    const bool is_const = scalar.starts_with("const ");
    if (is_const) scalar.erase(0, 6);
    if (const auto dtype = dtype_of(scalar)) {
        argument.dtype = *dtype;
        argument.is_known_type = true;
    }
    if (is_pointer) {
        argument.is_written = !is_const;
        const auto tensor = std::ranges::find(of.tensors(), declared.name, &TensorArgument::name);
        if (tensor != of.tensors().end()) {
            argument.role = tensor->role;
            argument.is_written = tensor->role != TensorRole::input;
        } else if (argument.is_written) {
            argument.role = TensorRole::inout;
        }
    } else if (!argument.is_known_type) {
        throw UsageError(name_ + ": the argument " + declared.name + " is of type " + declared.type +
                         ", which Python has no value for; call this kernel from C++");
    } else if (std::ranges::find(of.sizes(), declared.name, &SizeArgument::name) != of.sizes().end()) {
        argument.kind = CallArgument::Kind::size;
        argument.size = sizes_.size();
        sizes_.push_back(arguments_.size());
    } else {
        const bool is_real = argument.dtype.code == kDlFloat || argument.dtype.code == kDlBfloat;
        argument.kind = is_real ? CallArgument::Kind::real : CallArgument::Kind::integer;
    }
    arguments_.push_back(std::move(argument));
}

std::size_t CallPlan::place_of(PyObject* keyword) const {
    for (std::size_t i = 0; i < arguments_.size(); ++i)
        if (arguments_[i].interned == keyword) return i;
    for (std::size_t i = 0; i < arguments_.size(); ++i)
        if (PyUnicode_Compare(arguments_[i].interned, keyword) == 0) return i;
    std::string known;
    for (const CallArgument& argument : arguments_) known += (known.empty() ? "" : ", ") + argument.name;
    throw nb::type_error((name_ + " has no argument '" + text_of(keyword, name_ + ": an argument's name") +
                          "'; its arguments are " + known + ", and stream")
                             .c_str());
}

void CallPlan::fail_type(const CallArgument& argument, const std::string& what) const {
    throw nb::type_error((name_ + ": the argument '" + argument.name + "' " + what).c_str());
}

void CallPlan::fail_value(const CallArgument& argument, const std::string& what) const {
    throw nb::value_error((name_ + ": the argument '" + argument.name + "' " + what).c_str());
}

void CallPlan::read_array(const CallArgument& argument, ArrayView& array, PyObject* object,
                          void* stream) const {
    bool is_array = false;
    try {
        is_array = array.read(object, stream);
    } catch (const nb::builtin_exception& error) {  // which can't know the name
        const std::string what = std::string("can't be read: ") + error.what();
        if (error.type() == nb::exception_type::type_error) fail_type(argument, what);
        fail_value(argument, what);
    }
    if (!is_array)
        fail_type(argument,
                  "is an array, and not what was given: it has neither __dlpack__, "
                  "__cuda_array_interface__ nor a buffer");
}

void CallPlan::wrong_extent(const CallArgument& argument, const ArrayView& array, std::size_t axis,
                            const std::string& expected) const {
    fail_value(argument, "has the shape " + array.shape_text() + ", and its " + ordinal_dimension(axis) +
                             " has to be " + expected);
}

void CallPlan::read_scalar(const CallArgument& argument, PyObject* object, std::uint64_t& value) const {
    value = 0;
    if (argument.kind == CallArgument::Kind::real) {
        const double number = PyFloat_AsDouble(object);
        if (number == -1.0 && PyErr_Occurred() != nullptr) {
            PyErr_Clear();
            fail_type(argument, "is a number of type " + text(argument.dtype) + ", not what was given");
        }
        if (argument.dtype.bits == 64) {
            value = std::bit_cast<std::uint64_t>(number);
        } else if (argument.dtype.bits == 32) {
            value = std::bit_cast<std::uint32_t>(static_cast<float>(number));
        } else {
            value = bits_of_half(number, argument.dtype.code == kDlBfloat);
        }
        return;
    }
    const nb::object index = nb::steal(PyNumber_Index(object));
    if (!index.is_valid()) {
        PyErr_Clear();
        if (argument.dtype.code == kDlBool && is_of(object, "numpy", "bool_")) {  // no integer to Python
            value = PyObject_IsTrue(object) == 1 ? 1 : 0;
            return;
        }
        fail_type(argument, "is an integer, not what was given");
    }
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
    if (overflow > 0 && argument.dtype.code == kDlUint && argument.dtype.bits == 64) {
        value = PyLong_AsUnsignedLongLong(index.ptr());
        if (PyErr_Occurred() == nullptr) return;
        PyErr_Clear();
    }
    if (overflow != 0 || !fits(number, argument.dtype))
        fail_value(argument, "is " + nb::cast<std::string>(nb::str(index)) +
                                 ", which does not fit its type, " + text(argument.dtype));
    value = static_cast<std::uint64_t>(number);
}

void CallPlan::check_array(const CallArgument& argument, const ArrayView& array) const {
    if (argument.is_known_type && array.dtype != argument.dtype)
        fail_type(argument, "has elements of type " + text(array.dtype) + ", and the kernel takes " +
                                text(argument.dtype));
    bool is_reachable = false;
    switch (backend_) {
        case Backend::cuda:
            is_reachable = (array.device_type == kDlCuda &&
                            (array.device_id == device_ || array.device_id == kUnknownDevice)) ||
                           array.device_type == kDlCudaManaged || array.device_type == kDlCudaHost;
            break;
        case Backend::hip:
            // PyTorch for ROCm calls its devices CUDA's.
            is_reachable = ((array.device_type == kDlRocm || array.device_type == kDlCuda) &&
                            array.device_id == device_) ||
                           array.device_type == kDlRocmHost;
            break;
        case Backend::host:
            is_reachable = array.device_type == kDlCpu || array.device_type == kDlCudaHost ||
                           array.device_type == kDlRocmHost || array.device_type == kDlCudaManaged;
            break;
    }
    if (!is_reachable)
        fail_value(argument, "is on " + array.device_text() + ", and the kernel runs on " +
                                 (backend_ == Backend::host
                                      ? std::string("cpu")
                                      : std::string(backend_ == Backend::cuda ? "cuda:" : "rocm:") +
                                            std::to_string(device_)));
    if (argument.is_written && array.is_readonly)
        fail_value(argument, "is read-only, and the kernel writes to it");
    if (argument.has_extents && static_cast<std::size_t>(array.ndim) != argument.extents.size())
        fail_value(argument, "has the shape " + array.shape_text() + ", and the kernel takes " +
                                 std::to_string(argument.extents.size()) + " dimensions");
    if (!array.is_contiguous())
        fail_value(argument, "has the shape " + array.shape_text() + " and the strides " +
                                 array.strides_text() +
                                 ", and kernels take row-major arrays without gaps: make it contiguous");
}

void CallPlan::read(CallArguments& call, ArrayViews& arrays, PyObject* args, PyObject* kwargs,
                    StreamRef own_stream) const {
    std::array<PyObject*, kMostCallArguments> objects{};
    PyObject *stream = nullptr, *workspace = nullptr;
    if (kwargs != nullptr) {
        static PyObject* const kStream = PyUnicode_InternFromString("stream");
        static PyObject* const kWorkspace = PyUnicode_InternFromString("workspace");
        PyObject *key = nullptr, *value = nullptr;
        Py_ssize_t position = 0;
        while (PyDict_Next(kwargs, &position, &key, &value) != 0) {
            if (key == kStream || PyUnicode_Compare(key, kStream) == 0)
                stream = value;
            else if (takes_workspace_ && PyUnicode_Compare(key, kWorkspace) == 0)
                workspace = value;
            else
                objects[place_of(key)] = value;
        }
    }
    const Py_ssize_t count = PyTuple_Size(args);
    std::size_t place = 0;
    for (Py_ssize_t i = 0; i < count; ++i) {
        while (place < arguments_.size() &&
               (objects[place] != nullptr || arguments_[place].kind == CallArgument::Kind::size))
            ++place;
        if (place == arguments_.size()) {
            std::string known;
            for (const CallArgument& argument : arguments_)
                if (argument.kind != CallArgument::Kind::size)
                    known += (known.empty() ? "" : ", ") + argument.name;
            throw nb::type_error((name_ + " was given " + std::to_string(count) +
                                  " arguments by position, and takes by position " + known +
                                  (sizes_.empty() ? "" : "; sizes are given by name, or told by the arrays"))
                                     .c_str());
        }
        objects[place++] = PyTuple_GetItem(args, i);
    }

    void* handle = nullptr;
    bool has_stream = stream != nullptr && stream != Py_None;
    if (has_stream) handle = stream_handle(stream);
    SizeValues sizes{};
    std::uint32_t known = 0;
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
        const CallArgument& argument = arguments_[i];
        call.pointers[i] = &call.values[i];
        if (objects[i] == nullptr) {
            if (argument.kind == CallArgument::Kind::size) continue;
            throw nb::type_error(
                (name_ + ": the argument '" + argument.name + "' (" + argument.type + ") is missing")
                    .c_str());
        }
        if (argument.kind == CallArgument::Kind::tensor) {
            ArrayView& array = arrays[i];
            read_array(argument, array, objects[i], has_stream ? handle : own_stream.handle());
            check_array(argument, array);
            call.values[i] = reinterpret_cast<std::uintptr_t>(array.data);
            if (!has_stream && backend_ != Backend::host)
                if (const auto current = current_stream(array)) {
                    handle = *current;
                    has_stream = true;
                }
        } else {
            read_scalar(argument, objects[i], call.values[i]);
            if (argument.kind == CallArgument::Kind::size) {
                sizes[argument.size] = static_cast<std::int64_t>(call.values[i]);
                known |= bit_of(argument.size);
            }
        }
    }
    resolve(sizes, known, arrays);
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
        const CallArgument& argument = arguments_[sizes_[i]];
        if (!fits(sizes[i], argument.dtype))
            fail_value(argument, "is " + std::to_string(sizes[i]) + ", which does not fit its type, " +
                                     text(argument.dtype));
        call.values[sizes_[i]] = static_cast<std::uint64_t>(sizes[i]);
    }
    if (workspace != nullptr && workspace != Py_None) {
        ArrayView& memory = arrays[arguments_.size()];
        if (!memory.read(workspace, handle))
            throw nb::type_error((name_ + ": workspace is no array").c_str());
        call.workspace = memory.data;
        call.workspace_bytes = memory.dtype.bits / 8U;
        for (int i = 0; i < memory.ndim; ++i)
            call.workspace_bytes *= static_cast<std::size_t>(memory.shape[i]);
    }
    // The service's own is more than its handle: on the host it has none.
    call.stream = has_stream && handle != own_stream.handle() ? StreamRef(handle) : own_stream;
}

}  // namespace kiln::python
