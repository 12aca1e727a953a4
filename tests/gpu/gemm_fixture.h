// SPDX-License-Identifier: Apache-2.0
//
// Products on a GPU through the public API, checked element by element: random inputs rounded to their
// type, an output between guard words in which every unwritten element is a NaN, and a reference in
// FP64. Needs no more than a device; KILN_REQUIRE=gpu makes its lack a failure.
#pragma once

#include <gtest/gtest.h>
#include <kiln/kiln.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "require.h"

namespace kiln::test {

/// A backend that has a GPU here; `reason` says why there is none.
std::optional<Backend> gpu_backend(std::string* reason = nullptr);

#define KILN_NEEDS_GPU()       \
    std::string no_gpu_reason; \
    KILN_REQUIRE_OR_SKIP("gpu", ::kiln::test::gpu_backend(&no_gpu_reason).has_value(), no_gpu_reason)

/// A service on the GPU; its warnings fail no test and are shown with it.
std::unique_ptr<Service> gpu_service(const std::filesystem::path& cache_directory);

/// Compiles these at the same time, for runs that find them in the service's cache afterwards. One that does not compile
/// throws its BuildError.
void compile_together(Service& service, const std::vector<Variant>& variants);

struct Shape {
    int m = 1, n = 1, k = 1;
};
std::string text(const Shape& shape);
inline void PrintTo(const Shape& shape, std::ostream* out) { *out << text(shape); }

template <class T>
using GemmFn = void(int, int, int, const T*, const T*, float*);
template <class T>
constexpr const char* kTypeName = "float";
template <>
inline constexpr const char* kTypeName<half> = "half";
template <>
inline constexpr const char* kTypeName<bfloat16> = "bfloat16";

/// What is wrong with a result; `wrong` counts all of it, `first` describes one element.
struct Verdict {
    std::uint64_t wrong = 0;
    std::string first;
};

/// Compares all of a row-major C with A * B in FP64 on all cores. a and b: m * k and k * n values,
/// already rounded to their type. An element may differ by K u (|A||B|) plus the rounding of the
/// result, u = 2^-24: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1.
/// Several results of the same product are checked together, which costs little more than one.
std::vector<Verdict> compare_with_fp64(const Shape& shape, std::span<const float> a, std::span<const float> b,
                                       const std::vector<std::span<const float>>& results);

/// A and B in host memory, as values and as float copies of the rounded values, and on the device.
template <class T>
class Inputs {
  public:
    /// skew: how many elements past an aligned address A and B start on the device.
    Inputs(const Device& device, const Shape& shape, std::uint64_t seed, std::size_t skew = 0)
        : shape_(shape),
          skew_(skew),
          a_(count(shape.m, shape.k)),
          b_(count(shape.k, shape.n)),
          device_a_(device.allocate((a_.size() + skew) * sizeof(T))),
          device_b_(device.allocate((b_.size() + skew) * sizeof(T))) {
        std::mt19937_64 random(seed);
        fill(random, a_, device_a_);
        fill(random, b_, device_b_);
    }

    const Shape& shape() const { return shape_; }
    const T* device_a() const { return device_a_.as<T>() + skew_; }
    const T* device_b() const { return device_b_.as<T>() + skew_; }
    std::span<const float> a() const { return a_; }
    std::span<const float> b() const { return b_; }

  private:
    static std::size_t count(int rows, int columns) {
        return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
    }
    void fill(std::mt19937_64& random, std::vector<float>& values, Buffer& buffer) {
        std::vector<T> rounded(values.size() + skew_);
        for (std::size_t i = 0; i < values.size(); ++i) {
            const T value = static_cast<T>(static_cast<float>(random() >> 40) * 0x1p-23F - 1.0F);
            rounded[i + skew_] = value;
            values[i] = static_cast<float>(value);
        }
        buffer.copy_from(std::as_bytes(std::span(rounded)));
    }

    Shape shape_;
    std::size_t skew_;
    std::vector<float> a_, b_;
    Buffer device_a_, device_b_;
};

/// C on the device. Every word, the guards on both sides included, starts as one NaN.
class GuardedOutput {
  public:
    GuardedOutput(const Device& device, const Shape& shape);

    float* data() const { return buffer_.as<float>() + kGuard; }
    /// Copies C to the host and expects the guards to be whole. Valid as long as this object.
    std::span<const float> read();

  private:
    static constexpr std::size_t kGuard = 1024;  // floats; keeps the alignment of an allocation
    static constexpr std::uint32_t kPoison = 0x7fc5a5a5;

    std::size_t elements_;
    Buffer buffer_;
    std::unique_ptr<float[]> host_;
};

/// Launches and waits.
template <class T>
void multiply(const Kernel<GemmFn<T>>& gemm, const Stream& stream, const Inputs<T>& inputs,
              GuardedOutput& output) {
    const auto [m, n, k] = inputs.shape();
    gemm(stream, m, n, k, inputs.device_a(), inputs.device_b(), output.data());
    stream.synchronize();
}

/// Launches, waits and expects the right product.
template <class T>
void expect_multiplies(Service& service, const Kernel<GemmFn<T>>& gemm, const Inputs<T>& inputs) {
    GuardedOutput output(service.device(), inputs.shape());
    multiply(gemm, service.stream(), inputs, output);
    const Verdict verdict =
        compare_with_fp64(inputs.shape(), inputs.a(), inputs.b(), {output.read()}).front();
    EXPECT_EQ(verdict.wrong, 0u) << gemm.variant().text() << " at " << text(inputs.shape()) << ": "
                                 << verdict.first;
}

}  // namespace kiln::test
