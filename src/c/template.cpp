// SPDX-License-Identifier: Apache-2.0
//
// kiln_template and kiln_variant.
#include <string>
#include <utility>
#include <vector>

#include "c/call.h"
#include "c/handle.h"

using namespace kiln::c_api;

kiln_status kiln_service_templates(const kiln_service* service, kiln_text_function each, void* user) {
    return guarded(__func__, [&] {
        in(each, "each");
        for (const kiln::Template& found : object(service).service->templates())
            each(user, found.name().c_str());
    });
}

kiln_status kiln_service_find(const kiln_service* service, const char* name, kiln_template** found) {
    return guarded(__func__, [&] {
        kiln_template*& place = out(found, "found");
        place = make<kiln_template>({object(service).service->find(in(name, "name"))});
    });
}

kiln_status kiln_service_parse(const kiln_service* service, const char* text, const char* file,
                               const kiln_header* headers, size_t header_count, kiln_template** parsed) {
    return guarded(__func__, [&] {
        kiln_template*& place = out(parsed, "parsed");
        const kiln::Service& of = *object(service).service;
        array(headers, header_count, "headers");
        std::vector<kiln::Header> included;
        for (size_t i = 0; i < header_count; ++i)
            included.push_back(
                {in(headers[i].name, "the name of a header"), in(headers[i].text, "the text of a header")});
        place = make<kiln_template>({of.parse(in(text, "text"), in(file, "file"), std::move(included))});
    });
}

kiln_status kiln_service_load(const kiln_service* service, const char* path, kiln_template** loaded) {
    return guarded(__func__, [&] {
        kiln_template*& place = out(loaded, "loaded");
        const kiln::Service& of = *object(service).service;
        place = make<kiln_template>({kiln::Template::load(in(path, "path")).for_target(of.target())});
    });
}

kiln_status kiln_template_destroy(kiln_template* handle) {
    return guarded(__func__, [&] { destroy(handle); });
}

kiln_status kiln_template_describe(const kiln_template* handle, kiln_template_info* info) {
    return guarded(__func__, [&] {
        const kiln::Template& of = object(handle).value;
        fill(info,
             {sizeof(kiln_template_info), of.name().c_str(), of.summary().c_str(), of.file().c_str(),
              of.is_runnable()},
             "kiln_template_info");
    });
}

kiln_status kiln_template_parameters(const kiln_template* handle, kiln_parameter_function each, void* user) {
    return guarded(__func__, [&] {
        in(each, "each");
        for (const kiln::Parameter& parameter : object(handle).value.parameters()) {
            const std::string usual = parameter.default_text(), allowed = parameter.allowed_text();
            const kiln_parameter passed = {
                sizeof(kiln_parameter), parameter.name.c_str(), name(parameter.kind).data(),
                usual.c_str(),          allowed.c_str(),        parameter.text.c_str()};
            each(user, &passed);
        }
    });
}

kiln_status kiln_template_variant(const kiln_template* handle, const kiln_value* values, size_t count,
                                  kiln_variant** variant) {
    return guarded(__func__, [&] {
        kiln_variant*& place = out(variant, "variant");
        place = make<kiln_variant>(VariantObject(object(handle).value.variant(values_of(values, count))));
    });
}

kiln_status kiln_variant_with(const kiln_variant* variant, const kiln_value* values, size_t count,
                              kiln_variant** changed) {
    return guarded(__func__, [&] {
        kiln_variant*& place = out(changed, "changed");
        const kiln::Variant& of = object(variant).value;
        kiln::Values all = values_of(values, count);
        for (const auto& [name, value] : of.values()) all.emplace(name, value);
        place = make<kiln_variant>(VariantObject(of.origin().variant(all)));
    });
}

kiln_status kiln_variant_destroy(kiln_variant* variant) {
    return guarded(__func__, [&] { destroy(variant); });
}

kiln_status kiln_variant_get(const kiln_variant* variant, const char* name, const char** text) {
    return guarded(__func__, [&] {
        const char*& place = out(text, "text");
        const VariantObject& of = object(variant);
        const auto found = of.texts.find(in(name, "name"));
        if (found == of.texts.end()) (void)of.value.value(name);  // throws, with the nearest name
        place = found->second.c_str();
    });
}

kiln_status kiln_variant_values(const kiln_variant* variant, kiln_value_function each, void* user) {
    return guarded(__func__, [&] {
        in(each, "each");
        for (const auto& [name, text] : object(variant).texts) each(user, name.c_str(), text.c_str());
    });
}

kiln_status kiln_variant_describe(const kiln_variant* variant, kiln_variant_info* info) {
    return guarded(__func__, [&] {
        const kiln::Variant& of = object(variant).value;
        const kiln::Dim3 block = of.block(), cluster = of.cluster();
        fill(info,
             {sizeof(kiln_variant_info),
              of.text().c_str(),
              {block.x, block.y, block.z},
              {cluster.x, cluster.y, cluster.z},
              of.dynamic_shared_bytes()},
             "kiln_variant_info");
    });
}
