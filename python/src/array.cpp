// SPDX-License-Identifier: Apache-2.0
#include "array.h"

#include <string_view>
#include <unordered_map>

namespace nb = nanobind;

namespace kiln::python {

/// How arrays of one Python type are read.
class ArrayType {
  public:
    enum class Way { none, exchange, cuda_interface, buffer, dlpack };
    enum class Streams { none, exchange, torch, cupy };

    Way way = Way::none;
    Streams streams = Streams::none;
    const DlExchangeApi* api = nullptr;
    std::string library;  // the first part of the type's module
    bool may_be_masked = false;
};

namespace {

[[noreturn]] void raise_current() { nb::raise_python_error(); }

nb::object steal(PyObject* object) {
    if (object == nullptr) raise_current();
    return nb::steal(object);
}

/// The attribute, or a null object without an exception.
nb::object optional_attribute(PyObject* object, const char* name) {
    PyObject* const found = PyObject_GetAttrString(object, name);
    if (found == nullptr) PyErr_Clear();
    return nb::steal(found);
}

const DlExchangeApi* exchange_api(PyObject* type) {
    const nb::object capsule = optional_attribute(type, "__dlpack_c_exchange_api__");
    if (!capsule.is_valid() || !PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
    const auto* api =
        static_cast<const DlExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    while (api != nullptr && api->version.major != 1) api = api->previous;
    return api != nullptr && api->view_of_object != nullptr ? api : nullptr;
}

nb::object item(PyObject* dictionary, const char* key) {
    PyObject* const found = PyMapping_GetItemString(dictionary, key);
    if (found == nullptr) PyErr_Clear();
    return nb::steal(found);
}

/// Whether the CUDA interface is there, and with it the stream that still writes to the array. JAX's has none, and its
/// work may be under way: its __dlpack__ makes the data ready.
bool tells_stream(PyObject* object, const std::string& library) {
    const nb::object interface = optional_attribute(object, "__cuda_array_interface__");
    if (!interface.is_valid()) return false;
    return library == "cupy" || item(interface.ptr(), "stream").is_valid() ||
           !optional_attribute(object, "__dlpack__").is_valid();
}

ArrayType describe(PyObject* object) {
    ArrayType found;
    PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(object));
    if (const nb::object module = optional_attribute(type, "__module__");
        module.is_valid() && PyUnicode_Check(module.ptr())) {
        const std::string name = nb::cast<std::string>(module);
        found.library = name.substr(0, name.find('.'));
    }
    found.may_be_masked = is_of(object, "numpy.ma", "MaskedArray");
    found.api = exchange_api(type);
    if (is_of(object, "torch", "Tensor")) found.library = "torch";  // of whichever module a subclass is
    const auto has = [&](const char* name) { return optional_attribute(object, name).is_valid(); };
    if (found.api != nullptr)
        found.way = ArrayType::Way::exchange;
    else if (found.library != "torch" && tells_stream(object, found.library))
        found.way = ArrayType::Way::cuda_interface;
    else if (PyObject_CheckBuffer(object) != 0)
        found.way = ArrayType::Way::buffer;
    else if (has("__dlpack__"))
        found.way = ArrayType::Way::dlpack;
    if (found.api != nullptr && found.api->current_stream != nullptr)
        found.streams = ArrayType::Streams::exchange;
    else if (found.library == "torch")
        found.streams = ArrayType::Streams::torch;
    else if (found.library == "cupy")
        found.streams = ArrayType::Streams::cupy;
    return found;
}

/// Types are kept for ever, so that their addresses stay theirs.
const ArrayType& type_of(PyObject* object) {
    static nb::ft_mutex mutex;
    static auto* const types = new std::unordered_map<PyTypeObject*, ArrayType>;
    PyTypeObject* const type = Py_TYPE(object);
    {
        const nb::ft_lock_guard lock(mutex);
        if (const auto found = types->find(type); found != types->end()) return found->second;
    }
    ArrayType described = describe(object);
    const nb::ft_lock_guard lock(mutex);
    const auto [place, is_new] = types->try_emplace(type, std::move(described));
    if (is_new) Py_INCREF(reinterpret_cast<PyObject*>(type));
    return place->second;
}

/// What a dtype object calls itself, for types that array interfaces have no letter for.
std::optional<DlDataType> dtype_of_name(PyObject* object) {
    const nb::object dtype = optional_attribute(object, "dtype");
    if (!dtype.is_valid()) return std::nullopt;
    const nb::object name = optional_attribute(dtype.ptr(), "name");
    if (!name.is_valid() || !PyUnicode_Check(name.ptr())) return std::nullopt;
    if (nb::cast<std::string>(name) == "bfloat16") return DlDataType{kDlBfloat, 16, 1};
    return std::nullopt;
}

/// A stride in elements; -1, which no kernel takes, where it is no multiple of one.
std::int64_t stride_in_elements(std::int64_t bytes, std::int64_t item_bytes) {
    return bytes % item_bytes == 0 ? bytes / item_bytes : -1;
}

std::int64_t integer(PyObject* object) {
    const long long value = PyLong_AsLongLong(object);
    if (value == -1 && PyErr_Occurred() != nullptr) raise_current();
    return value;
}

std::string tuple_text(const std::array<std::int64_t, kMostDimensions>& values, int count) {
    std::string text = "(";
    for (int i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
    return text + (count == 1 ? ",)" : ")");
}

/// Fills shape and strides: the extent and the stride, in elements, of dimension i. Without strides they are packed.
template <class Shape, class Stride>
void set_extents(ArrayView& view, std::int64_t count, bool has_strides, const Shape& shape,
                 const Stride& stride) {
    if (count > kMostDimensions) throw nb::value_error("an array has more than 8 dimensions");
    view.ndim = static_cast<int>(count);
    std::int64_t packed = 1;
    for (int i = view.ndim; i-- > 0;) {
        view.shape[i] = shape(i);
        view.strides[i] = has_strides ? stride(i) : packed;
        packed *= view.shape[i];
    }
}

/// Fills shape and strides from the two entries of an array interface.
void read_extents(ArrayView& view, PyObject* interface) {
    const nb::object shape = item(interface, "shape");
    const Py_ssize_t count = shape.is_valid() ? PySequence_Size(shape.ptr()) : -1;
    if (!shape.is_valid()) throw nb::value_error("an array interface has no shape");
    if (count < 0) raise_current();
    const nb::object strides = item(interface, "strides");
    const std::int64_t item_bytes = view.dtype.bits / 8;
    set_extents(
        view, count, strides.is_valid() && !strides.is_none(),
        [&](int i) { return integer(steal(PySequence_GetItem(shape.ptr(), i)).ptr()); },
        [&](int i) {
            return stride_in_elements(integer(steal(PySequence_GetItem(strides.ptr(), i)).ptr()), item_bytes);
        });
}

/// The entry "data" of an array interface: address and whether it is read-only.
void read_address(ArrayView& view, PyObject* interface) {
    const nb::object pair = item(interface, "data");
    if (!pair.is_valid() || !PyTuple_Check(pair.ptr()) || PyTuple_Size(pair.ptr()) != 2)
        throw nb::value_error("an array interface has no address");
    view.data = PyLong_AsVoidPtr(PyTuple_GetItem(pair.ptr(), 0));
    if (view.data == nullptr && PyErr_Occurred() != nullptr) raise_current();
    view.is_readonly = PyObject_IsTrue(PyTuple_GetItem(pair.ptr(), 1)) == 1;
}

/// object.a.b.c as an integer; nullopt where there is none.
std::optional<std::int64_t> integer_at(PyObject* object, std::initializer_list<const char*> attributes) {
    nb::object found = nb::borrow(object);
    for (const char* attribute : attributes) {
        found = optional_attribute(found.ptr(), attribute);
        if (!found.is_valid()) return std::nullopt;
    }
    return PyLong_Check(found.ptr()) != 0 ? std::optional(integer(found.ptr())) : std::nullopt;
}

/// The interface has no entry for the device: of CuPy's arrays, and of Numba's.
std::int32_t device_of(PyObject* object) {
    auto found = integer_at(object, {"device", "id"});
    if (!found) found = integer_at(object, {"gpu_data", "context", "device", "id"});
    return found ? static_cast<std::int32_t>(*found) : kUnknownDevice;
}

}  // namespace

bool ArrayView::read(PyObject* object, void* stream) {
    release();
    has_producer = false;
    const ArrayType& how = type_of(object);
    type = &how;
    if (how.may_be_masked && is_masked(object))
        throw nb::type_error("an array has masked elements, which kernels would read; give its filled()");
    switch (how.way) {
        case ArrayType::Way::exchange: {
            DlTensor tensor;
            if (how.api->view_of_object(object, &tensor) != 0) raise_current();
            set(tensor);
            is_readonly = false;
            return true;
        }
        case ArrayType::Way::cuda_interface:
            return read_cuda_interface(object);
        case ArrayType::Way::buffer:
            return read_buffer(object, stream);
        case ArrayType::Way::dlpack:
            return read_dlpack(object, stream);
        case ArrayType::Way::none:
            break;
    }
    return false;
}

void ArrayView::set(const DlTensor& tensor) {
    data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
    device_type = tensor.device_type;
    device_id = tensor.device_id;
    dtype = tensor.dtype;
    set_extents(
        *this, tensor.ndim, tensor.strides != nullptr, [&](int i) { return tensor.shape[i]; },
        [&](int i) { return tensor.strides[i]; });
}

bool ArrayView::read_cuda_interface(PyObject* object) {
    const nb::object interface = steal(PyObject_GetAttrString(object, "__cuda_array_interface__"));
    const nb::object typestr = item(interface.ptr(), "typestr");
    if (!typestr.is_valid() || !PyUnicode_Check(typestr.ptr()))
        throw nb::type_error("the typestr of an array interface is no string");
    auto known = dtype_of_typestr(nb::cast<std::string>(typestr));
    if (const auto named = known && known->code == kDlFloat ? std::nullopt : dtype_of_name(object))
        known = named;
    if (!known) throw nb::type_error("an array has elements of a type that Kiln does not know");
    dtype = *known;
    device_type = kDlCuda;
    device_id = device_of(object);
    if (const nb::object stream = item(interface.ptr(), "stream"); stream.is_valid() && !stream.is_none()) {
        const std::int64_t handle = integer(stream.ptr());
        if (handle == 0) throw nb::value_error("an array interface has the stream 0, which is ambiguous");
        has_producer = true;
        // 1 is the legacy default stream.
        producer = handle == 1 ? nullptr : reinterpret_cast<void*>(static_cast<std::intptr_t>(handle));
    }
    read_address(*this, interface.ptr());
    read_extents(*this, interface.ptr());
    return true;
}

bool ArrayView::read_buffer(PyObject* object, void* stream) {
    if (PyObject_GetBuffer(object, &buffer_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
        PyErr_Clear();  // of types that the buffer protocol has no letter for: bfloat16; of memory of a GPU
        if (optional_attribute(object, "__array_interface__").is_valid() ||
            !optional_attribute(object, "__dlpack__").is_valid())
            return read_array_interface(object);
        return read_dlpack(object, stream);
    }
    has_buffer_ = true;
    const auto known = dtype_of_format(buffer_.format == nullptr ? "B" : buffer_.format, buffer_.itemsize);
    if (!known)
        throw nb::type_error(("an array has elements of the type '" + std::string(buffer_.format) +
                              "', which Kiln does not know")
                                 .c_str());
    if (buffer_.ndim > 0 && buffer_.shape == nullptr) throw nb::value_error("an array's buffer has no shape");
    dtype = *known;
    data = buffer_.buf;
    device_type = kDlCpu;
    device_id = 0;
    is_readonly = buffer_.readonly != 0;
    // Arrays of ctypes have no strides, though they were asked for.
    set_extents(
        *this, buffer_.ndim, buffer_.strides != nullptr, [&](int i) { return buffer_.shape[i]; },
        [&](int i) { return stride_in_elements(buffer_.strides[i], buffer_.itemsize); });
    return true;
}

bool ArrayView::read_array_interface(PyObject* object) {
    const nb::object interface = optional_attribute(object, "__array_interface__");
    const auto known = dtype_of_name(object);
    if (!interface.is_valid() || !known)
        throw nb::type_error("an array has elements of a type that Kiln does not know");
    dtype = *known;
    device_type = kDlCpu;
    device_id = 0;
    read_address(*this, interface.ptr());
    read_extents(*this, interface.ptr());
    return true;
}

bool ArrayView::read_dlpack(PyObject* object, void* stream) {
    const nb::handle array(object);
    const nb::object device = array.attr("__dlpack_device__")();
    if (!PyTuple_Check(device.ptr()) || PyTuple_Size(device.ptr()) != 2 ||
        PyIndex_Check(PyTuple_GetItem(device.ptr(), 0)) == 0)
        throw nb::type_error("__dlpack_device__ of an array returned no pair of integers");
    nb::dict named;
    if (integer(PyTuple_GetItem(device.ptr(), 0)) == kDlCuda) {
        // 1 is the legacy default stream.
        named["stream"] = stream == nullptr ? 1 : reinterpret_cast<std::intptr_t>(stream);
    }
    nb::object capsule;
    try {
        nb::dict versioned;
        for (auto [key, value] : named) versioned[key] = value;
        versioned["max_version"] = nb::make_tuple(1, 0);
        capsule = array.attr("__dlpack__")(**versioned);
    } catch (const nb::python_error& error) {
        if (!error.matches(PyExc_TypeError)) throw;  // of libraries before DLPack 1.0
        capsule = array.attr("__dlpack__")(**named);
    }
    if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
        versioned_ =
            static_cast<DlManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
        PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
        set(versioned_->tensor);
        is_readonly = (versioned_->flags & kDlReadOnly) != 0;
    } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor")) {
        managed_ = static_cast<DlManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
        PyCapsule_SetName(capsule.ptr(), "used_dltensor");
        set(managed_->tensor);
        is_readonly = false;
    } else {
        throw nb::type_error("__dlpack__ of an array returned no DLPack capsule");
    }
    if (type->library == "jaxlib") is_readonly = true;  // JAX's arrays never change
    return true;
}

void ArrayView::release() noexcept {
    if (has_buffer_) PyBuffer_Release(&buffer_);
    has_buffer_ = false;
    if (managed_ != nullptr && managed_->deleter != nullptr) managed_->deleter(managed_);
    managed_ = nullptr;
    if (versioned_ != nullptr && versioned_->deleter != nullptr) versioned_->deleter(versioned_);
    versioned_ = nullptr;
}

std::string ArrayView::shape_text() const { return tuple_text(shape, ndim); }

std::string ArrayView::strides_text() const { return tuple_text(strides, ndim); }

std::string ArrayView::device_text() const {
    switch (device_type) {
        case kDlCpu:
            return "cpu";
        case kDlCuda:
            return device_id == kUnknownDevice ? "a device of CUDA" : "cuda:" + std::to_string(device_id);
        case kDlCudaHost:
        case kDlRocmHost:
            return "pinned memory of the host";
        case kDlRocm:
            return "rocm:" + std::to_string(device_id);
        case kDlCudaManaged:
            return "managed memory";
        default:
            return "a device of DLPack's type " + std::to_string(device_type);
    }
}

bool is_of(nb::handle object, const char* library, const char* name) {
    PyObject* const module = PyDict_GetItemString(PyImport_GetModuleDict(), library);
    if (module == nullptr) return false;
    const nb::object type = optional_attribute(module, name);
    return type.is_valid() && PyType_Check(type.ptr()) != 0 && nb::isinstance(object, type);
}

bool is_masked(nb::handle object) {
    return is_of(object, "numpy.ma", "MaskedArray") &&
           nb::cast<bool>(nb::module_::import_("numpy.ma").attr("is_masked")(object));
}

std::optional<void*> current_stream(const ArrayView& array) {
    const bool is_on_gpu = array.device_type == kDlCuda || array.device_type == kDlRocm;
    if (!is_on_gpu || array.type == nullptr) return std::nullopt;
    switch (array.type->streams) {
        case ArrayType::Streams::exchange: {
            void* stream = nullptr;
            if (array.type->api->current_stream(array.device_type, array.device_id, &stream) != 0)
                raise_current();
            return stream;
        }
        case ArrayType::Streams::torch: {
            const nb::object cuda = nb::module_::import_("torch").attr("cuda");
            return stream_handle(nb::object(cuda.attr("current_stream")(array.device_id)).ptr());
        }
        case ArrayType::Streams::cupy:
            return stream_handle(
                nb::object(nb::module_::import_("cupy").attr("cuda").attr("get_current_stream")()).ptr());
        case ArrayType::Streams::none:
            break;
    }
    return std::nullopt;
}

void* stream_handle(PyObject* stream) {
    const auto handle_of = [](PyObject* integer) {
        void* const handle = PyLong_AsVoidPtr(integer);
        if (handle == nullptr && PyErr_Occurred() != nullptr) raise_current();
        return handle;
    };
    if (PyLong_Check(stream) != 0) return handle_of(stream);
    for (const char* attribute : {"cuda_stream", "ptr", "handle"})
        if (const nb::object found = optional_attribute(stream, attribute);
            found.is_valid() && PyLong_Check(found.ptr()) != 0)
            return handle_of(found.ptr());
    if (const nb::object method = optional_attribute(stream, "__cuda_stream__"); method.is_valid()) {
        const nb::object pair = method();
        if (PyTuple_Check(pair.ptr()) && PyTuple_Size(pair.ptr()) == 2 &&
            PyLong_Check(PyTuple_GetItem(pair.ptr(), 1)))
            return handle_of(PyTuple_GetItem(pair.ptr(), 1));
        throw nb::type_error("__cuda_stream__ of a stream returned no pair of integers");
    }
    throw nb::type_error(
        "stream is neither an integer (a CUstream or hipStream_t) nor a stream of PyTorch, CuPy or "
        "cuda.core");
}

}  // namespace kiln::python
