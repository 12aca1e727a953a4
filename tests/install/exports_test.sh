#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# exports_test.sh SOURCE NAME ARCHIVE SHARED: the public headers declare what cmake/exports/NAME.txt lists, and the shared
# library exports exactly that, whatever the compiler made besides.
set -euo pipefail
export LC_ALL=C
source=$1 name=$2 archive=$3 shared=$4
list=$source/cmake/exports/$name.txt

if ! diff "$list" <("$source/scripts/exports" "$name" "$archive"); then
    echo "'<': listed, but not in the library; '>': declared by a public header and not listed. If the change of the API is" \
        "meant: scripts/exports $name $archive > cmake/exports/$name.txt" >&2
    exit 1
fi
exported=$(nm -D --defined-only "$shared" | awk '$2 != "A" { print $3 }' | sed 's/@.*//' | c++filt |
    sed 's/std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >/std::string/g; s/std::basic_string_view<char, std::char_traits<char> >/std::string_view/g' |
    sort -u)
# What an exception class is comes from libkiln; the linker lets the same definition of another library show.
if [ "$name" != kiln ]; then exported=$(grep -vxFf "$source/cmake/exports/kiln.txt" <<< "$exported"); fi
if ! diff "$list" <(echo "$exported"); then
    echo "'<': not exported by $shared; '>': exported, but not in $list" >&2
    exit 1
fi
