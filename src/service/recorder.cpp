// SPDX-License-Identifier: Apache-2.0
//
// When to write: after a write of t seconds, not before 9 t have passed.
#include "service/recorder.h"

#include <exception>
#include <utility>

namespace kiln {
namespace {

constexpr int kPauseOfWrites = 9;  // times as long as the last write took

}  // namespace

Recorder::Recorder(std::filesystem::path file, Target target, Observer& observer)
    : file_(std::move(file)), target_(std::move(target)), observer_(observer) {}

Recorder::~Recorder() {
    const std::lock_guard lock(mutex_);
    if (is_new_) write();
}

RecordedValues Recorder::recorded(const std::string& name, const Values& values) const {
    RecordedValues one{name, {}, std::string(kiln::name(target_.backend)), target_.arch};
    for (const auto& [parameter, value] : values) one.values.emplace(parameter, value.text());
    return one;
}

void Recorder::note(const Variant& variant) noexcept try {
    const RecordedValues one = recorded(variant.template_name(), variant.values());
    const std::lock_guard lock(mutex_);
    if (seen_.add(one)) write_in_time();
} catch (...) {
    // No memory: there is no record of it.
}

void Recorder::note(const Template& of, const Values& fixed, const Sizes& sizes) noexcept try {
    const RecordedValues one = recorded(of.name(), fixed);
    const std::lock_guard lock(mutex_);
    if (seen_.add(one, sizes)) write_in_time();
} catch (...) {
}

void Recorder::write_in_time() {
    is_new_ = true;
    const auto start = Clock::now();
    if (start < next_) return;
    write();
    const auto end = Clock::now();
    next_ = end + kPauseOfWrites * (end - start);
}

void Recorder::write() noexcept try {
    is_new_ = false;
    if (!seen_.complete)
        observer_.warn_once("the record " + file_.string() + " is full; what else is asked for is not in it");
    Record::store(file_, seen_);
} catch (const std::exception& error) {
    observer_.warn_once(error.what());
}

}  // namespace kiln
