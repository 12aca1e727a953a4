// SPDX-License-Identifier: Apache-2.0
//
// Exported code on a GPU: compiled by the machine's C compiler, run on a stream of the application, and compared bit for
// bit with what the library's launch of the same variant gives.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <kiln/kiln.h>
#include <kiln/tools/export.h>

#include <cstdlib>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "base/file.h"
#include "base/process.h"
#include "device/cuda_api.h"
#include "gpu_service.h"

namespace kiln {
namespace {

class ExportOnGpu : public test::GpuService {
  protected:
    void SetUp() override {
        GpuService::SetUp();
        if (!service_) return;
        static_cast<void>(service_->stream());
        // As in an application that uses the CUDA runtime.
        api_ = cuda::api();
        api_->check(api_->device_get(&device_, 0), "cuDeviceGet");
        cuda::ContextHandle context = nullptr;
        api_->check(api_->primary_context_retain(&context, device_), "cuDevicePrimaryCtxRetain");
        api_->check(api_->context_set_current(context), "cuCtxSetCurrent");
    }
    void TearDown() override {
        if (api_ != nullptr) api_->primary_context_release(device_);
        if (library_ != nullptr) ::dlclose(library_);
    }

    /// Exports, compiles and opens; the function of that name.
    template <class Function>
    Function* exported(const Variant& variant, const std::string& name) {
        const std::vector<ExportedVariant> one = {{variant, service_->compile(variant).binary}};
        std::string source;
        for (const ExportedFile& file : export_c(*service_, one, {})) {
            write_text(directory.path() / file.name, file.text);
            source = (directory.path() / file.name).string();
        }
        const std::string shared = (directory.path() / "exported.so").string();
        ProcessRequest request;
        request.arguments = {"cc",    "-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror",  "-shared",
                             "-fPIC", source,     "-o",    shared,    "-ldl",      "-lpthread"};
        const ProcessResult result = run_process(request);
        EXPECT_EQ(result.exit_status, 0) << result.start_error << result.error;
        library_ = ::dlopen(shared.c_str(), RTLD_NOW);
        if (library_ == nullptr) return nullptr;
        error_ = reinterpret_cast<const char* (*)()>(
            ::dlsym(library_, ("kiln_" + variant.template_name() + "_error").c_str()));
        return reinterpret_cast<Function*>(::dlsym(library_, name.c_str()));
    }
    Buffer random_halfs(std::size_t count) {
        std::mt19937 random(7);
        std::vector<half> values(count);
        for (half& value : values) value = half(static_cast<float>(random() % 2000) / 1000 - 1);
        Buffer buffer = service_->device().allocate(count * 2);
        buffer.copy_from(std::as_bytes(std::span(values)));
        return buffer;
    }
    Buffer poisoned(std::size_t bytes) {
        Buffer buffer = service_->device().allocate(bytes);
        buffer.fill(0x7fc00000);
        return buffer;
    }
    std::vector<std::uint32_t> bits(const Buffer& buffer) const {
        service_->stream().synchronize();
        std::vector<std::uint32_t> words(buffer.size_bytes() / 4);
        buffer.copy_to(std::as_writable_bytes(std::span(words)));
        return words;
    }

    /// The same product by the library and by exported code.
    void expect_same_gemm(const Variant& variant, int m, int n, int k) {
        auto* const gemm = exported<int(void*, int, int, int, const void*, const void*, void*)>(
            variant, "kiln_" + variant.template_name());
        ASSERT_NE(gemm, nullptr) << ::dlerror();
        const Buffer a = random_halfs(static_cast<std::size_t>(m) * k),
                     b = random_halfs(static_cast<std::size_t>(k) * n);
        const std::size_t bytes = static_cast<std::size_t>(m) * n * 4;
        const Buffer ours = poisoned(bytes), theirs = poisoned(bytes);
        using GemmFn = void(int, int, int, const half*, const half*, float*);
        service_->build<GemmFn>(variant)(service_->stream(), m, n, k, a.as<half>(), b.as<half>(),
                                         ours.as<float>());
        EXPECT_EQ(gemm(service_->stream().handle(), m, n, k, a.as<half>(), b.as<half>(), theirs.as<float>()),
                  0)
            << error_();
        EXPECT_EQ(bits(theirs), bits(ours));
        EXPECT_EQ(gemm(service_->stream().handle(), m, n, k, nullptr, b.as<half>(), theirs.as<float>()), -1);
        EXPECT_THAT(error_(), testing::HasSubstr("the argument a is a null pointer"));
    }

    const cuda::Api* api_ = nullptr;
    cuda::DeviceHandle device_ = 0;
    void* library_ = nullptr;
    const char* (*error_)() = nullptr;
};

TEST_F(ExportOnGpu, GemmTiledGivesTheLibrarysBits) {
    expect_same_gemm(service_->find("gemm_tiled").variant({{"BM", 64}, {"BN", 64}}), 97, 131, 67);
}

TEST_F(ExportOnGpu, GemmWithTensorMapsAndClustersGivesTheLibrarysBits) {
    const Template of = service_->find("gemm_wgmma");
    if (!of.runs_on(Backend::cuda, service_->target().arch))
        GTEST_SKIP() << "no wgmma on " << service_->target().arch;
    expect_same_gemm(of.variant(), 4001, 1096, 520);
}

TEST_F(ExportOnGpu, SumWithScratchGivesTheLibrarysBits) {
    const Variant variant = service_->find("sum_shuffle").variant({{"T", "float"}});
    auto* const scratch = exported<int(long long, std::size_t*)>(variant, "kiln_sum_shuffle_scratch");
    ASSERT_NE(scratch, nullptr) << ::dlerror();
    std::size_t bytes = 0;
    ASSERT_EQ(scratch(1000003, &bytes), 0) << error_();
    const Problem problem = variant.problem({{"n", 1000003}});
    for (const Tensor& tensor : problem.tensors)
        if (tensor.role == TensorRole::scratch) {
            EXPECT_EQ(bytes, tensor.size_bytes()) << tensor.name;
        }
    auto* const sum = reinterpret_cast<int (*)(void*, long long, const void*, void*, void*)>(
        ::dlsym(library_, "kiln_sum_shuffle"));
    ASSERT_NE(sum, nullptr);
    std::vector<float> values(1000003);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1009) / 16;
    Buffer x = service_->device().allocate(values.size() * 4);
    x.copy_from(std::as_bytes(std::span(values)));
    Buffer sums_of_blocks = service_->device().allocate(bytes);
    sums_of_blocks.fill(0);
    const Buffer ours = poisoned(4), theirs = poisoned(4);
    const auto kernel = service_->build<void(long long, const float*, unsigned long long*, float*)>(variant);
    auto* const words = sums_of_blocks.as<unsigned long long>();
    kernel(service_->stream(), 1000003, x.as<float>(), words, ours.as<float>());
    for (int again = 0; again < 2; ++again) {  // the scratch tensor is zero again
        EXPECT_EQ(sum(service_->stream().handle(), 1000003, x.as<float>(), words, theirs.as<float>()), 0)
            << error_();
        EXPECT_EQ(bits(theirs), bits(ours));
    }
}

TEST_F(ExportOnGpu, SeveralKernelsGiveTheLibrarysBits) {
    const Template of = Template::load(std::string(std::getenv("KILN_TEST_SOURCE_DIR")) +
                                       "/examples/templates/reduce_template.cu");
    const Variant variant = of.for_target(service_->target()).variant({{"BLOCKS", 132}});
    auto* const sum =
        exported<int(void*, long long, const void*, void*, void*)>(variant, "kiln_reduce_template");
    ASSERT_NE(sum, nullptr) << ::dlerror();
    std::vector<float> values(1000003);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1009) / 16;
    Buffer x = service_->device().allocate(values.size() * 4);
    x.copy_from(std::as_bytes(std::span(values)));
    const Buffer partial = poisoned(132 * 4), ours = poisoned(4), theirs = poisoned(4);
    service_->build<void(long long, const float*, float*, float*)>(variant)(
        service_->stream(), 1000003, x.as<float>(), partial.as<float>(), ours.as<float>());
    EXPECT_EQ(
        sum(service_->stream().handle(), 1000003, x.as<float>(), partial.as<float>(), theirs.as<float>()), 0)
        << error_();
    EXPECT_EQ(bits(theirs), bits(ours));
}

}  // namespace
}  // namespace kiln
