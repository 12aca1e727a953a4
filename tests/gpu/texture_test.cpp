// SPDX-License-Identifier: Apache-2.0
//
// A kernel that reads an image through a texture object of the application.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <kiln/kiln.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "device/cuda_api.h"
#include "gpu_service.h"

namespace kiln {
namespace {

// As <cuda.h> has them; what is not named is zero.
struct ResourceDescription {
    int type = 3;  // CU_RESOURCE_TYPE_PITCH2D
    struct {
        unsigned long long address = 0;
        int format = 0x20;  // CU_AD_FORMAT_FLOAT
        unsigned channels = 1;
        std::size_t width = 0, height = 0, pitch_bytes = 0;
        int reserved[22] = {};
    } pitch2d;
    unsigned flags = 0;
};
static_assert(sizeof(ResourceDescription) == 144);
struct TextureDescription {
    int address_modes[3] = {1, 1, 1};  // CU_TR_ADDRESS_MODE_CLAMP
    int filter_mode = 1;               // CU_TR_FILTER_MODE_LINEAR
    unsigned flags = 0;
    unsigned others[21] = {};
};
static_assert(sizeof(TextureDescription) == 104);

using TextureOnGpu = test::GpuService;

TEST_F(TextureOnGpu, IsReadByAKernelThatTakesItAsANumber) {
    constexpr int kRows = 41, kCols = 128;  // rows of 512 bytes, as textures want their pitch
    std::vector<float> image(kRows * kCols), blurred(image.size(), -1);
    for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i * 7919 % 1009);
    const auto bytes = image.size() * sizeof(float);
    Buffer from = service_->device().allocate(bytes), to = service_->device().allocate(bytes);
    from.copy_from(std::as_bytes(std::span(image)));
    const Template of = Template::load(std::string(std::getenv("KILN_TEST_SOURCE_DIR")) +
                                       "/examples/templates/texture_blur.cu");
    const auto kernel = service_->build<void(unsigned long long, int, int, float*)>(
        of.for_target(service_->target()).variant());

    const cuda::Api* const api = cuda::api();
    cuda::DeviceHandle device = 0;
    cuda::ContextHandle context = nullptr;
    api->check(api->device_get(&device, 0), "cuDeviceGet");
    api->check(api->primary_context_retain(&context, device), "cuDevicePrimaryCtxRetain");
    api->check(api->context_set_current(context), "cuCtxSetCurrent");
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
    ASSERT_NE(library, nullptr);
    const auto create =
        reinterpret_cast<int (*)(unsigned long long*, const ResourceDescription*, const TextureDescription*,
                                 const void*)>(::dlsym(library, "cuTexObjectCreate"));
    const auto destroy =
        reinterpret_cast<int (*)(unsigned long long)>(::dlsym(library, "cuTexObjectDestroy"));
    ASSERT_TRUE(create != nullptr && destroy != nullptr);
    ResourceDescription resource;
    resource.pitch2d.address = reinterpret_cast<std::uintptr_t>(from.as<float>());
    resource.pitch2d.width = kCols;
    resource.pitch2d.height = kRows;
    resource.pitch2d.pitch_bytes = kCols * sizeof(float);
    const TextureDescription description;
    unsigned long long texture = 0;
    ASSERT_EQ(create(&texture, &resource, &description, nullptr), 0);

    kernel(service_->stream(), texture, kRows, kCols, to.as<float>());
    service_->stream().synchronize();
    to.copy_to(std::as_writable_bytes(std::span(blurred)));
    EXPECT_EQ(destroy(texture), 0);
    api->primary_context_release(device);
    ::dlclose(library);

    const auto pixel = [&](int row, int col) {
        return image[static_cast<std::size_t>(std::clamp(row, 0, kRows - 1) * kCols +
                                              std::clamp(col, 0, kCols - 1))];
    };
    for (int row = 0; row < kRows; ++row)
        for (int col = 0; col < kCols; ++col) {
            float expected = 0;
            for (int dy = -1; dy <= 1; ++dy)
                for (int dx = -1; dx <= 1; ++dx)
                    expected += static_cast<float>((2 - dy * dy) * (2 - dx * dx)) * pixel(row + dy, col + dx);
            ASSERT_EQ(blurred[static_cast<std::size_t>(row * kCols + col)], expected / 16)
                << row << " " << col;
        }
}

}  // namespace
}  // namespace kiln
