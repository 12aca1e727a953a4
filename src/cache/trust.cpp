// SPDX-License-Identifier: Apache-2.0
//
// Only owner and mode are checked: an access list that lets others write is visible in the mode's group bits.
#include "cache/trust.h"

#include <unistd.h>

#include <algorithm>
#include <vector>

#include "format/format.h"

namespace kiln {
namespace {

std::string mode_text(mode_t mode) { return formatted("{:04o}", mode & 07777); }

bool is_own_group(gid_t group) {
    if (group == ::getegid()) return true;
    const int count = ::getgroups(0, nullptr);
    if (count <= 0) return false;
    std::vector<gid_t> groups(static_cast<std::size_t>(count));
    const int filled = ::getgroups(count, groups.data());
    return filled > 0 && std::find(groups.begin(), groups.begin() + filled, group) != groups.begin() + filled;
}

}  // namespace

std::string distrust(const struct stat& status, Trust trust) {
    const uid_t user = ::geteuid();
    const bool own = status.st_uid == user || status.st_uid == 0;
    // Files shared by a group belong to the member that created them.
    if (!own && !(trust.group && is_own_group(status.st_gid))) {
        const std::string self = user == 0 ? "root" : formatted("root or this user ({})", user);
        return formatted("it belongs to user {}, and only what {}{} owns is believed", status.st_uid, self,
                         trust.group ? ", or a member of a group of theirs," : "");
    }
    if ((status.st_mode & S_IWOTH) != 0) {
        return "others may write to it (mode " + mode_text(status.st_mode) + "); run chmod " +
               (trust.group ? "o-w" : "go-w") + " on it";
    }
    if (trust.group && (status.st_mode & S_IWGRP) != 0 && !is_own_group(status.st_gid)) {
        return formatted(
            "members of group {} may write to it (mode {}), and this user is none of them; run chgrp or "
            "chmod g-w on it",
            status.st_gid, mode_text(status.st_mode));
    }
    if (!trust.group && (status.st_mode & S_IWGRP) != 0) {
        return "members of its group may write to it (mode " + mode_text(status.st_mode) +
               "); run chmod go-w on it, or share with them on purpose (KILN_CACHE_SHARE=group)";
    }
    return {};
}

}  // namespace kiln
