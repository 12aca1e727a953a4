// SPDX-License-Identifier: Apache-2.0
//
// Copies from global to shared memory that pass by the registers and go on while the thread computes:
//   kiln::AsyncCopies<> copies;              stands for the thread's queue; one per thread
//   copies.copy<8>(tile + i, source + j);    8 elements: 4, 8 or 16 bytes, both addresses aligned to them
//   copies.copy<8>(tile + i, source + j, 5)  the first 5 of them, and zeros for the rest: for edges
//   copies.commit();                         what was begun since the last commit is a group
//   copies.wait<2>();                        all groups but the latest 2 have arrived
// What has arrived is visible to the thread that began the copy; to others after a barrier.
// CUDA from sm_80 on: cp.async; 16 bytes pass by the L1 cache too. sm_75 and HIP, which lack it: plain
// copies, made at once. The host holds each copy back until the wait that covers it, and until then the
// destination is all ones (a NaN), so that a wait that is missing or too lax shows as a wrong result.
#pragma once

#include "kiln/device.h"

namespace kiln {

/// CAPACITY: on the host, how many copies of a thread may be under way; more end the launch with an error.
template <int CAPACITY = 128>
class AsyncCopies {
  public:
    AsyncCopies() = default;
    AsyncCopies(const AsyncCopies&) = delete;
    AsyncCopies& operator=(const AsyncCopies&) = delete;

    template <int N, class T>
    __device__ __forceinline__ void copy(T* to, const T* from) {
        check<N, T>();
        begin<N * sizeof(T)>(to, from, N * sizeof(T));
    }
    /// count: from 0 to N. With 0 nothing is read, wherever `from` points.
    template <int N, class T>
    __device__ __forceinline__ void copy(T* to, const T* from, int count) {
        check<N, T>();
        begin<N * sizeof(T)>(to, from, count * static_cast<int>(sizeof(T)));
    }

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

    __device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" : : : "memory"); }
    template <int PENDING>
    __device__ __forceinline__ void wait() {
        asm volatile("cp.async.wait_group %0;" : : "n"(PENDING) : "memory");
    }

  private:
    template <int BYTES>
    static __device__ __forceinline__ void begin(void* to, const void* from, int bytes) {
        const unsigned shared = shared_address(to);
        if constexpr (BYTES == 16)
            asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                         :
                         : "r"(shared), "l"(from), "r"(bytes)
                         : "memory");
        else
            asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                         :
                         : "r"(shared), "l"(from), "n"(BYTES), "r"(bytes)
                         : "memory");
    }

#elif defined(__CUDA_ARCH__) || defined(__HIPCC_RTC__) || defined(__HIPCC__)

    __device__ __forceinline__ void commit() {}
    template <int PENDING>
    __device__ __forceinline__ void wait() {}

  private:
    template <int BYTES>
    static __device__ __forceinline__ void begin(void* to, const void* from, int bytes) {
        using Word = unsigned;
        Vec<Word, BYTES / 4> words;
        if (bytes == BYTES) {
            words = load<BYTES / 4>(static_cast<const Word*>(from));
        } else {
            // Halves of words: 16 bits are the smallest element.
            for (int i = 0; i < BYTES / 4; ++i) {
                const auto* halves = static_cast<const unsigned short*>(from) + 2 * i;
                const Word low = 4 * i < bytes ? halves[0] : 0;
                const Word high = 4 * i + 2 < bytes ? halves[1] : 0;
                words[i] = low | high << 16;
            }
        }
        store(static_cast<Word*>(to), words);
    }

#else

    void commit() { ++groups_; }
    template <int PENDING>
    void wait() {
        static_assert(PENDING >= 0, "how many groups may be under way");
        for (; count_ != 0; --count_, first_ = (first_ + 1) % CAPACITY) {
            const Copy& copy = copies_[first_];
            if (copy.group + PENDING >= groups_) return;
            kiln_host::tell(kiln_host::AccessKind::async_arrival, copy.to, copy.bytes);
            finish(copy);
        }
    }

  private:
    struct Copy {
        unsigned char* to;
        const unsigned char* from;
        unsigned char bytes, there;
        unsigned group;
    };

    static void finish(const Copy& copy) {
        [[maybe_unused]] const kiln_host::Muted muted{};
        // Of a size that the compiler knows: most copies are such.
        if (copy.there == copy.bytes && copy.bytes == 16) {
            __builtin_memcpy(copy.to, copy.from, 16);
            return;
        }
        for (int i = 0; i < copy.bytes; ++i) copy.to[i] = i < copy.there ? copy.from[i] : 0;
    }

    template <int BYTES>
    void begin(void* to, const void* from, int bytes) {
        // Told now, whatever the emulation does and when: as one access, or as several that read no more than it does. Its store
        // is told again when it arrives, since a barrier in between orders only one of the two.
        for (int part = 1, at = bytes; part <= 16; part *= 2)
            if ((bytes & part) != 0)
                kiln_host::tell(kiln_host::AccessKind::load,
                                static_cast<const unsigned char*>(from) + (at -= part), unsigned(part));
        kiln_host::tell(kiln_host::AccessKind::async_copy, to, BYTES);
        [[maybe_unused]] const kiln_host::Muted muted{};
#if !defined(KILN_HOST_RECORD)  // where whoever observes it reports that, with its line
        if (reinterpret_cast<size_t>(to) % BYTES != 0 ||
            (bytes != 0 && reinterpret_cast<size_t>(from) % BYTES != 0))
            kiln_host::trap("an asynchronous copy is not aligned to its size");
#endif
        if (bytes < 0 || bytes > BYTES)
            kiln_host::trap("an asynchronous copy has more elements than its width");
        if (count_ == CAPACITY)
            kiln_host::trap("more asynchronous copies are under way than the capacity of kiln::AsyncCopies");
        copies_[(first_ + count_++) % CAPACITY] = {
            static_cast<unsigned char*>(to), static_cast<const unsigned char*>(from),
            static_cast<unsigned char>(BYTES), static_cast<unsigned char>(bytes), groups_};
        __builtin_memset(to, 0xff, BYTES);
    }

    int first_ = 0, count_ = 0;  // in the circular buffer of copies
    unsigned groups_ = 0;        // committed
    Copy copies_[CAPACITY];

#endif

    template <int N, class T>
    static __device__ __forceinline__ void check() {
        static_assert(N * sizeof(T) == 4 || N * sizeof(T) == 8 || N * sizeof(T) == 16,
                      "an asynchronous copy moves 4, 8 or 16 bytes");
    }
};

}  // namespace kiln
