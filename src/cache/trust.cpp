// SPDX-License-Identifier: Apache-2.0
//
// Only owner and mode are checked: an access list that lets others write is visible in the mode's group bits.
#include "cache/trust.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

namespace kiln {
namespace {

std::string mode_text(mode_t mode) {
    char text[8];
    std::snprintf(text, sizeof(text), "%04o", static_cast<unsigned>(mode & 07777));
    return text;
}

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
        const std::string self = user == 0 ? "root" : "root or this user (" + std::to_string(user) + ")";
        return "it belongs to user " + std::to_string(status.st_uid) + ", and only what " + self +
               (trust.group ? ", or a member of a group of theirs," : "") + " owns is believed";
    }
    if ((status.st_mode & S_IWOTH) != 0) {
        return "others may write to it (mode " + mode_text(status.st_mode) + "); run chmod " +
               (trust.group ? "o-w" : "go-w") + " on it";
    }
    if (trust.group && (status.st_mode & S_IWGRP) != 0 && !is_own_group(status.st_gid)) {
        return "members of group " + std::to_string(status.st_gid) + " may write to it (mode " +
               mode_text(status.st_mode) + "), and this user is none of them; run chgrp or chmod g-w on it";
    }
    if (!trust.group && (status.st_mode & S_IWGRP) != 0) {
        return "members of its group may write to it (mode " + mode_text(status.st_mode) +
               "); run chmod go-w on it, or share with them on purpose (KILN_CACHE_SHARE=group)";
    }
    return {};
}

}  // namespace kiln
