// SPDX-License-Identifier: Apache-2.0
//
// Whether the tests run under AddressSanitizer or ThreadSanitizer.
#pragma once

namespace kiln::test {

/// Its threads that are cancelled leave the stack poisoned, and UndefinedBehaviorSanitizer, which is built with it, needs
/// descriptors to look at memory.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kAddressSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kAddressSanitized = true;
#else
constexpr bool kAddressSanitized = false;
#endif
#else
constexpr bool kAddressSanitized = false;
#endif

#if defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = kAddressSanitized;
#endif
#else
constexpr bool kSanitized = kAddressSanitized;
#endif

}  // namespace kiln::test
