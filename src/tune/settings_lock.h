// SPDX-License-Identifier: Apache-2.0
//
// Wisdom and calibrations are read, merged and written again: one process at a time.
#pragma once

#include <filesystem>
#include <string>

#include "base/file_lock.h"

namespace kiln {

/// Waits for the lock next to the file. what: "wisdom", for messages. Throws UsageError after ten seconds.
FileLock locked_settings(const std::filesystem::path& file, const std::string& what);

}  // namespace kiln
