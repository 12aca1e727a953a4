// SPDX-License-Identifier: Apache-2.0
//
// The boxes that loads of TMA will fill, in shared memory, from their beginning until they have arrived: what is there meanwhile
// is undefined, for the thread that began them too, whatever barriers there are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace kiln {

class BoxesUnderWay {
  public:
    /// A part of a box.
    struct Box {
        std::uint64_t begin, end;  ///< offsets of shared memory
        unsigned thread;           ///< that began the load
        std::uint32_t instruction;
    };

    /// Parts that follow each other are one.
    void add(const Box& part) {
        if (!boxes_.empty() && boxes_.back().end == part.begin && boxes_.back().thread == part.thread &&
            boxes_.back().instruction == part.instruction)
            boxes_.back().end = part.end;
        else
            boxes_.push_back(part);
    }
    /// What lies there has arrived.
    void arrive(std::uint64_t begin, std::uint64_t end) {
        std::vector<Box> behind;
        for (Box& box : boxes_) {
            if (end <= box.begin || box.end <= begin) continue;
            if (end < box.end) behind.push_back({end, box.end, box.thread, box.instruction});
            box.end = std::max(box.begin, std::min(box.end, begin));
        }
        std::erase_if(boxes_, [](const Box& box) { return box.begin == box.end; });
        boxes_.insert(boxes_.end(), behind.begin(), behind.end());
    }
    /// The first with bytes in common.
    std::optional<Box> find(std::uint64_t begin, std::uint64_t end) const {
        const auto found =
            std::ranges::find_if(boxes_, [&](const Box& box) { return box.begin < end && begin < box.end; });
        return found != boxes_.end() ? std::optional(*found) : std::nullopt;
    }
    void clear() { boxes_.clear(); }
    bool empty() const { return boxes_.empty(); }

  private:
    std::vector<Box> boxes_;
};

}  // namespace kiln
