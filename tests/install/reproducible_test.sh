#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# reproducible_test.sh SOURCE_DIR WORK_DIR GENERATOR COMPILER: two builds of the shared libkiln have the same bytes, though they are made in
# two places, at two times, with other languages, time zones, permissions and orders. What can differ does not depend on how
# much the compiler optimises: -O0 is quicker.
set -euo pipefail
source=$1 work=$2 generator=$3 compiler=$4
rm -rf "$work"
# Nobody hands the first build's objects to the second.
export CCACHE_DISABLE=1
unset SOURCE_DATE_EPOCH

first=$work/first
second=$work/second-in-a-place-with-a-longer-name
for place in "$first" "$second"; do
    mkdir -p "$place"
    tar -C "$source" --exclude='./build*' --exclude=./.git --exclude=./.deps -cf - . | tar -C "$place" -xf -
done

# build PLACE PARALLEL
build() {
    cmake -S "$1" -B "$1/build" -G "$generator" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release \
        "-DCMAKE_CXX_FLAGS_RELEASE=-O0 -DNDEBUG" -DBUILD_SHARED_LIBS=ON -DKILN_BUILD_TOOLS=OFF -DKILN_BUILD_CLI=OFF -DKILN_BUILD_TESTS=OFF \
        -DKILN_BUILD_BENCH=OFF -DKILN_BUILD_EXAMPLES=OFF -DKILN_BUILD_PYTHON=OFF >"$1.log" 2>&1 || { cat "$1.log"; exit 1; }
    cmake --build "$1/build" --target kiln -j "$2" >"$1.log" 2>&1 || { tail -n 40 "$1.log"; exit 1; }
}
(umask 022; LC_ALL=C TZ=UTC build "$first" 2)
(umask 077; LC_ALL=C.UTF-8 TZ=Asia/Tokyo build "$second" 1)

library() { find "$1/build" -name 'libkiln.so.*.*.*' -type f; }
cmp "$(library "$first")" "$(library "$second")"
if grep -qaF "$work" "$(library "$first")"; then echo "libkiln has the path of its build in it: $work"; exit 1; fi
rm -rf "$work"
