#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# ranges_test.sh PROGRAM: with KILN_NVTX, PROGRAM (capi_threads) gives its builds and launches as ranges to a library of NVTX, which
# is played by one that writes them down; without, it opens none; and one that is not there is a warning. Status 77: there
# is no gcc; 1 where KILN_REQUIRE names it.
set -euo pipefail
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
if ! command -v gcc >/dev/null; then
    echo "NOT CHECKED: there is no gcc here" >&2
    case ,${KILN_REQUIRE:-}, in *,gcc,*) exit 1 ;; *) exit 77 ;; esac
fi
cat >"$work/nvtx.c" <<'CODE'
#include <stdio.h>
#include <stdlib.h>
static __thread int depth;
static void note(const char* what, const char* name) {
    FILE* file = fopen(getenv("NVTX_NOTES"), "a");
    fprintf(file, "%s%s\n", what, name);
    fclose(file);
}
int nvtxRangePushA(const char* name) { note("push ", name); return depth++; }
int nvtxRangePop(void) { note("pop", ""); return --depth; }
CODE
gcc -shared -fPIC -o "$work/libnvtx.so" "$work/nvtx.c"
export NVTX_NOTES=$work/notes
run() { rm -rf "$work/data"; mkdir "$work/data"; "$program" "$work/data"; }

KILN_NVTX=$work/libnvtx.so run
# Four kernels, each built once, and one again by the thread that is cancelled; sixteen threads with twenty launches.
[ "$(grep -c '^push build scale FACTOR=[2-5]$' "$work/notes")" -eq 5 ] || fail "builds: $(sort "$work/notes" | uniq -c)"
[ "$(grep -c '^push scale FACTOR=[2-5]$' "$work/notes")" -eq 320 ] || fail "launches: $(sort "$work/notes" | uniq -c)"
[ "$(grep -c '^pop$' "$work/notes")" -eq 325 ] || fail "ranges that did not end: $(sort "$work/notes" | uniq -c)"

rm "$work/notes"
for value in '' 0; do
    KILN_NVTX=$value run
    [ ! -e "$work/notes" ] || fail "ranges that nobody asked for"
done
KILN_NVTX=$work/absent.so run 2>"$work/warning" || fail "a library that is not there: $(cat "$work/warning")"
[ "$(grep -c "KILN_NVTX=$work/absent.so asks for ranges" "$work/warning")" -eq 1 ] || fail "the warning: $(cat "$work/warning")"
