// SPDX-License-Identifier: Apache-2.0
//
// What every function of the C API is made of: guarded() turns exceptions into a status and keeps what kiln_last_error()
// tells; in(), out(), given() and fill() check what came through pointers.
#pragma once

#include <kiln/c/kiln.h>
#include <kiln/kiln.h>

#include <cstddef>
#include <cstring>
#include <deque>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/no_cancel.h"

namespace kiln::c_api {

/// Keeps an error as the thread's last one. function: of the API, named where it was misused; nullptr: of the caller.
kiln_status keep_error(const char* function, std::exception_ptr error) noexcept;

/// Runs the body of a function of the API, in which the thread is not cancelled.
template <class Body>
kiln_status guarded(const char* function, const Body& body) noexcept {
    const NoCancel no_cancel;
    try {
        body();
        return KILN_OK;
    } catch (...) {
        return keep_error(function, std::current_exception());
    }
}

/// Wrong use of the C API itself; the message gets the function's name.
class Misuse : public UsageError {
  public:
    using UsageError::UsageError;
};

/// A pointer that must not be NULL.
template <class T>
T* in(T* pointer, const char* parameter) {
    if (pointer == nullptr) throw Misuse(std::string(parameter) + " is NULL");
    return pointer;
}

/// The place of a result, which is NULL until it is there.
template <class T>
T*& out(T** place, const char* parameter) {
    *in(place, parameter) = nullptr;
    return *place;
}

/// A text, or empty for NULL.
inline std::string text_or_empty(const char* text) { return text == nullptr ? std::string() : text; }

/// An array that has elements where its count says so.
template <class T>
const T* array(const T* first, std::size_t count, const char* parameter) {
    return count == 0 ? nullptr : in(first, parameter);
}

/// Where the members end that a structure had when the library first knew it: what programs have at least. It stays when
/// members are appended.
template <class T>
constexpr std::size_t kFirstBytes = 0;

/// Throws Misuse for a size that no version of the structure has.
void check_size(const char* type, std::size_t size, std::size_t least, std::size_t most);
/// Throws Misuse where bytes that this library does not know are not zero.
void check_unknown(const char* type, const void* structure, std::size_t size, std::size_t known);

/// Options as the library knows them: those of NULL, and members that the caller's version lacks, are zero. Throws Misuse.
template <class T>
T given(const T* options, const char* type) {
    T known{};
    if (options == nullptr) return known;
    check_size(type, options->size, kFirstBytes<T>, sizeof(T));
    check_unknown(type, options, options->size, sizeof(T));
    std::memcpy(&known, options, options->size < sizeof(T) ? options->size : sizeof(T));
    return known;
}

/// Throws Misuse for a NULL or a wrong size.
template <class T>
void check_result(const T* place, const char* type) {
    if (place == nullptr) throw Misuse(std::string("the place for a ") + type + " is NULL");
    check_size(type, place->size, kFirstBytes<T>, sizeof(T));
}

/// Copies what fits the caller's version; what the library does not know becomes zero. Its size stays the caller's.
template <class T>
void fill(T* place, T value, const char* type) {
    check_result(place, type);
    const std::size_t size = place->size, common = size < sizeof(T) ? size : sizeof(T);
    value.size = size;
    if (size > common) std::memset(reinterpret_cast<char*>(place) + common, 0, size - common);
    std::memcpy(place, &value, common);
}

/// Texts of a result, which live until the same function is called again: a thread_local of it.
class LastResult {
  public:
    void clear() { texts_.clear(); }
    const char* operator()(std::string_view text) { return texts_.emplace_back(text).c_str(); }

  private:
    std::deque<std::string> texts_;
};

/// "values", read as the template's parameters.
Values values_of(const kiln_value* values, std::size_t count);
/// Sizes by their names.
Sizes sizes_of(const kiln_size* sizes, std::size_t count);

/// nothing, true or false.
std::optional<bool> choice_of(kiln_choice choice, const char* member);

/// Throws Misuse unless a launch of `what` has as many arguments as are declared.
void check_count(const char* what, std::size_t count, std::size_t declared);
/// Throws Misuse where the places of arguments, or one of them, are NULL.
void check_arguments(void* const* arguments, std::size_t count);

/// CacheOptions of the C structure; NULL: defaults.
CacheOptions cache_options_of(const kiln_cache_options* options);
kiln_counters counters_of(const Counters& counters);

/// While it lives, this thread captures what is launched on this stream, whose handle is a stream for launches then: the host's
/// streams have no native handles.
class CaptureOfThread {
  public:
    explicit CaptureOfThread(const Stream& stream) { current_ = &stream; }
    ~CaptureOfThread() { current_ = nullptr; }
    CaptureOfThread(const CaptureOfThread&) = delete;
    CaptureOfThread& operator=(const CaptureOfThread&) = delete;

    /// The stream of this handle.
    static StreamRef stream_of(void* native) {
        return current_ != nullptr && current_->handle() == native ? StreamRef(*current_) : StreamRef(native);
    }

  private:
    static inline constinit thread_local const Stream* current_ = nullptr;
};

/// The launch options of a call, as long as it lasts; `stream`: with them.
class StreamWithOptions {
  public:
    StreamWithOptions(void* native, const kiln_launch_options* options);
    StreamWithOptions(const StreamWithOptions&) = delete;
    StreamWithOptions& operator=(const StreamWithOptions&) = delete;

    operator StreamRef() const { return stream_; }

  private:
    LaunchOptions options_;
    StreamRef stream_;
};

}  // namespace kiln::c_api

/// kFirstBytes of a structure whose first version ended with this member.
#define KILN_C_FIRST(type, member)                                \
    template <>                                                   \
    inline constexpr std::size_t kiln::c_api::kFirstBytes<type> = \
        offsetof(type, member) + sizeof(std::declval<type&>().member)

KILN_C_FIRST(kiln_version_info, text);
KILN_C_FIRST(kiln_error, size_count);
KILN_C_FIRST(kiln_cache_options, wait_limit_ms);
KILN_C_FIRST(kiln_counters, saved_ms);
KILN_C_FIRST(kiln_service_options, on_trace_user);
KILN_C_FIRST(kiln_service_info, cache_problem);
KILN_C_FIRST(kiln_explanation, rejected_count);
KILN_C_FIRST(kiln_template_info, is_runnable);
KILN_C_FIRST(kiln_variant_info, dynamic_shared_bytes);
KILN_C_FIRST(kiln_kernel_info, function);
KILN_C_FIRST(kiln_launch_options, policy_miss);
KILN_C_FIRST(kiln_operation_options, allocator_user);
KILN_C_FIRST(kiln_plan, text);
KILN_C_FIRST(kiln_operation_usage_info, workspace_bytes);
KILN_C_FIRST(kiln_cache_usage_info, limit_bytes);
KILN_C_FIRST(kiln_cache_transfer, reason_count);
