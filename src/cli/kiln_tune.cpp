// SPDX-License-Identifier: Apache-2.0
//
// kiln tune: runs the tuner on each device, shows progress, and writes the results to a wisdom file.
#include <kiln/error.h>
#include <kiln/tune.h>
#include <kiln/wisdom.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "cli/command_line.h"
#include "cli/kiln_command.h"
#include "cli/option_values.h"
#include "cli/progress_bar.h"
#include "cli/text_format.h"
#include "cli/tune_report.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

/// The command line's positional arguments.
struct TuneTask {
    std::vector<std::string> templates;
    std::vector<std::string> values;  ///< NAME=VALUE
    std::vector<Sizes> shapes;
};

bool is_size(const TemplateSet& set, const std::vector<std::string>& templates, const std::string& name) {
    return std::ranges::any_of(templates, [&](const std::string& one) {
        const Template of = set.find(one);
        return std::ranges::any_of(of.sizes(), [&](const SizeArgument& size) { return size.name == name; });
    });
}

TuneTask wanted(const Call& call) {
    const TemplateSet set(call.options.template_directories);
    TuneTask result;
    for (const std::string& word : call.words)
        if (word.find('=') == std::string::npos) result.templates.push_back(word);
    if (result.templates.empty())
        throw UsageError(
            "which template is to be tuned? kiln tune TEMPLATE...; 'kiln list' shows what there is.");
    if (call.has("shapes"))
        for (const std::string& text : call.given["shapes"].as<std::vector<std::string>>())
            result.shapes.push_back(parse_sizes({text}));
    // Shapes after the first one of --shapes are positional arguments.
    for (const std::string& word : call.words) {
        const std::size_t equals = word.find('=');
        if (equals == std::string::npos) continue;
        if (is_size(set, result.templates, word.substr(0, equals)))
            result.shapes.push_back(parse_sizes({word}));
        else
            result.values.push_back(word);
    }
    return result;
}

/// "all", "0,1", or that of --device.
std::vector<int> devices(const Call& call, Backend backend) {
    if (!call.has("devices")) return {call.options.device};
    if (call.has("device")) throw UsageError("--device and --devices both say where to run; leave one out.");
    const std::string& text = call.value("devices");
    std::vector<int> ordinals;
    if (text == "all") {
        for (const DeviceInfo& info : Device::list(backend)) ordinals.push_back(info.ordinal);
        return ordinals.empty() ? std::vector<int>{0} : ordinals;
    }
    for (std::size_t begin = 0, end = 0; begin <= text.size(); begin = end + 1) {
        end = std::min(text.find(',', begin), text.size());
        const int ordinal =
            static_cast<int>(parse_whole("--devices", text.substr(begin, end - begin), 0, 1'000'000));
        if (std::ranges::find(ordinals, ordinal) != ordinals.end())
            throw UsageError(formatted("--devices {}: {} is given twice.", text, ordinal));
        ordinals.push_back(ordinal);
    }
    return ordinals;
}

/// One progress line for all devices.
class DevicesProgress {
  public:
    DevicesProgress(const Terminal& terminal, std::size_t devices) : terminal_(terminal), states_(devices) {}

    void update(std::size_t device, const TuneProgress& progress) {
        const std::lock_guard lock(mutex_);
        states_[device] = progress;
        const std::size_t shape = std::ranges::min(states_, {}, &TuneProgress::shape).shape;
        if (!bar_ || shape != shape_) {
            bar_.reset();
            shape_ = shape;
            bar_ = std::make_unique<ProgressBar>(
                terminal_, progress.shapes < 2 ? std::string("tune")
                                               : formatted("tune {}/{}", shape + 1, progress.shapes));
        }
        std::uint64_t done = 0, total = 0, failed = 0;
        for (const TuneProgress& state : states_) {
            if (state.shape != shape) continue;
            done += state.done;
            total += state.total;
            failed += state.failed;
        }
        bar_->update(done, total, failed, progress.seconds_left);
    }
    void close() {
        const std::lock_guard lock(mutex_);
        bar_.reset();
    }

  private:
    const Terminal& terminal_;
    std::mutex mutex_;
    std::vector<TuneProgress> states_;
    std::size_t shape_ = 0;
    std::unique_ptr<ProgressBar> bar_;
};

std::vector<Template> templates_of(const Service& service, const std::vector<std::string>& names) {
    std::vector<Template> templates;
    for (const std::string& name : names) {
        if (std::ranges::any_of(templates, [&](const Template& one) { return one.name() == name; })) continue;
        templates.push_back(service.find(name));
    }
    return templates;
}

}  // namespace

int tune_templates(const Call& call) {
    const TuneTask what = wanted(call);
    TuneOptions options;
    options.shapes = what.shapes;
    if (call.has("budget")) options.budget_seconds = parse_seconds("--budget", call.value("budget"));
    const auto [part, parts] = parse_shard(call.has("shard") ? call.value("shard") : "0/1");
    options.resume = call.flag("resume");
    options.stop = call.interrupts.token();
    const Output output = settings_output(call, "wisdom", Wisdom::user_file());
    if (output.is_stream() && options.resume)
        throw UsageError("--resume reads the journal next to the output, and " + output.path().string() +
                         " is not a file that can have one; name a file by --output.");
    // Checked before the search, since results that can't be written would be lost.
    Wisdom::store(output.path(), Wisdom());

    Warnings warnings(call.terminal);
    ServiceOptions setup = service_options(call.options, warnings, call.interrupts.token());
    setup.cache = cache_options(call.options);
    if (call.has("workers"))
        setup.workers = static_cast<int>(parse_whole("--workers", call.value("workers"), 1, 1024));
    std::vector<std::unique_ptr<Service>> services;
    services.push_back(std::make_unique<Service>(setup));
    check_cache_directory(*services.front(), call.options);
    warnings.release();
    say_why_host(*services.front(), call.options, call.terminal);
    const Backend backend = services.front()->backend();
    const std::vector<int> ordinals = devices(call, backend);
    if (ordinals.size() > 1 || ordinals.front() != setup.device) {
        services.clear();
        setup.backend = backend;
        const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
        if (setup.workers == 0) setup.workers = std::max(1, cores / static_cast<int>(ordinals.size()));
        for (const int ordinal : ordinals) {
            setup.device = ordinal;
            services.push_back(std::make_unique<Service>(setup));
        }
    }
    options.test_sizes = call.flag("test-sizes") || backend == Backend::host;

    const std::vector<Template> all = templates_of(*services.front(), what.templates);
    for (const Template& of : all) options.fixed.merge(given_values(of, what.values));

    const Interrupts::Patience patience(call.interrupts, kTuningEnds);
    std::vector<TuneReport> reports(services.size());
    std::vector<std::exception_ptr> errors(services.size());
    DevicesProgress board(call.terminal, services.size());
    std::vector<std::thread> threads;
    std::mutex found_mutex;
    Wisdom all_found;
    const auto work = [&, shard_part = part, shard_parts = parts](std::size_t i) {
        try {
            TuneOptions mine = options;
            mine.shard = shard_part * services.size() + i;
            mine.shards = shard_parts * services.size();
            if (!output.is_stream()) {
                mine.journal = output.path().string() + ".journal";
                if (mine.shards > 1)
                    mine.journal += formatted("-{}-of-{}", int(mine.shard), int(mine.shards));
            }
            mine.on_progress = [&, i](const TuneProgress& progress) { board.update(i, progress); };
            // At once, in case a later shape fails.
            mine.on_shape = [&](const TunedShape& shape) {
                Wisdom found;
                found.merge(shape.best);
                const std::lock_guard lock(found_mutex);
                all_found.merge(found);
                if (!output.is_stream() && !found.empty()) Wisdom::store(output.path(), found);
            };
            reports[i] = tune(*services[i], templates_of(*services[i], what.templates), mine);
        } catch (...) {
            errors[i] = std::current_exception();
        }
    };
    for (std::size_t i = 1; i < services.size(); ++i) threads.emplace_back(work, i);
    work(0);
    for (std::thread& thread : threads) thread.join();
    board.close();
    if (output.is_stream()) Wisdom::store(output.path(), all_found);
    for (const std::exception_ptr& error : errors)
        if (error) std::rethrow_exception(error);

    TuneSummary summary{output.path(),
                        services.front()->device().info().name,
                        services.front()->target().arch,
                        what.templates,
                        options.budget_seconds,
                        std::move(reports)};
    const bool stopped = call.interrupts.signal() != 0;
    if (stopped)
        call.terminal.note("interrupted; what was found is kept. The same command with --resume continues.");
    if (!output.is_standard_output()) call.print(to_json(summary), to_text(summary));
    if (stopped) return 128 + call.interrupts.signal();
    return summary.found_all() ? kPassed : kNegative;
}

}  // namespace kiln::cli
