// SPDX-License-Identifier: Apache-2.0
//
// CUDA C++ for an ordinary C++17 compiler: each GPU thread is a fiber, each block runs on one OS
// thread, a warp has 32 lanes. Offered: the keywords, thread and block indices, barriers, votes,
// shuffles, matches and reductions of warps, atomics, mathematics, vector types, half and bfloat16, dynamic_shared.
// `extern __shared__` in a function is made a reference before this compiler sees it (src/compile/host_entry.h).
// Not here: clusters (each block is one), textures. A thread
// hands over only in a barrier, vote, shuffle, __activemask() or kiln_host::wait_until, so waiting for another thread
// of the block in a loop does not end.
#pragma once

#include "kiln/host_abi.h"

// Keywords. As in CUDA, shared variables are not initialised; __thread rejects types that would be.
#define __device__
#define __host__
// Kept and not taken for zero where it is static: it is written from outside.
#define __constant__ __attribute__((used))
#define __grid_constant__
#if !defined(KILN_HOST_RECORD)
#define __global__
#define __shared__ static __thread
#endif
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
#if !defined(__clang__)  // which has it
#define __builtin_assume(...) ((__VA_ARGS__) ? void() : __builtin_unreachable())
#endif
#define __align__(bytes) __attribute__((aligned(bytes)))

#if defined(KILN_HOST_RECORD)
#include "kiln/host_record.h"
#else

/// What the emulation of an instruction remembers of the block that runs on this OS thread.
#define KILN_HOST_STATE static thread_local
#define KILN_UNSEEN
#define KILN_APART

namespace kiln_host {

// Nobody observes. What they do when a launch is recorded: kiln/host_record.h.
struct Muted {};
__forceinline__ void tell(AccessKind, const volatile void*, unsigned) {}
__forceinline__ void release(const void*) {}
__forceinline__ void acquire(const void*) {}

/// The GPU thread that runs on this OS thread now.
static thread_local Thread* current = nullptr;

/// Makes a call to the runtime, during which other threads of the block may run.
template <class Call>
__forceinline__ auto wait(Call call) {
    Thread* const self = current;
    __asm__ volatile("" ::: "memory");
    auto result = call(self, *self->block->runtime);
    current = self;
    __asm__ volatile("" ::: "memory");
    return result;
}
__forceinline__ void enter(Thread* thread) { current = thread; }
__forceinline__ void leave_kernel() {}
__forceinline__ void set_current(Thread* thread) { current = thread; }
__forceinline__ void* dynamic_shared_memory() { return current->block->dynamic_shared; }
__forceinline__ unsigned lane_number() { return current->lane; }
__forceinline__ unsigned warp_number() { return current->warp; }

}  // namespace kiln_host

// Who am I.
#define threadIdx (static_cast<const uint3&>(::kiln_host::current->thread_idx))
#define blockIdx (static_cast<const uint3&>(::kiln_host::current->block->block_idx))
#define blockDim (static_cast<const uint3&>(::kiln_host::current->block->block_dim))
#define gridDim (static_cast<const uint3&>(::kiln_host::current->block->grid_dim))
#endif

#include "kiln/host_atomic.h"
#include "kiln/host_math.h"
#include "kiln/host_types.h"

constexpr int warpSize = kiln_host::kWarpSize;

namespace kiln {

/// The dynamic shared memory of the block; aligned to 1024 bytes.
template <class T>
__forceinline__ T* dynamic_shared() {
    return static_cast<T*>(__builtin_assume_aligned(kiln_host::dynamic_shared_memory(), 1024));
}

}  // namespace kiln

// Barriers of the block. A thread that has ended no longer counts.
inline int __syncthreads_count(int predicate) {
    return int(kiln_host::wait([predicate](kiln_host::Thread* self, const kiln_host::Runtime& runtime) {
        return runtime.sync_block(self, predicate != 0);
    }));
}
inline void __syncthreads() { __syncthreads_count(0); }
inline int __syncthreads_or(int predicate) { return __syncthreads_count(predicate) != 0; }
inline int __syncthreads_and(int predicate) { return __syncthreads_count(!predicate) == 0; }

namespace kiln {

/// Waits until `threads` threads of the block, a multiple of the warp size, have arrived at barrier `id`,
/// from 1 to 15. A thread that has ended does not count as arrived.
inline void named_barrier_sync(unsigned id, unsigned threads) {
    kiln_host::wait([=](kiln_host::Thread* self, const kiln_host::Runtime& runtime) {
        runtime.sync_named(self, id, threads);
        return 0;
    });
}
/// Counts as one of those threads, and goes on. The last thread to arrive lets all others run first: a buffer that it gave back
/// too early is overwritten before it reads it.
inline void named_barrier_arrive(unsigned id, unsigned threads) {
    kiln_host::wait([=](kiln_host::Thread* self, const kiln_host::Runtime& runtime) {
        runtime.arrive_named(self, id, threads);
        return 0;
    });
}

}  // namespace kiln

namespace kiln_host {

template <class Ready>
KILN_APART inline bool ask(const Ready& ready) {
    return ready();
}

/// Waits until ready() is true, which it still is afterwards. It is called many times, so it should change
/// nothing; what it reads must be changed by threads of the same block. Where they all wait for what none of
/// them will do, the launch ends with an error.
template <class Ready>
inline void wait_until(const Ready& ready) {
    [[maybe_unused]] const Muted muted{};
    struct State {
        Thread* self;
        const Ready* ready;
    };
    const State state = {current, &ready};
    wait([&](Thread* self, const Runtime& runtime) {
        runtime.wait_until(
            self,
            [](const void* data) -> int {
                const State& asked = *static_cast<const State*>(data);
                set_current(asked.self);  // whoever asked sets its own again
                return ask(*asked.ready) ? 1 : 0;
            },
            &state);
        return 0;
    });
}

/// Goes on when no other thread of the block can.
inline void let_others_go_on() {
    [[maybe_unused]] const Muted muted{};
    wait([](Thread* self, const Runtime& runtime) {
        runtime.wait_until(self, nullptr, nullptr);
        return 0;
    });
}

/// What a kiln::TensorMap holds.
template <class Map>
inline TensorMap tensor_map(const Map& map) {
    return __builtin_bit_cast(TensorMap, map);
}

}  // namespace kiln_host

// Barriers and votes of the warp. Lanes of the mask that have ended no longer count. A lane that waits
// with a mask without itself, or for a lane that never comes, ends the launch with an error.
namespace kiln_host {

struct Vote {
    unsigned yes, arrived;
};
inline Vote vote(unsigned mask, int predicate) {
    return wait([=](Thread* self, const Runtime& runtime) {
        Vote result;
        result.yes = runtime.vote(self, mask, predicate != 0, &result.arrived);
        return result;
    });
}

}  // namespace kiln_host

inline void __syncwarp(unsigned mask = 0xffffffffu) {
    kiln_host::wait([=](kiln_host::Thread* self, const kiln_host::Runtime& runtime) {
        runtime.sync_warp(self, mask);
        return 0;
    });
}
inline unsigned __ballot_sync(unsigned mask, int predicate) { return kiln_host::vote(mask, predicate).yes; }
inline int __any_sync(unsigned mask, int predicate) { return kiln_host::vote(mask, predicate).yes != 0; }
inline int __all_sync(unsigned mask, int predicate) {
    const kiln_host::Vote result = kiln_host::vote(mask, predicate);
    return result.yes == result.arrived;
}
namespace kiln_host {

__forceinline__ unsigned active_lanes(const void* place, int line) {
    return wait(
        [=](Thread* self, const Runtime& runtime) { return runtime.active_lanes(self, place, line); });
}

}  // namespace kiln_host
// The lanes that are at the same call when no thread can go on otherwise. The compiler must not make one of two calls, nor
// two of one: GCC gives a label another address in each place that a function is compiled into, and keeps it when it copies
// the code there.
#if defined(__clang__)
__attribute__((noinline, convergent, nomerge)) inline unsigned __activemask(int line = __builtin_LINE()) {
    return kiln_host::active_lanes(__builtin_return_address(0), line);
}
#else
__forceinline__ unsigned __activemask(int line = __builtin_LINE()) {
place:
    return kiln_host::active_lanes(&&place, line);
}
#endif

// Shuffles, of any trivially copyable type up to 16 bytes; of integers narrower than an int the result is an int, as in CUDA.
// Width is a power of two up to 32; others end the launch with an error. A source outside the segment gives the lane's own
// value, as on the GPU. What a lane gets from one that did not take part is undefined there; here it has all bits set, a NaN
// or -1, so that results that depend on it are wrong.
namespace kiln_host {

[[noreturn]] inline void trap(const char* message);

template <class T, class Pick>
inline T shuffle_as(unsigned mask, T value, int width, Pick pick) {
    static_assert(sizeof(T) <= sizeof(Deposit) && __is_trivially_copyable(T), "shuffles move up to 16 bytes");
    if (width < 1 || width > int(warpSize) || (width & (width - 1)) != 0)
        trap("the width of a shuffle is no power of two up to 32");
    const int source = pick(int(lane_number()));
    bool takes_part = false;
    const T result = wait([&](Thread* self, const Runtime& runtime) {
        unsigned arrived;
        const Deposit* deposits = runtime.exchange(self, mask, &value, sizeof(T), &arrived);
        takes_part = (arrived >> source & 1u) != 0;
        T received = value;
        if (takes_part)
            __builtin_memcpy(&received, &deposits[source], sizeof(T));
        else
            __builtin_memset(&received, 0xff, sizeof(T));
        return received;
    });
    if (!takes_part) tell(AccessKind::idle_lane, reinterpret_cast<const void*>(size_t(source)), sizeof(T));
    return result;
}
template <class T, class Pick>
inline auto shuffle(unsigned mask, T value, int width, Pick pick) {
    if constexpr (math::is_any<T, bool, char, signed char, unsigned char, short, unsigned short>)
        return shuffle_as<int>(mask, value, width, pick);
    else
        return shuffle_as(mask, value, width, pick);
}

}  // namespace kiln_host

template <class T>
inline auto __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
    return kiln_host::shuffle(mask, value, width,
                              [=](int lane) { return (lane & -width) | (source & (width - 1)); });
}
template <class T>
inline auto __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
    return kiln_host::shuffle(mask, value, width, [=](int lane) {
        const int source = lane - int(delta & 31u);
        return source >= (lane & -width) ? source : lane;
    });
}
template <class T>
inline auto __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
    return kiln_host::shuffle(mask, value, width, [=](int lane) {
        const int source = lane + int(delta & 31u);
        return source <= (lane | (width - 1)) ? source : lane;
    });
}
template <class T>
inline auto __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize) {
    return kiln_host::shuffle(mask, value, width, [=](int lane) {
        const int source = lane ^ (lane_mask & 31);
        return source <= (lane | (width - 1)) ? source : lane;
    });
}

// What the lanes that take part hold, compared and combined.
namespace kiln_host {

/// The values, as read(lane) gives them, go to `use` with the lanes.
template <class T, class Use>
inline auto exchange(unsigned mask, T value, Use use) {
    return wait([&](Thread* self, const Runtime& runtime) {
        unsigned arrived;
        const Deposit* deposits = runtime.exchange(self, mask, &value, sizeof(T), &arrived);
        return use(arrived, [deposits](int lane) {
            T other;
            __builtin_memcpy(&other, &deposits[lane], sizeof(T));
            return other;
        });
    });
}

struct Match {
    unsigned same, arrived;
};
/// The lanes whose value has the bits of this lane's.
template <class Bits>
inline Match match(unsigned mask, Bits bits) {
    return exchange(mask, bits, [bits](unsigned arrived, auto read) {
        Match result = {0, arrived};
        for (unsigned lanes = arrived; lanes != 0; lanes &= lanes - 1) {
            const int lane = __builtin_ctz(lanes);
            if (read(lane) == bits) result.same |= 1u << lane;
        }
        return result;
    });
}

template <class T, class Join>
inline T reduce(unsigned mask, T value, Join join) {
    return exchange(mask, value, [join](unsigned arrived, auto read) {
        T all = read(__builtin_ctz(arrived));
        for (unsigned lanes = arrived & (arrived - 1); lanes != 0; lanes &= lanes - 1)
            all = join(all, read(__builtin_ctz(lanes)));
        return all;
    });
}

}  // namespace kiln_host

#define KILN_MATCH(T, Bits)                                                                     \
    inline unsigned __match_any_sync(unsigned mask, T value) {                                  \
        return kiln_host::match(mask, __builtin_bit_cast(Bits, value)).same;                    \
    }                                                                                           \
    inline unsigned __match_all_sync(unsigned mask, T value, int* predicate) {                  \
        const kiln_host::Match found = kiln_host::match(mask, __builtin_bit_cast(Bits, value)); \
        *predicate = found.same == found.arrived;                                               \
        return *predicate ? found.same : 0u;                                                    \
    }
KILN_MATCH(int, unsigned)
KILN_MATCH(unsigned, unsigned)
KILN_MATCH(long, unsigned long)
KILN_MATCH(unsigned long, unsigned long)
KILN_MATCH(long long, unsigned long long)
KILN_MATCH(unsigned long long, unsigned long long)
KILN_MATCH(float, unsigned)
KILN_MATCH(double, unsigned long long)
#undef KILN_MATCH

#define KILN_REDUCE(name, T, expression)                                                            \
    inline T name(unsigned mask, T value) {                                                         \
        return kiln_host::reduce(mask, value, [](T a, T b) { return static_cast<T>(expression); }); \
    }
KILN_REDUCE(__reduce_add_sync, int, unsigned(a) + unsigned(b))
KILN_REDUCE(__reduce_add_sync, unsigned, a + b)
KILN_REDUCE(__reduce_min_sync, int, min(a, b))
KILN_REDUCE(__reduce_min_sync, unsigned, min(a, b))
KILN_REDUCE(__reduce_max_sync, int, max(a, b))
KILN_REDUCE(__reduce_max_sync, unsigned, max(a, b))
KILN_REDUCE(__reduce_and_sync, unsigned, a& b)
KILN_REDUCE(__reduce_or_sync, unsigned, a | b)
KILN_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
#undef KILN_REDUCE

#define KILN_HOST_GRID_BARRIER
namespace kiln_host {

/// For both see kiln/grid.h. It is no access of the kernel's.
inline unsigned value_at(const unsigned* word) {
    [[maybe_unused]] const Muted muted{};
    return *word;
}
inline void sync_grid() {
    wait([](Thread* self, const Runtime& runtime) {
        runtime.sync_grid(self);
        return 0;
    });
}

/// In a loop that waits for what another block writes: ends this block where another one has failed.
inline void end_if_failed() {
    [[maybe_unused]] const Muted muted{};
    current->block->runtime->end_if_failed(current);
}

}  // namespace kiln_host

// Time and failure.
inline void __nanosleep(unsigned) {}
inline long long clock64() {
#if defined(__x86_64__)
    return (long long)__builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    long long ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return 0;
#endif
}
// As a C library declares it.
extern "C" {
extern __inline__ __attribute__((__gnu_inline__, __always_inline__)) long clock() noexcept {
    return long(clock64());
}
}
namespace kiln_host {

[[noreturn]] inline void trap(const char* message) {
    [[maybe_unused]] const Muted muted{};
    current->block->runtime->trap(current, message);
    __builtin_unreachable();
}

}  // namespace kiln_host

[[noreturn]] inline void __trap() { kiln_host::trap("__trap() was called"); }

#define KILN_TEXT_OF(x) #x
#define KILN_TEXT(x) KILN_TEXT_OF(x)
#ifndef assert
#ifdef NDEBUG
#define assert(condition) static_cast<void>(0)
#else
#define assert(condition)               \
    ((condition) ? static_cast<void>(0) \
                 : ::kiln_host::trap(__FILE__ ":" KILN_TEXT(__LINE__) ": assertion failed: " #condition))
#endif
#endif

// What a shared object exports: the argument sizes from the kernel's own type, and how to run a thread.
namespace kiln_host {

template <unsigned... I>
struct Indices {};
#if defined(__clang__)
template <class, unsigned... I>
using IndicesOf = Indices<I...>;
template <unsigned N>
using FirstIndices = __make_integer_seq<IndicesOf, unsigned, N>;
#else
template <unsigned N>
using FirstIndices = Indices<__integer_pack(N)...>;
#endif

template <class Function>
struct Export;
template <class... A>
struct Export<void(A...)> {
    static constexpr unsigned count = sizeof...(A);
    static constexpr unsigned bytes[count + 1] = {sizeof(A)...};

    template <void (*kernel)(A...)>
    KILN_UNSEEN static void run(Thread* thread, void* const* arguments) {
        enter(thread);
        call<kernel>(arguments, FirstIndices<count>{});
        leave_kernel();
    }

  private:
    template <void (*kernel)(A...), unsigned... I>
    KILN_UNSEEN static __forceinline__ void call([[maybe_unused]] void* const* arguments, Indices<I...>) {
        kernel(*static_cast<A*>(arguments[I])...);
    }
};

}  // namespace kiln_host

#if defined(KILN_HOST_RECORD)
#define KILN_HOST_RECORD_PARTS &kiln_host::block_log, &kiln_host::anchor_address
#else
#define KILN_HOST_RECORD_PARTS nullptr, nullptr
#endif
/// Written once, after the kernel.
#define KILN_HOST_KERNEL(name)                                                                  \
    extern "C" {                                                                                \
    extern const kiln_host::Kernel kiln_host_kernel __attribute__((visibility("default")));     \
    const kiln_host::Kernel kiln_host_kernel = {                                                \
        kiln_host::kAbiVersion, kiln_host::Export<decltype(name)>::count,                       \
        kiln_host::Export<decltype(name)>::bytes, kiln_host::Export<decltype(name)>::run<name>, \
        KILN_HOST_RECORD_PARTS};                                                                \
    }
