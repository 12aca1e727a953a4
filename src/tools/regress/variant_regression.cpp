// SPDX-License-Identifier: Apache-2.0
//
// The steps: build, examine, load from the disk without compiling, run both kernels with random and with
// small-integer inputs, compare bit for bit (but for outputs of any order), time.
#include "regress/variant_regression.h"

#include <kiln/error.h>

#include <algorithm>

#include "base/digest.h"
#include "cache/key_text.h"
#include "format/format.h"

namespace kiln {
namespace {

const Tensor& tensor_of(const RunResult& result, const std::string& name) {
    return *std::ranges::find(result.problem.tensors, name, &Tensor::name);
}

/// A digest of the outputs that have a reference, each with its name and size; empty: there is none. Other outputs,
/// such as times, differ from run to run, and so do those of any order.
std::string digest_of(const RunResult& result) {
    std::string text;
    for (const auto& [name, bytes] : result.outputs) {
        const Tensor& tensor = tensor_of(result, name);
        if (tensor.reference.empty() || tensor.any_order) continue;
        text += formatted("{} {}\n", name, bytes.size());
        text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    return text.empty() ? text : digest_hex(text);
}

}  // namespace

std::string ingredients_digest(const BuildKey& key) {
    const auto ingredients = parse_key_text(key.text);
    if (!ingredients) throw UsageError("the key of this build can't be read: " + key.digest);
    std::string text;
    for (const Ingredient& one : *ingredients) {
        if (one.tag == "compiler" || one.tag == "environment") continue;
        // Whose option it is does not matter.
        text += formatted("{} {}\n", one.tag == "compiler-option" ? "option" : one.tag, one.value.size());
        text.append(one.value);
        text += '\n';
    }
    return digest_hex(text);
}

VariantRegression::VariantRegression(Service& service, Service& cached, const RegressOptions& options)
    : service_(service), cached_(cached), options_(options) {
    if (!service.has_device()) return;
    runner_ = std::make_unique<Runner>(service);
    cached_runner_ = std::make_unique<Runner>(cached);
}

VariantRegression::~VariantRegression() = default;

RegressResult VariantRegression::run(const Variant& variant, std::future<Compiled> build) {
    RegressResult result;
    result.variant = variant.text();
    try {
        const Compiled built = build.get();
        examine(variant, built, result);
        if (runner_ && variant.origin().is_runnable()) launch(variant, result);
    } catch (const Error& error) {
        result.failures.emplace_back(error.what());
    }
    return result;
}

RegressResult VariantRegression::look_up(const Variant& variant) const {
    RegressResult result;
    result.variant = variant.text();
    try {
        result.found.ingredients = ingredients_digest(service_.key(variant));
    } catch (const Error& error) {
        result.failures.emplace_back(error.what());
    }
    return result;
}

void VariantRegression::examine(const Variant& variant, const Compiled& built, RegressResult& result) {
    result.found.ingredients = ingredients_digest(built.key);
    result.found.compiler = built.binary.compiler;
    result.found.resources = resources_of(built.binary);
    if (built.origin != Origin::compiled)
        result.failures.push_back("the build was not fresh: it came from the cache (" +
                                  std::string(name(built.origin)) +
                                  "); run this without KILN_SEED_PACKS and KILN_REMOTE");
    const Compiled cached = cached_.compile(variant);
    if (cached.origin != Origin::disk)
        result.failures.push_back("with compiling forbidden it came from " +
                                  std::string(name(cached.origin)) + ", not from the disk");
    if (!(cached.binary.bytes == built.binary.bytes))
        result.failures.emplace_back("the cached binary differs from the one that was compiled");
}

void VariantRegression::launch(const Variant& variant, RegressResult& result) {
    const AnyKernel fresh = service_.build(variant);
    const AnyKernel cached = cached_.build(variant);
    result.run = true;
    result.found.random_result = compared(fresh, cached, Data::random, result);
    result.found.integer_result = compared(fresh, cached, Data::integers, result);
    if (options_.time && service_.backend() != Backend::host && result.failures.empty()) time(fresh, result);
}

std::string VariantRegression::compared(const AnyKernel& fresh, const AnyKernel& cached, Data data,
                                        RegressResult& result) {
    RunOptions options;
    options.test_sizes = true;
    options.data = data;
    options.seed = options_.seed;
    options.time = false;
    options.keep_results = true;
    const RunResult one = runner_->run(fresh, options);
    const std::string inputs = std::string(name(data)) + " inputs: ";
    for (const std::string& failure : one.failures()) result.failures.push_back(inputs + failure);
    // Equal bits are checked already.
    if (std::ranges::none_of(one.problem.tensors, &Tensor::any_order)) options.check = Check::none;
    const RunResult other = cached_runner_->run(cached, options);
    if (one.pass())
        for (const std::string& failure : other.failures())
            result.failures.push_back(inputs + "the cached kernel: " + failure);
    const std::string digest = digest_of(one);
    if (digest != digest_of(other))
        result.failures.push_back(inputs + "the cached kernel gives other bits than the fresh one");
    if (data == Data::random)
        for (const OutputCheck& check : one.outputs_checked)
            result.found.worst = std::max(result.found.worst.value_or(0), check.worst);
    // A result without any error is the same on every machine.
    const bool is_exact = std::ranges::all_of(one.outputs_checked, [&](const OutputCheck& check) {
        return tensor_of(one, check.tensor).any_order ||
               (check.wrong == 0 && check.checked == check.elements && check.max_abs_error == 0);
    });
    const bool recorded = options_.seed == 1 && (data == Data::random || is_exact);
    return recorded ? digest : std::string();
}

void VariantRegression::time(const AnyKernel& kernel, RegressResult& result) {
    RunOptions options;
    options.cold_l2 = true;
    options.check = Check::none;
    const RunResult timed = runner_->run(kernel, options);
    if (!timed.time || timed.time->median_ms <= 0) return;
    Speed speed;
    speed.median_ms = timed.time->median_ms;
    speed.ingredients = result.found.ingredients;
    if (!ceiling_) ceiling_ = std::make_unique<Ceiling>(service_, *runner_);
    speed.times_naive = ceiling_->times_naive(kernel.variant(), timed);
    const Ceiling::Share share = ceiling_->share(timed, result.found.resources);
    speed.share = share.value;
    speed.ceiling = share.limit;
    result.found.speeds[service_.device().info().name] = speed;
}

}  // namespace kiln
