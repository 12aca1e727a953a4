// SPDX-License-Identifier: Apache-2.0
//
// Whether the tests run under AddressSanitizer or ThreadSanitizer.
#pragma once

#if defined(__has_feature)
#define KILN_TEST_HAS_FEATURE(feature) __has_feature(feature)
#else
#define KILN_TEST_HAS_FEATURE(feature) 0
#endif

namespace kiln::test {

/// It leaves the stack of a cancelled thread poisoned; UndefinedBehaviorSanitizer, which is built with it, needs file
/// descriptors to look at memory.
#if defined(__SANITIZE_ADDRESS__) || KILN_TEST_HAS_FEATURE(address_sanitizer)
constexpr bool kAddressSanitized = true;
#else
constexpr bool kAddressSanitized = false;
#endif

/// By either.
#if defined(__SANITIZE_THREAD__) || KILN_TEST_HAS_FEATURE(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = kAddressSanitized;
#endif

}  // namespace kiln::test
