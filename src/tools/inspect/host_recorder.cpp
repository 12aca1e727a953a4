// SPDX-License-Identifier: Apache-2.0
//
// A service has one observer for its lifetime, and each recording has its own recorder. The relay forwards
// from the one to the other.
#include "inspect/host_recorder.h"

#include <kiln/error.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/words.h"
#include "format/format.h"
#include "run/isolated.h"
#include "run/thread_order.h"
#include "run/wire.h"

namespace kiln {

class HostRecorder::Relay final : public AccessObserver {
  public:
    void begin_launch(const ObservedLaunch& launch) override {
        if (to_ == nullptr) return;
        if (!next_.empty()) {
            to_ = next_.front();
            next_.erase(next_.begin());
        }
        ObservedLaunch known = launch;
        known.global = tensors_;
        own_ = known.own;
        to_->begin_launch(known);
    }
    bool begin_block(Dim3 index) override {
        if (to_ == nullptr) return true;
        return !waits_ && to_->begin_block(index);
    }
    void waits_for_block() override { waits_ = true; }
    bool may_change(std::uint64_t address) const override {
        const auto is_constant = [&](const MemoryRange& range) {
            return range.read_only && address - range.address < range.size_bytes;
        };
        return std::ranges::none_of(tensors_, is_constant) && std::ranges::none_of(own_, is_constant);
    }
    void accesses(unsigned thread, std::span<const ObservedAccess> accesses) override {
        if (to_ != nullptr) to_->accesses(thread, accesses);
    }
    void bad_index(unsigned thread, const ObservedBadIndex& what) override {
        if (to_ != nullptr) to_->bad_index(thread, what);
    }
    void meeting(std::span<const unsigned> threads, bool whole_block) override {
        if (to_ != nullptr) to_->meeting(threads, whole_block);
    }
    void exchange(std::span<const unsigned> threads) override {
        if (to_ != nullptr) to_->exchange(threads);
    }
    void release(unsigned thread, std::uint64_t object) override {
        if (to_ != nullptr) to_->release(thread, object);
    }
    void acquire(unsigned thread, std::uint64_t object) override {
        if (to_ != nullptr) to_->acquire(thread, object);
    }
    void end_block() override {
        if (to_ != nullptr) to_->end_block();
    }
    void end_launch() override {
        if (to_ != nullptr) to_->end_launch();
    }

    /// Forwards during its lifetime: each launch to the next recorder, those after the last to that one.
    class Turn {
      public:
        Turn(Relay& relay, const std::vector<std::unique_ptr<AccessRecorder>>& recorders) : relay_(relay) {
            relay_.to_ = recorders.front().get();
            for (const auto& recorder : recorders) relay_.next_.push_back(recorder.get());
        }
        ~Turn() {
            relay_.to_ = nullptr;
            relay_.next_.clear();
            relay_.tensors_.clear();
            relay_.own_.clear();
            relay_.waits_ = false;
        }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;
        void add_tensor(const MemoryRange& tensor) { relay_.tensors_.push_back(tensor); }
        /// Whether a block waited for one that was not run; no further blocks are.
        bool waits() const { return relay_.waits_; }

      private:
        Relay& relay_;
    };

  private:
    AccessObserver* to_ = nullptr;
    std::vector<AccessObserver*> next_;
    std::vector<MemoryRange> tensors_;
    std::vector<MemoryRange> own_;  // data of the kernel's, constants among them
    bool waits_ = false;
};

namespace {

// What kernels wrote to guard bytes or inputs that none of the recordings has, such as by functions of the C library.
void add_unseen(const RunResult& result, std::vector<Recording>& recordings) {
    const auto is_seen = [&](const auto& is_it) {
        return std::ranges::any_of(recordings, [&](const Recording& recording) {
            return std::ranges::any_of(recording.problems, is_it);
        });
    };
    const auto add = [&](ProblemKind kind, const std::string& name, std::int64_t offset,
                         std::uint64_t bytes) {
        AccessProblem problem;
        problem.kind = kind;
        problem.access = AccessKind::store;
        problem.tensor = name;
        problem.variable_bytes = bytes;
        problem.offset = offset;
        problem.count = 1;
        recordings.back().problems.push_back(std::move(problem));
    };
    const auto bytes_of = [&](const std::string& name) {
        const auto found = std::ranges::find(result.problem.tensors, name, &Tensor::name);
        return found == result.problem.tensors.end() ? 0 : found->size_bytes();
    };
    for (const Overrun& place : result.overrun) {
        const bool seen = is_seen([&](const AccessProblem& problem) {
            return problem.kind == ProblemKind::out_of_bounds && problem.tensor == place.tensor &&
                   problem.access != AccessKind::load && (problem.offset < 0) == place.before;
        });
        if (seen) continue;
        const std::uint64_t bytes = bytes_of(place.tensor);
        const auto distance = static_cast<std::int64_t>(place.distance);
        add(ProblemKind::out_of_bounds, place.tensor,
            place.before ? -1 - distance : static_cast<std::int64_t>(bytes) + distance, bytes);
    }
    for (const std::string& input : result.changed) {
        const bool seen = is_seen([&](const AccessProblem& problem) {
            return problem.tensor == input && problem.access != AccessKind::load &&
                   (problem.kind == ProblemKind::read_only || problem.kind == ProblemKind::out_of_bounds);
        });
        if (!seen) add(ProblemKind::read_only, input, 0, bytes_of(input));
    }
}

/// What was found before a launch failed is most often why.
std::string found_text(std::vector<std::string> found) {
    constexpr std::size_t kMost = 4;
    const std::size_t more = found.size() - std::min(found.size(), kMost);
    found.resize(found.size() - more);
    return "\nBefore that it had found:\n  " + join(found, "\n  ") +
           (more > 0 ? formatted("\n  and {} more", more) : std::string());
}

}  // namespace

HostRecorder::HostRecorder(const Service& target) : relay_(std::make_shared<Relay>()) {
    ServiceOptions options = target.options();
    options.backend = Backend::host;
    options.device = 0;
    options.arch.clear();
    options.compile_only = false;
    options.cached_only = false;  // those are for the target
    options.observer = relay_;
    service_ = std::make_unique<Service>(std::move(options));
    runner_ = std::make_unique<Runner>(*service_);
}

HostRecorder::~HostRecorder() = default;

Variant HostRecorder::on_host(const Variant& variant) const {
    return variant.origin().for_target(service_->target()).variant(variant.values());
}

std::optional<Variant> HostRecorder::naive(const Variant& host_variant) const {
    return runner_->naive(host_variant);
}

AnyKernel HostRecorder::build(const Variant& host_variant) { return service_->build(host_variant); }

HostRecorder::Recorded HostRecorder::recorded(const AnyKernel& kernel, RunOptions run,
                                              const std::vector<RecorderOptions>& options, const Tell& tell) {
    std::vector<std::unique_ptr<AccessRecorder>> recorders;
    for (const RecorderOptions& each : options) {
        recorders.push_back(std::make_unique<AccessRecorder>(each));
        // Reading what nobody has written is a warning at most, and seldom why a launch fails.
        recorders.back()->report_problems([&](const AccessProblem& problem) {
            if (problem.kind != ProblemKind::uninitialised) tell(kRemark + problem.text());
        });
    }
    Relay::Turn turn(*relay_, recorders);
    run.check = Check::none;
    run.time = false;
    run.on_phase = tell;
    run.on_tensor = [&](const MemoryRange& tensor) { turn.add_tensor(tensor); };
    const RunResult result = runner_->run(kernel, run);
    Recorded found;
    found.waits = turn.waits();
    for (const auto& recorder : recorders) found.recordings.push_back(recorder->recording());
    if (options.back().problems) add_unseen(result, found.recordings);
    return found;
}

// Does it in a child process, where the service wants that.
std::vector<Recording> HostRecorder::apart(const AnyKernel& kernel, std::vector<std::string> found,
                                           const std::function<std::vector<Recording>(const Tell&)>& work) {
    const auto note = [&](std::string_view text) {
        if (text.starts_with(kRemark) && std::ranges::find(found, text.substr(1)) == found.end())
            found.emplace_back(text.substr(1));
    };
    try {
        return wire::read<std::vector<Recording>>(
            launch_apart(*service_, kernel.variant().template_name(), note,
                         [&](const Tell& tell) { return wire::written(work(tell)); }));
    } catch (const DeviceError& error) {
        if (found.empty()) throw;
        throw DeviceError(error.what() + found_text(std::move(found)), error.call(), error.code());
    }
}

Recording HostRecorder::record(const AnyKernel& kernel, const Sizes& sizes, const RecorderOptions& options) {
    return record_kernels(kernel, sizes, {options}).front();
}

std::vector<Recording> HostRecorder::record_kernels(const AnyKernel& kernel, const Sizes& sizes,
                                                    const std::vector<RecorderOptions>& options) {
    RunOptions run;
    run.sizes = sizes;
    return apart(kernel, {}, [&](const Tell& tell) {
        Recorded found = recorded(kernel, run, options, tell);
        if (found.waits && !options.front().first_blocks) {
            std::vector<RecorderOptions> first = options;
            // Then no block is left out before the last that is run.
            for (RecorderOptions& each : first) each.first_blocks = true;
            Recorded again = recorded(kernel, run, first, tell);
            for (std::size_t i = 0; i < again.recordings.size(); ++i)
                add_new_problems(found.recordings[i], again.recordings[i]);
            found = std::move(again);
        }
        if (found.waits)
            throw DeviceError(
                "a thread reads the same place again and again: it waits for a block with a higher number, "
                "or for a thread of its "
                "own block without a barrier, and on the host neither runs until it ends");
        return std::move(found.recordings);
    });
}

Recording HostRecorder::record_again(const AnyKernel& kernel, const Sizes& sizes,
                                     const RecorderOptions& options, int skew,
                                     std::vector<std::string> found) {
    RunOptions run;
    run.sizes = sizes;
    run.skew = skew;
    return apart(kernel, std::move(found),
                 [&](const Tell& tell) {
                     const OtherThreadOrder order(*service_);
                     return recorded(kernel, run, {options}, tell).recordings;
                 })
        .front();
}

void add_new_problems(const Recording& more, Recording& known) {
    const auto memory = [](const AccessProblem& one) {
        return one.variable.empty() ? one.tensor : one.variable;
    };
    const std::size_t before = known.problems.size();
    for (const AccessProblem& problem : more.problems) {
        const bool is_known =
            std::ranges::any_of(std::span(known.problems).first(before), [&](const AccessProblem& one) {
                if (one.kind != problem.kind || memory(one) != memory(problem)) return false;
                if (one.place == problem.place && one.access == problem.access) return true;
                return one.kind == ProblemKind::race &&
                       (one.place == problem.other || one.other == problem.place ||
                        one.other == problem.other);
            });
        if (!is_known) known.problems.push_back(problem);
    }
}

}  // namespace kiln
