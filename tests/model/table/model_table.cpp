// SPDX-License-Identifier: Apache-2.0
//
// model_table DATA.csv [MODE]: the measured data as a table, a list of runs, or renewed.
//   (none)            the table of docs/counters.md
//   --runs            a line per row: its number, a tab, the arguments of 'kiln run'
//   --metrics         what to ask ncu for
//   --measured PAGE PROCESSES   the data with the counters of ncu's page; PROCESSES has lines "NUMBER PROCESS"
//   --predict         predicts every row, and prints those that differ from what was measured, line by line
//   --predicted       the data with what the model says now; status 1 where a difference lacks its explanation
#include <kiln/error.h>

#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <thread>

#include "base/file.h"
#include "base/words.h"
#include "inspect/profile_page.h"
#include "model_data.h"

namespace {

using namespace kiln::model;

constexpr const char* kArch = "sm_90a";  // of the machine that measured

std::string content(const std::string& file) {
    auto text = kiln::read_text_if_exists(file);
    if (!text) throw kiln::UsageError("there is no file " + file + ".");
    return *text;
}

int renew(Data data, const std::string& page, const std::string& processes) {
    std::map<std::uint64_t, std::size_t> row_of;  // by process
    std::istringstream lines(content(processes));
    for (std::size_t row = 0, process = 0; lines >> row >> process;) row_of[process] = row;
    std::vector<bool> seen(data.rows.size());
    for (const kiln::Measured& launch : kiln::read_profile_page(content(page))) {
        const auto found = row_of.find(launch.process);
        if (found == row_of.end() || found->second >= data.rows.size()) continue;
        Row& row = data.rows[found->second];
        if (launch.kernel != row.template_name() || !launch.shared_wavefronts) continue;
        row = measured_row(row, launch);
        seen[found->second] = true;
    }
    int missing = 0;
    for (std::size_t i = 0; i < seen.size(); ++i) {
        if (seen[i]) continue;
        std::cerr << "model_table: not measured: " << data.rows[i].variant << "\n";
        ++missing;
    }
    std::cout << text(data);
    return missing == 0 ? 0 : 1;
}

std::vector<Prediction> predict_rows(const Data& data) {
    const kiln::TemporaryDirectory cache;
    return predict(data, kArch, cache.path(), std::thread::hardware_concurrency());
}

void print_difference(std::size_t number, const Row& row, const Prediction& one) {
    std::cout << number << " " << row.variant << " " << row.sizes << "\n";
    if (!one.problem.empty()) std::cout << "    " << one.problem << "\n";
    std::cout << "    shared predicted " << one.wavefronts << " ideal " << one.ideal << ", measured "
              << row.wavefronts << " ideal " << row.ideal << " (loads " << row.load_wavefronts << ", stores "
              << row.store_wavefronts << ")\n    global predicted " << one.global_sectors << " ideal "
              << one.global_ideal << ", measured " << row.global_sectors << " ideal " << row.global_ideal
              << "; registers " << one.registers.value_or(0) << ", measured "
              << (row.registers ? std::to_string(*row.registers) : "before the kernel changed") << "\n";
    if (one.wavefronts == row.wavefronts && one.ideal == row.ideal) return;
    for (const std::string& line : one.lines) std::cout << "        " << line << "\n";
}

int print_differences(const Data& data) {
    const std::vector<Prediction> found = predict_rows(data);
    std::size_t different = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const Row& row = data.rows[i];
        const Prediction& one = found[i];
        if (one.problem.empty() && one.wavefronts == row.wavefronts && one.ideal == row.ideal &&
            one.global_sectors == row.global_sectors && one.global_ideal == row.global_ideal)
            continue;
        ++different;
        print_difference(i, row, one);
    }
    std::cout << different << " of " << found.size() << " differ\n";
    return 0;
}

int print_predicted(Data data) {
    const std::vector<Prediction> found = predict_rows(data);
    int status = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        Row& row = data.rows[i];
        if (!found[i].problem.empty()) throw kiln::UsageError(row.variant + ": " + found[i].problem);
        row = predicted_row(row, found[i]);
        if (row.explanation != kUnexplained) continue;
        std::cerr << "model_table: why does this differ? " << row.variant << "\n";
        status = 1;
    }
    std::cout << text(data);
    return status;
}

}  // namespace

int main(int count, char** arguments) {
    const std::vector<std::string> words(arguments + 1, arguments + count);
    try {
        if (words.size() == 1) {
            std::cout << table(load(words[0]));
        } else if (words.size() == 2 && words[1] == "--runs") {
            const Data data = load(words[0]);
            for (std::size_t i = 0; i < data.rows.size(); ++i)
                std::cout << i << "\t" << data.rows[i].arguments() << "\n";
        } else if (words.size() == 2 && words[1] == "--metrics") {
            std::cout << kiln::join(kiln::ncu_metrics(), ",") << "\n";
        } else if (words.size() == 4 && words[1] == "--measured") {
            return renew(load(words[0]), words[2], words[3]);
        } else if (words.size() == 2 && words[1] == "--predict") {
            return print_differences(load(words[0]));
        } else if (words.size() == 2 && words[1] == "--predicted") {
            return print_predicted(load(words[0]));
        } else {
            std::cerr << "usage: model_table DATA.csv [--runs | --metrics | --measured PAGE PROCESSES | "
                         "--predict | "
                         "--predicted]\n";
            return 2;
        }
    } catch (const std::exception& error) {
        std::cerr << "model_table: " << error.what() << "\n";
        return 2;
    }
    return 0;
}
