// SPDX-License-Identifier: Apache-2.0
//
// Serialises plain data for another process of the same program: numbers, enumerations, strings, standard
// containers, and structs of these, whose members are found by counting the values that can initialise them. There
// is no version and no byte order; invalid data leads to an exception.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace kiln::wire {

struct ConvertibleToAny {
    template <class T>
    operator T() const;
};

/// The number of members of a struct: the largest number of values that can initialise it.
template <class T, class... Values>
constexpr std::size_t member_count() {
    static_assert(sizeof...(Values) <= 32, "structs with so many members are not supported; split it");
    if constexpr (requires { T{Values{}..., ConvertibleToAny{}}; })
        return member_count<T, Values..., ConvertibleToAny>();
    else
        return sizeof...(Values);
}

/// Its members as a tuple of references.
template <class T>
auto members(T& value) {
    constexpr std::size_t count = member_count<std::remove_const_t<T>>();
#define KILN_MEMBERS(number, ...)     \
    if constexpr (count == number) {  \
        auto& [__VA_ARGS__] = value;  \
        return std::tie(__VA_ARGS__); \
    } else
    KILN_MEMBERS(1, a)
    KILN_MEMBERS(2, a, b)
    KILN_MEMBERS(3, a, b, c)
    KILN_MEMBERS(4, a, b, c, d)
    KILN_MEMBERS(5, a, b, c, d, e)
    KILN_MEMBERS(6, a, b, c, d, e, f)
    KILN_MEMBERS(7, a, b, c, d, e, f, g)
    KILN_MEMBERS(8, a, b, c, d, e, f, g, h)
    KILN_MEMBERS(9, a, b, c, d, e, f, g, h, i)
    KILN_MEMBERS(10, a, b, c, d, e, f, g, h, i, j)
    KILN_MEMBERS(11, a, b, c, d, e, f, g, h, i, j, k)
    KILN_MEMBERS(12, a, b, c, d, e, f, g, h, i, j, k, l)
    KILN_MEMBERS(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
    KILN_MEMBERS(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
    KILN_MEMBERS(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
    KILN_MEMBERS(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
    KILN_MEMBERS(17, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q)
    KILN_MEMBERS(18, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r)
    KILN_MEMBERS(19, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s)
    KILN_MEMBERS(20, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t)
    KILN_MEMBERS(21, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u)
    KILN_MEMBERS(22, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v)
    KILN_MEMBERS(23, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w)
    KILN_MEMBERS(24, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x)
    KILN_MEMBERS(25, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y)
    KILN_MEMBERS(26, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z) {
        static_assert(count == 0, "structs with so many members are not supported; split it");
        return std::tuple<>();
    }
#undef KILN_MEMBERS
}

template <class T>
constexpr bool is_plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

class Writer {
  public:
    template <class T>
    void operator()(const T& value) {
        if constexpr (is_plain<T>) {
            bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
        } else {
            static_assert(std::is_aggregate_v<T>, "this type has no members to be found");
            std::apply([this](const auto&... member) { ((*this)(member), ...); }, members(value));
        }
    }
    void operator()(const std::string& text) { sequence(text); }
    template <class T>
    void operator()(const std::vector<T>& values) {
        sequence(values);
    }
    template <class T, std::size_t N>
    void operator()(const std::array<T, N>& values) {
        for (const T& value : values) (*this)(value);
    }
    template <class A, class B>
    void operator()(const std::pair<A, B>& pair) {
        (*this)(pair.first);
        (*this)(pair.second);
    }
    template <class K, class V, class... Rest>
    void operator()(const std::map<K, V, Rest...>& values) {
        (*this)(values.size());
        for (const auto& [key, value] : values) {
            (*this)(key);
            (*this)(value);
        }
    }
    template <class T>
    void operator()(const std::optional<T>& value) {
        (*this)(value.has_value());
        if (value) (*this)(*value);
    }

    std::string take() { return std::move(bytes_); }

  private:
    template <class Values>
    void sequence(const Values& values) {
        (*this)(values.size());
        if constexpr (is_plain<typename Values::value_type>)
            bytes_.append(reinterpret_cast<const char*>(values.data()),
                          values.size() * sizeof(typename Values::value_type));
        else
            for (const auto& value : values) (*this)(value);
    }

    std::string bytes_;
};

class Reader {
  public:
    explicit Reader(std::string_view bytes) : rest_(bytes) {}

    template <class T>
    void operator()(T& value) {
        if constexpr (is_plain<T>) {
            std::memcpy(&value, take(sizeof value), sizeof value);
        } else {
            static_assert(std::is_aggregate_v<T>, "this type has no members to be found");
            std::apply([this](auto&... member) { ((*this)(member), ...); }, members(value));
        }
    }
    void operator()(std::string& text) { sequence(text); }
    template <class T>
    void operator()(std::vector<T>& values) {
        sequence(values);
    }
    template <class T, std::size_t N>
    void operator()(std::array<T, N>& values) {
        for (T& value : values) (*this)(value);
    }
    template <class A, class B>
    void operator()(std::pair<A, B>& pair) {
        (*this)(pair.first);
        (*this)(pair.second);
    }
    template <class K, class V, class... Rest>
    void operator()(std::map<K, V, Rest...>& values) {
        for (std::size_t left = count(); left > 0; --left) {
            std::pair<K, V> entry;
            (*this)(entry);
            values.insert(std::move(entry));
        }
    }
    template <class T>
    void operator()(std::optional<T>& value) {
        bool is_set = false;
        (*this)(is_set);
        if (!is_set) return;
        T held{};
        (*this)(held);
        value = std::move(held);
    }

    bool at_end() const { return rest_.empty(); }

  private:
    const char* take(std::size_t bytes) {
        if (bytes > rest_.size()) throw std::runtime_error("a message between processes is incomplete");
        const char* const at = rest_.data();
        rest_.remove_prefix(bytes);
        return at;
    }
    // Every element has at least one byte.
    std::size_t count() {
        std::size_t number = 0;
        (*this)(number);
        if (number > rest_.size()) throw std::runtime_error("a message between processes is incomplete");
        return number;
    }
    template <class Values>
    void sequence(Values& values) {
        using Element = typename Values::value_type;
        const std::size_t size = count();
        values.resize(size);
        if constexpr (is_plain<Element>) {
            if (size != 0) std::memcpy(values.data(), take(size * sizeof(Element)), size * sizeof(Element));
        } else {
            for (Element& value : values) (*this)(value);
        }
    }

    std::string_view rest_;
};

template <class T>
std::string written(const T& value) {
    Writer writer;
    writer(value);
    return writer.take();
}

/// Throws std::runtime_error for bytes that are not a T.
template <class T>
T read(std::string_view bytes) {
    T value{};
    Reader reader(bytes);
    reader(value);
    if (!reader.at_end()) throw std::runtime_error("a message between processes is too long");
    return value;
}

}  // namespace kiln::wire
