// SPDX-License-Identifier: Apache-2.0
//
// JSON that keeps the order of fields.
#pragma once

#include <kiln/template.h>
#include <kiln/timing.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace kiln::cli {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
    return value ? Json(*value) : Json();
}

/// null for an empty one
inline Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

inline Json value_json(const Value& value) {
    if (value.is_float()) {
        // The digits of the float; as a double it would have eight more.
        const std::string text = value.text();
        double number = 0;
        std::from_chars(text.data(), text.data() + text.size(), number);
        return number;
    }
    return value.is_int()    ? Json(value.as_int())
           : value.is_bool() ? Json(value.as_bool())
           : value.is_code() ? Json(value.as_code().body())
                             : Json(value.as_type());
}

inline Json values_json(const Values& values) {
    Json json = Json::object();
    for (const auto& [parameter, value] : values) json[parameter] = value_json(value);
    return json;
}

/// {"min": ..., "median": ..., "max": ..., "iterations": ...}, or null
inline Json time_json(const std::optional<TimeSummary>& time) {
    if (!time) return {};
    return {{"min", time->min_ms},
            {"median", time->median_ms},
            {"max", time->max_ms},
            {"iterations", time->iterations}};
}

/// Indented, with a newline at the end. Bytes that are not UTF-8 are replaced.
inline std::string dumped(const Json& json) {
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace kiln::cli
