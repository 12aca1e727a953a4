// SPDX-License-Identifier: Apache-2.0
//
// The handles of the C API. What a caller holds as kiln_service* and so on is a Handle: a mark that says what it is, and
// the object. A destroyed handle keeps its memory, marked as destroyed, until kRemembered later ones were destroyed, so
// that a use of it is an error and no access to memory that was freed. Objects are destroyed at once.
#pragma once

#include <kiln/c/kiln.h>
#include <kiln/kiln.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

namespace kiln::c_api {

/// What a handle's memory begins with. Not small numbers, which other memory holds by chance.
enum class Mark : std::uint32_t {
    destroyed = 0x6b6c0000,
    service,
    template_,
    variant,
    kernel,
    operation,
    buffer,
    cache,
    graph,
    stop
};

struct Handle {
    std::atomic<Mark> mark;
    void* object;
};

struct ServiceObject {
    static constexpr Mark kMark = Mark::service;
    static constexpr const char* kName = "kiln_service";
    std::shared_ptr<Service> service;
    std::stop_source stop;
};

struct TemplateObject {
    static constexpr Mark kMark = Mark::template_;
    static constexpr const char* kName = "kiln_template";
    Template value;
};

struct VariantObject {
    static constexpr Mark kMark = Mark::variant;
    static constexpr const char* kName = "kiln_variant";
    explicit VariantObject(Variant of) : value(std::move(of)) {
        for (const auto& [name, chosen] : value.values()) texts.emplace(name, chosen.text());
    }
    Variant value;
    std::map<std::string, std::string, std::less<>> texts;  ///< of the values
};

struct KernelObject {
    static constexpr Mark kMark = Mark::kernel;
    static constexpr const char* kName = "kiln_kernel";
    explicit KernelObject(AnyKernel built)
        : value(std::move(built)), argument_count(value.variant().arguments().size()) {}
    AnyKernel value;
    std::size_t argument_count = 0;
};

struct OperationObject {
    static constexpr Mark kMark = Mark::operation;
    static constexpr const char* kName = "kiln_operation";
    std::shared_ptr<Service> service;  ///< which must outlive the operation
    Operation value;
};

struct BufferObject {
    static constexpr Mark kMark = Mark::buffer;
    static constexpr const char* kName = "kiln_buffer";
    Buffer value;
};

struct CacheObject {
    static constexpr Mark kMark = Mark::cache;
    static constexpr const char* kName = "kiln_cache";
    Cache value;
};

struct GraphObject {
    static constexpr Mark kMark = Mark::graph;
    static constexpr const char* kName = "kiln_graph";
    Graph value;
};

struct StopObject {
    static constexpr Mark kMark = Mark::stop;
    static constexpr const char* kName = "kiln_stop";
    std::stop_source value;
};

// Which object an opaque type stands for; declared only.
ServiceObject object_behind(const kiln_service*);
TemplateObject object_behind(const kiln_template*);
VariantObject object_behind(const kiln_variant*);
KernelObject object_behind(const kiln_kernel*);
OperationObject object_behind(const kiln_operation*);
BufferObject object_behind(const kiln_buffer*);
CacheObject object_behind(const kiln_cache*);
GraphObject object_behind(const kiln_graph*);
StopObject object_behind(const kiln_stop*);
template <class Opaque>
using ObjectOf = decltype(object_behind(static_cast<Opaque*>(nullptr)));

/// What it says when a handle is not of this kind. Throws UsageError.
[[noreturn]] void reject_handle(const void* handle, Mark found, const char* kind);
/// Marks a handle as destroyed. Throws UsageError where it is none of this kind, as when it is destroyed already.
void retire(Handle& handle, Mark mark, const char* kind);
/// Keeps the memory of a retired handle for a while.
void remember(Handle* handle) noexcept;

/// The object behind a handle. Throws UsageError for what is none of this kind.
template <class Opaque>
auto& object(Opaque* opaque) {
    using Object = ObjectOf<Opaque>;
    auto* const handle = reinterpret_cast<const Handle*>(opaque);
    if (handle == nullptr || reinterpret_cast<std::uintptr_t>(handle) % alignof(Handle) != 0)
        reject_handle(handle, Mark::destroyed, Object::kName);
    const Mark mark = handle->mark.load(std::memory_order_acquire);
    if (mark != Object::kMark) reject_handle(handle, mark, Object::kName);
    return *static_cast<Object*>(handle->object);
}

/// A new handle, which the caller of the API destroys.
template <class Opaque>
Opaque* make(ObjectOf<Opaque> value) {
    using Object = ObjectOf<Opaque>;
    auto owned = std::make_unique<Object>(std::move(value));
    auto* const handle = new Handle{Object::kMark, owned.get()};
    owned.release();
    return reinterpret_cast<Opaque*>(handle);
}

/// Throws UsageError for what is no handle of this kind; NULL is fine.
template <class Opaque>
void destroy(Opaque* opaque) {
    using Object = ObjectOf<Opaque>;
    if (opaque == nullptr) return;
    auto* const handle = reinterpret_cast<Handle*>(opaque);
    retire(*handle, Object::kMark, Object::kName);
    delete static_cast<Object*>(handle->object);
    remember(handle);
}

}  // namespace kiln::c_api
