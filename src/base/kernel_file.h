// SPDX-License-Identifier: Apache-2.0
//
// A host kernel's shared object, in memory, and the name by which the loader knows it. From that name its bytes are found
// again, to tell the line of an address.
#pragma once

#include <kiln/build.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace kiln {

/// What KernelFile::name() has at most.
inline constexpr std::size_t kMostKernelName = 319;

class KernelFile {
  public:
    explicit KernelFile(Bytes bytes);
    KernelFile(const KernelFile&) = delete;
    KernelFile& operator=(const KernelFile&) = delete;
    ~KernelFile();

    const Bytes& bytes() const { return bytes_; }
    /// A path of this open file of the process that no other object ever has: the loader takes objects of one name for one,
    /// and a descriptor's number is given again.
    std::string name(const FileDescriptor& file) const;
    /// Has the bytes from now on from this file, which has the same, and need not stay open.
    void use(const FileDescriptor& file);
    /// Drops the bytes: the loader has the object by another name.
    void forget() { replace({}); }

  private:
    friend std::optional<Bytes> bytes_of_kernel(std::string_view name) noexcept;

    void replace(Bytes bytes);

    const std::string place_;  ///< name() without the number
    Bytes bytes_;
    KernelFile* next_ = nullptr;  ///< of all that there are
    KernelFile* before_ = nullptr;
};

/// Of the KernelFile of this name, given in this process or in a child of fork(); nullopt: there is none.
std::optional<Bytes> bytes_of_kernel(std::string_view name) noexcept;

}  // namespace kiln
