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

bool serves(std::string_view arch, const Target& target) {
    if (arch == target.arch || (target.backend == Backend::host && is_lower_level(arch, target.arch)))
        return true;
    const auto of_entry = cuda_arch_number(arch), wanted = cuda_arch_number(target.arch);
    return target.backend == Backend::cuda && is_ptx_arch(arch) && of_entry && wanted && *of_entry <= *wanted;
}

}  // namespace

std::vector<Variant> stored_variants(const Template& of, const CacheSetup& setup) {
    const Target& target = of.target().value();
    std::vector<Variant> found;
    const Use use = [&](std::string_view key_text) {
        const auto ingredients = parse_key_text(key_text);
        if (!ingredients) return;
        std::string_view backend, arch, entry, source;
        for (const Ingredient& one : *ingredients) {
            if (one.tag == "backend") backend = one.value;
            if (one.tag == "arch") arch = one.value;
            if (one.tag == "entry") entry = one.value;
            if (one.tag == "source") source = one.value;
        }
        if (entry != of.name() || backend != name(target.backend) || !serves(arch, target)) return;
        try {
            Values values;
            for (const KeyConstant& constant : source_constants(source))
                if (const Parameter* const parameter = of.parameter(constant.name))
                    values.emplace(parameter->name, parameter->parse(constant.value));
            Variant variant = of.variant(values);
            if (variant.source(target.backend).text == source &&
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
