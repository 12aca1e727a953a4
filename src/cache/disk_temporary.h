// SPDX-License-Identifier: Apache-2.0
//
// Temporary files: they are in v1/tmp under names that identify the writer, so that those of dead writers
// can be recognised.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/file.h"
#include "cache/trust.h"

namespace kiln {

constexpr const char* kTemporaryDirectory = "tmp";

/// A new file, which the destructor removes unless it was published. All functions throw std::system_error.
class DiskTemporary {
  public:
    /// version: the open directory v1. Mode 0600, or 0660 when shared.
    DiskTemporary(int version, Trust trust);
    DiskTemporary(const DiskTemporary&) = delete;
    DiskTemporary& operator=(const DiskTemporary&) = delete;
    ~DiskTemporary();

    void write(std::span<const std::byte> bytes);
    /// Waits until the bytes are on the disk.
    void sync();
    /// Becomes that file, last used now.
    void publish(int directory, const std::string& name);

  private:
    FileDescriptor directory_;
    std::string name_;
    FileDescriptor file_;
};

/// True when the temporary file of that name is abandoned: its writer, a process of this machine, has ended,
/// or it was last written more than a day ago.
bool is_left_behind(int temporaries, const std::string& name);

/// Removes abandoned files, or all. Does not throw: files that can't be removed stay.
void sweep_temporaries(int version, Trust trust, bool everything = false);

}  // namespace kiln
