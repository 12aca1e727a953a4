// SPDX-License-Identifier: Apache-2.0
//
// Compares our own declaration of a vendor's function with the one in the vendor's header, for the
// calling convention's sake: argument count, sizes, kinds, and the sizes of what pointers point to.
// SameCall<decltype(&::cuInit), cuda::InitFunction*> is std::true_type or std::false_type.
#pragma once

#include <type_traits>

namespace kiln::test {

template <class T, class = void>
struct IsComplete : std::false_type {};
template <class T>
struct IsComplete<T, std::void_t<decltype(sizeof(T))>> : std::true_type {};

/// Both are passed in the same register class with the same size; where both point to complete
/// object types, those have the same size, so that nothing is written past our variables.
template <class A, class B>
constexpr bool same_value() {
    if constexpr (std::is_void_v<A> || std::is_void_v<B>) {
        return std::is_void_v<A> && std::is_void_v<B>;
    } else {
        if (sizeof(A) != sizeof(B) || std::is_floating_point_v<A> != std::is_floating_point_v<B>)
            return false;
        if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
            using X = std::remove_cv_t<std::remove_pointer_t<A>>;
            using Y = std::remove_cv_t<std::remove_pointer_t<B>>;
            if constexpr (std::is_function_v<X> || std::is_function_v<Y>) {
                return std::is_function_v<X> && std::is_function_v<Y>;
            } else if constexpr (!std::is_void_v<X> && !std::is_void_v<Y> && IsComplete<X>::value &&
                                 IsComplete<Y>::value) {
                return sizeof(X) == sizeof(Y) && std::is_floating_point_v<X> == std::is_floating_point_v<Y>;
            }
        }
        return true;
    }
}

template <class Theirs, class Ours>
struct SameCall : std::false_type {};
template <class R, class S, class... A, class... B>
requires(sizeof...(A) == sizeof...(B)) struct SameCall<R (*)(A...), S (*)(B...)>
    : std::bool_constant<same_value<R, S>() && (same_value<A, B>() && ...)> {
};

}  // namespace kiln::test
