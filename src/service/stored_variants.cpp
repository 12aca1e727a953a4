// SPDX-License-Identifier: Apache-2.0
//
// A key has the specialised source, whose constants are the variant's values.
#include "service/stored_variants.h"

#include <kiln/error.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "base/arch_facts.h"
#include "base/host_arch.h"
#include "cache/key_source.h"
#include "cache/key_text.h"
#include "device/driver.h"
#include "format/format.h"

namespace kiln {
namespace {

using Use = std::function<void(std::string_view key_text)>;

void each_on_disk(const DiskCache& disk, const Use& use) {
    try {
        for (const DiskCache::Item& item : disk.items())
            if (const auto text = disk.key_text(item.digest)) use(*text);
    } catch (const CacheError&) {
        // told by its problem()
    }
}

void each_in_pack(const SeedPack& pack, const Use& use) {
    for (std::size_t i = 0; i < pack.size(); ++i) {
        if (const auto text = pack.key_text(i)) use(*text);
    }
}

/// As a key has them.
std::vector<std::string_view> entries_of(const Source& source) {
    std::vector<std::string_view> entries{source.entry};
    entries.insert(entries.end(), source.more_entries.begin(), source.more_entries.end());
    return entries;
}

}  // namespace

std::vector<std::string> serving_archs(const Target& target) {
    std::vector<std::string> archs;
    if (target.backend == Backend::cuda) {
        const auto wanted = cuda_arch_number(target.arch);
        for (const CudaArch& arch : cuda_archs())
            if (wanted && arch.number <= *wanted) archs.push_back(formatted("compute_{}", arch.number));
        std::ranges::reverse(archs);
    } else if (target.backend == Backend::host) {
        archs = known_archs(Backend::host);
        std::erase_if(archs, [&](const std::string& level) { return !is_lower_level(level, target.arch); });
        std::ranges::sort(archs, std::greater<>());
    }
    return archs;
}

std::vector<Variant> stored_variants(const Template& of, const CacheSetup& setup, bool debug) {
    const Target& target = of.target().value();
    std::vector<std::string> archs = serving_archs(target);
    archs.push_back(target.arch);
    std::vector<Variant> found;
    const Use use = [&](std::string_view key_text) {
        const auto ingredients = parse_key_text(key_text);
        if (!ingredients) return;
        std::string_view backend, arch, source;
        std::vector<std::string_view> entries;
        for (const Ingredient& one : *ingredients) {
            if (one.tag == "backend") backend = one.value;
            if (one.tag == "arch") arch = one.value;
            if (one.tag == "entry") entries.push_back(one.value);
            if (one.tag == "source") source = one.value;
        }
        if (backend != name(target.backend) || std::ranges::find(archs, arch) == archs.end() ||
            entries.empty() || !entries.front().starts_with(of.name()))
            return;
        try {
            Values values;
            for (const KeyConstant& constant : source_constants(source))
                if (const Parameter* const parameter = of.parameter(constant.name))
                    values.emplace(parameter->name, parameter->parse(constant.value));
            Variant variant = of.variant(values);
            const Source made = variant.source(target.backend, debug);
            if (made.text == source && entries_of(made) == entries &&
                std::ranges::find(found, variant) == found.end())
                found.push_back(std::move(variant));
        } catch (const VariantError&) {
            // of another source, or of another device's limits
        }
    };
    for (const SeedPack& pack : setup.seeds) each_in_pack(pack, use);
    if (setup.disk) each_on_disk(*setup.disk, use);
    return found;
}

}  // namespace kiln
