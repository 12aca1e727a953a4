// SPDX-License-Identifier: Apache-2.0
//
// Which files a cache trusts. Entries are code that runs with this user's rights, so files that another user
// may have written are rejected.
#pragma once

#include <sys/stat.h>

#include <string>

namespace kiln {

struct Trust {
    bool group = false;  ///< members of the file's group may write, if this user is one
};

/// Why a file or directory with this status is not to be trusted ("it belongs to user 1001", "others may
/// write to it (mode 0777); run chmod go-w on it"); empty when it is: its owner is this user or root, and no
/// other user may write to it. With `group`, its owner may also be another member of its group, if this user
/// is one.
std::string distrust(const struct stat& status, Trust trust);

}  // namespace kiln
