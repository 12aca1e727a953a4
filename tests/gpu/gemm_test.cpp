// SPDX-License-Identifier: Apache-2.0
//
// Right results on a GPU: every kernel and type at even, odd and extreme shapes, many variants of the
// tile, addresses that forbid vector accesses, and a C past 2^31 elements.
#include <future>

#include "base/file.h"
#include "gemm_fixture.h"

namespace kiln::test {
namespace {

constexpr std::uint64_t kSeed = 20261107;

struct GemmOnGpu : testing::Test {
    void SetUp() override {
        KILN_NEEDS_GPU();
        service = gpu_service(directory.path() / "cache");
    }

    template <class T>
    Kernel<GemmFn<T>> build(const char* kernel, Values values = {}) {
        values.emplace("T", kTypeName<T>);
        return service->build<GemmFn<T>>(service->find(kernel).variant(values));
    }

    TemporaryDirectory directory;
    std::unique_ptr<Service> service;
};

template <class T>
struct GemmTypesOnGpu : GemmOnGpu {};
using Types = testing::Types<half, bfloat16, float>;
struct TypeNames {
    template <class T>
    static std::string GetName(int) {
        return kTypeName<T>;
    }
};
TYPED_TEST_SUITE(GemmTypesOnGpu, Types, TypeNames);

TYPED_TEST(GemmTypesOnGpu, EveryElementOfEveryKernelIsRight) {
    using T = TypeParam;
    const std::vector<Kernel<GemmFn<T>>> kernels = {
        this->template build<T>("gemm_naive"),
        this->template build<T>("gemm_square"),
        this->template build<T>("gemm_tiled"),
        this->template build<T>("gemm_tiled", {{"PAD", 1}}),
        this->template build<T>("gemm_tiled", {{"PAD", 4}, {"VEC", 4}}),
    };
    for (const Shape shape : {Shape{1, 1, 1}, Shape{17, 1, 4097}, Shape{1009, 1013, 1019},
                              Shape{1024, 1024, 1024}, Shape{2048, 1024, 4096}}) {
        const Inputs<T> inputs(this->service->device(), shape, kSeed);
        std::vector<GuardedOutput> outputs;
        std::vector<std::span<const float>> results;
        outputs.reserve(kernels.size());
        for (const auto& kernel : kernels) {
            SCOPED_TRACE(kernel.variant().text() + " at " + text(shape));
            outputs.emplace_back(this->service->device(), shape);
            multiply(kernel, this->service->stream(), inputs, outputs.back());
            results.push_back(outputs.back().read());
        }
        const auto verdicts = compare_with_fp64(shape, inputs.a(), inputs.b(), results);
        for (std::size_t i = 0; i < kernels.size(); ++i)
            EXPECT_EQ(verdicts[i].wrong, 0u)
                << kernels[i].variant().text() << " at " << text(shape) << ": " << verdicts[i].first;
    }
}

// Any legal choice of values computes the same product. Half of them read A and B from addresses one
// element past an aligned one, where a vector access would be misaligned.
TYPED_TEST(GemmTypesOnGpu, AnyLegalVariantIsRight) {
    using T = TypeParam;
    constexpr int kVariants = 17;  // of each type: 51 in all
    const auto legal = this->service->find("gemm_tiled").variants({{"T", kTypeName<T>}});
    ASSERT_GT(legal.size(), 1000u);
    std::mt19937_64 random(kSeed);
    std::vector<std::future<Kernel<GemmFn<T>>>> builds;
    for (int i = 0; i < kVariants; ++i)
        builds.push_back(this->service->template build_async<GemmFn<T>>(legal[random() % legal.size()]));

    const Shape shape{131, 257, 65};
    const Inputs<T> aligned(this->service->device(), shape, kSeed);
    const Inputs<T> skewed(this->service->device(), shape, kSeed, 1);
    for (std::size_t i = 0; i < builds.size(); ++i)
        expect_multiplies(*this->service, builds[i].get(), i % 2 == 0 ? aligned : skewed);
}

// Rows whose length a vector divides, from an address that it does not: the kernel has to look at both.
TYPED_TEST(GemmTypesOnGpu, VectorsFromUnalignedAddressesAreRight) {
    using T = TypeParam;
    const int vec = sizeof(T) == 4 ? 4 : 8;
    const auto gemm = this->template build<T>("gemm_tiled", {{"TN", 8}, {"PAD", 8}, {"VEC", vec}});
    for (const std::size_t skew : {0, 1, 2, 3, 4, 7})
        expect_multiplies(*this->service, gemm,
                          Inputs<T>(this->service->device(), {128, 256, 64}, kSeed, skew));
}

// 32-bit indices would wrap in C.
TEST_F(GemmOnGpu, AResultOfMoreThan2To31ElementsIsRight) {
    const Shape shape{46400, 46400, 8};
    const std::size_t bytes = std::size_t{46400} * 46400 * sizeof(float);
    ASSERT_GT(bytes / sizeof(float), std::size_t{1} << 31);
    if (service->device().free_bytes() < bytes + (std::size_t{1} << 28))
        GTEST_SKIP() << "the device has " << service->device().free_bytes() << " bytes free; this needs "
                     << bytes;
    const Inputs<half> inputs(service->device(), shape, kSeed);
    for (const char* kernel : {"gemm_tiled", "gemm_naive"})
        expect_multiplies(*service, build<half>(kernel), inputs);
}

}  // namespace
}  // namespace kiln::test
