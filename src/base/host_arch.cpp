// SPDX-License-Identifier: Apache-2.0
//
// The x86-64 levels by the processor's own feature bits.
#include "base/host_arch.h"

#include "format/format.h"

#ifdef __x86_64__
#include <cpuid.h>
#else
#include <sys/utsname.h>
#endif

namespace kiln {

#ifdef __x86_64__
namespace {

int x86_level() {
    __builtin_cpu_init();
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("popcnt")) return 1;
    // Not every compiler's __builtin_cpu_supports knows these three.
    const bool movbe_f16c =
        __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_MOVBE) != 0 && (c & bit_F16C) != 0;
    const bool lzcnt = __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c & bit_LZCNT) != 0;
    if (!movbe_f16c || !lzcnt || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2"))
        return 2;
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vl");
    return avx512 ? 4 : 3;
}

}  // namespace

std::string host_arch() {
    const int level = x86_level();
    return level == 1 ? "x86-64" : formatted("x86-64-v{}", level);
}
#else
std::string host_arch() {
    utsname name;
    return ::uname(&name) == 0 ? name.machine : "unknown";
}
#endif

// The names sort as the levels do.
bool is_lower_level(std::string_view arch, std::string_view than) {
    return arch.starts_with("x86-64") && than.starts_with("x86-64") && arch < than;
}

}  // namespace kiln
