// SPDX-License-Identifier: Apache-2.0
//
// kiln cache pack: a seed pack of entries, or of everything in the record of an application. In the latter case each
// target has its own variants: those that were built, and for each shape of an operation those that an Operation may
// choose on that target. They are compiled first, without a GPU.
#include <kiln/error.h>
#include <kiln/record.h>
#include <kiln/wisdom.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

#include "cli/kiln_cache.h"
#include "cli/option_values.h"
#include "cli/progress_bar.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

constexpr std::size_t kFuturesAtOnce = 256;
constexpr std::size_t kReasonsShown = 10;

struct LeftOut {
    std::string what, arch, reason;
};

struct PackContents {
    std::vector<std::string> keys;
    std::size_t in_packs = 0;       ///< of them, found in packs, and so not in the cache
    std::vector<LeftOut> left_out;  ///< the target can't have it
    std::vector<LeftOut> failed;    ///< it should exist, but does not
};

bool is_ptx(const std::string& arch) { return arch.starts_with("compute_"); }

int compute_capability(const std::string& arch) {
    const std::size_t digits = arch.find('_');
    return digits == std::string::npos ? 0 : std::atoi(arch.c_str() + digits + 1);
}

std::vector<std::string> split_list(const std::string& option, const std::string& text) {
    std::vector<std::string> words;
    for (std::size_t begin = 0, end = 0; begin <= text.size(); begin = end + 1) {
        end = std::min(text.find(',', begin), text.size());
        words.push_back(text.substr(begin, end - begin));
        if (words.back().empty())
            throw UsageError(option + " " + text +
                             ": an architecture is missing; write them with commas, as in " + option +
                             " sm_80,sm_90a.");
    }
    return words;
}

/// The architectures to pack for, each once.
std::vector<std::string> archs_of(const Call& call, const Record& record) {
    std::vector<std::string> archs;
    const auto add = [&](const std::string& arch) {
        if (std::ranges::find(archs, arch) == archs.end()) archs.push_back(arch);
    };
    if (call.has("arch")) {
        for (const std::string& arch : split_list("--arch", call.value("arch"))) add(arch);
    } else {
        for (const RecordedValues& one : record.variants) add(one.arch);
        for (const auto& [one, shapes] : record.operations) add(one.arch);
    }
    // PTX for GPUs that are newer than all of them.
    std::string newest;
    for (const std::string& arch : archs)
        if (arch.starts_with("sm_") && compute_capability(arch) > compute_capability(newest)) newest = arch;
    if (!newest.empty() && !call.flag("no-ptx")) add(formatted("compute_{}", compute_capability(newest)));
    return archs;
}

/// The variants of a record for one target.
class TargetVariants {
  public:
    TargetVariants(const Service& service, const Record& record, bool for_all, const Wisdom& usual,
                   PackContents& gathered)
        : service_(service), arch_(service.target().arch), usual_(usual), gathered_(gathered) {
        const auto is_meant = [&](const RecordedValues& one) {
            return for_all || one.arch == arch_ || (is_ptx(arch_) && one.backend == "cuda");
        };
        for (const RecordedValues& one : record.variants)
            if (is_meant(one)) add_variant(one);
        for (const auto& [one, shapes] : record.operations)
            if (is_meant(one)) add_operation(one, shapes);
    }
    const std::vector<Variant>& variants() const { return variants_; }

  private:
    struct Hash {
        std::size_t operator()(const Variant& variant) const { return variant.hash(); }
    };

    void add(const Variant& variant) {
        if (known_.insert(variant).second) variants_.push_back(variant);
    }
    /// A variant that was requested on another target only may be impossible here; that is not a failure.
    void leave_out(const RecordedValues& one, const std::string& reason, bool is_failure) {
        std::string what = one.template_name;
        for (const auto& [name, value] : one.values) what += " " + name + "=" + value;
        (is_failure || one.arch == arch_ ? gathered_.failed : gathered_.left_out)
            .push_back({what, arch_, reason});
    }
    static Values values_of(const Template& of, const RecordedValues& one) {
        Values values;
        for (const auto& [name, text] : one.values) {
            const Parameter* const parameter = of.parameter(name);
            values.emplace(name, parameter != nullptr ? parameter->parse(text) : Value(text));
        }
        return values;
    }

    void add_variant(const RecordedValues& one) {
        try {
            const Template of = service_.find(one.template_name);
            add(of.variant(values_of(of, one)));
        } catch (const VariantError& error) {
            leave_out(one, error.what(), false);
        } catch (const Error& error) {
            leave_out(one, error.what(), true);
        }
    }

    /// An Operation's choice depends on the device, which is not known here: all variants that it may choose.
    void add_operation(const RecordedValues& one, const std::set<Sizes>& shapes) {
        try {
            const Template of = service_.find(one.template_name);
            const Values fixed = values_of(of, one);
            for (const Wisdom& wisdom : possible_wisdom()) {
                const Chooser chooser(service_, wisdom);
                const std::vector<Template> templates = chooser.candidates(of, fixed);
                if (templates.empty())
                    throw VariantError(one.template_name + ": no template computes this on " + arch_);
                for (const Sizes& sizes : shapes) add(chooser.choose(templates, fixed, sizes).variant);
            }
        } catch (const VariantError& error) {
            leave_out(one, error.what(), false);
        } catch (const Error& error) {
            leave_out(one, error.what(), true);
        }
    }

    /// An empty name, and those of all devices with this architecture.
    std::vector<Wisdom> possible_wisdom() const {
        std::set<std::string> devices;
        for (const WisdomEntry& entry : usual_.entries())
            if (entry.arch == arch_) devices.insert(entry.device);
        std::vector<Wisdom> possible(1);
        for (const std::string& device : devices) {
            possible.push_back(usual_);
            possible.back().keep_if([&](const WisdomEntry& entry) { return entry.device == device; });
        }
        return possible;
    }

    const Service& service_;
    const std::string arch_;
    const Wisdom& usual_;
    PackContents& gathered_;
    std::vector<Variant> variants_;
    std::unordered_set<Variant, Hash> known_;
};

void compile_all(const Call& call, Service& service, const std::vector<Variant>& variants,
                 PackContents& gathered) {
    struct Pending {
        const Variant* variant;
        std::future<Compiled> future;
    };
    std::deque<Pending> window;
    std::size_t next = 0, done = 0;
    ProgressBar bar(call.terminal, service.target().arch);
    while (next < variants.size() || !window.empty()) {
        while (next < variants.size() && window.size() < kFuturesAtOnce && call.interrupts.signal() == 0) {
            window.push_back({&variants[next], service.compile_async(variants[next])});
            ++next;
        }
        if (window.empty()) break;  // interrupted
        bool is_in_pack = false;
        try {
            const Compiled compiled = window.front().future.get();
            is_in_pack = compiled.origin == Origin::seed;
            gathered.keys.push_back(compiled.key.digest);
        } catch (const Error& error) {
            gathered.failed.push_back({window.front().variant->text(), service.target().arch, error.what()});
        }
        if (is_in_pack)
            throw UsageError(window.front().variant->text() +
                             " is in a pack already (--seed-pack, KILN_SEED_PACKS), and so not in the cache: "
                             "leave that pack out.");
        window.pop_front();
        bar.update(++done, variants.size(), gathered.failed.size());
    }
}

/// What of a record is compiled with the same options.
struct RecordPart {
    ServiceOptions options;
    Record record;
};

/// given: of the command; where it has options of compilers, they replace those of the record.
std::vector<RecordPart> parts_of(const Record& record, const ServiceOptions& given) {
    if (!given.compile_options.empty() || given.debug) return {{given, record}};
    std::map<std::pair<std::vector<std::string>, bool>, Record> parts;
    for (const RecordedValues& one : record.variants) parts[{one.compile_options, one.debug}].add(one);
    for (const auto& [one, shapes] : record.operations)
        for (const Sizes& sizes : shapes) parts[{one.compile_options, one.debug}].add(one, sizes);
    std::vector<RecordPart> all;
    for (auto& [options, part] : parts) {
        all.push_back({given, std::move(part)});
        all.back().options.compile_options = options.first;
        all.back().options.debug = options.second;
    }
    return all;
}

PackContents gather(const Call& call) {
    const Record record = Record::load(call.value("for"));
    if (!record.complete)
        call.terminal.complain("the record " + call.value("for") +
                               " is not complete: more was asked for than it has room for.");
    const std::vector<std::string> archs = archs_of(call, record);
    if (archs.empty())
        throw UsageError("the record " + call.value("for") + " is empty: the application asked for nothing.");
    PackContents gathered;
    std::string problem;
    const Wisdom usual = Wisdom::usual(&problem);
    call.terminal.note(problem);
    Warnings warnings(call.terminal);
    const std::vector<RecordPart> parts = parts_of(record, compile_options(call, warnings));
    for (const std::string& arch : archs) {
        for (const auto& [given, part] : parts) {
            ServiceOptions options = given;
            options.arch = arch;
            const auto service = open_service(call, warnings, std::move(options), true);
            const TargetVariants needed(*service, part, call.has("arch"), usual, gathered);
            compile_all(call, *service, needed.variants(), gathered);
            if (call.interrupts.signal() != 0) return gathered;
        }
    }
    return gathered;
}

Json list_json(const std::vector<LeftOut>& list) {
    Json json = Json::array();
    for (const LeftOut& one : list)
        json.push_back({{"variant", one.what}, {"arch", one.arch}, {"reason", one.reason}});
    return json;
}

std::string list_text(const char* title, const std::vector<LeftOut>& list) {
    std::string text;
    for (std::size_t i = 0; i < std::min(list.size(), kReasonsShown); ++i)
        text +=
            std::string(title) + ": " + list[i].what + " (" + list[i].arch + "): " + list[i].reason + "\n";
    if (list.size() > kReasonsShown)
        text += formatted("and {} more; --json lists them all\n", list.size() - kReasonsShown);
    return text;
}

UsageError without_record(const std::string& option) {
    return UsageError("--" + option +
                      " goes with --for: without it entries are packed as they are in the cache.");
}

int pack_for_record(const Call& call, const Output& output) {
    const PackContents gathered = gather(call);
    if (call.interrupts.signal() != 0) {
        call.terminal.note("interrupted; no pack was written, what is built is kept.");
        return 128 + call.interrupts.signal();
    }
    if (gathered.keys.empty())
        throw BuildError("nothing of this record could be built, and no pack was written.",
                         list_text("failed", gathered.failed) + list_text("left out", gathered.left_out));
    const Cache cache = open_cache(call.options);
    const std::set<std::string> keys(gathered.keys.begin(), gathered.keys.end());
    if (const std::size_t missing = count_missing(cache, keys); missing > 0)
        throw CacheError(over_limit_text(cache, missing, keys.size()) +
                         ", so no pack was written; set a higher one and repeat the command");
    const CacheTransfer packed = cache.pack(output.path(), gathered.keys);
    Json json = {{"entries", packed.entries},
                 {"bytes", packed.bytes},
                 {"failed", list_json(gathered.failed)},
                 {"left_out", list_json(gathered.left_out)}};
    const std::string text =
        amount_text(packed, "packed into " + call.words[0]) + "\n" + list_text("left out", gathered.left_out);
    if (!output.is_standard_output()) call.print(json, text);
    const std::string failures = list_text("failed", gathered.failed);
    if (!failures.empty()) call.terminal.complain(failures.substr(0, failures.size() - 1));
    return gathered.failed.empty() ? kPassed : kNegative;
}

}  // namespace

int cache_pack(const Call& call) {
    const std::vector<std::string> keys(call.words.begin() + 1, call.words.end());
    if (call.has("for") && !keys.empty())
        throw UsageError("--for packs the content of a record, and keys are given as well; leave one out.");
    if (!call.has("for")) {
        for (const char* option : {"arch", "template-dir", "include-dir", "option", "define"})
            if (call.has(option)) throw without_record(option);
        for (const char* option : {"debug", "no-ptx"})
            if (call.flag(option)) throw without_record(option);
    }
    const Output output("the seed pack", call.words[0]);
    output.check_json(call.options.json);
    output.check_terminal(call.terminal);
    output.check_replaces("seed pack", {"KILNPCK\n"});
    if (call.has("for")) return pack_for_record(call, output);
    const CacheTransfer transfer = open_cache(call.options).pack(output.path(), keys);
    if (!output.is_standard_output()) return report_transfer(call, transfer, "packed into " + call.words[0]);
    for (const std::string& reason : transfer.refused) call.terminal.complain("rejected: " + reason);
    return transfer.refused.empty() ? kPassed : kNegative;
}

}  // namespace kiln::cli
