// SPDX-License-Identifier: Apache-2.0
#include "c/call.h"

#include <new>
#include <optional>

#include "format/format.h"

namespace kiln::c_api {
namespace {

/// A size that nothing has, so that a structure that was not initialised is not read far beyond its end.
constexpr std::size_t kMostBytes = 4096;

struct LastError {
    kiln_status status = KILN_OK;
    std::string message, file, rule, log, call;
    int line = 0, column = 0, code = 0;
    Sizes sizes;
    std::vector<kiln_size> size_list;  ///< with names of `sizes`
    bool is_out_of_memory = false;     ///< for the texts above
};

// What kiln_last_error() is made of: a thread's own by its contract.
LastError& last_error() {
    static thread_local LastError error;
    return error;
}

void describe(LastError& error, const char* function, std::exception_ptr thrown) {
    error = LastError{};
    const auto take = [&](kiln_status status, const std::exception& what) {
        error.status = status;
        error.message = what.what();
    };
    try {
        std::rethrow_exception(std::move(thrown));
    } catch (const Misuse& misuse) {
        take(KILN_ERROR_USAGE, misuse);
        if (function != nullptr) error.message = std::string(function) + ": " + error.message;
    } catch (const NotReadyError& not_ready) {
        take(KILN_ERROR_NOT_READY, not_ready);
        error.sizes = not_ready.sizes();
        for (const auto& [name, value] : error.sizes) error.size_list.push_back({name.c_str(), value});
    } catch (const TemplateError& wrong) {
        take(KILN_ERROR_TEMPLATE, wrong);
        error.file = wrong.file();
        error.line = wrong.line();
        error.column = wrong.column();
    } catch (const VariantError& wrong) {
        take(KILN_ERROR_VARIANT, wrong);
        error.rule = wrong.rule();
    } catch (const BuildError& failed) {
        take(KILN_ERROR_BUILD, failed);
        error.log = failed.log();
    } catch (const DeviceError& failed) {
        take(KILN_ERROR_DEVICE, failed);
        error.call = failed.call();
        error.code = failed.code();
    } catch (const CacheError& failed) {
        take(KILN_ERROR_CACHE, failed);
    } catch (const Error& wrong) {
        take(KILN_ERROR_USAGE, wrong);
    } catch (const std::bad_alloc&) {
        error.status = KILN_ERROR_MEMORY;
        error.message = "main memory is exhausted";
    } catch (const std::exception& other) {
        take(KILN_ERROR_INTERNAL, other);
    } catch (...) {
        error.status = KILN_ERROR_INTERNAL;
        error.message = "an exception of an unknown type";
    }
}

}  // namespace

kiln_status keep_error(const char* function, std::exception_ptr error) noexcept {
    LastError& last = last_error();
    try {
        describe(last, function, std::move(error));
    } catch (...) {  // the texts did not fit memory
        last.status = KILN_ERROR_MEMORY;
        last.is_out_of_memory = true;
    }
    return last.status;
}

void check_size(const char* type, std::size_t size, std::size_t least, std::size_t most) {
    if (size >= least && size <= kMostBytes) return;
    throw Misuse(
        formatted("the size of a {} is {}, and this library knows those from {} to {} bytes; set its member "
                  "`size` to sizeof({})",
                  type, size, least, most, type));
}

void check_unknown(const char* type, const void* structure, std::size_t size, std::size_t known) {
    const char* const bytes = static_cast<const char*>(structure);
    for (std::size_t i = known; i < size; ++i)
        if (bytes[i] != 0)
            throw Misuse(
                formatted("a {} of {} bytes has members that are set and that this library does not know; it "
                          "knows {} bytes. The program was compiled for a later version of Kiln",
                          type, size, known));
}

Values values_of(const kiln_value* values, std::size_t count) {
    array(values, count, "values");
    Values result;
    for (std::size_t i = 0; i < count; ++i) {
        const char* const name = in(values[i].name, "the name of a value");
        if (!result.emplace(name, Value(in(values[i].text, "the text of a value"))).second)
            throw Misuse(std::string("the value of ") + name + " is given twice");
    }
    return result;
}

Sizes sizes_of(const kiln_size* sizes, std::size_t count) {
    array(sizes, count, "sizes");
    Sizes result;
    for (std::size_t i = 0; i < count; ++i) {
        const char* const name = in(sizes[i].name, "the name of a size");
        if (!result.emplace(name, sizes[i].value).second)
            throw Misuse(std::string("the size ") + name + " is given twice");
    }
    return result;
}

std::optional<bool> choice_of(kiln_choice choice, const char* member) {
    switch (choice) {
        case KILN_DEFAULT:
            return std::nullopt;
        case KILN_YES:
            return true;
        case KILN_NO:
            return false;
    }
    throw Misuse(
        formatted("{} is {}, and may be KILN_DEFAULT (0), KILN_YES (1) or KILN_NO (2)", member, choice));
}

}  // namespace kiln::c_api

using namespace kiln::c_api;

kiln_status kiln_last_error(kiln_error* error) {
    LastError& last = last_error();
    const kiln_error now = {sizeof(kiln_error),
                            last.status,
                            last.is_out_of_memory ? "main memory is exhausted" : last.message.c_str(),
                            last.file.c_str(),
                            last.line,
                            last.column,
                            last.rule.c_str(),
                            last.log.c_str(),
                            last.call.c_str(),
                            last.code,
                            last.size_list.data(),
                            last.size_list.size()};
    return guarded(__func__, [&] { fill(error, now, "kiln_error"); });
}

kiln_status kiln_version(kiln_version_info* version) {
    return guarded(__func__, [&] {
        fill(version,
             {sizeof(kiln_version_info), KILN_C_ABI, KILN_C_LEVEL, KILN_VERSION_MAJOR, KILN_VERSION_MINOR,
              KILN_VERSION_PATCH, kiln::version().data()},
             "kiln_version_info");
    });
}

kiln_status kiln_status_name(int32_t status, const char** name) {
    static constexpr const char* kNames[] = {"ok",    "usage",  "template",  "variant", "build",
                                             "cache", "device", "not_ready", "memory",  "internal"};
    return guarded(__func__, [&] {
        const char*& place = out(name, "name");
        if (status < 0 || static_cast<std::size_t>(status) >= std::size(kNames))
            throw Misuse(kiln::formatted("{} is no kiln_status; they are from 0 to {}", status,
                                         std::size(kNames) - 1));
        place = kNames[status];
    });
}
