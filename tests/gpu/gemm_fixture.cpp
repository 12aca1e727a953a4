// SPDX-License-Identifier: Apache-2.0
//
// The FP64 reference, and the guarded output.
#include "gemm_fixture.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <functional>
#include <future>
#include <mutex>
#include <sstream>
#include <thread>

namespace kiln::test {
namespace {

// A block of C whose sums stay in a core's first cache while a row of B passes by.
constexpr std::size_t kRows = 8;
constexpr std::size_t kColumns = 128;
constexpr double kUnit = 0x1p-24;

struct Sums {
    double sum[kRows][kColumns];
    double magnitude[kRows][kColumns];
};

void accumulate(const float* a, std::size_t a_pitch, std::size_t rows, const double* b_row, std::size_t p,
                Sums& sums) {
    for (std::size_t i = 0; i < rows; ++i) {
        const double factor = a[i * a_pitch + p];
        for (std::size_t j = 0; j < kColumns; ++j) {
            const double product = factor * b_row[j];
            sums.sum[i][j] += product;
            sums.magnitude[i][j] += std::abs(product);
        }
    }
}

void run_on_all_cores(std::size_t count, const std::function<void(std::size_t)>& work) {
    std::atomic<std::size_t> next{0};
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
        threads.emplace_back([&] {
            for (std::size_t item; (item = next.fetch_add(1)) < count;) work(item);
        });
    }
}

}  // namespace

std::optional<Backend> gpu_backend(std::string* reason) {
    for (const Backend backend : {Backend::cuda, Backend::hip}) {
        std::string why;
        if (!Device::list(backend, &why).empty()) return backend;
        if (reason != nullptr) *reason += (reason->empty() ? "" : "; ") + why;
    }
    return std::nullopt;
}

std::unique_ptr<Service> gpu_service(const std::filesystem::path& cache_directory) {
    ServiceOptions options;
    options.backend = gpu_backend();
    options.cache.directory = cache_directory;
    return std::make_unique<Service>(options);
}

void compile_together(Service& service, const std::vector<Variant>& variants) {
    std::vector<std::future<Compiled>> under_way;
    for (const Variant& variant : variants) under_way.push_back(service.compile_async(variant));
    for (std::future<Compiled>& one : under_way) one.get();
}

std::string text(const Shape& shape) {
    return std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" + std::to_string(shape.k);
}

std::vector<Verdict> compare_with_fp64(const Shape& shape, std::span<const float> a, std::span<const float> b,
                                       const std::vector<std::span<const float>>& results) {
    const auto m = static_cast<std::size_t>(shape.m), n = static_cast<std::size_t>(shape.n),
               k = static_cast<std::size_t>(shape.k);
    const std::size_t blocks_across = (n + kColumns - 1) / kColumns, blocks_down = (m + kRows - 1) / kRows;
    std::vector<Verdict> verdicts(results.size());
    std::mutex mutex;

    // Down the columns, so that neighbouring blocks read the same part of B.
    run_on_all_cores(blocks_across * blocks_down, [&](std::size_t block) {
        const std::size_t row = block % blocks_down * kRows, column = block / blocks_down * kColumns;
        const std::size_t rows = std::min(kRows, m - row), columns = std::min(kColumns, n - column);
        Sums sums{};
        double b_row[kColumns] = {};
        for (std::size_t p = 0; p < k; ++p) {
            std::copy_n(b.begin() + static_cast<std::ptrdiff_t>(p * n + column), columns, b_row);
            accumulate(a.data() + row * k, k, rows, b_row, p, sums);
        }
        for (std::size_t r = 0; r < results.size(); ++r) {
            for (std::size_t i = 0; i < rows; ++i) {
                for (std::size_t j = 0; j < columns; ++j) {
                    const float found = results[r][(row + i) * n + column + j];
                    const double expected = sums.sum[i][j];
                    const double bound =
                        static_cast<double>(k) * kUnit * sums.magnitude[i][j] + kUnit * std::abs(expected);
                    if (std::abs(found - expected) <= bound) continue;  // false for a NaN
                    std::ostringstream what;
                    what << "row " << row + i << ", column " << column + j << " is " << found << ", expected "
                         << expected << " within " << bound;
                    const std::lock_guard lock(mutex);
                    if (verdicts[r].wrong++ == 0) verdicts[r].first = what.str();
                }
            }
        }
    });
    return verdicts;
}

GuardedOutput::GuardedOutput(const Device& device, const Shape& shape)
    : elements_(static_cast<std::size_t>(shape.m) * static_cast<std::size_t>(shape.n)),
      buffer_(device.allocate((elements_ + 2 * kGuard) * sizeof(float))) {
    buffer_.fill(kPoison);
}

std::span<const float> GuardedOutput::read() {
    const std::size_t whole = elements_ + 2 * kGuard;
    host_ = std::make_unique_for_overwrite<float[]>(whole);
    buffer_.copy_to(std::as_writable_bytes(std::span(host_.get(), whole)));
    const auto damaged = [&](std::size_t from) {
        return std::count_if(host_.get() + from, host_.get() + from + kGuard,
                             [](float word) { return std::bit_cast<std::uint32_t>(word) != kPoison; });
    };
    EXPECT_EQ(damaged(0), 0) << "words before C were overwritten";
    EXPECT_EQ(damaged(kGuard + elements_), 0) << "words after C were overwritten";
    return {host_.get() + kGuard, elements_};
}

}  // namespace kiln::test
