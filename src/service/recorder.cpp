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

Recorder::Recorder(const ServiceOptions& options, Target target, ServiceEvents& events)
    : file_(options.record),
      target_(std::move(target)),
      compile_options_(options.compile_options),
      debug_(options.debug),
      events_(events) {}

Recorder::~Recorder() {
    if (is_new_) write(seen_);
}

RecordedValues Recorder::recorded(const std::string& name, const Values& values) const {
    RecordedValues one{name,  {}, std::string(kiln::name(target_.backend)), target_.arch, compile_options_,
                       debug_};
    for (const auto& [parameter, value] : values) one.values.emplace(parameter, value.text());
    return one;
}

void Recorder::note(const Variant& variant) noexcept try {
    const RecordedValues one = recorded(variant.template_name(), variant.values());
    std::unique_lock lock(mutex_);
    if (seen_.add(one)) write_in_time(lock);
} catch (...) {
    // No memory: there is no record of it.
}

void Recorder::note(const Template& of, const Values& fixed, const Sizes& sizes) noexcept try {
    const RecordedValues one = recorded(of.name(), fixed);
    std::unique_lock lock(mutex_);
    if (seen_.add(one, sizes)) write_in_time(lock);
} catch (...) {
}

void Recorder::write_in_time(std::unique_lock<std::mutex>& lock) {
    is_new_ = true;
    const auto start = Clock::now();
    if (is_writing_ || start < next_) return;
    const Record seen = seen_;
    is_new_ = false;
    is_writing_ = true;
    lock.unlock();
    write(seen);
    lock.lock();
    is_writing_ = false;
    const auto end = Clock::now();
    next_ = end + kPauseOfWrites * (end - start);
}

void Recorder::write(const Record& seen) noexcept try {
    if (!seen.complete)
        events_.warn_once("the record " + file_.string() + " is full; what else is asked for is not in it");
    Record::store(file_, seen);
} catch (const std::exception& error) {
    events_.warn_once(error.what());
}

}  // namespace kiln
