// SPDX-License-Identifier: Apache-2.0
//
// For each target, all variants are compiled in parallel into a separate cache. Then each is examined, loaded
// again by a service that may not compile, run, and compared. What is to be recorded goes into the baselines as they are
// then: a run of another shard may have recorded its own meanwhile.
#include <kiln/error.h>
#include <kiln/run.h>
#include <kiln/tools/regress.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/file_lock.h"
#include "base/number_range.h"
#include "base/output_file.h"
#include "base/stopwatch.h"
#include "base/words.h"
#include "regress/variant_regression.h"

namespace kiln {
namespace {

constexpr std::size_t kWindow = 64;  // builds in flight
constexpr std::chrono::seconds kLockPatience{10};

/// The variants of one target, each once, in the order of the manifests.
struct Group {
    ManifestTarget target;
    std::unique_ptr<Service> service;
    std::vector<Variant> variants;
    std::set<std::string> texts;
};

/// What is to be recorded of one target.
struct Update {
    ManifestTarget target;
    std::map<std::string, Baseline> found;  ///< by Variant::text()
    std::vector<std::string> gone;          ///< variants that no manifest names any more
};

class Regression {
  public:
    Regression(const RegressOptions& options) : options_(options) {}

    RegressReport run(const std::vector<Manifest>& manifests) {
        check_shard(options_.shard, options_.shards);
        if (options_.update && options_.sample)
            throw UsageError(
                "a sample can't update the baselines, since most of its variants are not built; leave out "
                "one of the two");
        check_directory();
        for (const Manifest& manifest : manifests)
            for (const ManifestLine& line : manifest.lines) add(manifest, line);
        if (!options_.arch.empty())
            std::erase_if(groups_, [&](const Group& group) { return group.target.arch != options_.arch; });
        for (Group& group : groups_) {
            keep_shard(group);
            total_ += group.variants.size();
        }
        check_templates(manifests);
        if (total_ == 0)
            throw UsageError("there is nothing to test: no line of the manifests is for " + asked());
        for (Group& group : groups_) run(group);
        // All or nothing: a run that is stopped changes no baseline.
        for (const Update& update : updates_) save(update);
        return std::move(report_);
    }

  private:
    void add(const Manifest& manifest, const ManifestLine& line) {
        if (!options_.templates.empty() &&
            std::ranges::find(options_.templates, line.template_name) == options_.templates.end())
            return;
        const bool by_default = line.targets.empty();
        for (const ManifestTarget& target : by_default ? options_.targets : line.targets) {
            if (options_.backend && target.backend != *options_.backend) continue;
            Group& group = group_of(target);
            try {
                const Template of = group.service->find(line.template_name);
                if (by_default && !of.runs_on(group.target.backend, group.target.arch)) continue;
                for (Variant& variant : line.variants(of, manifest.file))
                    if (group.texts.insert(variant.text()).second)
                        group.variants.push_back(std::move(variant));
            } catch (const UsageError& error) {
                throw TemplateError(manifest.file, line.line, 1, error.what());
            }
        }
    }

    void keep_shard(Group& group) const {
        std::uint64_t place = 0;
        std::erase_if(group.variants,
                      [&](const Variant&) { return place++ % options_.shards != options_.shard; });
    }

    /// Checks this before minutes of work.
    void check_directory() const {
        const std::filesystem::path& path = options_.baselines;
        std::error_code error;
        if (!std::filesystem::exists(path, error)) return;
        if (!std::filesystem::is_directory(path, error))
            throw UsageError("the baselines " + path.string() + " are not a directory");
        if (options_.update && ::access(path.c_str(), W_OK | X_OK) != 0)
            throw UsageError("the baselines can't be written: " + path.string() + ": " +
                             std::generic_category().message(errno));
    }

    /// "gemm_tiled, copy on hip gfx90a"
    std::string asked() const {
        std::string where = options_.backend ? std::string(name(*options_.backend)) : std::string();
        if (!options_.arch.empty()) where += (where.empty() ? "" : " ") + options_.arch;
        return (options_.templates.empty() ? "any template" : join(options_.templates)) +
               (where.empty() ? " here" : " on " + where);
    }

    /// A requested template that no manifest names is a typing error.
    void check_templates(const std::vector<Manifest>& manifests) const {
        std::vector<std::string> named;
        for (const Manifest& manifest : manifests)
            for (const ManifestLine& line : manifest.lines)
                if (std::ranges::find(named, line.template_name) == named.end())
                    named.push_back(line.template_name);
        for (const std::string& name : options_.templates)
            if (std::ranges::find(named, name) == named.end())
                throw UsageError("no manifest names the template '" + name + "'; they name " + join(named) +
                                 did_you_mean(name, named));
    }

    Group& group_of(const ManifestTarget& target) {
        const auto known = [&](const ManifestTarget& wanted) {
            return std::ranges::find(groups_, wanted, &Group::target);
        };
        if (const auto group = known(target); group != groups_.end()) return *group;
        Group group;
        group.service = service(target, false);
        // If the target names none: the device's own.
        group.target = {target.backend, group.service->target().arch};
        if (const auto same = known(group.target); same != groups_.end()) return *same;
        return groups_.emplace_back(std::move(group));
    }

    /// Runs on the device if it is of this architecture, else compiles only.
    std::unique_ptr<Service> service(const ManifestTarget& target, bool cached_only) {
        ServiceOptions options = options_.service;
        options.backend = target.backend;
        options.arch = target.arch;
        options.cached_only = cached_only;
        options.cache = {};
        options.cache.directory = directory_.path();
        options.cache.remote = RemoteOptions{};
        if (target.backend == Backend::host) return std::make_unique<Service>(options);
        const std::vector<DeviceInfo> devices = Device::list(target.backend);
        const bool is_here = std::ranges::any_of(devices, [&](const DeviceInfo& device) {
            return device.ordinal == options.device && (target.arch.empty() || device.arch == target.arch);
        });
        options.compile_only = !is_here;
        return std::make_unique<Service>(options);
    }

    /// For each variant of a group whether it is built: all, or with sample the first of each template.
    std::vector<bool> built_of(const Group& group) const {
        std::vector<bool> result;
        std::set<std::string> templates;
        for (const Variant& variant : group.variants)
            result.push_back(templates.insert(variant.origin().name()).second || !options_.sample);
        return result;
    }

    void run(Group& group) {
        const Baselines before = Baselines::load(options_.baselines, group.target);
        const std::string target_text = std::string(name(group.target.backend)) + ":" + group.target.arch;
        const auto cached = service(group.target, true);
        if (!group.variants.empty()) {
            const std::string problem = why_no_compiler(*cached, group.variants.front());
            if (options_.service.stop.stop_requested()) throw UsageError("stopped; no baseline was changed");
            if (!problem.empty()) {
                report_.skipped.push_back(target_text + ": " + problem);
                total_ -= group.variants.size();
                return;
            }
        }
        if (!group.service->has_device()) report_.compiled_only.push_back(target_text);
        Update update{group.target, {}, {}};
        VariantRegression trial(*group.service, *cached, options_);

        const std::vector<bool> is_built = built_of(group);
        std::deque<std::future<Compiled>> builds;
        std::size_t next = 0;
        for (std::size_t i = 0; i < group.variants.size(); ++i) {
            const Variant& variant = group.variants[i];
            for (; next < group.variants.size() && builds.size() < kWindow; ++next)
                if (is_built[next]) builds.push_back(group.service->compile_async(group.variants[next]));
            const Stopwatch watch;
            RegressResult result;
            if (is_built[i]) {
                result = trial.run(variant, std::move(builds.front()));
                builds.pop_front();
            } else {
                result = trial.look_up(variant);
            }
            result.target = group.target;
            result.elapsed_ms = watch.elapsed_ms();
            judge(result, before);
            if (result.failures.empty()) update.found.insert_or_assign(variant.text(), result.found);
            if (options_.on_result) options_.on_result(result, ++done_, total_);
            report_.results.push_back(std::move(result));
            if (options_.service.stop.stop_requested()) throw UsageError("stopped; no baseline was changed");
        }
        // A part of the manifest says nothing about the other baselines, and a manifest nothing about templates that it does not name.
        if (options_.templates.empty() && options_.shards == 1)
            for (const auto& [text, baseline] : before.variants)
                if (!group.texts.contains(text) && is_named(group, text.substr(0, text.find(' ')))) {
                    report_.gone.push_back(target_text + " " + text);
                    update.gone.push_back(text);
                }
        if (options_.update && !(update.found.empty() && update.gone.empty()))
            updates_.push_back(std::move(update));
    }

    /// Empty where there is one, even if something is wrong with the variant. service: one that only looks up, which needs none.
    static std::string why_no_compiler(const Service& service, const Variant& variant) {
        try {
            return service.explain(variant).no_compiler;
        } catch (const BuildError&) {
            return {};
        }
    }

    static bool is_named(const Group& group, const std::string& template_name) {
        const auto first = group.texts.lower_bound(template_name);
        return first != group.texts.end() &&
               (*first == template_name || first->starts_with(template_name + " "));
    }

    void save(const Update& update) const {
        std::filesystem::path file = options_.baselines / Baselines::file_name(update.target);
        std::optional<FileLock> lock;
        try {
            std::filesystem::create_directories(options_.baselines);
            file = OutputPlace(file).path();
            lock = FileLock::acquire_for(file, kLockPatience);
        } catch (const std::system_error& error) {
            throw UsageError(std::string("the baselines can't be written: ") + error.what());
        }
        if (!lock)
            throw UsageError("the baselines can't be written: " + FileLock::place_for(file).string() +
                             " has been held for ten seconds by another process");
        Baselines all = Baselines::load(options_.baselines, update.target);
        for (const auto& [text, found] : update.found) merge(all.variants[text], found);
        for (const std::string& text : update.gone) all.variants.erase(text);
        all.save(options_.baselines, update.target);
    }

    void judge(RegressResult& result, const Baselines& baselines) const {
        const auto was = baselines.variants.find(result.variant);
        if (was == baselines.variants.end()) {
            result.status = RegressStatus::fresh;
        } else if (!result.found.ingredients.empty()) {
            result.moves = compare(was->second, result.found);
            if (!result.moves.empty()) result.status = RegressStatus::moved;
        }
        // With --update, differences are allowed, but failures are not.
        if (options_.update)
            for (Move& move : result.moves) move.fails = false;
        const bool fails = std::ranges::any_of(result.moves, &Move::fails);
        if (fails || !result.failures.empty()) result.status = RegressStatus::failed;
    }

    /// Keeps the baseline's values of what was not measured.
    void merge(Baseline& to, const Baseline& found) const {
        Baseline merged = found;
        if (!found.worst || options_.seed != 1) {  // it was not run, or with inputs of which none is recorded
            merged.random_result = to.random_result;
            merged.integer_result = to.integer_result;
        }
        if (!merged.worst) merged.worst = to.worst;
        merged.speeds.insert(to.speeds.begin(), to.speeds.end());
        to = std::move(merged);
    }

    const RegressOptions& options_;
    TemporaryDirectory directory_;
    std::deque<Group> groups_;
    RegressReport report_;
    std::vector<Update> updates_;
    std::size_t done_ = 0, total_ = 0;
};

}  // namespace

std::vector<ManifestTarget> RegressOptions::default_targets() {
    return {{Backend::host, "x86-64-v3"},
            {Backend::cuda, "sm_80"},
            {Backend::cuda, "sm_90a"},
            {Backend::hip, "gfx90a"}};
}

bool RegressReport::pass() const {
    return !results.empty() && std::ranges::none_of(results, [](const RegressResult& result) {
        return result.status == RegressStatus::failed || result.status == RegressStatus::fresh;
    });
}

inline namespace KILN_ABI {

RegressReport regress(const std::vector<Manifest>& manifests, const RegressOptions& options) {
    return Regression(options).run(manifests);
}

}  // namespace KILN_ABI
}  // namespace kiln
