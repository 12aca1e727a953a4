// SPDX-License-Identifier: Apache-2.0
//
// Data is copied in pieces, so that tensors larger than half of the host's memory can be filled and read.
#include "run/guarded_tensor.h"

#include <kiln/error.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "base/parallel.h"
#include "format/format.h"
#include "run/element.h"
#include "run/inputs.h"

namespace kiln {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t skew_bytes(const Tensor& tensor, int skew) {
    const auto elements = static_cast<std::size_t>(skew);
    if (skew < 0 || elements > GuardedTensor::kMostSkewBytes / tensor.element_bytes)
        throw UsageError(
            formatted("tensors can begin up to {} bytes after an aligned address, not {} elements",
                      GuardedTensor::kMostSkewBytes, skew));
    const std::size_t bytes = elements * tensor.element_bytes;
    return tensor.role == TensorRole::scratch
               ? 0
               : (bytes + tensor.align_bytes - 1) / tensor.align_bytes * tensor.align_bytes;
}

// A pseudo-random sequence of its own for each guard, so that a guard that a kernel copies, as a stray store of what a
// stray load found, differs from the one that it overwrites. The bits that all bytes share make every element, of
// whatever type and alignment, a normal number: around tensors that kernels write of a small magnitude (below 2^-7 in half,
// 2^-63 in bfloat16 and float), so that adding to it changes its bits; around inputs of a large one (512 and more in half),
// so that a sum or a maximum with it is wrong.
std::vector<std::byte> guard_pattern(const Tensor& tensor, bool before, std::size_t bytes) {
    constexpr std::uint64_t kVaried = 0x8f, kSmall = 0x10, kLarge = 0x60;
    const std::uint64_t shared = tensor.role == TensorRole::input ? kLarge : kSmall;
    const std::uint64_t seed = tensor_seed(before ? 1 : 2, tensor.name);
    std::vector<std::byte> pattern(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
        pattern[i] = static_cast<std::byte>((random_word(seed, i / 8) >> i % 8 * 8 & kVaried) | shared);
    return pattern;
}

std::size_t whole_pages(std::size_t bytes) {
    constexpr std::size_t kPage = GuardedTensor::kGuardBytes;
    return (bytes + kPage - 1) / kPage * kPage;
}

// Calls use(first element, bytes) for each piece of so many elements, which all are in the same memory.
template <class Use>
void in_pieces(const Tensor& tensor, std::int64_t piece_elements, const Use& use) {
    const std::int64_t count = tensor.count(), step = std::min(piece_elements, count);
    const HostBytes piece(static_cast<std::size_t>(step) * tensor.element_bytes);
    for (std::int64_t first = 0; first < count; first += step) {
        const std::int64_t elements = std::min(step, count - first);
        use(first, piece.span().first(static_cast<std::size_t>(elements) * tensor.element_bytes));
    }
}

}  // namespace

HostBytes::HostBytes(std::size_t bytes) : bytes_(bytes) {
    const std::size_t whole = (bytes / kAlignment + 1) * kAlignment;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole)));
    if (!data_) throw std::bad_alloc();
}

void HostBytes::Free::operator()(std::byte* bytes) const { std::free(bytes); }

GuardedTensor::GuardedTensor(const Device& device, const Tensor& tensor, Data data, std::uint64_t seed,
                             int skew)
    : tensor_(tensor),
      data_(data),
      seed_(seed),
      start_(kGuardBytes + skew_bytes(tensor, skew)),
      buffer_(device.allocate(whole_pages(start_ + tensor.size_bytes() + kGuardBytes))) {
    refill();
}

void GuardedTensor::refill(Poison poison) {
    if (is_filled()) {
        in_pieces(tensor_, piece_elements(), [&](std::int64_t first, std::span<std::byte> bytes) {
            make_elements(tensor_, data_, seed_, first, bytes);
            write(first, bytes);
        });
    } else {
        buffer_.fill(is_poisoned()
                         ? with_element(tensor_.type, [&]<class T>(T) { return poison_word<T>(poison); })
                         : 0U);
    }
    buffer_.copy_from(guard_pattern(tensor_, true, start_));
    buffer_.copy_from(guard_pattern(tensor_, false, buffer_.size_bytes() - end()), end());
}

bool GuardedTensor::is_filled() const {
    return tensor_.role == TensorRole::input || tensor_.role == TensorRole::inout;
}

bool GuardedTensor::is_poisoned() const { return !is_filled() && tensor_.fill != Fill::zero; }

std::int64_t GuardedTensor::piece_elements() const {
    return static_cast<std::int64_t>(kPieceBytes / tensor_.element_bytes);
}

HostBytes GuardedTensor::initial() const {
    HostBytes bytes(tensor_.size_bytes());
    make_elements(tensor_, data_, seed_, 0, bytes.span());
    return bytes;
}

void GuardedTensor::read(std::int64_t first, std::span<std::byte> out) const {
    buffer_.copy_to(out, start_ + static_cast<std::size_t>(first) * tensor_.element_bytes);
}

void GuardedTensor::write(std::int64_t first, std::span<const std::byte> elements) {
    buffer_.copy_from(elements, start_ + static_cast<std::size_t>(first) * tensor_.element_bytes);
}

void GuardedTensor::read_all(const std::function<void(std::int64_t, std::span<const std::byte>)>& use) const {
    in_pieces(tensor_, piece_elements(), [&](std::int64_t first, std::span<std::byte> bytes) {
        read(first, bytes);
        use(first, bytes);
    });
}

std::vector<Overrun> GuardedTensor::overruns() const {
    std::vector<Overrun> found;
    const auto look = [&](bool before, std::size_t first, std::size_t bytes) {
        std::vector<std::byte> now(bytes);
        buffer_.copy_to(now, first);
        const std::vector<std::byte> was = guard_pattern(tensor_, before, bytes);
        const auto place = before ? std::mismatch(was.rbegin(), was.rend(), now.rbegin()).first - was.rbegin()
                                  : std::mismatch(was.begin(), was.end(), now.begin()).first - was.begin();
        if (static_cast<std::size_t>(place) != bytes)
            found.push_back({tensor_.name, before, static_cast<std::uint64_t>(place)});
    };
    look(true, 0, start_);
    look(false, end(), buffer_.size_bytes() - end());
    return found;
}

bool GuardedTensor::is_unchanged() const {
    bool same = true;
    HostBytes expected(std::min(kPieceBytes, tensor_.size_bytes()));
    read_all([&](std::int64_t first, std::span<const std::byte> found) {
        if (!same) return;
        const auto wanted = expected.span().first(found.size());
        make_elements(tensor_, data_, seed_, first, wanted);
        same = std::memcmp(wanted.data(), found.data(), found.size()) == 0;
    });
    return same;
}

bool GuardedTensor::is_zero() const {
    bool zero = true;
    read_all([&](std::int64_t, std::span<const std::byte> found) {
        zero = zero && std::all_of(found.begin(), found.end(), [](std::byte b) { return b == std::byte{0}; });
    });
    return zero;
}

GuardedTensor::Poisoned GuardedTensor::poisoned() const {
    Poisoned count;
    if (!is_poisoned()) return count;
    with_element(tensor_.type, [&]<class T>(T) {
        if (kPoisonIsTelling<T>) return;
        std::mutex mutex;
        read_all([&](std::int64_t, std::span<const std::byte> bytes) {
            const T* const values = reinterpret_cast<const T*>(bytes.data());
            parallel_for(static_cast<std::int64_t>(bytes.size() / sizeof(T)), 1 << 20,
                         [&](std::int64_t begin, std::int64_t end) {
                             Poisoned part;
                             for (std::int64_t i = begin; i < end; ++i) {
                                 const auto is = [&](Poison poison) {
                                     return has_bits(values[i], poison_word<T>(poison)) ? 1U : 0U;
                                 };
                                 part.first += is(Poison::first);
                                 part.high += is(Poison::high);
                                 part.low += is(Poison::low);
                             }
                             const std::lock_guard lock(mutex);
                             count.first += part.first;
                             count.high += part.high;
                             count.low += part.low;
                         });
        });
    });
    return count;
}

std::uint64_t GuardedTensor::fingerprint() const {
    std::atomic<std::uint64_t> sum{0};
    read_all([&](std::int64_t first, std::span<const std::byte> bytes) {
        const auto words = static_cast<std::int64_t>((bytes.size() + 7) / 8);
        const std::uint64_t origin = static_cast<std::uint64_t>(first) * tensor_.element_bytes / 8;
        parallel_for(words, 1 << 17, [&](std::int64_t begin, std::int64_t end) {
            std::uint64_t part = 0;
            for (std::int64_t i = begin; i < end; ++i) {
                const std::size_t at = static_cast<std::size_t>(i) * 8;
                std::uint64_t word = 0;
                std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(8, bytes.size() - at));
                part += random_word(word, origin + static_cast<std::uint64_t>(i));
            }
            sum += part;
        });
    });
    return sum;
}

}  // namespace kiln
