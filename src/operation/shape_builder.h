// SPDX-License-Identifier: Apache-2.0
//
// ShapeBuilder: chooses and builds the variant of each shape of an operation, at once or in the background, and keeps
// what a call needs in a ShapeTable.
#pragma once

#include <kiln/operation.h>
#include <kiln/service.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "operation/shape_table.h"

namespace kiln {

/// Thread-safe, but for the destructor.
class ShapeBuilder {
  public:
    struct Options {
        bool substitutes = false;
        bool reproducible = false;
        std::size_t max_shapes = 0;
    };
    using Plan = std::shared_ptr<const LaunchPlan>;

    ShapeBuilder(Service& service, const Template& of, Values fixed, Wisdom wisdom, Options options);
    /// Waits for what is being built.
    ~ShapeBuilder();
    ShapeBuilder(const ShapeBuilder&) = delete;
    ShapeBuilder& operator=(const ShapeBuilder&) = delete;

    const std::string& name() const { return name_; }
    const Signature& signature() const { return signature_; }
    const ShapeTable& table() const { return table_; }

    /// Remembers that the shape was asked for.
    void note(const ShapeKey& key);
    /// The best variant's plan, built now.
    Plan build(const ShapeKey& key);
    /// A plan of a variant that is built; the best one is built in the background. nullptr: none is built that the
    /// shape allows, or no thread can be started.
    Plan substitute(const ShapeKey& key);
    std::vector<Plan> prepare(std::span<const Sizes> shapes);
    OperationPlan explain(const Sizes& sizes) const;
    Wisdom tune_pending(double budget_seconds);
    void wait();
    OperationUsage usage() const;
    void release();

  private:
    /// What is known about a shape in addition to its plan.
    struct Known {
        std::optional<Choice> choice;
        Plan plan;
        std::string failure;
        bool is_awaited = false;   ///< its best variant is, or was, to be built in the background
        std::uint64_t number = 0;  ///< in the order of first calls
    };
    struct Built {
        ShapeKey key;
        AnyKernel kernel;
    };

    Choice choose(const ShapeKey& key) const;
    std::shared_ptr<const Chooser> chooser() const;
    /// A plan that stays what it is when one is there already and `replaces` does not hold.
    Plan publish(const ShapeKey& key, std::optional<Choice> choice, AnyKernel kernel, bool replaces);
    /// Under mutex_: from now on, what calls launch.
    void keep(Known& of, const ShapeKey& key, const Plan& plan, std::optional<Choice> choice,
              AnyKernel kernel);
    Plan best_plan(const ShapeKey& key) const;
    /// The best variant's kernel; where nothing may be compiled and it is in no tier, that of another one. kernel: gives the
    /// best one or throws BuildError.
    template <class Kernel>
    Plan publish_best(const ShapeKey& key, Choice&& choice, const Kernel& kernel);
    /// A plan of a variant that a tier has. why: the best one has none. Throws NotReadyError.
    Plan publish_stored(const ShapeKey& key, const std::string& why);
    std::vector<Variant> stored(bool again);
    Known& known(const ShapeKey& key);
    /// Of shapes that are new since the last time; without mutex_, since the record may wait for its file.
    void record_new();
    void forget_evicted();
    /// Under mutex_: false where no thread can be started.
    bool has_worker();
    void work(std::stop_token stop);

    Service& service_;
    const Template of_;
    const std::string name_;
    const Values fixed_;
    const Options options_;
    const bool is_recorded_;  ///< ServiceOptions::record
    std::vector<Template> templates_;
    Signature signature_;
    ShapeTable table_;

    mutable std::mutex mutex_;  ///< of all that follows, and of writing to table_
    std::shared_ptr<const Chooser> chooser_;
    std::map<ShapeKey, Known> known_;
    std::deque<Built> built_;  ///< different variants, the latest first
    std::uint64_t next_number_ = 0;
    std::vector<ShapeKey> unrecorded_;
    std::optional<std::vector<Variant>> stored_;  ///< in tiers, where nothing may be compiled

    std::mutex tuning_;
    std::condition_variable changed_;
    std::deque<ShapeKey> pending_;
    std::size_t in_flight_ = 0;
    std::jthread worker_;  // the last: it ends first
};

}  // namespace kiln
