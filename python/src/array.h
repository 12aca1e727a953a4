// SPDX-License-Identifier: Apache-2.0
//
// ArrayView: what a kernel needs to know of an array of any library, read without copying anything. In the order of
// preference, found once per type:
//   DLPack's table of C functions   PyTorch: some ten nanoseconds, with the library's current stream
//   __cuda_array_interface__        CuPy, Numba: a dictionary; of others where it names a stream, or is all that there is
//   the buffer protocol             NumPy, memoryview, array, ctypes, JAX on the CPU
//   __dlpack__                      JAX on a GPU, its bfloat16, and others: a capsule
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <string>

#include "dlpack.h"
#include "dtype.h"

namespace kiln::python {

constexpr int kMostDimensions = 8;
constexpr std::int32_t kUnknownDevice = -1;

class ArrayType;

class ArrayView {
  public:
    ArrayView() = default;
    ArrayView(const ArrayView&) = delete;
    ArrayView& operator=(const ArrayView&) = delete;
    ~ArrayView() { release(); }

    /// Reads `object`. False: it is no array of any kind; nothing is set then. Throws nanobind::python_error for what its
    /// library raises. stream: what a library that asks for it (JAX) makes the data ready for.
    bool read(PyObject* object, void* stream);
    /// Gives back what was borrowed. The destructor does.
    void release() noexcept;

    void* data = nullptr;
    std::int32_t device_type = kDlCpu;
    std::int32_t device_id = 0;  ///< kUnknownDevice: its library does not say
    DlDataType dtype;
    int ndim = 0;
    bool is_readonly = false;
    bool has_producer = false;  ///< work on `producer` may still write to it: what reads it waits for that
    void* producer = nullptr;   ///< the native handle of a stream
    std::array<std::int64_t, kMostDimensions> shape;    // of ndim; the rest is not set
    std::array<std::int64_t, kMostDimensions> strides;  ///< in elements; the same
    const ArrayType* type = nullptr;

    /// Row-major without gaps.
    bool is_contiguous() const {
        std::int64_t expected = 1;
        for (int i = ndim; i-- > 0;) {
            if (shape[i] == 0) return true;
            if (shape[i] != 1 && strides[i] != expected) return false;
            expected *= shape[i];
        }
        return true;
    }
    std::string shape_text() const;    ///< "(2, 3)"
    std::string strides_text() const;  ///< "(3, 1)", in elements
    std::string device_text() const;   ///< "cpu", "cuda:0"

  private:
    void set(const DlTensor& tensor);
    bool read_cuda_interface(PyObject* object);
    bool read_buffer(PyObject* object, void* stream);
    bool read_array_interface(PyObject* object);
    bool read_dlpack(PyObject* object, void* stream);

    Py_buffer buffer_;  // where has_buffer_
    bool has_buffer_ = false;
    DlManagedTensor* managed_ = nullptr;
    DlManagedTensorVersioned* versioned_ = nullptr;
};

/// As many views as a call has arguments; on the stack, since calls must not allocate.
class ArrayViews {
  public:
    static constexpr std::size_t kMost = 32;

    explicit ArrayViews(std::size_t count) : count_(count) {
        for (std::size_t i = 0; i < count; ++i) new (&storage_[i]) ArrayView;
    }
    ~ArrayViews() {
        for (std::size_t i = 0; i < count_; ++i) (*this)[i].~ArrayView();
    }
    ArrayViews(const ArrayViews&) = delete;
    ArrayViews& operator=(const ArrayViews&) = delete;

    ArrayView& operator[](std::size_t i) { return *std::launder(reinterpret_cast<ArrayView*>(&storage_[i])); }
    const ArrayView& operator[](std::size_t i) const {
        return *std::launder(reinterpret_cast<const ArrayView*>(&storage_[i]));
    }

  private:
    struct alignas(ArrayView) Storage {
        std::byte bytes[sizeof(ArrayView)];
    };

    std::size_t count_;
    Storage storage_[kMost];
};

/// An instance of the class of that name, of a library that has been imported.
bool is_of(nanobind::handle object, const char* library, const char* name);
/// An array of NumPy's with elements that a mask hides.
bool is_masked(nanobind::handle object);
/// The stream that the array's library queues its work in at the moment, for arrays on a GPU; nullopt: it has none that
/// Kiln knows. Throws nanobind::python_error.
std::optional<void*> current_stream(const ArrayView& array);

/// The native handle of what a user gives as a stream: an integer, or an object of PyTorch (cuda_stream), CuPy (ptr), or
/// cuda.core (__cuda_stream__). Throws nanobind::type_error.
void* stream_handle(PyObject* stream);

}  // namespace kiln::python
