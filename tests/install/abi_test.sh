#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# abi_test.sh SOURCE LIBRARY DEBUG_LIBRARY: libkiln's C ABI against the recorded one, tests/install/abi/kiln-c.abi, which was
# made of an earlier DEBUG_LIBRARY: the C layer alone, with debug information. A function, a type or a member that went or
# changed fails, and so does one that was added and is not recorded. LIBRARY exports the same functions, with their versions,
# and its SONAME is that of the ABI. Status 77: there is no abidiff; 1 where KILN_REQUIRE names it.
# To record a change that was meant: scripts/record-abi.
set -euo pipefail
source=$1 library=$2 debug=$3
. "$source/scripts/lib.sh"
recorded=$source/tests/install/abi/kiln-c.abi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { say "FAILED: $*"; exit 1; }

abi=$(sed -n 's/^#define KILN_C_ABI //p' "$source/include/kiln/c/kiln.h")
readelf -d "$library" | grep "SONAME.*\[libkiln.so.$abi\]" >/dev/null || fail "the SONAME is not libkiln.so.$abi: $(readelf -d "$library" | grep SONAME)"

# The functions of the map, of the header and of the library are the same.
sed -n 's/^ *\(kiln_[a-z_]*\);$/\1/p' "$source/src/c/exports.map" | sort >"$work/map"
grep -oE 'KILN_C_API kiln_status kiln_[a-z_]+' "$source/include/kiln/c/kiln.h" | sed 's/.* //' | sort >"$work/header"
nm -D --defined-only "$library" | sed -n 's/.* \(kiln_[a-z_]*\)@@KILN_C_.*/\1/p' | sort >"$work/library"
diff "$work/map" "$work/header" || fail "src/c/exports.map ('<') and include/kiln/c/kiln.h ('>') differ"
diff "$work/map" "$work/library" || fail "src/c/exports.map ('<') and $library ('>') differ"

if ! command -v abidiff >/dev/null; then
    say "NOT CHECKED: there is no abidiff here (package abigail-tools)"
    exit "$(skip_status abigail-tools)"
fi
if [[ "$(abidw --help 2>&1)" != *--exported-interfaces-only* ]]; then
    say "NOT CHECKED: abidw of $(abidw --version) can't tell the exported interfaces from others"
    exit "$(skip_status abigail-tools)"
fi
"$source/scripts/record-abi" "$debug" "$work/now.abi"
abidiff "$recorded" "$work/now.abi" ||
    fail "the C ABI is not the recorded one. What was appended is recorded with scripts/record-abi; what went or changed breaks programs"

# A function that went and a structure that changed are seen.
seen() { if abidiff "$recorded" "$1" >"$work/report"; then fail "abidiff does not see $2"; fi; grep -q "$2" "$work/report" || fail "$2: $(cat "$work/report")"; }
perl -0pe "s/ *<function-decl name='kiln_kernel_launch'.*?<\/function-decl>\n//s; s/ *<elf-symbol name='kiln_kernel_launch'.*?\n//" "$recorded" >"$work/less.abi"
seen "$work/less.abi" kiln_kernel_launch
perl -pe "s/(<class-decl name='kiln_launch_options' size-in-bits=')\d+/\${1}64/" "$recorded" >"$work/changed.abi"
seen "$work/changed.abi" kiln_launch_options
