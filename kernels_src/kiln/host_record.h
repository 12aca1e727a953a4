// SPDX-License-Identifier: Apache-2.0
//
// What makes a kernel report its accesses to memory (kiln/observe.h). Part of device_host.h in recorded
// builds, which define KILN_HOST_RECORD: the compiler instruments every access for a thread sanitizer, and
// the functions that it calls are these instead of the sanitizer's own: each writes the access into the log
// of the block. Offered to the rest of the prelude: Muted, tell, release, acquire.
// Not seen: accesses of library functions but memcpy, memmove and memset. Clang may take a struct of 16 bytes apart
// into two accesses of 8; GCC leaves it whole.
#pragma once

// A function that the compiler must not instrument. One that instrumented functions call must not become part
// of them either, or its accesses would be theirs.
#if defined(__clang__)
#define KILN_UNSEEN __attribute__((no_sanitize("thread"), disable_sanitizer_instrumentation))
#else
#define KILN_UNSEEN __attribute__((no_sanitize("thread")))
#endif
#define KILN_APART __attribute__((noinline))
#define KILN_ASIDE KILN_APART KILN_UNSEEN
// One OS thread runs all launches of this shared object, one after the other, so plain variables do. Those that
// are thread-local are the kernel's __shared__ ones.
#define KILN_HOST_STATE static

// All functions become part of the kernel where they can, so that an access is seen in its place.
#define __global__ __attribute__((noinline, flatten))
// Kept, though nobody may read what is written to it, or the other way round. The linker leaves nothing behind it for a while
// (src/compile/host_compiler.cpp), so that an overrun meets no other variable; an attribute would do that too, but the debug
// information would not tell the alignment that the template declares. By 8 bytes, as GPUs' compilers align the pairs that they
// move at once. Without __constinit GCC guards arrays of kiln::half, as
// if they had to be initialised.
#if defined(__clang__)
#define __shared__ static __thread __attribute__((aligned(8), used))
#else
#define __shared__ static __thread __constinit __attribute__((aligned(8), used))
#endif

// By this visibility the symbol table tells constants from the module's other variables, so that writes to them are
// reported. Those that are static or const have none.
#undef __constant__
#define __constant__ __attribute__((used, visibility("protected")))

// The start of this shared object, where link-time addresses count from.
extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start[];

namespace kiln_host {

/// The GPU thread that runs now.
static Thread* current;
static AccessLog block_log;
/// All memory is its stack, so nothing is reported.
static AccessLog nowhere = {nullptr, nullptr, 0, ~0ull};
static AccessLog* log = &nowhere;
/// Functions entered, the kernel included, and where the kernel called the first below it.
static unsigned depth, caller;

/// Never accessed; see Kernel::anchor.
static __thread char anchor;
KILN_ASIDE inline const void* anchor_address() { return &anchor; }

__forceinline__ unsigned code_of(const void* place) {
    return static_cast<unsigned>(static_cast<const char*>(place) - __ehdr_start);
}

KILN_ASIDE inline void note_in_full_log(const Access& access) {
    current->block->runtime->flush(current);
    *log->next++ = access;
}

__forceinline__ KILN_UNSEEN void note(const volatile void* address, unsigned bytes, AccessKind kind,
                                      bool unaligned_type, const void* place, bool copied = false) {
    AccessLog* const to = log;
    const auto number = (unsigned long long)address;
    if (number - to->stack < to->stack_bytes) return;
    Access* const next = to->next;
    if (__builtin_expect(next == to->end, 0)) {
        note_in_full_log(
            {number, code_of(place), caller, (unsigned short)bytes, kind, unaligned_type, copied});
        return;  // nothing has to be kept over the call, so that the usual way is short
    }
    *next = {number, code_of(place), caller, (unsigned short)bytes, kind, unaligned_type, copied};
    to->next = next + 1;
}

/// x86 ends the process at a vector that is not aligned, so it is told what the thread is about to do.
KILN_ASIDE inline void tell_before_failing() {
    if (log != &nowhere) current->block->runtime->flush(current);
}

/// Where speed matters less than the size of this header's code.
KILN_ASIDE inline void note_part(const volatile void* address, unsigned bytes, AccessKind kind,
                                 const void* place) {
    note(address, bytes, kind, false, place);
}
/// Of a load or store that the thread is about to make, and that its type's alignment does not divide.
KILN_HOST_STATE unsigned long long misaligned;

/// A struct's copy: pieces of the largest power of two that its size allows, 16 at most. Its alignment is not
/// known, but when it is not kept.
KILN_ASIDE inline void note_range(const volatile void* address, unsigned long bytes, AccessKind kind,
                                  const void* place) {
    const bool unknown = (unsigned long long)address != misaligned;
    misaligned = 0;
    const unsigned long lowest = bytes & -bytes, piece = lowest < 16 ? lowest : 16;
    for (unsigned long i = 0; i < bytes; i += piece)
        note(static_cast<const volatile char*>(address) + i, unsigned(piece), kind, unknown, place);
    if (!unknown) tell_before_failing();
}

KILN_ASIDE inline void note_copy(const volatile void* address, unsigned long bytes, AccessKind kind,
                                 const void* place) {
    const unsigned long lowest = bytes & -bytes, piece = lowest < 16 ? lowest : 16;
    for (unsigned long i = 0; i < bytes; i += piece) {
        const auto* const part = static_cast<const volatile char*>(address) + i;
        note(part, unsigned(piece), kind, (unsigned long long)part % piece != 0, place, true);
    }
}

#if defined(__clang__)
/// Overlap or not. Volatile, or the compiler would call memmove for it.
KILN_ASIDE inline void move_bytes(void* to, const void* from, unsigned long bytes) {
    auto* const target = static_cast<volatile unsigned char*>(to);
    const auto* const source = static_cast<const volatile unsigned char*>(from);
    if ((unsigned long long)to <= (unsigned long long)from) {
        for (unsigned long i = 0; i < bytes; ++i) target[i] = source[i];
    } else {
        for (unsigned long i = bytes; i-- > 0;) target[i] = source[i];
    }
}
#else
KILN_ASIDE inline void* reported_copy(void* to, const void* from, unsigned long bytes) {
    note_copy(from, bytes, AccessKind::load, __builtin_return_address(0));
    note_copy(to, bytes, AccessKind::store, __builtin_return_address(0));
    return __builtin_memmove(to, from, bytes);
}
KILN_ASIDE inline void* reported_fill(void* to, int byte, unsigned long bytes) {
    note_copy(to, bytes, AccessKind::store, __builtin_return_address(0));
    return __builtin_memset(to, byte, bytes);
}

// GCC instruments copies of these sizes, which become plain loads and stores, and no others. Templates, since the
// standard library calls the built-in functions in constant expressions too.
template <class = void>
constexpr __forceinline__ bool is_plain(unsigned long bytes) {
    return __builtin_constant_p(bytes) &&
           (bytes == 0 || bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16);
}
template <class = void>
constexpr __forceinline__ void* copy(void* to, const void* from, unsigned long bytes) {
    return is_plain(bytes) ? __builtin_memcpy(to, from, bytes) : reported_copy(to, from, bytes);
}
template <class = void>
constexpr __forceinline__ void* move(void* to, const void* from, unsigned long bytes) {
    return is_plain(bytes) ? __builtin_memmove(to, from, bytes) : reported_copy(to, from, bytes);
}
template <class = void>
constexpr __forceinline__ void* fill(void* to, int byte, unsigned long bytes) {
    return is_plain(bytes) ? __builtin_memset(to, byte, bytes) : reported_fill(to, byte, bytes);
}
#endif

/// Reports an access that no plain C++ makes. Its place is that of the call.
KILN_ASIDE inline void tell(AccessKind kind, const volatile void* address, unsigned bytes) {
    note_part(address, bytes, kind, __builtin_return_address(0));
}

/// Accesses in its scope are not reported, and waits in it are no meetings.
class Muted {
  public:
    KILN_ASIDE Muted() : before_(log) { log = &nowhere; }
    KILN_ASIDE ~Muted() { log = before_; }
    Muted(const Muted&) = delete;
    Muted& operator=(const Muted&) = delete;

  private:
    AccessLog* const before_;
};

/// What the thread that waits finds again.
struct Waiting {
    Thread* self;
    AccessLog* log;
    unsigned depth, caller;
};
KILN_ASIDE inline Waiting leave() {
    const Waiting state = {current, log, depth, caller};
    current->silent = log == &nowhere;
    log = &nowhere;
    return state;
}
KILN_ASIDE inline void come_back(const Waiting& state) {
    current = state.self;
    log = state.log;
    depth = state.depth;
    caller = state.caller;
}
KILN_ASIDE inline void enter(Thread* thread) {
    current = thread;
    log = &block_log;
    depth = caller = 0;
}
KILN_ASIDE inline void leave_kernel() { log = &nowhere; }
KILN_ASIDE inline void set_current(Thread* thread) { current = thread; }

/// Makes a call to the runtime, during which other threads of the block may run.
template <class Call>
__forceinline__ auto wait(Call call) {
    const Waiting state = leave();
    auto result = call(state.self, *state.self->block->runtime);
    come_back(state);
    return result;
}

// Never others for a function that runs, wherever its thread waits.
__attribute__((const)) KILN_ASIDE inline Extent thread_index() { return current->thread_idx; }
__attribute__((const)) KILN_ASIDE inline Extent block_index() { return current->block->block_idx; }
__attribute__((const)) KILN_ASIDE inline Extent block_extent() { return current->block->block_dim; }
__attribute__((const)) KILN_ASIDE inline Extent grid_extent() { return current->block->grid_dim; }
__attribute__((const)) KILN_ASIDE inline void* dynamic_shared_memory() {
    return current->block->dynamic_shared;
}
__attribute__((const)) KILN_ASIDE inline unsigned lane_number() { return current->lane; }
__attribute__((const)) KILN_ASIDE inline unsigned warp_number() { return current->warp; }

KILN_ASIDE inline void release(const void* object) {
    if (log != &nowhere) current->block->runtime->release(current, object);
}
KILN_ASIDE inline void acquire(const void* object) {
    if (log != &nowhere) current->block->runtime->acquire(current, object);
}

// What the compiler's instrumentation passes for an index beyond its array.
struct UbsanPlace {
    const char* file;
    unsigned line, column;
};
struct UbsanType {
    unsigned short kind, info;
    char name[1];
};
struct UbsanOutOfBounds {
    UbsanPlace place;
    const UbsanType* array;
    const UbsanType* index;
};
// The same for an address that the alignment of its type does not divide.
struct UbsanTypeMismatch {
    UbsanPlace place;
    const UbsanType* type;
    unsigned char log_alignment, kind;
};

KILN_ASIDE inline void type_mismatch(const UbsanTypeMismatch& data, unsigned long address) {
    constexpr unsigned char kStore =
        1;  // loads are 0; others are of references and members, which nobody need access whole
    if (data.kind <= kStore) misaligned = address;
}

KILN_ASIDE inline void out_of_bounds(const UbsanOutOfBounds& data, unsigned long index) {
    if (log == &nowhere) return;
    const bool is_signed = (data.index->info & 1u) != 0;
    const unsigned bits = 1u << (data.index->info >> 1);
    long long value = (long long)index;
    if (is_signed && bits < 64) value = (long long)(index << (64 - bits)) >> (64 - bits);
    const BadIndex what = {data.place.file, int(data.place.line), data.array->name, value};
    current->block->runtime->bad_index(current, &what);
}

}  // namespace kiln_host

// Who am I.
#define threadIdx (::kiln_host::thread_index())
#define blockIdx (::kiln_host::block_index())
#define blockDim (::kiln_host::block_extent())
#define gridDim (::kiln_host::grid_extent())

extern "C" {

#define KILN_HOOK __attribute__((used, visibility("hidden"))) KILN_ASIDE
#define KILN_HOOK_SAME(name, other) \
    __attribute__((used, visibility("hidden"), alias("__tsan_" #other))) void __tsan_##name(void*)
#define KILN_HOOK_PLAIN(name, bytes, kind, unaligned)                           \
    KILN_HOOK void __tsan_##name##bytes(void* address) {                        \
        kiln_host::note(address, bytes, kiln_host::AccessKind::kind, unaligned, \
                        __builtin_return_address(0));                           \
        if (bytes == 16 && !unaligned && (unsigned long long)address % 16 != 0) \
            kiln_host::tell_before_failing();                                   \
    }
#define KILN_HOOK_ACCESS(bytes)                                            \
    KILN_HOOK_PLAIN(read, bytes, load, false)                              \
    KILN_HOOK_PLAIN(write, bytes, store, false)                            \
    KILN_HOOK_PLAIN(unaligned_read, bytes, load, true)                     \
    KILN_HOOK_PLAIN(unaligned_write, bytes, store, true)                   \
    KILN_HOOK_SAME(volatile_read##bytes, read##bytes);                     \
    KILN_HOOK_SAME(volatile_write##bytes, write##bytes);                   \
    KILN_HOOK_SAME(unaligned_volatile_read##bytes, unaligned_read##bytes); \
    KILN_HOOK_SAME(unaligned_volatile_write##bytes, unaligned_write##bytes);
KILN_HOOK_ACCESS(1)
KILN_HOOK_ACCESS(2)
KILN_HOOK_ACCESS(4)
KILN_HOOK_ACCESS(8)
KILN_HOOK_ACCESS(16)

KILN_HOOK void __tsan_read_range(void* address, unsigned long bytes) {
    kiln_host::note_range(address, bytes, kiln_host::AccessKind::load, __builtin_return_address(0));
}
KILN_HOOK void __tsan_write_range(void* address, unsigned long bytes) {
    kiln_host::note_range(address, bytes, kiln_host::AccessKind::store, __builtin_return_address(0));
}
KILN_HOOK void __tsan_vptr_read(void** address) {
    kiln_host::note_part(address, sizeof(void*), kiln_host::AccessKind::load, __builtin_return_address(0));
}
KILN_HOOK void __tsan_vptr_update(void** address, void*) {
    kiln_host::note_part(address, sizeof(void*), kiln_host::AccessKind::store, __builtin_return_address(0));
}

// These have to do the work, too. The compilers differ in their types, and in what an exchange under a condition
// returns.
#if defined(__clang__)
#define KILN_HOOK_ADDRESS(T) T*
#else
#define KILN_HOOK_ADDRESS(T) volatile void*
#endif
#define KILN_HOOK_NOTE(T)                                                                                 \
    kiln_host::note_part(address, sizeof(T), kiln_host::AccessKind::atomic, __builtin_return_address(0)); \
    T* const object = (T*)address;
#define KILN_HOOK_UPDATE(bits, T, name)                                                    \
    KILN_HOOK T __tsan_atomic##bits##_##name(KILN_HOOK_ADDRESS(T) address, T value, int) { \
        KILN_HOOK_NOTE(T)                                                                  \
        return __atomic_##name(object, value, __ATOMIC_SEQ_CST);                           \
    }
#if defined(__clang__)
#define KILN_HOOK_COMPARE(bits, T)                                                                          \
    KILN_HOOK T __tsan_atomic##bits##_compare_exchange_val(T* address, T expected, T desired, int, int) {   \
        KILN_HOOK_NOTE(T)                                                                                   \
        __atomic_compare_exchange_n(object, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
        return expected;                                                                                    \
    }
#else
#define KILN_HOOK_COMPARE(bits, T)                                                                       \
    KILN_HOOK bool __tsan_atomic##bits##_compare_exchange_strong(volatile void* address, void* expected, \
                                                                 T desired, int, int) {                  \
        KILN_HOOK_NOTE(T)                                                                                \
        return __atomic_compare_exchange_n(object, (T*)expected, desired, false, __ATOMIC_SEQ_CST,       \
                                           __ATOMIC_SEQ_CST);                                            \
    }                                                                                                    \
    __attribute__((used, visibility("hidden"),                                                           \
                   alias("__tsan_atomic" #bits "_compare_exchange_strong"))) bool                        \
        __tsan_atomic##bits##_compare_exchange_weak(volatile void*, void*, T, int, int);
#endif
#define KILN_HOOK_ATOMIC(bits, T)                                                            \
    KILN_HOOK T __tsan_atomic##bits##_load(const KILN_HOOK_ADDRESS(T) address, int) {        \
        KILN_HOOK_NOTE(T)                                                                    \
        return __atomic_load_n(object, __ATOMIC_SEQ_CST);                                    \
    }                                                                                        \
    KILN_HOOK void __tsan_atomic##bits##_store(KILN_HOOK_ADDRESS(T) address, T value, int) { \
        KILN_HOOK_NOTE(T)                                                                    \
        __atomic_store_n(object, value, __ATOMIC_SEQ_CST);                                   \
    }                                                                                        \
    KILN_HOOK T __tsan_atomic##bits##_exchange(KILN_HOOK_ADDRESS(T) address, T value, int) { \
        KILN_HOOK_NOTE(T)                                                                    \
        return __atomic_exchange_n(object, value, __ATOMIC_SEQ_CST);                         \
    }                                                                                        \
    KILN_HOOK_UPDATE(bits, T, fetch_add)                                                     \
    KILN_HOOK_UPDATE(bits, T, fetch_sub)                                                     \
    KILN_HOOK_UPDATE(bits, T, fetch_and)                                                     \
    KILN_HOOK_UPDATE(bits, T, fetch_or)                                                      \
    KILN_HOOK_UPDATE(bits, T, fetch_xor)                                                     \
    KILN_HOOK_UPDATE(bits, T, fetch_nand)                                                    \
    KILN_HOOK_COMPARE(bits, T)
KILN_HOOK_ATOMIC(8, unsigned char)
KILN_HOOK_ATOMIC(16, unsigned short)
KILN_HOOK_ATOMIC(32, unsigned)
KILN_HOOK_ATOMIC(64, unsigned long)
KILN_HOOK void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
KILN_HOOK void __tsan_atomic_signal_fence(int) {}

KILN_HOOK void __tsan_init() {}
KILN_HOOK void __tsan_func_entry(void* place) {
    if (++kiln_host::depth == 2) kiln_host::caller = kiln_host::code_of(place);
}
KILN_HOOK void __tsan_func_exit() {
    if (--kiln_host::depth == 1) kiln_host::caller = 0;
}
KILN_HOOK void __ubsan_handle_out_of_bounds(void* data, unsigned long index) {
    kiln_host::out_of_bounds(*static_cast<const kiln_host::UbsanOutOfBounds*>(data), index);
}
KILN_HOOK void __ubsan_handle_type_mismatch_v1(void* data, unsigned long address) {
    kiln_host::type_mismatch(*static_cast<const kiln_host::UbsanTypeMismatch*>(data), address);
}

// Of __builtin_assume_aligned: each access is looked at by itself.
KILN_HOOK void __ubsan_handle_alignment_assumption(void*, unsigned long, unsigned long, unsigned long) {}

#if defined(__clang__)
// Clang hands the copies of structs to these, by their own names up to version 14. Of their alignment nothing is known, so
// what they really have is believed.
#define KILN_HOOK_COPY(name)                                                                         \
    KILN_HOOK void* name(void* to, const void* from, unsigned long bytes) noexcept {                 \
        kiln_host::note_copy(from, bytes, kiln_host::AccessKind::load, __builtin_return_address(0)); \
        kiln_host::note_copy(to, bytes, kiln_host::AccessKind::store, __builtin_return_address(0));  \
        kiln_host::move_bytes(to, from, bytes);                                                      \
        return to;                                                                                   \
    }
#define KILN_HOOK_FILL(name)                                                                        \
    KILN_HOOK void* name(void* to, int byte, unsigned long bytes) noexcept {                        \
        kiln_host::note_copy(to, bytes, kiln_host::AccessKind::store, __builtin_return_address(0)); \
        for (unsigned long i = 0; i < bytes; ++i)                                                   \
            static_cast<volatile unsigned char*>(to)[i] = (unsigned char)byte;                      \
        return to;                                                                                  \
    }
KILN_HOOK_COPY(memcpy)
KILN_HOOK_COPY(memmove)
KILN_HOOK_FILL(memset)
KILN_HOOK_COPY(__tsan_memcpy)
KILN_HOOK_COPY(__tsan_memmove)
KILN_HOOK_FILL(__tsan_memset)
#else
// GCC copies structs by calls of the C library's, too, after it has reported these accesses; so calls in the source become
// others, before it sees them.
#define KILN_HOOK_INLINE extern inline __attribute__((always_inline, gnu_inline))
KILN_HOOK_INLINE void* memcpy(void* to, const void* from, unsigned long bytes) noexcept {
    return kiln_host::copy(to, from, bytes);
}
KILN_HOOK_INLINE void* memmove(void* to, const void* from, unsigned long bytes) noexcept {
    return kiln_host::move(to, from, bytes);
}
KILN_HOOK_INLINE void* memset(void* to, int byte, unsigned long bytes) noexcept {
    return kiln_host::fill(to, byte, bytes);
}
#endif

}  // extern "C"

#if !defined(__clang__)
#define __builtin_memcpy(...) ::kiln_host::copy(__VA_ARGS__)
#define __builtin_memmove(...) ::kiln_host::move(__VA_ARGS__)
#define __builtin_memset(...) ::kiln_host::fill(__VA_ARGS__)
#endif
