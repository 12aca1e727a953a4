#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# exports_test.sh SOURCE NAME ARCHIVE LIBRARY [OTHER]: the shared library exports what tests/install/exports/NAME.txt lists
# and what the library OTHER exports. All of it lies in the version's namespace. What an application links with the archive
# shows no other names of Kiln either.
set -euo pipefail
source=$1 name=$2 archive=$3
shift 3
if ! diff "$source/tests/install/exports/$name.txt" <("$source/scripts/exports" "$@"); then
    echo "'<': listed, but not exported; '>': exported, but not listed. If the change of the API is meant:" \
        "scripts/exports $* > tests/install/exports/$name.txt" >&2
    exit 1
fi
# Names of Kiln that others see and that are outside the version's namespace; the columns: binding, visibility, section, name.
# Instances of the standard library's templates have its visibility.
unversioned() {
    readelf -sW "$1" 2>/dev/null | awk '$5 != "LOCAL" && $6 == "DEFAULT" && $7 != "UND" { print $8 }' | sed 's/@.*//' | c++filt |
        grep -E '^((vtable|typeinfo|typeinfo name) for )?kiln::' | grep -vE '^[a-z ]*kiln::v[0-9]+_[0-9]+::'
}
for file in "$archive" "$1"; do
    if unversioned "$file"; then
        echo "These of $file are neither hidden nor in the inline namespace KILN_ABI (include/kiln/version.h)" >&2
        exit 1
    fi
done
