// SPDX-License-Identifier: Apache-2.0
//
// Atomics, fences and cached loads. Blocks run on several cores, so these are real atomics; relaxed,
// as on a GPU. Each returns the old value. Part of device_host.h.
#pragma once

namespace kiln_host {

template <class T>
struct IdentityOf {
    using type = T;
};
/// T, which is not deduced from an argument of this type.
template <class T>
using Identity = typename IdentityOf<T>::type;

template <class T, class Change>
inline T update(T* address, Change change) {
    tell(AccessKind::atomic, address, sizeof(T));
    [[maybe_unused]] const Muted muted{};
    T old;
    __atomic_load(address, &old, __ATOMIC_RELAXED);
    for (;;) {
        T desired = change(old);
        if (__atomic_compare_exchange(address, &old, &desired, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return old;
    }
}

}  // namespace kiln_host

#define KILN_ATOMIC(name, T, operation) \
    inline T name(T* address, T value) { return __atomic_##operation(address, value, __ATOMIC_RELAXED); }
#define KILN_ATOMIC_UPDATE(name, T, expression)                                        \
    inline T name(T* address, T value) {                                               \
        return kiln_host::update(address, [value](T old) -> T { return expression; }); \
    }

KILN_ATOMIC(atomicAdd, int, fetch_add)
KILN_ATOMIC(atomicAdd, unsigned, fetch_add)
KILN_ATOMIC(atomicAdd, unsigned long long, fetch_add)
KILN_ATOMIC_UPDATE(atomicAdd, float, old + value)
KILN_ATOMIC_UPDATE(atomicAdd, double, old + value)
KILN_ATOMIC(atomicSub, int, fetch_sub)
KILN_ATOMIC(atomicSub, unsigned, fetch_sub)

KILN_ATOMIC_UPDATE(atomicMin, int, value < old ? value : old)
KILN_ATOMIC_UPDATE(atomicMin, unsigned, value < old ? value : old)
KILN_ATOMIC_UPDATE(atomicMin, long long, value < old ? value : old)
KILN_ATOMIC_UPDATE(atomicMin, unsigned long long, value < old ? value : old)
KILN_ATOMIC_UPDATE(atomicMax, int, old < value ? value : old)
KILN_ATOMIC_UPDATE(atomicMax, unsigned, old < value ? value : old)
KILN_ATOMIC_UPDATE(atomicMax, long long, old < value ? value : old)
KILN_ATOMIC_UPDATE(atomicMax, unsigned long long, old < value ? value : old)
KILN_ATOMIC_UPDATE(atomicInc, unsigned, old >= value ? 0u : old + 1u)
KILN_ATOMIC_UPDATE(atomicDec, unsigned, old == 0u || old > value ? value : old - 1u)

KILN_ATOMIC(atomicAnd, int, fetch_and)
KILN_ATOMIC(atomicAnd, unsigned, fetch_and)
KILN_ATOMIC(atomicAnd, long long, fetch_and)
KILN_ATOMIC(atomicAnd, unsigned long long, fetch_and)
KILN_ATOMIC(atomicOr, int, fetch_or)
KILN_ATOMIC(atomicOr, unsigned, fetch_or)
KILN_ATOMIC(atomicOr, long long, fetch_or)
KILN_ATOMIC(atomicOr, unsigned long long, fetch_or)
KILN_ATOMIC(atomicXor, int, fetch_xor)
KILN_ATOMIC(atomicXor, unsigned, fetch_xor)
KILN_ATOMIC(atomicXor, long long, fetch_xor)
KILN_ATOMIC(atomicXor, unsigned long long, fetch_xor)

KILN_ATOMIC(atomicExch, int, exchange_n)
KILN_ATOMIC(atomicExch, unsigned, exchange_n)
KILN_ATOMIC(atomicExch, unsigned long long, exchange_n)
KILN_ATOMIC_UPDATE(atomicExch, float, (static_cast<void>(old), value))

#undef KILN_ATOMIC
#undef KILN_ATOMIC_UPDATE

#define KILN_ATOMIC_CAS(T)                                                                                   \
    inline T atomicCAS(T* address, T expected, T desired) {                                                  \
        __atomic_compare_exchange_n(address, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); \
        return expected;                                                                                     \
    }
KILN_ATOMIC_CAS(int)
KILN_ATOMIC_CAS(unsigned)
KILN_ATOMIC_CAS(unsigned long long)
KILN_ATOMIC_CAS(unsigned short)
#undef KILN_ATOMIC_CAS

inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// For the threads of a block, and for those of all GPUs and the host, too.
#define KILN_ATOMIC_SCOPES(name)                         \
    template <class T, class... A>                       \
    inline T name##_block(T* address, A... arguments) {  \
        return name(address, arguments...);              \
    }                                                    \
    template <class T, class... A>                       \
    inline T name##_system(T* address, A... arguments) { \
        return name(address, arguments...);              \
    }
// clang-format off
KILN_ATOMIC_SCOPES(atomicAdd) KILN_ATOMIC_SCOPES(atomicSub) KILN_ATOMIC_SCOPES(atomicMin) KILN_ATOMIC_SCOPES(atomicMax)
KILN_ATOMIC_SCOPES(atomicInc) KILN_ATOMIC_SCOPES(atomicDec) KILN_ATOMIC_SCOPES(atomicAnd) KILN_ATOMIC_SCOPES(atomicOr)
KILN_ATOMIC_SCOPES(atomicXor) KILN_ATOMIC_SCOPES(atomicExch) KILN_ATOMIC_SCOPES(atomicCAS)
#undef KILN_ATOMIC_SCOPES

// Loads and stores with a hint for the caches, which the host has no use for.
#define KILN_HINTED_LOAD(name)        \
    template <class T>                \
    inline T name(const T* address) { \
        return *address;              \
    }
#define KILN_HINTED_STORE(name)                                  \
    template <class T>                                           \
    inline void name(T* address, kiln_host::Identity<T> value) { \
        *address = value;                                        \
    }
KILN_HINTED_LOAD(__ldg) KILN_HINTED_LOAD(__ldca) KILN_HINTED_LOAD(__ldcg) KILN_HINTED_LOAD(__ldcs) KILN_HINTED_LOAD(__ldcv)
KILN_HINTED_LOAD(__ldlu) KILN_HINTED_STORE(__stcg) KILN_HINTED_STORE(__stcs) KILN_HINTED_STORE(__stwb) KILN_HINTED_STORE(__stwt)
// clang-format on
#undef KILN_HINTED_LOAD
#undef KILN_HINTED_STORE
