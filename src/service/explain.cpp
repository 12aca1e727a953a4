// SPDX-License-Identifier: Apache-2.0
//
// Every entry is compared roughly, the nearest few in full: a cache may have tens of thousands of entries,
// and comparing two templates line by line is dear.
#include "service/explain.h"

#include <kiln/error.h>

#include <algorithm>
#include <compare>
#include <string_view>
#include <utility>
#include <vector>

#include "cache/entry.h"
#include "cache/key_source.h"
#include "cache/key_text.h"

namespace kiln {
namespace {

constexpr std::size_t kComparedInFull = 16;

// A key taken apart. Views into its text.
struct Parts {
    std::string_view backend, kernel;
    std::vector<Ingredient> others;  ///< all but backend, kernel and source
    std::string_view source;
};

std::optional<Parts> parts_of(std::string_view text) {
    auto ingredients = parse_key_text(text);
    if (!ingredients) return std::nullopt;
    Parts parts;
    for (const auto& ingredient : *ingredients) {
        if (ingredient.tag == "backend")
            parts.backend = ingredient.value;
        else if (ingredient.tag == "entry")
            parts.kernel = ingredient.value;
        else if (ingredient.tag == "source")
            parts.source = ingredient.value;
        else
            parts.others.push_back(ingredient);
    }
    return parts;
}

// The first member that differs decides.
struct Distance {
    bool other_backend = false;
    std::size_t constants = 0;  ///< that differ: it is another variant
    std::size_t ingredients = 0;

    auto operator<=>(const Distance&) const = default;
};

std::size_t count_missing(const std::vector<Ingredient>& of, const std::vector<Ingredient>& in) {
    return static_cast<std::size_t>(std::count_if(of.begin(), of.end(), [&](const Ingredient& one) {
        return std::none_of(in.begin(), in.end(), [&](const Ingredient& other) {
            return one.tag == other.tag && one.value == other.value;
        });
    }));
}

std::size_t count_missing(const std::vector<KeyConstant>& of, const std::vector<KeyConstant>& in) {
    return static_cast<std::size_t>(std::count_if(of.begin(), of.end(), [&](const KeyConstant& one) {
        return std::find(in.begin(), in.end(), one) == in.end();
    }));
}

// What was wanted, with its source taken apart once for all comparisons.
class WantedKernel {
  public:
    explicit WantedKernel(const std::string& text)
        : text_(text), parts_(parts_of(text)), source_(parts_ ? split_source(parts_->source) : KeySource{}) {}

    /// nullopt: it is no key, or that of another kernel. A source counts as one ingredient.
    std::optional<Distance> distance(std::string_view text) const {
        if (!parts_) return std::nullopt;
        const auto other = parts_of(text);
        if (!other || other->kernel != parts_->kernel) return std::nullopt;
        Distance distance;
        distance.other_backend = other->backend != parts_->backend;
        // What was replaced is missing on both sides.
        distance.ingredients = std::max(count_missing(parts_->others, other->others),
                                        count_missing(other->others, parts_->others));
        if (other->source != parts_->source) {
            const KeySource source = split_source(other->source);
            distance.constants = std::max(count_missing(source_.constants, source.constants),
                                          count_missing(source.constants, source_.constants));
            if (source.body != source_.body) ++distance.ingredients;
        }
        return distance;
    }
    const std::string& text() const { return text_; }

  private:
    const std::string& text_;
    std::optional<Parts> parts_;
    KeySource source_;
};

// The nearest entries seen so far, nearest first; of two that are equally near, the one seen first.
class Nearest {
  public:
    explicit Nearest(const WantedKernel& wanted) : wanted_(wanted) {}

    void offer(const std::string& digest, std::string_view text) {
        const auto distance = wanted_.distance(text);
        if (!distance) return;
        const auto place = std::upper_bound(
            kept_.begin(), kept_.end(), *distance,
            [](const Distance& one, const Candidate& other) { return one < other.distance; });
        if (place == kept_.end() && kept_.size() == kComparedInFull) return;
        kept_.insert(place, {*distance, digest, std::string(text)});
        if (kept_.size() > kComparedInFull) kept_.pop_back();
    }

    void tell(Explanation& explanation) const {
        std::vector<IngredientDifference> best;
        const Candidate* nearest = nullptr;
        for (const auto& candidate : kept_) {
            if (nearest != nullptr && is_farther(candidate.distance, nearest->distance)) break;
            auto differences = compare_keys(wanted_.text(), candidate.text);
            if (nearest != nullptr && differences.size() >= best.size()) continue;
            nearest = &candidate;
            best = std::move(differences);
        }
        if (nearest == nullptr) return;
        // Another backend has another compiler, other options and other headers, all of them.
        if (nearest->distance.other_backend)
            std::erase_if(best, [](const IngredientDifference& one) { return one.ingredient != "backend"; });
        const auto summary = summarise_key(nearest->text);
        explanation.nearest_key = nearest->digest;
        explanation.nearest_variant = summary ? summary->variant : std::string();
        for (auto& difference : best)
            explanation.differences.push_back({std::move(difference.ingredient), std::move(difference.wanted),
                                               std::move(difference.found)});
    }

  private:
    struct Candidate {
        Distance distance;
        std::string digest;
        std::string text;
    };
    // However many lines of the template differ.
    static bool is_farther(const Distance& one, const Distance& other) {
        return std::pair(one.other_backend, one.constants) > std::pair(other.other_backend, other.constants);
    }

    const WantedKernel& wanted_;
    std::vector<Candidate> kept_;
};

void search_disk(const DiskCache& disk, Nearest& nearest) {
    std::vector<DiskCache::Item> items;
    try {
        items = disk.items();
    } catch (const CacheError&) {
        return;  // told by its problem()
    }
    std::sort(items.begin(), items.end(),
              [](const auto& a, const auto& b) { return a.last_used > b.last_used; });
    for (const auto& item : items)
        if (const auto text = disk.key_text(item.digest)) nearest.offer(item.digest, *text);
}

void search_pack(const SeedPack& pack, Nearest& nearest) {
    for (std::size_t i = 0; i < pack.size(); ++i) {
        if (const auto text = pack.key_text(i)) nearest.offer(pack.digest(i), *text);
    }
}

// True when the tier has it. What keeps the tier from being used is told as well.
bool look(Explanation& explanation, Origin tier, Lookup lookup, const std::string& problem) {
    if (lookup.binary) {
        explanation.tier = tier;
        explanation.place = std::move(lookup.place);
        explanation.compiler = std::move(lookup.binary->compiler);
    }
    if (lookup.binary && !lookup.key.digest.empty()) {
        explanation.nearest_key = lookup.key.digest;
        const auto summary = summarise_key(lookup.key.text);
        explanation.nearest_variant = summary ? summary->variant : std::string();
        if (!explanation.key.digest.empty())
            for (auto& one : compare_keys(explanation.key.text, lookup.key.text))
                explanation.differences.push_back(
                    {std::move(one.ingredient), std::move(one.wanted), std::move(one.found)});
    }
    if (!lookup.rejected.empty())
        explanation.rejected.push_back(std::move(lookup.rejected));
    else if (!lookup.binary && !problem.empty())
        explanation.rejected.push_back(problem);
    return explanation.tier.has_value();
}

}  // namespace

Explanation explain_key(const BuildKey& key, const CacheSetup& setup, const OpenLookup* open,
                        const std::string& no_compiler) {
    Explanation explanation;
    explanation.key = key;
    explanation.no_compiler = no_compiler;
    const bool has_key = !key.digest.empty();
    if (!setup.no_directory.empty()) explanation.rejected.push_back(setup.no_directory);
    if (setup.disk) {
        Lookup lookup = has_key && setup.disk->readable() ? setup.disk->peek(key) : Lookup{};
        if (look(explanation, Origin::disk, std::move(lookup), setup.disk->problem())) return explanation;
    }
    for (std::size_t i = 0; i < setup.seeds.size(); ++i) {
        const SeedPack& pack = setup.seeds[i];
        if (look(explanation, Origin::seed, has_key ? pack.find(key) : Lookup{}, pack.problem()))
            return explanation;
        if (open != nullptr && open->in_seed(setup, i) &&
            look(explanation, Origin::seed, pack.find_of_any_compiler(open->key, Includes::same), {}))
            return explanation;
    }
    const auto look_on_disk = [&](Includes includes) {
        return open->everywhere && setup.disk && setup.disk->readable() &&
               look(explanation, Origin::disk, setup.disk->find_of_any_compiler(open->key, includes, false),
                    {});
    };
    if (open != nullptr && look_on_disk(Includes::same)) return explanation;
    if (has_key && setup.remote) {
        Lookup lookup = setup.remote->find(key);
        if (look(explanation, Origin::remote, std::move(lookup), setup.remote->problem())) return explanation;
    }
    if (open != nullptr && open->any_includes) {
        for (std::size_t i = 0; i < setup.seeds.size(); ++i)
            if (open->in_seed(setup, i) &&
                look(explanation, Origin::seed, setup.seeds[i].find_of_any_compiler(open->key, Includes::any),
                     {}))
                return explanation;
        if (look_on_disk(Includes::any)) return explanation;
    }
    if (!has_key) return explanation;

    const WantedKernel wanted(key.text);
    Nearest nearest(wanted);
    if (setup.disk) search_disk(*setup.disk, nearest);
    for (const auto& pack : setup.seeds) search_pack(pack, nearest);
    nearest.tell(explanation);
    return explanation;
}

}  // namespace kiln
