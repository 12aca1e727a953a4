#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# matrix_test.sh SOURCE_DIR: scripts/matrix as far as it needs neither root nor a chroot: rows that were not run are shown
# as that, what was run is kept, and a row that is not there is named.
set -euo pipefail
matrix=$1/scripts/matrix
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export KILN_MATRIX_DIR=$work
fail() { echo "FAILED: $*" >&2; exit 1; }

rows=$("$matrix" --list | wc -l)
[ "$rows" -ge 10 ] || fail "only $rows rows"
[ "$("$matrix" --table | grep -c '| not run |')" -eq "$rows" ] || fail "a row that was not run is not shown as that"
mkdir "$work/results"
first=$("$matrix" --list | awk 'NR == 1 { print $1 }')
echo '| done |' >"$work/results/$first"
table=$("$matrix" --table)
grep -qx '| done |' <<<"$table" || fail "the result of $first is not shown"
[ "$(grep -c '| not run |' <<<"$table")" -eq $((rows - 1)) ] || fail "$first is shown twice"
status=0
message=$("$matrix" no-such-row 2>&1) || status=$?
[ $status -eq 2 ] && [[ $message == *no-such-row*$first* ]] || fail "an unknown row: status $status, $message"
