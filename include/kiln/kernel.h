// SPDX-License-Identifier: Apache-2.0
//
// Kernel<Fn>: a built kernel as a typed callable. Handles are cheap to copy and share; a launch may
// come from any thread. The module stays loaded while any handle to it, or the service, lives; unloading
// waits for launches that have not ended.
#pragma once

#include <kiln/build.h>
#include <kiln/device.h>
#include <kiln/template.h>
#include <kiln/version.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace kiln {

class LoadedKernel;  // module, function and variant, internal

inline namespace KILN_ABI {

namespace detail {

template <class T>
constexpr std::string_view scalar_text() {
    if constexpr (std::is_same_v<T, void>)
        return "void";
    else if constexpr (std::is_same_v<T, bool>)
        return "bool";
    else if constexpr (std::is_same_v<T, float>)
        return "float";
    else if constexpr (std::is_same_v<T, double>)
        return "double";
    else if constexpr (std::is_same_v<T, half>)
        return "half";
    else if constexpr (std::is_same_v<T, bfloat16>)
        return "bfloat16";
    else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
        return sizeof(T) == 8   ? "long long"
               : sizeof(T) == 4 ? "int"
               : sizeof(T) == 2 ? "short"
                                : "signed char";
    else if constexpr (std::is_integral_v<T>)
        return sizeof(T) == 8   ? "unsigned long long"
               : sizeof(T) == 4 ? "unsigned int"
               : sizeof(T) == 2 ? "unsigned short"
                                : "unsigned char";
    else
        return "";
}

}  // namespace detail

/// One argument of Fn, as compared with the kernel's declaration at build<Fn>.
struct ArgumentType {
    std::string_view scalar;       ///< "int", "half"; empty for a type known by its size only
    bool is_pointer = false;       ///< its value is an address
    bool points_to_const = false;  ///< a pointer to const
    std::size_t size = 0;          ///< bytes
};

/// Describes an argument of type T, which must be trivially copyable and not a reference.
template <class T>
constexpr ArgumentType argument_type() {
    static_assert(std::is_trivially_copyable_v<T>, "a kernel argument must be trivially copyable");
    static_assert(!std::is_reference_v<T>, "a kernel argument can't be a reference");
    if constexpr (std::is_pointer_v<T>) {
        using Pointee = std::remove_pointer_t<T>;
        return {detail::scalar_text<std::remove_cv_t<Pointee>>(), true, std::is_const_v<Pointee>, sizeof(T)};
    } else {
        return {detail::scalar_text<std::remove_cv_t<T>>(), false, false, sizeof(T)};
    }
}

/// A `__constant__` or `__device__` variable of a built kernel's module, which it keeps loaded. Its content stays until it is
/// written again: it belongs to the loaded kernel, which all handles to the same variant in a service share.
class AnySymbol : public DeviceRange {
  public:
    AnySymbol() = default;
    /// AnyKernel::any_symbol() makes it. keeps: what holds the variable.
    AnySymbol(std::shared_ptr<const void> keeps, std::shared_ptr<Driver> driver, std::string name,
              void* address, std::size_t bytes)
        : DeviceRange(std::move(driver), address, bytes), keeps_(std::move(keeps)), name_(std::move(name)) {}

    const std::string& name() const { return name_; }  ///< as it was asked for
    /// Throws UsageError unless the variable holds `count` elements of so many bytes; 0: any number of them.
    void check_elements(std::string_view type, std::size_t element_bytes, std::size_t count) const;

  private:
    std::shared_ptr<const void> keeps_;
    std::string name_;
};

/// The same with the type of its elements.
template <class T>
class Symbol : public AnySymbol {
    static_assert(std::is_trivially_copyable_v<T>, "what is copied to a device must be trivially copyable");

  public:
    Symbol() = default;
    /// AnyKernel::symbol() makes it. Throws as AnySymbol::check_elements.
    Symbol(AnySymbol symbol, std::size_t count) : AnySymbol(std::move(symbol)) {
        check_elements(detail::scalar_text<T>(), sizeof(T), count);
    }

    std::size_t count() const { return size_bytes() / sizeof(T); }  ///< of elements
    T* data() const { return as<T>(); }                             ///< a device address

    /// DeviceRange::copy_from() and the like, in elements; `first`: of the variable's elements.
    void copy_from(std::span<const T> source, std::size_t first = 0) {
        AnySymbol::copy_from(std::as_bytes(source), first * sizeof(T));
    }
    /// See copy_from().
    void copy_to(std::span<T> destination, std::size_t first = 0) const {
        AnySymbol::copy_to(std::as_writable_bytes(destination), first * sizeof(T));
    }
    /// DeviceRange::copy_from_async(), in elements.
    void copy_from_async(std::span<const T> source, StreamRef stream, std::size_t first = 0) {
        AnySymbol::copy_from_async(std::as_bytes(source), stream, first * sizeof(T));
    }
    /// DeviceRange::copy_to_async(), in elements.
    void copy_to_async(std::span<T> destination, StreamRef stream, std::size_t first = 0) const {
        AnySymbol::copy_to_async(std::as_writable_bytes(destination), stream, first * sizeof(T));
    }
};

/// A built kernel without a static type: the caller answers for the types of arguments.
/// Of an empty handle only origin() and bool may be asked; the rest throws UsageError.
class AnyKernel {
  public:
    AnyKernel() = default;
    /// Service::build() makes it.
    explicit AnyKernel(std::shared_ptr<const LoadedKernel> state, Origin origin = Origin::memory)
        : state_(std::move(state)), origin_(origin) {}

    /// Launches with grid, block, cluster and shared bytes from the template. arguments: one pointer
    /// per kernel argument, to its value. Returns when the launch is queued; in a capture, Kiln's or the
    /// application's, when it is recorded (the handle must then outlive a graph of the application's). With an
    /// extent of 0 in its grid there is nothing to queue. Throws DeviceError, VariantError for no legal grid, UsageError for
    /// a stream that is empty or of another device, a null or misaligned pointer to a tensor that has elements, and options.
    void launch(StreamRef stream, void* const* arguments) const;

    /// What was built.
    const Variant& variant() const;
    /// What is known of the build that loaded this kernel. origin() says what this handle's own
    /// build call found: a second call is served from memory.
    const BuildInfo& info() const;
    /// What the build call that gave this handle found; Origin::memory where it had been loaded before.
    Origin origin() const { return origin_; }
    void* function_handle() const;  ///< CUfunction, hipFunction_t; on the host the entry's address
    void* module_handle() const;    ///< CUmodule, hipModule_t; on the host what dlopen returned
    /// A `__constant__` or `__device__` variable of the kernel's module by the name that C++ has for it, "weights" or
    /// "filter::weights"; one that no kernel uses may have been left out. Throws UsageError where there is none, naming those
    /// that there are; DeviceError.
    AnySymbol any_symbol(const std::string& name) const;
    /// The same of elements T. count: how many it must have; 0: any number. Throws UsageError also where its size differs.
    template <class T>
    Symbol<T> symbol(const std::string& name, std::size_t count = 0) const {
        return Symbol<T>(any_symbol(name), count);
    }
    /// It holds a kernel.
    explicit operator bool() const { return state_ != nullptr; }

  private:
    friend class kiln::LoadedKernel;
    const LoadedKernel& state() const;

    std::shared_ptr<const LoadedKernel> state_;
    Origin origin_ = Origin::memory;
};

template <class Fn>
class Kernel;

/// gemm(stream, m, n, k, a, b, c): argument types are checked by the C++ compiler, and against the
/// kernel's own declaration when it is built.
template <class... Arguments>
class Kernel<void(Arguments...)> : public AnyKernel {
  public:
    Kernel() = default;
    /// Of a kernel whose arguments have been checked; Service::build<Fn>() does.
    explicit Kernel(AnyKernel kernel) : AnyKernel(std::move(kernel)) {}

    /// AnyKernel::launch() with these arguments. Pointers are addresses of the device.
    void operator()(StreamRef stream, Arguments... arguments) const {
        void* pointers[sizeof...(Arguments) + 1] = {
            const_cast<void*>(static_cast<const volatile void*>(&arguments))...};
        launch(stream, pointers);
    }

    /// The argument types, for the check at build<Fn>.
    static std::span<const ArgumentType> argument_types() {
        static constexpr ArgumentType types[sizeof...(Arguments) + 1] = {argument_type<Arguments>()...};
        return {types, sizeof...(Arguments)};
    }
};

}  // namespace KILN_ABI
}  // namespace kiln
