// SPDX-License-Identifier: Apache-2.0
//
// NVML numbers GPUs differently from CUDA, so a device is found by its PCI bus ID.
#include "bench/chip_state.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <fstream>
#include <random>
#include <thread>

#include "format/format.h"

namespace kiln::bench {
namespace {

// nvml.h
constexpr int kSuccess = 0, kClockSm = 1, kClockMemory = 2, kTemperatureGpu = 0;
constexpr double kWattsPerUnit = 1e-3;

template <class T>
std::string name_of_processor(T& lines) {
    for (std::string line; std::getline(lines, line);) {
        const std::size_t colon = line.find(':');
        if (line.starts_with("model name") && colon + 2 < line.size()) return line.substr(colon + 2);
    }
    return "processor";
}

}  // namespace

ChipMonitor::ChipMonitor(const std::string& pci_bus_id, const std::vector<std::string>& libraries) {
    if (pci_bus_id.empty()) return;
    library_ = DynamicLibrary::open(libraries);
    int (*init)() = nullptr;
    int (*by_bus_id)(const char*, Device*) = nullptr;
    int (*driver_version)(char*, unsigned) = nullptr;
    if (!library_ || !library_.resolve(init, "nvmlInit_v2") ||
        !library_.resolve(by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2") || init() != kSuccess)
        return;
    library_.keep_forever();
    std::array<char, 96> text{};
    if (library_.resolve(driver_version, "nvmlSystemGetDriverVersion") &&
        driver_version(text.data(), text.size()) == kSuccess)
        driver_ = text.data();
    if (by_bus_id(pci_bus_id.c_str(), &device_) != kSuccess) device_ = nullptr;
    library_.resolve(clock_, "nvmlDeviceGetClockInfo");
    library_.resolve(temperature_, "nvmlDeviceGetTemperature");
    library_.resolve(power_, "nvmlDeviceGetPowerUsage");
}

std::optional<ChipState> ChipMonitor::read() const {
    if (device_ == nullptr || clock_ == nullptr) return std::nullopt;
    unsigned sm = 0, memory = 0, watts = 0, celsius = 0;
    if (clock_(device_, kClockSm, &sm) != kSuccess || clock_(device_, kClockMemory, &memory) != kSuccess)
        return std::nullopt;
    if (power_ == nullptr || power_(device_, &watts) != kSuccess) watts = 0;
    if (temperature_ == nullptr || temperature_(device_, kTemperatureGpu, &celsius) != kSuccess) celsius = 0;
    return ChipState{static_cast<int>(sm), static_cast<int>(memory), watts * kWattsPerUnit,
                     static_cast<int>(celsius)};
}

std::string pci_bus_id(int ordinal) {
    DynamicLibrary driver = DynamicLibrary::open({"libcuda.so.1"});
    driver.keep_forever();
    int (*device_get)(int*, int) = nullptr;
    int (*bus_id)(char*, int, int) = nullptr;
    std::array<char, 32> text{};
    int device = 0;
    if (!driver || !driver.resolve(device_get, "cuDeviceGet") ||
        !driver.resolve(bus_id, "cuDeviceGetPCIBusId") || device_get(&device, ordinal) != kSuccess ||
        bus_id(text.data(), static_cast<int>(text.size()), device) != kSuccess)
        return {};
    return text.data();
}

std::string machine_text() {
    std::ifstream lines("/proc/cpuinfo");
    return formatted("{} x {}", std::max(1U, std::thread::hardware_concurrency()), name_of_processor(lines));
}

std::string utc_now() {
    const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    std::array<char, 40> text{};
    std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text.data();
}

std::string run_identity(const std::string& date) {
    constexpr std::string_view kLetters = "abcdefghijkmnpqrstuvwxyz23456789";
    std::string id = date;
    std::erase_if(id, [](char c) { return c == '-' || c == ':' || c == 'Z'; });
    std::random_device random;
    id += '-';
    for (int i = 0; i < 6; ++i) id += kLetters[random() % kLetters.size()];
    return id;
}

}  // namespace kiln::bench
