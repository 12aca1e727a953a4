// SPDX-License-Identifier: Apache-2.0
//
// The recorded times of variants in tests/tune/data: lines of "values | sizes | variant | microseconds".
#pragma once

#include <array>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace kiln::test {

/// The four fields of each line.
inline std::vector<std::array<std::string, 4>> recorded_times(const std::string& name) {
    std::ifstream file(std::string(std::getenv("KILN_TEST_SOURCE_DIR")) + "/tests/tune/data/" + name);
    std::vector<std::array<std::string, 4>> times;
    for (std::string line; std::getline(file, line);) {
        if (line.empty() || line.front() == '#') continue;
        std::array<std::string, 4>& fields = times.emplace_back();
        for (std::size_t i = 0, at = 0; i < fields.size(); ++i) {
            const std::size_t end = line.find(" | ", at);
            fields[i] = line.substr(at, end - at);
            if (end == std::string::npos) break;
            at = end + 3;
        }
    }
    return times;
}

}  // namespace kiln::test
