// SPDX-License-Identifier: Apache-2.0
//
// Barriers and TMA on the host, with the layouts of the device. Part of kiln/tma.h. What is asynchronous
// there happens here as late as the program allows, so that a missing wait shows:
//   - a load turns its target into NaNs at once, and fills it when a thread waits for its barrier;
//   - a store reads its source when its thread waits for its group; a source that changed meanwhile is
//     an error, and a store that is never waited for does not happen;
//   - a thread whose arrival ends a phase lets all others go on first, so that what it still reads of a buffer that it gave
//     back is overwritten;
//   - arrivals that a phase does not expect, and barriers that were not initialised, are errors.
// Fences do nothing. A block is a cluster of its own.
#pragma once

namespace kiln_host {

/// The content of a kiln::Barrier.
struct BarrierState {
    unsigned long long mark : 2;       ///< kMark: initialised
    unsigned long long phase : 1;      ///< number of the current phase % 2
    unsigned long long arrivals : 20;  ///< of each phase
    unsigned long long missing : 20;   ///< of the current one
    long long bytes : 21;              ///< announced and not landed; negative: the other way round
};
constexpr unsigned kMark = 2;
constexpr long long kMostBarrierBytes = (1 << 20) - 1;
static_assert(sizeof(BarrierState) == sizeof(kiln::Barrier), "as large as the device's");

inline BarrierState barrier_state(const kiln::Barrier* barrier) {
    BarrierState state;
    __builtin_memcpy(&state, barrier, sizeof(state));
    if (state.mark != kMark) trap("a kiln::Barrier is used that was not initialised, or was overwritten");
    return state;
}
/// Whether that ends a phase.
inline bool change_barrier(kiln::Barrier* barrier, unsigned arrived, long long bytes) {
    [[maybe_unused]] const Muted muted{};
    BarrierState state = barrier_state(barrier);
    if (arrived > state.missing) trap("more threads arrive at a kiln::Barrier than its phase waits for");
    if (state.bytes + bytes > kMostBarrierBytes || state.bytes + bytes < -kMostBarrierBytes)
        trap("a kiln::Barrier can't count more than 2^20 - 1 bytes");
    state.missing -= arrived;
    state.bytes += bytes;
    const bool ends = state.missing == 0 && state.bytes == 0;
    if (ends) {
        state.phase ^= 1u;
        state.missing = state.arrivals;
    }
    __builtin_memcpy(barrier, &state, sizeof(state));
    return ends;
}

/// What arrivals at a phase release and waits for it acquire. Two alternate: a wait for one phase, even where it does not wait
/// because its parity is wrong, learns nothing of the arrivals at the other.
inline const void* phase_object(const kiln::Barrier* barrier, unsigned parity) {
    return reinterpret_cast<const char*>(barrier) + (parity & 1u);
}
inline unsigned phase_of(const kiln::Barrier* barrier) {
    [[maybe_unused]] const Muted muted{};
    return unsigned(barrier_state(barrier).phase);
}
inline void tell_use(const kiln::Barrier* barrier) {
    tell(AccessKind::barrier_use, barrier, sizeof(kiln::Barrier));
}
/// As one access after the other.
inline void tell_bytes(AccessKind kind, const unsigned char* from, unsigned bytes) {
    constexpr unsigned kMostBytes = 4096;
    for (unsigned at = 0; at < bytes; at += kMostBytes)
        tell(kind, from + at, bytes - at < kMostBytes ? bytes - at : kMostBytes);
}
/// As one thread, which announces so many bytes.
inline void arrive(kiln::Barrier* barrier, long long bytes) {
    tell_use(barrier);
    release(phase_object(barrier, phase_of(barrier)));
    if (change_barrier(barrier, 1, bytes)) let_others_go_on();
}

/// A box at its place.
struct Box {
    TensorMap map;
    unsigned char* shared;
    int at[5];  ///< innermost dimension first, as in the map
};

inline unsigned box_bytes(const TensorMap& map) {
    unsigned bytes = map.element_bytes;
    for (unsigned i = 0; i < map.rank; ++i) bytes *= map.box[i];
    return bytes;
}

template <unsigned RANK>
inline Box make_box(const kiln::TensorMap& map, const void* shared, const int (&at)[RANK]) {
    Box box = {tensor_map(map), static_cast<unsigned char*>(const_cast<void*>(shared)), {}};
    if (box.map.rank != RANK)
        trap("a TMA instruction has more or fewer coordinates than its tensor map has extents");
    const unsigned swizzle = box.map.swizzle_bytes;
    if (swizzle != 0 && box.map.box[0] * box.map.element_bytes != swizzle)
        trap("the rows of a TMA box have to be as long as its swizzle");
    if (__builtin_bit_cast(unsigned long long, shared) % (swizzle == 0 ? 128 : swizzle * 8) != 0)
        trap(
            "the shared memory of a TMA box has to start at a multiple of 128 bytes, or of 8 times its "
            "swizzle");
    for (unsigned i = 0; i < RANK; ++i) box.at[i] = at[RANK - 1 - i];
    return box;
}

/// The swizzle permutes 16-byte pieces by address: bits 4 to 6 of it, 4 to 5 with 64 bytes, 4 with 32, are
/// combined with those 3 above.
inline unsigned char* swizzled_address(unsigned char* address, unsigned swizzle_bytes) {
    const auto bits = __builtin_bit_cast(unsigned long long, address);
    const unsigned long long pieces = swizzle_bytes == 0 ? 0 : swizzle_bytes / 16 - 1;
    return address + (long long)((bits ^ (bits >> 7 & pieces) << 4) - bits);
}

/// Moves one box, in pieces of 16 bytes, which a swizzle and the edge of a tensor with rows of whole pieces
/// leave in one, or else element by element.
template <bool IS_LOAD>
inline void move_box(const Box& box) {
    const TensorMap& map = box.map;
    const unsigned row_bytes = map.box[0] * map.element_bytes;
    const unsigned piece_bytes = 16 % map.element_bytes == 0 && row_bytes % 16 == 0 &&
                                         map.extents[0] * map.element_bytes % 16 == 0 &&
                                         (long long)box.at[0] * map.element_bytes % 16 == 0
                                     ? 16
                                     : map.element_bytes;
    const unsigned pieces = row_bytes / piece_bytes;
    const unsigned rows = box_bytes(map) / row_bytes;
    for (unsigned row = 0; row < rows; ++row) {
        unsigned char* global = static_cast<unsigned char*>(map.base);
        bool inside = true;
        for (unsigned i = 1, rest = row; i < map.rank; rest /= map.box[i++]) {
            const long long place = (long long)box.at[i] + rest % map.box[i];
            inside = inside && place >= 0 && (unsigned long long)place < map.extents[i];
            global += inside ? place * (long long)map.stride_bytes[i] : 0;
        }
        for (unsigned piece = 0; piece < pieces; ++piece) {
            const long long byte = (long long)box.at[0] * map.element_bytes + (long long)piece * piece_bytes;
            const bool there =
                inside && byte >= 0 && (unsigned long long)byte < map.extents[0] * map.element_bytes;
            unsigned char* const shared =
                swizzled_address(box.shared + row * row_bytes + piece * piece_bytes, map.swizzle_bytes);
            if (IS_LOAD && there)
                __builtin_memcpy(shared, global + byte, piece_bytes);
            else if (IS_LOAD)
                __builtin_memset(shared, 0, piece_bytes);
            else if (there)
                __builtin_memcpy(global + byte, shared, piece_bytes);
        }
    }
}

/// The first and the last byte of the part of a box that lies within its map; false: there is none.
inline bool box_ends(const Box& box, unsigned char*& first, unsigned char*& last) {
    [[maybe_unused]] const Muted muted{};
    first = static_cast<unsigned char*>(box.map.base);
    last = first - 1;
    for (unsigned i = 0; i < box.map.rank; ++i) {
        const long long extent = (long long)box.map.extents[i], end = (long long)box.at[i] + box.map.box[i];
        const long long from = box.at[i] > 0 ? box.at[i] : 0, to = end < extent ? end : extent;
        if (from >= to) return false;
        first += from * (long long)box.map.stride_bytes[i];
        last += (i == 0 ? to : to - 1) * (long long)box.map.stride_bytes[i];
    }
    return true;
}
inline void tell_box(AccessKind kind, const Box& box) {
    unsigned char *first, *last;
    if (!box_ends(box, first, last)) return;
    tell(kind, first, 1);
    tell(kind, last, 1);
}

/// Loads of the block that runs on this OS thread, which nobody has waited for.
struct Load {
    kiln::Barrier* barrier;
    Box box;
};
constexpr unsigned kMostLoads = 512;
KILN_HOST_STATE Load loads[kMostLoads];
KILN_HOST_STATE unsigned load_count;

#if defined(KILN_HOST_RECORD)
/// Boxes that have arrived since a wait returned. Whoever finds them there may be another thread than the first that goes on.
static Box arrived[kMostLoads];
static unsigned arrived_count;

inline void note_arrival(const Box& box) {
    if (arrived_count < kMostLoads) arrived[arrived_count++] = box;
}
inline void tell_arrivals() {
    for (; arrived_count != 0; --arrived_count) {
        const Box& box = arrived[arrived_count - 1];
        tell_bytes(AccessKind::bulk_arrival, box.shared, box_bytes(box.map));
    }
}
#else
inline void note_arrival(const Box&) {}
inline void tell_arrivals() {}
#endif

/// Takes out the loads of a barrier, without doing them, or does those that its phase waits for. What comes behind them was not
/// announced, and arrives at the next wait.
inline void take_loads(kiln::Barrier* barrier, bool move) {
    unsigned kept = 0;
    bool has_ended = false;
    for (unsigned i = 0; i < load_count; ++i) {
        if (loads[i].barrier != barrier || has_ended) {
            if (kept != i) loads[kept] = loads[i];
            ++kept;
        } else if (move) {
            move_box<true>(loads[i].box);
            note_arrival(loads[i].box);
            has_ended = change_barrier(barrier, 0, -(long long)box_bytes(loads[i].box.map));
        }
    }
    load_count = kept;
}

template <unsigned RANK>
inline void load(void* to, const kiln::TensorMap& map, kiln::Barrier* barrier, const int (&at)[RANK]) {
    tell_use(barrier);
    {
        [[maybe_unused]] const Muted muted{};
        static_cast<void>(barrier_state(barrier));
        if (load_count == kMostLoads) trap("more than 512 TMA loads are under way that nobody waits for");
        Load& load = loads[load_count++];
        load = {barrier, make_box(map, to, at)};
        __builtin_memset(to, 0xff, box_bytes(load.box.map));
    }
    const Box& box = loads[load_count - 1].box;
    tell_box(AccessKind::bulk_load, box);
    tell_bytes(AccessKind::bulk_begin, box.shared, box_bytes(box.map));
    // Who waits for it comes behind the load; and here behind all that this thread did before, which no device promises.
    release(phase_object(barrier, phase_of(barrier)));
}

}  // namespace kiln_host

namespace kiln {

inline void barrier_init(Barrier* barrier, unsigned arrivals) {
    kiln_host::tell(kiln_host::AccessKind::barrier_init, barrier, sizeof(Barrier));
    [[maybe_unused]] const kiln_host::Muted muted{};
    kiln_host::take_loads(barrier, false);  // of a block that failed
    const kiln_host::BarrierState state = {kiln_host::kMark, 0, arrivals, arrivals, 0};
    if (arrivals == 0 || state.arrivals != arrivals)
        kiln_host::trap("a kiln::Barrier is made for 1 to 2^20 - 1 arrivals");
    __builtin_memcpy(barrier, &state, sizeof(state));
}
inline void barrier_init_fence() {}
inline void barrier_arrive(Barrier* barrier) { kiln_host::arrive(barrier, 0); }
inline void barrier_arrive_cluster(Barrier* barrier, unsigned rank) {
    if (rank != 0) kiln_host::trap("barrier_arrive_cluster names a block outside of the cluster");
    barrier_arrive(barrier);
}
inline void barrier_arrive_and_expect_tx(Barrier* barrier, unsigned bytes) {
    kiln_host::arrive(barrier, bytes);
}
inline void barrier_wait(Barrier* barrier, unsigned parity) {
    kiln_host::tell_use(barrier);
    {
        [[maybe_unused]] const kiln_host::Muted muted{};
        static_cast<void>(kiln_host::barrier_state(barrier));
        const auto has_ended = [=] { return kiln_host::barrier_state(barrier).phase != (parity & 1u); };
        kiln_host::wait_until([=] {
            if (!has_ended()) kiln_host::take_loads(barrier, true);
            return has_ended();
        });
    }
    kiln_host::tell_arrivals();
    kiln_host::acquire(kiln_host::phase_object(barrier, parity));
}

inline void fence_async_proxy() {}

inline void tma_prefetch(const TensorMap&) {}
inline void tma_load(void* to, const TensorMap& map, Barrier* barrier, int row, int column) {
    kiln_host::load(to, map, barrier, {row, column});
}
inline void tma_load(void* to, const TensorMap& map, Barrier* barrier, int slice, int row, int column) {
    kiln_host::load(to, map, barrier, {slice, row, column});
}
inline void tma_load_multicast(void* to, const TensorMap& map, Barrier* barrier, unsigned short blocks,
                               int row, int column) {
    if (blocks != 1) kiln_host::trap("a TMA load is for blocks outside of the cluster");
    tma_load(to, map, barrier, row, column);
}

class TmaStores {
  public:
    void store(const TensorMap& map, const void* from, int row, int column) {
        {
            [[maybe_unused]] const kiln_host::Muted muted{};
            if (count_ == kMost) kiln_host::trap("a thread stores more than 32 TMA boxes and waits for none");
            Entry& entry = entries_[count_++];
            entry = {kiln_host::make_box(map, from, {row, column}), groups_, 0};
            entry.digest = digest(entry.box);
        }
        kiln_host::tell_box(kiln_host::AccessKind::bulk_store, entries_[count_ - 1].box);
    }
    void commit() { ++groups_; }
    template <int PENDING>
    void wait_read() {
        [[maybe_unused]] const kiln_host::Muted muted{};
        unsigned kept = 0;
        for (unsigned i = 0; i < count_; ++i) {
            const Entry& entry = entries_[i];
            if (entry.group + PENDING >= groups_) {
                if (kept != i) entries_[kept] = entry;
                ++kept;
                continue;
            }
            if (digest(entry.box) != entry.digest)
                kiln_host::trap("the source of a TMA store was written to before the store had read it");
            kiln_host::move_box<false>(entry.box);
        }
        count_ = kept;
    }
    template <int PENDING>
    void wait() {
        wait_read<PENDING>();
    }

  private:
    struct Entry {
        kiln_host::Box box;
        unsigned group;
        unsigned long long digest;
    };
    static constexpr unsigned kMost = 32;

    static unsigned long long digest(const kiln_host::Box& box) {
        unsigned long long sum = 0;
        for (unsigned i = 0, bytes = kiln_host::box_bytes(box.map); i < bytes; ++i)
            sum = (sum ^ box.shared[i]) * 0x100000001b3ull;
        return sum;
    }

    Entry entries_[kMost];
    unsigned count_ = 0;
    unsigned groups_ = 0;
};

}  // namespace kiln
