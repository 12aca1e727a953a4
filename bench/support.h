// SPDX-License-Identifier: Apache-2.0
//
// What cache-bench prints and reads: spreads of repeated measurements, a table for people, and the few
// command-line options it needs.
#pragma once

#include <kiln/tools/bench.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/stopwatch.h"
#include "cli/json.h"

namespace kiln::bench {

using cli::Json;

using Spread = BenchSpread;
Json to_json(const Spread& spread);

/// "12.3", with about `digits` significant digits and no exponent.
std::string rounded(double value, int digits = 4);

/// Keeps the compiler from dropping the computation of `value`.
template <class T>
void keep(const T& value) {
    asm volatile("" : : "g"(&value) : "memory");
}

/// Rows of text in aligned columns, the first column to the left, the others to the right.
class Table {
  public:
    explicit Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
    void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
    std::string text() const;

  private:
    std::vector<std::vector<std::string>> rows_;
};

/// Options "--name" and "--name VALUE". Throws UsageError for what is wrong.
class Arguments {
  public:
    Arguments(int argc, char** argv) : words_(argv + 1, argv + argc) {}

    bool flag(std::string_view name);
    std::string text(std::string_view name, std::string otherwise);
    int number(std::string_view name, int otherwise, int min, int max);
    /// To be called last. usage: shown with the complaint about a word that nobody asked for.
    void expect_no_more(std::string_view usage) const;

  private:
    std::vector<std::string> words_;
};

}  // namespace kiln::bench
