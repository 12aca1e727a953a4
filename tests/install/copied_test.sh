#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# copied_test.sh SOURCE_DIR: scripts/run in a tree that was copied or moved with its build directory. The project is a small
# one, whose program says where it comes from.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

mkdir -p "$work/first/scripts"
cp "$1"/scripts/{run,lib.sh} "$work/first/scripts"
printf '#!/bin/sh\n' >"$work/first/scripts/setup"
chmod +x "$work/first/scripts/setup"
cat >"$work/first/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.22)
project(small NONE)
file(GLOB inputs CONFIGURE_DEPENDS *.txt)
foreach(program jit-gemm kiln)
  file(GENERATE OUTPUT ${program}.in CONTENT "#!/bin/sh\necho ${PROJECT_SOURCE_DIR}\n")
  add_custom_command(OUTPUT bin/${program} DEPENDS ${PROJECT_BINARY_DIR}/${program}.in COMMAND install -D ${program}.in bin/${program})
endforeach()
add_custom_target(programs ALL DEPENDS bin/jit-gemm bin/kiln)
add_custom_target(kiln-compile-worker)
EOF

# run TREE: what the program says; what the scripts say is in $work/said.
run() { "$work/$1/scripts/run" kiln 2>"$work/said" || fail "in $1: $(<"$work/said")"; }
[ "$(run first)" = "$work/first" ] || fail "the first tree: $(<"$work/said")"
[ "$(run first)" = "$work/first" ] && [ ! -s "$work/said" ] || fail "the first tree again: $(<"$work/said")"
before=$(find "$work/first/build" -name build.ninja -printf '%T@')

cp -a "$work/first" "$work/copy"
[ "$(run copy)" = "$work/copy" ] || fail "a copy runs the program of its original: $(<"$work/said")"
grep -qF "build/ was made as $work/first/build" "$work/said" || fail "the reason is not said: $(<"$work/said")"
[ "$(find "$work/first/build" -name build.ninja -printf '%T@')" = "$before" ] || fail "a copy configured its original"
[ "$(run copy)" = "$work/copy" ] && [ ! -s "$work/said" ] || fail "the copy again: $(<"$work/said")"

mv "$work/first" "$work/moved"
[ "$(run moved)" = "$work/moved" ] || fail "a moved tree: $(<"$work/said")"
ln -s moved "$work/link"
[ "$(run link)" = "$work/moved" ] && [ ! -s "$work/said" ] || fail "a link to it is another place: $(<"$work/said")"
