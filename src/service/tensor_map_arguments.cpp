// SPDX-License-Identifier: Apache-2.0
//
// What the template says of a map (template/tensor_maps.h), put as the device layer takes it.
#include "service/tensor_map_arguments.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "template/tensor_maps.h"

namespace kiln {
namespace {

constexpr std::uintptr_t kNowhere = 4096;  // aligned as TMA wants it

TensorMapLayout layout_of(const TensorMapSpec& spec, const Variant& variant, void* const* arguments) {
    TensorMapLayout layout;
    layout.name = spec.name + " of " + variant.template_name();
    layout.tensor = spec.tensor;
    layout.type = spec.type;
    std::memcpy(&layout.base, arguments[spec.pointer_argument], sizeof(layout.base));
    layout.element_bytes = spec.element_bytes;
    layout.rank = spec.rank;
    layout.swizzle_bytes = static_cast<unsigned>(spec.swizzle_bytes);
    // No map can be made of a tensor without elements, and no kernel reads one: there it is that of a single box,
    // nowhere.
    const bool is_empty = std::ranges::find(spec.extents, 0u) != spec.extents.end();
    if (is_empty) layout.base = reinterpret_cast<void*>(kNowhere);
    std::uint64_t stride = spec.element_bytes;
    for (int i = 0; i < spec.rank; ++i) {
        const auto from = static_cast<std::size_t>(spec.rank - 1 - i);  // theirs begin with the outermost
        layout.extents[i] = is_empty ? spec.box[from] : spec.extents[from];
        layout.box[i] = spec.box[from];
        layout.stride_bytes[i] = stride;
        stride *= layout.extents[i];
    }
    return layout;
}

std::uint64_t next_id() {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// What one thread remembers. A layer of a network launches the same few kernels with dozens of tensors, so
/// there are more places than kernels; two launches that fall on one set keep the later of both.
class Memory {
  public:
    struct Launch {
        std::uint64_t id = 0;  ///< of the kernel's TensorMapArguments; 0: empty
        std::vector<std::uint64_t> words;
        std::vector<TensorMapArguments::Map> maps;
    };
    struct Set {
        std::array<Launch, 2> ways;
        std::size_t oldest = 0;
    };

    Set& set_of(std::uint64_t id, const std::vector<std::uint64_t>& of_launch) {
        std::uint64_t hash = id;
        for (const std::uint64_t word : of_launch) {
            hash = (hash ^ word) * 0x9e3779b97f4a7c15;  // 2^64 / the golden ratio
            hash ^= hash >> 32;
        }
        return sets_[hash % sets_.size()];
    }

    std::vector<std::uint64_t> words;  ///< of the launch that is being looked up
    Launch unremembered;

  private:
    std::array<Set, 64> sets_;
};

Memory& memory_of_this_thread() {
    static thread_local Memory memory;
    return memory;
}

}  // namespace

TensorMapArguments::TensorMapArguments(const Variant& variant, std::vector<std::size_t> argument_bytes)
    : id_(next_id()), count_(tensor_map_count(variant)), argument_bytes_(std::move(argument_bytes)) {}

void TensorMapArguments::pack(void* const* arguments, Words& words) const {
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    words.clear();
    for (std::size_t i = 0; i < argument_bytes_.size(); ++i) {
        const auto* value = static_cast<const std::byte*>(arguments[i]);
        for (std::size_t left = argument_bytes_[i]; left > 0;) {
            std::uint64_t word = 0;
            const std::size_t bytes = left < kWord ? left : kWord;
            if (bytes == kWord)
                std::memcpy(&word, value, kWord);
            else if (bytes == sizeof(int))
                std::memcpy(&word, value, sizeof(int));
            else
                std::memcpy(&word, value, bytes);
            words.push_back(word);
            value += bytes;
            left -= bytes;
        }
    }
}

const TensorMapArguments::Map* TensorMapArguments::for_launch(const Variant& variant, Driver& driver,
                                                              void* const* arguments) const {
    Memory& memory = memory_of_this_thread();
    Memory::Launch* launch = &memory.unremembered;
    if (!argument_bytes_.empty()) {
        pack(arguments, memory.words);
        Memory::Set& set = memory.set_of(id_, memory.words);
        for (const Memory::Launch& way : set.ways)
            if (way.id == id_ && way.words == memory.words) return way.maps.data();
        launch = &set.ways[set.oldest];
        set.oldest ^= 1u;
    }
    launch->id = 0;  // should the rest throw
    launch->maps.resize(count_);
    const auto specs = tensor_map_specs(variant, arguments);
    for (std::size_t i = 0; i < specs.size(); ++i) {
        if (specs[i].rank == 0)
            std::ranges::fill(launch->maps[i].bytes, std::byte{});
        else
            driver.encode_tensor_map(layout_of(specs[i], variant, arguments), launch->maps[i].bytes);
    }
    if (launch != &memory.unremembered) {
        launch->words = memory.words;
        launch->id = id_;
    }
    return launch->maps.data();
}

}  // namespace kiln
