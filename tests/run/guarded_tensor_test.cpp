// SPDX-License-Identifier: Apache-2.0
//
// The guards of a tensor: what kernels do to them shows in their bits, and what kernels read there in their results.
#include "run/guarded_tensor.h"

#include <cmath>
#include <cstring>

#include "run/element.h"
#include "run_support.h"

namespace kiln::test {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t kCount = 37;

class GuardedTensorTest : public Run {
  protected:
    GuardedTensor made(const std::string& type, TensorRole role, const std::string& name = "t") {
        Tensor tensor;
        tensor.name = name;
        tensor.type = type;
        tensor.element_bytes = with_element(type, []<class T>(T) { return sizeof(T); });
        tensor.extents = {kCount};
        tensor.role = role;
        return {service().device(), tensor, Data::random, 1};
    }
};

constexpr const char* kTypes[] = {"half", "bfloat16",     "float", "double",        "signed char",
                                  "int",  "unsigned int", "short", "unsigned char", "long long"};

// Elements that lie in a guard, from the tensor's start on; the host's device memory is ordinary memory.
template <class T, class Use>
void each_guard_element(Use use) {
    constexpr auto kGuard = static_cast<std::int64_t>(GuardedTensor::kGuardBytes / sizeof(T));
    for (std::int64_t i = -kGuard; i < 0; i += 3) use(i);
    for (std::int64_t i = kCount; i < kCount + kGuard; i += 3) use(i);
}

TEST_F(GuardedTensorTest, AnAdditionToAnElementOfAGuardShows) {
    for (const std::string type : kTypes) {
        const GuardedTensor tensor = made(type, TensorRole::output);
        with_element(type, [&]<class T>(T) {
            T* const elements = static_cast<T*>(tensor.data());
            constexpr float kLittle = is_float<T> ? 1e-4f : 1;
            each_guard_element<T>([&](std::int64_t i) {
                const T before = elements[i];
                if constexpr (is_float<T>) {
                    ASSERT_TRUE(std::isnormal(wide(before)) && std::abs(wide(before)) < 1)
                        << type << " " << i;
                    elements[i] = T(static_cast<float>(wide(before)) + kLittle);
                } else if constexpr (!std::is_same_v<T, bool>) {
                    elements[i] = static_cast<T>(before + static_cast<T>(kLittle));
                }
                const std::int64_t bytes =
                    (i < 0 ? -1 - i : i - kCount) * static_cast<std::int64_t>(sizeof(T));
                const std::vector<Overrun> found = tensor.overruns();
                elements[i] = before;
                ASSERT_EQ(found.size(), 1U) << type << " " << i;
                EXPECT_EQ(found[0].before, i < 0);
                EXPECT_EQ(found[0].distance / sizeof(T) * sizeof(T), static_cast<std::uint64_t>(bytes));
            });
            EXPECT_TRUE(tensor.overruns().empty());
        });
    }
}

TEST_F(GuardedTensorTest, AnElementReadBeyondAnInputIsLarge) {
    for (const std::string type : {"half", "bfloat16", "float", "double"}) {
        const GuardedTensor tensor = made(type, TensorRole::input);
        with_element(type, [&]<class T>(T) {
            const T* const elements = static_cast<const T*>(tensor.data());
            each_guard_element<T>([&](std::int64_t i) {
                ASSERT_TRUE(std::isfinite(wide(elements[i]))) << type << " " << i;
                ASSERT_GE(std::abs(wide(elements[i])), 512) << type << " " << i;
            });
        });
    }
}

TEST_F(GuardedTensorTest, TheGuardsOfTwoTensorsDiffer) {
    const GuardedTensor one = made("float", TensorRole::output, "y"),
                        other = made("float", TensorRole::output, "z");
    each_guard_element<float>([&](std::int64_t i) {
        EXPECT_NE(std::memcmp(static_cast<float*>(one.data()) + i, static_cast<float*>(other.data()) + i,
                              sizeof(float)),
                  0)
            << i;
    });
}

TEST_F(GuardedTensorTest, TheGuardBehindGoesOnToTheEndOfThePage) {
    const GuardedTensor tensor = made("float", TensorRole::output);
    constexpr std::size_t kPage = GuardedTensor::kGuardBytes, kBytes = kCount * sizeof(float);
    std::byte& last = static_cast<std::byte*>(tensor.data())[2 * kPage - 1];
    last ^= std::byte{1};
    EXPECT_THAT(tensor.overruns(), ElementsAre(Overrun{"t", false, 2 * kPage - 1 - kBytes}));
}

}  // namespace
}  // namespace kiln::test
