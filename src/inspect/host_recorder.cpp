// SPDX-License-Identifier: Apache-2.0
//
// A service has one observer for its life, and each recording has a recorder: the relay is between them.
#include "inspect/host_recorder.h"

#include "run/isolated.h"

namespace kiln {

class HostRecorder::Relay final : public AccessObserver {
  public:
    void begin_launch(const ObservedLaunch& launch) override {
        if (to_ != nullptr) to_->begin_launch(launch);
    }
    bool begin_block(Dim3 index) override { return to_ == nullptr || to_->begin_block(index); }
    void accesses(unsigned thread, std::span<const ObservedAccess> accesses) override {
        if (to_ != nullptr) to_->accesses(thread, accesses);
    }
    void bad_index(unsigned thread, const ObservedBadIndex& what) override {
        if (to_ != nullptr) to_->bad_index(thread, what);
    }
    void meeting(std::span<const unsigned> threads, bool whole_block) override {
        if (to_ != nullptr) to_->meeting(threads, whole_block);
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

    /// Tells `recorder` while it lives.
    class Turn {
      public:
        Turn(Relay& relay, AccessObserver& recorder) : relay_(relay) { relay_.to_ = &recorder; }
        ~Turn() { relay_.to_ = nullptr; }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;

      private:
        Relay& relay_;
    };

  private:
    AccessObserver* to_ = nullptr;
};

HostRecorder::HostRecorder(const Service& target) : relay_(std::make_shared<Relay>()) {
    ServiceOptions options = target.options();
    options.backend = Backend::host;
    options.device = 0;
    options.arch.clear();
    options.compile_only = false;
    options.cached_only = false;  // that is for the target
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

Recording HostRecorder::record(const AnyKernel& kernel, const Sizes& sizes, const RecorderOptions& options) {
    const auto work = [&](const TellPhase&) {
        AccessRecorder recorder(options);
        const Relay::Turn turn(*relay_, recorder);
        RunOptions run;
        run.sizes = sizes;
        run.check = Check::none;
        run.time = false;
        runner_->run(kernel, run);
        return recorder.recording();
    };
    return isolated(*service_, kernel.variant().template_name(), {}, work);
}

}  // namespace kiln
