// SPDX-License-Identifier: Apache-2.0
//
// Reads the tables that profilers print.
#include "inspect/profile_page.h"

#include <kiln/tools/profile.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

namespace kiln {
namespace {

using Row = std::vector<std::string>;

constexpr std::string_view kWavefronts = "memory_l1_wavefronts_shared";
constexpr std::string_view kIdeal = "memory_l1_wavefronts_shared_ideal";
constexpr std::string_view kLoadWavefronts = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum";
constexpr std::string_view kStoreWavefronts = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum";
constexpr std::string_view kLoads = "smsp__inst_executed_op_shared_ld.sum";
constexpr std::string_view kStores = "smsp__inst_executed_op_shared_st.sum";
constexpr std::string_view kSectors = "memory_l2_theoretical_sectors_global";
constexpr std::string_view kSectorsIdeal = "memory_l2_theoretical_sectors_global_ideal";
constexpr std::string_view kWarpsActive = "sm__warps_active.avg.pct_of_peak_sustained_active";
constexpr std::string_view kDuration = "gpu__time_duration.sum";
constexpr std::string_view kRegisters = "launch__registers_per_thread";
constexpr std::string_view kStaticShared = "launch__shared_mem_per_block_static";
constexpr std::string_view kDynamicShared = "launch__shared_mem_per_block_dynamic";
constexpr std::string_view kByRegisters = "launch__occupancy_limit_registers";
constexpr std::string_view kByShared = "launch__occupancy_limit_shared_mem";
constexpr std::string_view kByWarps = "launch__occupancy_limit_warps";
constexpr std::string_view kByBlocks = "launch__occupancy_limit_blocks";

constexpr std::string_view kConflictCycles = "SQ_LDS_BANK_CONFLICT";
constexpr std::string_view kLdsCycles = "SQ_LDS_IDX_ACTIVE";
constexpr std::string_view kWaves = "SQ_WAVES";
constexpr std::string_view kOccupancy = "OccupancyPercent";

/// "5,120", "12.5", "99.0 (1; 2; 3)"; nullopt: "n/a", "", "no data".
std::optional<double> number(std::string text) {
    std::erase(text, ',');
    std::erase(text, '\'');
    const std::size_t begin = text.find_first_not_of(' ');
    if (begin == std::string::npos) return std::nullopt;
    double value = 0;
    const auto [end, error] = std::from_chars(text.data() + begin, text.data() + text.size(), value);
    if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
    const bool whole = end == text.data() + text.size() || *end == ' ' || *end == '(';
    return whole ? std::optional(value) : std::nullopt;
}

/// The factor from this unit to bytes or milliseconds; 1 for other units.
double scale_of(std::string_view unit) {
    unit = unit.substr(0, unit.find('/'));
    static const std::map<std::string_view, double> scales = {
        {"Kbyte", 1e3},    {"Mbyte", 1e6},    {"Gbyte", 1e9}, {"KByte", 1e3}, {"MByte", 1e6},
        {"GByte", 1e9},    {"ns", 1e-6},      {"us", 1e-3},   {"ms", 1},      {"s", 1e3},
        {"nsecond", 1e-6}, {"usecond", 1e-3}, {"msecond", 1}, {"second", 1e3}};
    const auto found = scales.find(unit);
    return found == scales.end() ? 1 : found->second;
}

/// "name(int, float*)", "name [clone .kd]", "name.kd"
std::string entry_name(const std::string& text) {
    std::string name = text.substr(0, text.find_first_of("( ["));
    if (name.ends_with(".kd")) name.resize(name.size() - 3);
    return name;
}

/// Fields of a row by the name of their column.
class Fields {
  public:
    Fields(const Row& header, const Row& row, const Row* units = nullptr)
        : header_(header), row_(row), units_(units) {}

    std::string text(std::string_view column) const {
        const std::size_t at = find(column);
        return at < row_.size() ? row_[at] : std::string();
    }
    std::optional<double> value(std::string_view column) const {
        const std::size_t at = find(column);
        if (at >= row_.size()) return std::nullopt;
        auto result = number(row_[at]);
        if (result && units_ != nullptr && at < units_->size()) *result *= scale_of((*units_)[at]);
        return result;
    }
    template <class Integer>
    std::optional<Integer> whole(std::string_view column) const {
        const auto result = value(column);
        if (!result || *result < 0 || *result > 1e15) return std::nullopt;
        return static_cast<Integer>(std::llround(*result));
    }

  private:
    std::size_t find(std::string_view column) const {
        return static_cast<std::size_t>(std::ranges::find(header_, column) - header_.begin());
    }

    const Row& header_;
    const Row& row_;
    const Row* units_;
};

Measured ncu_launch(const Fields& fields) {
    Measured result;
    result.kernel = entry_name(fields.text("Kernel Name"));
    result.process = fields.whole<std::uint64_t>("Process ID").value_or(0);
    result.shared_wavefronts = fields.value(kWavefronts);
    result.shared_ideal = fields.value(kIdeal);
    result.load_wavefronts = fields.value(kLoadWavefronts);
    result.store_wavefronts = fields.value(kStoreWavefronts);
    result.shared_loads = fields.value(kLoads);
    result.shared_stores = fields.value(kStores);
    result.global_sectors = fields.value(kSectors);
    result.global_ideal = fields.value(kSectorsIdeal);
    if (const auto percent = fields.value(kWarpsActive)) result.warps_active = *percent / 100;
    result.elapsed_ms = fields.value(kDuration);
    result.registers = fields.whole<int>(kRegisters);
    const auto fixed = fields.whole<std::uint64_t>(kStaticShared);
    const auto dynamic = fields.whole<std::uint64_t>(kDynamicShared);
    if (fixed && dynamic) result.shared_bytes = *fixed + *dynamic;
    result.blocks_by_registers = fields.whole<int>(kByRegisters);
    result.blocks_by_shared = fields.whole<int>(kByShared);
    result.blocks_by_threads = fields.whole<int>(kByWarps);
    result.blocks_by_blocks = fields.whole<int>(kByBlocks);
    return result;
}

std::vector<Measured> ncu_launches(const std::vector<Row>& rows, std::vector<std::string>& notes) {
    std::vector<Measured> result;
    const Row* units = nullptr;
    for (std::size_t i = 1; i < rows.size(); ++i) {
        const Fields fields(rows[0], rows[i], units);
        if (fields.text("ID").empty()) {  // the row of units has no ID
            units = &rows[i];
        } else if (rows[i].size() != rows[0].size()) {
            notes.push_back("a row of the page is incomplete and was skipped.");
        } else {
            result.push_back(ncu_launch(fields));
        }
    }
    return result;
}

/// A counter that may be a column or a row.
void set_counter(Measured& launch, std::string_view counter, std::optional<double> value) {
    if (!value) return;
    if (counter == kConflictCycles) launch.lds_conflict_cycles = value;
    if (counter == kLdsCycles) launch.lds_cycles = value;
    if (counter == kWaves) launch.waves = value;
    if (counter == kOccupancy) launch.warps_active = *value / 100;
}

/// On gfx90a and later, accumulation registers are in the same register file.
std::optional<int> registers_of(std::optional<int> vector, std::optional<int> accumulation) {
    if (vector && accumulation) return *vector + *accumulation;
    return vector;
}

std::vector<Measured> rocprofv3_launches(const std::vector<Row>& rows) {
    std::vector<Measured> result;
    std::map<std::string, std::size_t> launches;  // by Dispatch_Id: a row for each of its counters
    for (std::size_t i = 1; i < rows.size(); ++i) {
        const Fields fields(rows[0], rows[i]);
        if (rows[i].size() != rows[0].size()) continue;
        const auto [at, is_new] =
            launches.emplace(fields.text("Process_Id") + ":" + fields.text("Dispatch_Id"), result.size());
        if (is_new) {
            Measured& launch = result.emplace_back();
            launch.kernel = entry_name(fields.text("Kernel_Name"));
            launch.process = fields.whole<std::uint64_t>("Process_Id").value_or(0);
            launch.registers =
                registers_of(fields.whole<int>("VGPR_Count"), fields.whole<int>("Accum_VGPR_Count"));
            launch.shared_bytes = fields.whole<std::uint64_t>("LDS_Block_Size");
            const auto begin = fields.value("Start_Timestamp"), end = fields.value("End_Timestamp");
            if (begin && end && *end >= *begin) launch.elapsed_ms = (*end - *begin) * 1e-6;
        }
        set_counter(result[at->second], fields.text("Counter_Name"), fields.value("Counter_Value"));
    }
    return result;
}

std::vector<Measured> rocprof_launches(const std::vector<Row>& rows) {
    std::vector<Measured> result;
    for (std::size_t i = 1; i < rows.size(); ++i) {
        const Fields fields(rows[0], rows[i]);
        if (rows[i].size() != rows[0].size()) continue;
        Measured& launch = result.emplace_back();
        launch.kernel = entry_name(fields.text("KernelName"));
        launch.process = fields.whole<std::uint64_t>("pid").value_or(0);
        const auto vector = fields.whole<int>("arch_vgpr");
        launch.registers =
            vector ? registers_of(vector, fields.whole<int>("accum_vgpr")) : fields.whole<int>("vgpr");
        launch.shared_bytes = fields.whole<std::uint64_t>("lds");
        for (const std::string& counter : rocprof_counters())
            set_counter(launch, counter, fields.value(counter));
        const auto begin = fields.value("BeginNs"), end = fields.value("EndNs");
        if (begin && end && *end >= *begin) launch.elapsed_ms = (*end - *begin) * 1e-6;
    }
    return result;
}

/// The lines from the first one that begins with `start`.
std::string_view from_line(std::string_view text, std::string_view begin) {
    for (std::size_t at = 0; at != std::string_view::npos && at < text.size();) {
        if (text.substr(at).starts_with(begin)) return text.substr(at);
        at = text.find('\n', at);
        if (at != std::string_view::npos) ++at;
    }
    return {};
}

}  // namespace

const std::vector<std::string>& ncu_metrics() {
    static const std::vector<std::string> metrics = {
        std::string(kWavefronts),      std::string(kIdeal),        std::string(kLoadWavefronts),
        std::string(kStoreWavefronts), std::string(kLoads),        std::string(kStores),
        std::string(kSectors),         std::string(kSectorsIdeal), std::string(kWarpsActive),
        std::string(kDuration),        std::string(kRegisters),    std::string(kStaticShared),
        std::string(kDynamicShared),   std::string(kByRegisters),  std::string(kByShared),
        std::string(kByWarps),         std::string(kByBlocks)};
    return metrics;
}

const std::vector<std::string>& rocprof_counters() {
    static const std::vector<std::string> counters = {std::string(kConflictCycles), std::string(kLdsCycles),
                                                      std::string(kWaves), std::string(kOccupancy)};
    return counters;
}

std::vector<std::vector<std::string>> parse_csv(std::string_view text) {
    std::vector<Row> rows;
    Row row;
    std::string field;
    bool quoted = false, any = false;
    const auto end_row = [&] {
        if (!any) return;
        row.push_back(std::move(field));
        rows.push_back(std::move(row));
        row.clear(), field.clear(), any = false;
    };
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
            field += text[++i];
        } else if (c == '"' && (quoted || field.empty())) {
            quoted = !quoted;
            any = true;
        } else if (c == ',' && !quoted) {
            row.push_back(std::move(field));
            field.clear();
            any = true;
        } else if (c == '\n' && !quoted) {
            if (field.ends_with('\r')) field.pop_back();
            end_row();
        } else {
            field += c;
            any = any || c != '\r';
        }
    }
    end_row();
    return rows;
}

std::string_view ncu_table(std::string_view output) {
    const std::string_view text = from_line(output, "\"ID\",");
    std::size_t end = 0;
    // No field of this page has a line break in it.
    while (end < text.size() && text[end] == '"') {
        const std::size_t line_end = text.find('\n', end);
        end = line_end == std::string_view::npos ? text.size() : line_end + 1;
    }
    return text.substr(0, end);
}

inline namespace KILN_ABI {

std::vector<Measured> read_profile_page(std::string_view text, std::vector<std::string>* notes) {
    std::vector<std::string> unread;
    std::vector<std::string>& told = notes != nullptr ? *notes : unread;
    if (const std::string_view table = ncu_table(text); !table.empty())
        return ncu_launches(parse_csv(table), told);
    for (const std::string_view begin : {"\"Correlation_Id\",", "Correlation_Id,"})
        if (const std::string_view table = from_line(text, begin); !table.empty())
            return rocprofv3_launches(parse_csv(table));
    if (const std::string_view table = from_line(text, "Index,KernelName,"); !table.empty())
        return rocprof_launches(parse_csv(table));
    return {};
}

}  // namespace KILN_ABI
}  // namespace kiln
