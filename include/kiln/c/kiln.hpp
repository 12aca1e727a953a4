// SPDX-License-Identifier: Apache-2.0
//
// The C API of Kiln for C++17: owners of its handles, and exceptions. Header-only: what a program links is the C ABI alone,
// so that one that is compiled with this header runs with every later libkiln of the same SONAME.
//
//     kiln::c::Service service;
//     kiln::c::Kernel scale = service.build(service.parse(text, "scale.cu").variant({{"FACTOR", "3"}}));
//     scale(service.stream(), n, x, y);
//
// The classes are move-only owners. Their member functions throw kiln::c::Error; destructors do not throw. What the C
// functions say of threads holds here too (kiln/c/kiln.h). Functions that are not wrapped take Owner::get().
#pragma once

#include <kiln/c/kiln.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kiln {
/// The C API for C++17.
namespace c {

/// What a C function reported.
class Error : public std::runtime_error {
  public:
    /// The calling thread's last error.
    static Error last() {
        kiln_error error{};
        error.size = sizeof error;
        kiln_last_error(&error);
        return Error(error);
    }

    kiln_status status() const { return status_; }     ///< its class
    const std::string& file() const { return file_; }  ///< KILN_ERROR_TEMPLATE: the template's
    int line() const { return line_; }                 ///< in it, from 1; 0: none
    int column() const { return column_; }             ///< likewise
    const std::string& rule() const { return rule_; }  ///< KILN_ERROR_VARIANT: that does not hold
    const std::string& log() const { return log_; }    ///< KILN_ERROR_BUILD: the compiler's
    /// KILN_ERROR_NOT_READY: the shape to prepare.
    const std::vector<std::pair<std::string, std::int64_t>>& sizes() const { return sizes_; }

  private:
    explicit Error(const kiln_error& error)
        : std::runtime_error(error.message),
          status_(error.status),
          file_(error.file),
          rule_(error.rule),
          log_(error.log),
          line_(error.line),
          column_(error.column) {
        for (std::size_t i = 0; i < error.size_count; ++i)
            sizes_.emplace_back(error.sizes[i].name, error.sizes[i].value);
    }

    kiln_status status_;
    std::string file_, rule_, log_;
    int line_, column_;
    std::vector<std::pair<std::string, std::int64_t>> sizes_;
};

/// Throws Error for a status that is one.
inline void check(kiln_status status) {
    if (status != KILN_OK) throw Error::last();
}

/// A structure of the C API with its size set and all else zero.
template <class T>
T sized() {
    T structure{};
    structure.size = sizeof(T);
    return structure;
}

/// Owns a handle of the C API.
template <class Handle, kiln_status (*Destroy)(Handle*)>
class Owner {
  public:
    Owner() = default;
    /// Takes it over; it may be NULL.
    explicit Owner(Handle* handle) : handle_(handle) {}

    /// For functions of the C API; the owner keeps it.
    Handle* get() const { return handle_.get(); }
    /// Gives it away.
    Handle* release() { return handle_.release(); }
    /// It owns one.
    explicit operator bool() const { return handle_ != nullptr; }

  private:
    struct Destroyer {
        void operator()(Handle* handle) const { Destroy(handle); }
    };
    std::unique_ptr<Handle, Destroyer> handle_;
};

/// Values of parameters: {{"BM", "64"}, {"T", "half"}}.
using Values = std::initializer_list<kiln_value>;
/// Sizes of a problem: {{"m", 1000}}.
using Sizes = std::initializer_list<kiln_size>;
/// Tensors of an operation: {{"a", a}}.
using Tensors = std::initializer_list<kiln_tensor>;

/// A template with a value for each parameter.
class Variant : public Owner<kiln_variant, kiln_variant_destroy> {
  public:
    using Owner::Owner;

    /// The same with these values instead.
    Variant with(Values values) const {
        kiln_variant* changed = nullptr;
        check(kiln_variant_with(get(), values.begin(), values.size(), &changed));
        return Variant(changed);
    }
    /// "64"
    std::string value(const std::string& name) const {
        const char* text = nullptr;
        check(kiln_variant_get(get(), name.c_str(), &text));
        return text;
    }
    /// "gemm_tiled BM=64 BN=64 ..."
    std::string text() const { return describe().text; }
    /// Its pointer is valid as long as this.
    kiln_variant_info describe() const {
        auto info = sized<kiln_variant_info>();
        check(kiln_variant_describe(get(), &info));
        return info;
    }
};

/// A parsed template.
class Template : public Owner<kiln_template, kiln_template_destroy> {
  public:
    using Owner::Owner;

    /// A variant with these values, defaults for the rest.
    Variant variant(Values values = {}) const {
        kiln_variant* variant = nullptr;
        check(kiln_template_variant(get(), values.begin(), values.size(), &variant));
        return Variant(variant);
    }
    /// Its pointers are valid as long as this.
    kiln_template_info describe() const {
        auto info = sized<kiln_template_info>();
        check(kiln_template_describe(get(), &info));
        return info;
    }
};

/// A built kernel.
class Kernel : public Owner<kiln_kernel, kiln_kernel_destroy> {
  public:
    using Owner::Owner;

    /// Launches with these arguments, whose types must be those that the template declares: int32_t is not int64_t.
    template <class... Arguments>
    void operator()(void* stream, Arguments... arguments) const {
        static_assert((std::is_trivially_copyable_v<Arguments> && ...),
                      "arguments of kernels are trivially copyable");
        void* pointers[sizeof...(Arguments) + 1] = {
            const_cast<void*>(static_cast<const volatile void*>(&arguments))...};
        launch(stream, pointers, sizeof...(Arguments));
    }
    /// The same with options, and one pointer per argument.
    void launch(void* stream, void* const* arguments, std::size_t count,
                const kiln_launch_options* options = nullptr) const {
        check(kiln_kernel_launch(get(), stream, options, arguments, count));
    }
    /// By name.
    void launch(void* stream, std::initializer_list<kiln_argument> arguments,
                const kiln_launch_options* options = nullptr) const {
        check(kiln_kernel_launch_named(get(), stream, options, arguments.begin(), arguments.size()));
    }
    /// Its pointers are valid as long as this.
    kiln_kernel_info describe() const {
        auto info = sized<kiln_kernel_info>();
        check(kiln_kernel_describe(get(), &info));
        return info;
    }
};

/// Memory of a device.
class Buffer : public Owner<kiln_buffer, kiln_buffer_destroy> {
  public:
    using Owner::Owner;

    /// Its address.
    void* data() const {
        void* data = nullptr;
        check(kiln_buffer_data(get(), &data));
        return data;
    }
    /// Its address, for arguments of kernels.
    template <class T>
    T* as() const {
        return static_cast<T*>(data());
    }
    /// Copies elements of main memory to its start.
    template <class T>
    void write(const std::vector<T>& source) {
        check(kiln_buffer_write(get(), 0, source.data(), source.size() * sizeof(T)));
    }
    /// Copies as many elements as `destination` has from its start.
    template <class T>
    void read(std::vector<T>& destination) const {
        check(kiln_buffer_read(get(), 0, destination.data(), destination.size() * sizeof(T)));
    }
};

/// Launches that were captured, to be replayed with one call.
class Graph : public Owner<kiln_graph, kiln_graph_destroy> {
  public:
    using Owner::Owner;
    /// Queues all of it.
    void launch(void* stream) const { check(kiln_graph_launch(get(), stream)); }
};

/// Cancels builds in the background.
class Stop : public Owner<kiln_stop, kiln_stop_destroy> {
  public:
    using Owner::Owner;
    /// A new one.
    static Stop create() {
        kiln_stop* stop = nullptr;
        check(kiln_stop_create(&stop));
        return Stop(stop);
    }
    /// Of all builds that were begun with it.
    void request() const { check(kiln_stop_request(get())); }
};

/// A service.
class Service : public Owner<kiln_service, kiln_service_destroy> {
  public:
    /// What is built in the background, or why it could not be.
    using Finished = std::function<void(Kernel, const Error*)>;

    using Owner::Owner;
    /// With the options of the environment.
    Service() : Service(nullptr, 0) {}
    /// options: sized<kiln_service_options>() with what is wanted.
    explicit Service(const kiln_service_options& options) : Service(&options, 0) {}

    /// A service of another device that shares the builds of this one.
    Service share(int device) const {
        kiln_service* shared = nullptr;
        check(kiln_service_share(get(), device, &shared));
        return Service(shared);
    }
    /// Its pointers are valid until the thread's next call of this function.
    kiln_service_info describe() const {
        auto info = sized<kiln_service_info>();
        check(kiln_service_describe(get(), &info));
        return info;
    }
    /// The service's own stream; NULL on the host.
    void* stream() const {
        void* stream = nullptr;
        check(kiln_service_stream(get(), &stream));
        return stream;
    }
    /// Waits for that stream.
    void synchronize() const { check(kiln_service_synchronize(get())); }
    /// What has happened.
    kiln_counters counters() const {
        auto counters = sized<kiln_counters>();
        check(kiln_service_counters(get(), &counters));
        return counters;
    }

    /// The template of this name.
    Template find(const std::string& name) const {
        kiln_template* found = nullptr;
        check(kiln_service_find(get(), name.c_str(), &found));
        return Template(found);
    }
    /// A template from text.
    Template parse(const std::string& text, const std::string& file,
                   std::initializer_list<kiln_header> headers = {}) const {
        kiln_template* parsed = nullptr;
        check(
            kiln_service_parse(get(), text.c_str(), file.c_str(), headers.begin(), headers.size(), &parsed));
        return Template(parsed);
    }
    /// A template from a file.
    Template load(const std::string& path) const {
        kiln_template* loaded = nullptr;
        check(kiln_service_load(get(), path.c_str(), &loaded));
        return Template(loaded);
    }
    /// From memory, from the cache, or compiled.
    Kernel build(const Variant& variant) const {
        kiln_kernel* kernel = nullptr;
        check(kiln_service_build(get(), variant.get(), &kernel));
        return Kernel(kernel);
    }
    /// The same in the background. `finished` is called once, from any thread, and must not throw.
    void build_async(const Variant& variant, Finished finished) const {
        build_async(variant, {}, std::move(finished));
    }
    /// The same until `stop`, where it is one, is requested: `finished` then gets an error.
    void build_async(const Variant& variant, const Stop& stop, Finished finished) const {
        auto owned = std::make_unique<Finished>(std::move(finished));
        const auto call = [](void* user, kiln_status status, kiln_kernel* kernel) {
            const std::unique_ptr<Finished> mine(static_cast<Finished*>(user));
            if (status == KILN_OK) return (*mine)(Kernel(kernel), nullptr);
            const Error error = Error::last();
            (*mine)(Kernel(), &error);
        };
        check(stop ? kiln_service_build_async_until(get(), variant.get(), stop.get(), call, owned.get())
                   : kiln_service_build_async(get(), variant.get(), call, owned.get()));
        owned.release();
    }
    /// Why it is found in the cache, or would be compiled. Its pointers are valid until the thread's next call of this function.
    kiln_explanation explain(const Variant& variant) const {
        auto explanation = sized<kiln_explanation>();
        check(kiln_service_explain(get(), variant.get(), &explanation));
        return explanation;
    }
    /// What `record` launches on the stream that it is given. What it throws is thrown.
    Graph capture(const std::function<void(void* stream)>& record) const {
        struct Call {
            const std::function<void(void*)>* record;
            std::exception_ptr thrown;
        } call{&record, nullptr};
        const auto run = [](void* user, void* stream) {
            Call& of = *static_cast<Call*>(user);
            try {
                (*of.record)(stream);
                return KILN_OK;
            } catch (...) {
                of.thrown = std::current_exception();
                return KILN_ERROR_INTERNAL;
            }
        };
        kiln_graph* graph = nullptr;
        const kiln_status status = kiln_graph_capture(get(), run, &call, &graph);
        if (call.thrown) std::rethrow_exception(call.thrown);
        check(status);
        return Graph(graph);
    }
    /// Memory of the device.
    Buffer allocate(std::size_t bytes) const {
        kiln_buffer* buffer = nullptr;
        check(kiln_buffer_create(get(), bytes, &buffer));
        return Buffer(buffer);
    }

  private:
    Service(const kiln_service_options* options, int) {
        kiln_service* service = nullptr;
        check(kiln_service_create(options, &service));
        static_cast<Owner&>(*this) = Owner(service);
    }
};

/// The best variant for each shape.
class Operation : public Owner<kiln_operation, kiln_operation_destroy> {
  public:
    using Owner::Owner;
    /// Of all templates that compute what `name` computes with these values.
    Operation(const Service& service, const std::string& name, Values values = {},
              const kiln_operation_options* options = nullptr) {
        kiln_operation* operation = nullptr;
        check(kiln_operation_create(service.get(), name.c_str(), values.begin(), values.size(), options,
                                    &operation));
        static_cast<Owner&>(*this) = Owner(operation);
    }

    /// Chooses and builds for a shape.
    void prepare(Sizes sizes) const {
        const kiln_shape shape = {sizes.begin(), sizes.size()};
        check(kiln_operation_prepare(get(), &shape, 1));
    }
    /// The scratch memory that a shape needs.
    std::size_t workspace_bytes(Sizes sizes) const {
        std::size_t bytes = 0;
        check(kiln_operation_workspace(get(), sizes.begin(), sizes.size(), &bytes));
        return bytes;
    }
    /// Launches by name.
    void operator()(void* stream, Sizes sizes, Tensors tensors,
                    const kiln_launch_options* options = nullptr) const {
        check(kiln_operation_launch_named(get(), stream, options, sizes.begin(), sizes.size(),
                                          tensors.begin(), tensors.size()));
    }
    /// By position: one pointer per argument, to its value.
    void launch(void* stream, void* const* arguments, std::size_t count,
                const kiln_launch_options* options = nullptr) const {
        check(kiln_operation_launch(get(), stream, options, arguments, count));
    }
    /// Its pointers are valid until the thread's next call of this function.
    kiln_plan explain(Sizes sizes) const {
        auto plan = sized<kiln_plan>();
        check(kiln_operation_explain(get(), sizes.begin(), sizes.size(), &plan));
        return plan;
    }
    /// Waits until nothing is left to be built in the background.
    void wait() const { check(kiln_operation_wait(get())); }
};

/// A cache directory, as an operator sees it.
class Cache : public Owner<kiln_cache, kiln_cache_destroy> {
  public:
    /// options: sized<kiln_cache_options>() with what is wanted.
    explicit Cache(const kiln_cache_options& options) {
        kiln_cache* cache = nullptr;
        check(kiln_cache_open(&options, &cache));
        static_cast<Owner&>(*this) = Owner(cache);
    }
    /// How full it is.
    kiln_cache_usage_info usage() const {
        auto usage = sized<kiln_cache_usage_info>();
        check(kiln_cache_usage(get(), &usage, nullptr));
        return usage;
    }
    /// Writes a seed pack of all entries; the number of them.
    std::uint64_t pack(const std::string& file) const {
        auto transfer = sized<kiln_cache_transfer>();
        check(kiln_cache_pack(get(), file.c_str(), nullptr, 0, &transfer));
        return transfer.entries;
    }
};

}  // namespace c
}  // namespace kiln
