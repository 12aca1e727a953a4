// SPDX-License-Identifier: Apache-2.0
//
// A user of the component tools: the bank conflicts of a column of half[32][33].
#include <kiln/tools/banks.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <vector>

int main() {
    std::vector<std::optional<std::uint32_t>> column;
    for (std::uint32_t row = 0; row < 32; ++row) column.push_back(row * 33 * 2);
    const kiln::Wavefronts cost = kiln::wavefronts(column, 2, kiln::bank_model("sm_90a"));
    std::printf("%d wavefronts\n", cost.actual);
}
