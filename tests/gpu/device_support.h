// SPDX-License-Identifier: Apache-2.0
//
// What the tests on a CUDA device share: the device or a skip, compiling a kernel for it, arrays.
#pragma once

#include <gtest/gtest.h>
#include <kiln/error.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "compile/compiler.h"
#include "device/driver.h"
#include "prelude.h"
#include "require.h"

namespace kiln::test {

/// Device memory with an owner.
template <class T>
class Array {
  public:
    Array(std::shared_ptr<Driver> driver, std::size_t count)
        : driver_(std::move(driver)), count_(count), data_(static_cast<T*>(driver_->allocate(bytes()))) {}
    Array(std::shared_ptr<Driver> driver, const std::vector<T>& values)
        : Array(std::move(driver), values.size()) {
        driver_->copy_to_device(data_, values.data(), bytes());
    }
    ~Array() { driver_->release(data_); }
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;

    T* data() const { return data_; }
    std::size_t bytes() const { return count_ * sizeof(T); }
    std::vector<T> values() const {
        std::vector<T> result(count_);
        driver_->copy_from_device(result.data(), data_, bytes());
        return result;
    }

  private:
    std::shared_ptr<Driver> driver_;
    std::size_t count_;
    T* data_;
};

class OwnedStream {
  public:
    explicit OwnedStream(std::shared_ptr<Driver> driver)
        : driver_(std::move(driver)), handle_(driver_->create_stream(0)) {}
    ~OwnedStream() { driver_->destroy_stream(handle_); }
    OwnedStream(const OwnedStream&) = delete;
    OwnedStream& operator=(const OwnedStream&) = delete;

    void* handle() const { return handle_; }
    void synchronize() const { driver_->synchronize(handle_); }

  private:
    std::shared_ptr<Driver> driver_;
    void* handle_;
};

/// launch(module, shape, stream, a, b, c): the arguments as the kernel declares them.
template <class... Arguments>
void launch(const Module& module, const LaunchShape& shape, const OwnedStream& stream,
            Arguments... arguments) {
    void* pointers[] = {static_cast<void*>(&arguments)...};
    module.launch(shape, pointers, stream.handle());
}

class DeviceTest : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string reason;
        const bool found = !list_cuda_devices(&reason).empty();
        KILN_REQUIRE_OR_SKIP("gpu", found, reason);
        driver_ = open_cuda_device(0);
        stream_ = std::make_unique<OwnedStream>(driver_);
    }

    Binary compile(const std::string& entry, const std::string& body, std::string arch = {}) {
        if (arch.empty()) arch = driver_->info().arch;
        return make_nvrtc_compiler(nullptr)->compile(prelude_source(entry, body), target(arch));
    }
    std::string ptx(const std::string& entry, const std::string& body) {
        return make_nvrtc_compiler(nullptr)->ptx(prelude_source(entry, body), target(driver_->info().arch));
    }
    std::shared_ptr<Module> load(const std::string& entry, const std::string& body) {
        return driver_->load(compile(entry, body));
    }
    /// The major compute capability: 9 of "sm_90a".
    int major() const { return std::stoi(driver_->info().arch.substr(3)) / 10; }

    std::shared_ptr<Driver> driver_;
    std::unique_ptr<OwnedStream> stream_;

  private:
    Target target(std::string arch) const { return {Backend::cuda, std::move(arch), driver_->info().limits}; }
};

/// The DeviceError that a call throws; fails the test when it throws none.
template <class Call>
DeviceError device_error(Call call) {
    try {
        call();
    } catch (const DeviceError& error) {
        return error;
    }
    ADD_FAILURE() << "no DeviceError";
    return DeviceError("none");
}

}  // namespace kiln::test
