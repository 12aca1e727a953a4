// SPDX-License-Identifier: Apache-2.0
//
// The table of loaded kernels: what was added is found, by equal variants too, while it grows under its readers;
// and who holds what. Stand-ins for kernels, since the table never looks into them.
#include "service/kernel_table.h"

#include <gtest/gtest.h>
#include <kiln/template.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "template_support.h"

namespace kiln {
namespace {

constexpr int kVariants = 500;

Template many() { return test::make("//@ param N int in 0..499 = 0\n"); }

// Its address is the kernel's, and its content tells which.
KernelTable::Pointer stand_in(int which) {
    const auto number = std::make_shared<int>(which);
    return {number, reinterpret_cast<const LoadedKernel*>(number.get())};
}
int number_of(const KernelTable::Pointer& kernel) { return *reinterpret_cast<const int*>(kernel.get()); }

TEST(KernelTable, FindsWhatWasAdded) {
    KernelTable table;
    const Template family = many();
    for (int n = 0; n < kVariants; ++n) {
        EXPECT_EQ(table.find(family.variant({{"N", n}})), nullptr);
        EXPECT_EQ(number_of(table.add(family.variant({{"N", n}}), stand_in(n))), n);
    }
    // Parsed again: equal, and nothing shared.
    const Template same = many();
    for (int n = 0; n < kVariants; ++n) EXPECT_EQ(number_of(table.find(same.variant({{"N", n}}))), n);
    EXPECT_EQ(table.find(test::make("//@ param N int in 0..500 = 0\n").variant()), nullptr);
}

TEST(KernelTable, TheFirstOneStays) {
    KernelTable table;
    const Variant variant = many().variant();
    const auto first = table.add(variant, stand_in(1));
    EXPECT_EQ(table.add(variant, stand_in(2)).get(), first.get());
    EXPECT_EQ(table.find(variant).get(), first.get());
}

TEST(KernelTable, HandlesOutliveItAndItOutlivesThreads) {
    auto table = std::make_unique<KernelTable>();
    const Variant variant = many().variant();
    auto kernel = stand_in(7);
    const std::weak_ptr<const LoadedKernel> alive = kernel;
    table->add(variant, std::move(kernel));
    KernelTable::Pointer elsewhere;
    std::thread([&] { elsewhere = table->find(variant); }).join();
    KernelTable::Pointer here = table->find(variant);
    EXPECT_EQ(here.get(), elsewhere.get());
    table.reset();
    here.reset();
    EXPECT_FALSE(alive.expired());
    EXPECT_EQ(number_of(elsewhere), 7);
    elsewhere.reset();
    EXPECT_TRUE(alive.expired());
}

TEST(KernelTable, GrowsUnderItsReaders) {
    KernelTable table;
    const Template family = many();
    std::vector<Variant> variants;
    for (int n = 0; n < kVariants; ++n) variants.push_back(family.variant({{"N", n}}));
    std::atomic<int> added{0};
    std::vector<std::jthread> readers;
    for (int i = 0; i < 3; ++i) {
        readers.emplace_back([&] {
            for (int seen = 0; seen < kVariants;) {
                seen = added.load(std::memory_order_acquire);
                for (int n = 0; n < seen; n += 7) {
                    const auto kernel = table.find(variants[static_cast<std::size_t>(n)]);
                    ASSERT_NE(kernel, nullptr) << n << " of " << seen;
                    ASSERT_EQ(number_of(kernel), n);
                }
            }
        });
    }
    for (int n = 0; n < kVariants; ++n) {
        table.add(variants[static_cast<std::size_t>(n)], stand_in(n));
        added.store(n + 1, std::memory_order_release);
    }
}

}  // namespace
}  // namespace kiln
