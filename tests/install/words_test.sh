#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# scripts/words finds words in prose, in its line, and not in code; and the paths that it names are free of them.
set -euo pipefail
root=${1:?usage: words_test.sh ROOT}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

cat > "$directory/code.cpp" <<'CODE'
// This is refused.
int refused = beside(1'000, '"');
const char* name = "worst";
const char* text = "a whole number";  /* one
two, beside it */
    // Text that goes on in the next line is dealt
    // out by words; a comment for
    int want;
    // of something is another text.
CODE
printf 'Prose `refused`.\n\n```\nrefused\n```\n\nDealt\nout.\n' > "$directory/page.md"

status=0
found=$("$root/scripts/words" "$directory/code.cpp" "$directory/page.md") || status=$?
expected="code.cpp:1: code.cpp:4: code.cpp:5: code.cpp:6: page.md:7: "
lines=$(grep -o '[a-z]*\.[a-z]*:[0-9]*: ' <<< "$found" | tr -d '\n')
[ $status -eq 1 ] && [ "$lines" = "$expected" ] || { echo "status $status, found: $found"; exit 1; }

"$root/scripts/words"
