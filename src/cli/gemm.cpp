// SPDX-License-Identifier: Apache-2.0
//
// The steps of the job, in their order. Memory is checked before the first byte of it is allocated.
#include "cli/gemm.h"

#include <kiln/error.h>
#include <kiln/run.h>
#include <kiln/tools/resources.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>

#include "cli/figures.h"
#include "cli/gemm_declared.h"
#include "cli/json.h"
#include "cli/parameter_options.h"
#include "cli/words.h"

namespace kiln::cli {
namespace {

constexpr int kExtent = 1024;
constexpr int kHostExtent = 512;
constexpr int kIterations = 20;
constexpr int kWarmUp = 5;
constexpr double kLargestFull = 2147483648.0;  // multiply-adds
constexpr std::uint32_t kNan = 0x7fc00000;
constexpr std::string_view kPlainReference = "gemm_reference";

class Stopwatch {
  public:
    double elapsed_ms() const {
        return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
    }

  private:
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::string signature_text(const Variant& variant) {
    std::vector<std::string> arguments;
    for (const KernelArgument& argument : variant.arguments())
        arguments.push_back(argument.type + " " + argument.name);
    return "(" + enumerate(arguments, ", ") + ")";
}

std::string parameters_text(const Variant& variant) {
    const std::string& text = variant.text();
    const std::size_t space = text.find(' ');
    return space == std::string::npos ? std::string() : text.substr(space + 1);
}

Shape shape_of(const Options& options, Backend backend) {
    const int otherwise = backend == Backend::host ? kHostExtent : kExtent;
    return {options.m.value_or(otherwise), options.n.value_or(otherwise), options.k.value_or(otherwise)};
}

/// The device holds A, B, C and what flushes its cache; the host copies of A and B and, to verify, C
/// and a vector of signs. On the host backend both come from the same memory.
void check_fits(const Device& device, const Options& options, Dtype dtype, const Shape& shape,
                bool verifying) {
    const Footprint footprint(dtype, shape);
    const DeviceInfo& info = device.info();
    std::uint64_t on_device = footprint.total();
    if (options.cold_l2) on_device = saturating_add(on_device, CacheFlusher::buffer_bytes(info));
    std::uint64_t on_host = saturating_add(footprint.a, footprint.b);
    if (verifying) on_host = saturating_add(saturating_add(on_host, footprint.c), std::uint64_t(shape.n));
    if (info.backend == Backend::host) {
        check_memory(shape, footprint, saturating_add(on_device, on_host), device.free_bytes(),
                     "this machine has");
        return;
    }
    check_memory(shape, footprint, on_device, device.free_bytes(), info.name + " has");
    check_memory(shape, footprint, on_host, Device::open(Backend::host).free_bytes(),
                 "this machine, which prepares and checks the matrices, has");
}

/// A, B and C on the device, and the launch.
class Product {
  public:
    Product(const Service& service, AnyKernel kernel, const Shape& shape, const Matrix& a, const Matrix& b)
        : kernel_(std::move(kernel)),
          stream_(service.stream()),
          shape_(shape),
          a_(service.device().allocate(a.bytes().size())),
          b_(service.device().allocate(b.bytes().size())),
          c_(service.device().allocate(Footprint(Dtype::f32, shape).c)) {
        set(a, b);
    }

    /// Nothing may run meanwhile.
    void set(const Matrix& a, const Matrix& b) {
        a_.copy_from(a.bytes());
        b_.copy_from(b.bytes());
    }

    void launch() {
        void* a = a_.data();
        void* b = b_.data();
        void* c = c_.data();
        void* arguments[] = {&shape_.m, &shape_.n, &shape_.k, &a, &b, &c};
        kernel_.launch(stream_, arguments);
    }
    void synchronize() const { stream_.synchronize(); }
    void poison() { c_.fill(kNan); }
    void copy_result(std::span<float> c) const { c_.copy_to(std::as_writable_bytes(c)); }

  private:
    AnyKernel kernel_;
    const Stream& stream_;
    Shape shape_;
    Buffer a_, b_, c_;
};

Report described(const Service& service, const Variant& variant) {
    Report report;
    report.kernel = variant.template_name();
    report.variant_text = parameters_text(variant);
    report.variant = variant.values();
    report.backend = service.backend();
    report.arch = service.target().arch;
    report.shared_bytes = variant.static_shared_bytes() + variant.dynamic_shared_bytes();
    return report;
}

void describe_product(Dtype dtype, const Shape& shape, Report& report) {
    const auto [m, n, k] = shape;
    const std::string type(name(dtype));
    report.dtype = type;
    report.shape = shape;
    report.problem = format("C (%d x %d, f32) = A (%d x %d, %s) * B (%d x %d, %s)", m, n, m, k, type.c_str(),
                            k, n, type.c_str());
    report.flops = shape.flops();
    report.flops_formula = "2 m n k";
    report.bytes = double(Footprint(dtype, shape).total());
    report.bytes_formula = "A, B and C once";
}

void compile(Service& service, const Variant& variant, const Terminal& terminal, Report& report) {
    const Progress progress(terminal, "compiling");
    const Stopwatch watch;
    const Compiled compiled = service.compile(variant);
    report.build_ms = watch.elapsed_ms();
    report.cache = compiled.origin;
    report.key = compiled.key.digest;
    report.registers = resources_of(compiled.binary).registers;
}

AnyKernel build(Service& service, const Variant& variant, const Terminal& terminal, Report& report) {
    const Progress progress(terminal, "building");
    AnyKernel kernel = service.build(variant);
    const BuildInfo& info = kernel.info();
    report.cache = kernel.origin();
    report.key = info.key.digest;
    report.build_ms = info.build_ms;
    report.load_ms = info.load_ms;
    report.shared_bytes = info.shared_bytes();
    report.registers = info.registers;
    report.blocks_per_sm = info.blocks_per_multiprocessor;
    return kernel;
}

/// The launch that is verified; returns C, or nothing when it is not to be verified, and the time that
/// the launch took as seen from here.
std::unique_ptr<float[]> first_launch(Product& product, std::size_t count, bool verifying, double& took_ms) {
    if (verifying) product.poison();
    const Stopwatch watch;
    product.launch();
    product.synchronize();
    took_ms = watch.elapsed_ms();
    if (!verifying) return nullptr;
    auto c = std::make_unique_for_overwrite<float[]>(count);
    product.copy_result({c.get(), count});
    return c;
}

TimeSummary timed(Service& service, Product& product, const Options& options, double one_launch_ms) {
    const bool on_host = service.backend() == Backend::host;
    const int iterations =
        options.iterations.value_or(on_host ? host_iterations(one_launch_ms) : kIterations);
    const int warm_up = options.warm_up.value_or(on_host ? 0 : kWarmUp);
    std::optional<CacheFlusher> flusher;
    std::function<void()> before_each;
    if (options.cold_l2) {
        flusher.emplace(service);
        before_each = [&] { flusher->flush(service.stream()); };
    }
    return summarise(time_launches(
        service.device(), service.stream(), warm_up, iterations, [&] { product.launch(); }, before_each));
}

/// Launches, times and verifies.
void measure(Service& service, const AnyKernel& kernel, Dtype dtype, const Options& options,
             const std::function<void(std::string_view)>& tell, Report& report) {
    const Shape shape = report.shape;
    const bool verifying = report.verified != Verify::none;
    tell("filling the matrices");
    Matrix a = Matrix::random(dtype, shape.m, shape.k, random_word(options.seed, 0));
    Matrix b = Matrix::random(dtype, shape.k, shape.n, random_word(options.seed, 1));
    Product product(service, kernel, shape, a, b);

    tell("running");
    const std::size_t count = std::size_t(shape.m) * std::size_t(shape.n);
    double one_launch_ms = 0;
    const auto c = first_launch(product, count, verifying, one_launch_ms);
    report.time = timed(service, product, options, one_launch_ms);

    tell("verifying");
    const std::span<const float> result(c.get(), verifying ? count : 0);
    if (report.verified == Verify::full) report.checked = checked(verify_full(a, b, result), Verify::full);
    if (report.verified == Verify::sample)
        report.checked = checked(verify_sample(a, b, result, random_word(options.seed, 2)), Verify::sample);
    if (!verifying || !report.checked->pass() || shape.k > kExactSum) return;

    // Once more, on data with which nothing that is missing hides in a bound.
    a = Matrix::integers(dtype, shape.m, shape.k, shape.k, random_word(options.seed, 3));
    b = Matrix::integers(dtype, shape.k, shape.n, shape.k, random_word(options.seed, 4));
    product.set(a, b);
    product.poison();
    product.launch();
    product.synchronize();
    product.copy_result(std::span(c.get(), count));
    report.checked->add_exact(verify_sample(a, b, result, random_word(options.seed, 5)));
}

/// What measure() found, for another process. CBOR keeps numbers that are not finite.
std::string measured_bytes(const Report& report) {
    Json json = Json::array({nullptr, nullptr});
    if (report.time)
        json[0] = Json::array(
            {report.time->min_ms, report.time->median_ms, report.time->max_ms, report.time->iterations});
    if (const auto& checked = report.checked)
        json[1] = Json::array({checked->max_abs_error, checked->max_error_over_bound, checked->how,
                               checked->failure, checked->exact});
    std::string bytes;
    Json::to_cbor(json, bytes);
    return bytes;
}

void take_measured(const std::string& bytes, Report& report) {
    const Json json = Json::from_cbor(bytes);
    if (const Json& time = json[0]; !time.is_null())
        report.time = TimeSummary{time[0].get<double>(), time[1].get<double>(), time[2].get<double>(),
                                  time[3].get<int>()};
    if (const Json& found = json[1]; !found.is_null())
        report.checked = Checked{found[0].get<double>(), found[1].get<double>(), found[2].get<std::string>(),
                                 found[3].get<std::string>(), found[4].get<bool>()};
}

void run_product(Service& service, const Variant& variant, Dtype dtype, const Options& options,
                 const Terminal& terminal, Report& report) {
    const Device& device = service.device();
    const Shape shape = report.shape;
    report.verified =
        options.verify.value_or(shape.multiply_adds() <= kLargestFull ? Verify::full : Verify::sample);
    const bool verifying = report.verified != Verify::none;
    check_fits(device, options, dtype, shape, verifying);
    const AnyKernel kernel = build(service, variant, terminal, report);

    std::optional<Progress> progress;
    const auto show = [&](std::string_view phase) { progress.emplace(terminal, std::string(phase)); };
    const auto work = [&](const std::function<void(std::string_view)>& tell) {
        measure(service, kernel, dtype, options, tell, report);
        return measured_bytes(report);
    };
    take_measured(launch_apart(service, report.kernel, show, work), report);
}

}  // namespace

std::optional<Dtype> gemm_dtype(const Variant& variant) {
    const auto& arguments = variant.arguments();
    if (arguments.size() != 6) return std::nullopt;
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32}) {
        const std::string input = "const " + std::string(type_name(dtype)) + "*";
        const std::string expected[] = {"int", "int", "int", input, input, "float*"};
        if (std::equal(arguments.begin(), arguments.end(), std::begin(expected),
                       [](const KernelArgument& argument, const std::string& type) {
                           return argument.type == type;
                       }))
            return dtype;
    }
    return std::nullopt;
}

GemmForm gemm_form(const Variant& variant) {
    const Template of = variant.origin();
    const auto& tensors = of.tensors();
    const auto c = std::find_if(tensors.begin(), tensors.end(), [](const TensorArgument& tensor) {
        return tensor.name == "c" && (tensor.role == TensorRole::output || tensor.role == TensorRole::inout);
    });
    const bool plain_reference =
        c == tensors.end() || c->reference.empty() || c->reference == kPlainReference;
    if (gemm_dtype(variant) && plain_reference) return GemmForm::plain;
    return is_declared_product(of) ? GemmForm::declared : GemmForm::none;
}

GemmForm gemm_form(const Template& of) {
    try {
        return gemm_form(of.variant());
    } catch (const VariantError&) {
        return is_declared_product(of) ? GemmForm::declared : GemmForm::none;
    }
}

Variant choose_variant(const Service& service, const Options& options) {
    const Template chosen = service.find(options.kernel);
    Values values = options.values;
    const Parameter* const type = chosen.parameter(kTypeParameter);
    if (options.dtype && type != nullptr && type->kind == ParameterKind::type)
        values.insert_or_assign(kTypeParameter, std::string(type_name(*options.dtype)));
    const Variant variant = chosen.variant(values);
    const GemmForm form = gemm_form(variant);
    if (form == GemmForm::none)
        throw UsageError(
            "jit-gemm runs kernels of the signature (int m, int n, int k, const T* a, const T* b, float* "
            "c) with T kiln::half, kiln::bfloat16 or float, and templates that declare their problem, with "
            "sizes "
            "m, n and k and an output c; " +
            options.kernel + " has " + signature_text(variant) +
            ". --list-kernels shows which kernels it can run.");
    if (form == GemmForm::plain && !options.sizes.empty())
        throw UsageError("--size " + options.sizes.begin()->first + ": " + options.kernel +
                         " has the sizes m, n and k alone, which --m, --n and --k give.");
    const std::string given(options.dtype ? name(*options.dtype) : "");
    const std::string found =
        form == GemmForm::plain ? std::string(name(*gemm_dtype(variant))) : operand_type(variant);
    if (options.dtype && given != found)
        throw UsageError("--dtype " + given + ": " + options.kernel +
                         " has no type parameter T and is always " + found + "; leave --dtype out.");
    return variant;
}

Sizes product_sizes(const Options& options, Backend backend) {
    const Shape shape = shape_of(options, backend);
    Sizes sizes = options.sizes;
    sizes["m"] = shape.m;
    sizes["n"] = shape.n;
    sizes["k"] = shape.k;
    return sizes;
}

Report run_gemm(Service& service, const Variant& variant, const Options& options, const Terminal& terminal) {
    Report report = described(service, variant);
    const GemmForm form = gemm_form(variant);
    const Dtype dtype = gemm_dtype(variant).value_or(Dtype::f32);
    if (form == GemmForm::declared)
        describe_declared(service, variant, options, report);
    else
        describe_product(dtype, shape_of(options, service.backend()), report);
    if (options.compile_only) {
        compile(service, variant, terminal, report);
        return report;
    }
    report.device = service.device().info().name;
    const PrintsAside aside;
    if (form == GemmForm::declared)
        run_declared(service, variant, options, terminal, report);
    else
        run_product(service, variant, dtype, options, terminal, report);
    return report;
}

}  // namespace kiln::cli
