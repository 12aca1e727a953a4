// SPDX-License-Identifier: Apache-2.0
#include "analysis/race_clocks.h"

#include <algorithm>

namespace kiln {

void RaceClocks::start(unsigned threads) {
    own_.assign(threads, 1);  // 0: the time known of a thread by others that never synchronised with it
    known_.assign(threads, nullptr);
    objects_.clear();
}

// Whether joining changes anything. Threads that wait for one object one after the other often know it
// already.
bool RaceClocks::adds(const Known& known, const Known& more) {
    if (more == nullptr || more == known) return false;
    if (known == nullptr) return true;
    for (std::size_t i = 0; i < more->size(); ++i) {
        if ((*more)[i] > (*known)[i]) return true;
    }
    return false;
}

void RaceClocks::join(Times& times, const Known& known) {
    if (known == nullptr) return;
    for (std::size_t i = 0; i < times.size(); ++i) times[i] = std::max(times[i], (*known)[i]);
}

void RaceClocks::meet(std::span<const unsigned> threads) {
    if (threads.size() < 2) return;
    const Known first = known_[threads.front()];
    auto times = first != nullptr ? std::make_shared<Times>(*first) : std::make_shared<Times>(own_.size(), 0);
    const Known* last = &first;
    for (const unsigned thread : threads) {
        // Threads that synchronised before mostly know the same.
        if (known_[thread] != *last) {
            join(*times, known_[thread]);
            last = &known_[thread];
        }
    }
    for (const unsigned thread : threads) (*times)[thread] = std::max((*times)[thread], own_[thread]);
    const Known known = std::move(times);
    for (const unsigned thread : threads) {
        known_[thread] = known;
        ++own_[thread];
    }
}

void RaceClocks::release(unsigned thread, std::uint64_t object) {
    Known& held = objects_[object];
    auto times = held != nullptr ? std::make_shared<Times>(*held) : std::make_shared<Times>(own_.size(), 0);
    join(*times, known_[thread]);
    (*times)[thread] = std::max((*times)[thread], own_[thread]);
    held = std::move(times);
    ++own_[thread];
}

void RaceClocks::acquire(unsigned thread, std::uint64_t object) {
    const auto found = objects_.find(object);
    if (found == objects_.end() || !adds(known_[thread], found->second)) return;
    if (!adds(found->second, known_[thread])) {
        known_[thread] = found->second;
        return;
    }
    auto times = std::make_shared<Times>(*found->second);
    join(*times, known_[thread]);
    known_[thread] = std::move(times);
}

}  // namespace kiln
