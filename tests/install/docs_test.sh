#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# docs_test.sh ROOT: scripts/docs makes the API reference of this tree without a warning; of a public symbol without a
# comment, and of a broken reference, it fails and names them. Exit status 77: there is no Doxygen.
set -euo pipefail
root=$(cd "${1:?usage: docs_test.sh ROOT}" && pwd)
if ! command -v doxygen >/dev/null; then
    echo "NOT RUN: there is no Doxygen here; scripts/setup --docs installs it"
    . "$root/scripts/lib.sh"
    exit "$(skip_status doxygen)"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

"$root/scripts/docs" "$work/pages"
cd "$work/pages"
for page in index.html md_docs_*embedding.html classkiln_1_1Service.html structkiln_1_1Analysis.html namespacekiln.html pipeline.svg; do
    [ -s "$page" ] || fail "there is no page $page"
done
grep -q 'href="md_docs_.*commands.html"' "$work/pages/index.html" || fail "README does not lead to the other pages"
! grep -lE 'KILN_ABI|v0_1' "$work"/pages/{class,struct}*.html || fail "the pages show the namespace of the version"
! grep -rqF "$root/include/kiln" "$work/pages" || fail "the pages name the place of this tree"

# A small tree with mistakes.
mkdir -p "$work/tree/include/kiln" "$work/tree/docs"
cp -r "$root/scripts" "$work/tree/"
cp "$root/docs/Doxyfile" "$work/tree/docs/"
for page in README ARCHITECTURE CONTRIBUTING SECURITY CHANGELOG; do echo "# $page" >"$work/tree/$page.md"; done
cat >"$work/tree/include/kiln/small.h" <<'HEADER'
// SPDX-License-Identifier: Apache-2.0
//
// A header.
#pragma once

/// A namespace.
namespace kiln {
inline namespace KILN_ABI {

/// Has comments.
class Good {
  public:
    /// Makes one.
    Good();
    Good(const Good&) = delete;
    Good& operator=(const Good&) = delete;
    Good(Good&& other) noexcept;
    Good& operator=(Good&& other) noexcept;
    bool operator==(const Good&) const = default;

    int number = 0;  ///< of something
};

}  // namespace KILN_ABI
}  // namespace kiln
HEADER
"$work/tree/scripts/docs" "$work/small" || fail "a header with all its comments does not pass"
sed -i 's|  ///< of something|\n    int silent() const;\n    Good(int bad, Good\&\& other);|; s|/// Makes one.|/// \\ref Nowhere|' \
    "$work/tree/include/kiln/small.h"
status=0
"$work/tree/scripts/docs" "$work/small" 2>"$work/warnings" || status=$?
[ $status -eq 1 ] || fail "with undocumented symbols scripts/docs ended with $status"
for symbol in number silent 'Good(int bad' Nowhere; do
    grep -qF "$symbol" "$work/warnings" || fail "nothing is said of $symbol: $(cat "$work/warnings")"
done
[ ! -e "$work/small" ] || fail "pages with mistakes were left"

# A folder of somebody's files is left alone.
mkdir "$work/mine"
echo mine >"$work/mine/file"
status=0
"$root/scripts/docs" "$work/mine" 2>"$work/warnings" || status=$?
[ $status -eq 2 ] && [ -s "$work/mine/file" ] || fail "a folder with other files: status $status"
