#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# c_test.sh SOURCE LIBRARY MODE PROGRAM: compiles tests/capi/PROGRAM.c, or .cpp, with the compiler of MODE (c11, cxx17, clang, nvcc,
# dlopen) and without a warning, links the shared LIBRARY or, with dlopen, opens it, and runs it. Status 77: there is no such
# compiler; 1 where KILN_REQUIRE names it.
set -euo pipefail
source=$1 library=$2 mode=$3 program=$4
. "$source/scripts/lib.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# compiler NAME...: the first that there is.
compiler() {
    local name
    for name in "$@"; do if command -v "$name"; then return; fi; done
    say "NOT CHECKED: there is no $1 here"
    return 1
}

# functions_header: pointers to all functions of the map, load_functions(), which finds each with its version, and macros by
# which a program calls them under their names.
functions_header() {
    local name names version functions
    functions=$(awk '/^KILN_C_[0-9.]* \{$/ { version = $1 } /^    kiln_[a-z_]*;$/ { sub(";", ""); print $1, version }' \
        "$source/src/c/exports.map")
    names=$(cut -d ' ' -f 1 <<<"$functions")
    echo '#include <dlfcn.h>'
    for name in $names; do echo "static __typeof__($name)* ${name}_opened;"; done
    echo 'static int load_functions(const char* file) {'
    echo '    void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);'
    echo '    if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 0;'
    while read -r name version; do
        echo "    *(void**)(&${name}_opened) = dlvsym(library, \"$name\", \"$version\");"
        echo "    if (${name}_opened == NULL) return fprintf(stderr, \"%s\n\", dlerror()), 0;"
    done <<<"$functions"
    echo '    return 1;'
    echo '}'
    for name in $names; do echo "#define $name ${name}_opened"; done
    cat <<'CODE'
#define kiln_last_message last_message_opened
static const char* last_message_opened(void) {
    kiln_error error;
    memset(&error, 0, sizeof error);
    error.size = sizeof error;
    kiln_last_error(&error);
    return error.message;
}
CODE
}

file=$source/tests/capi/$program.c
[ -e "$file" ] || file+=pp
warnings=(-Wall -Wextra -Werror)
link=("$library" -Wl,-rpath,"$(dirname "$library")" -lm -pthread)
case $mode in
    c11) command=("$(compiler gcc)" -std=c11 -pedantic "${warnings[@]}" "$file" "${link[@]}") || exit "$(skip_status gcc)" ;;
    clang) command=("$(compiler clang clang-14)" -std=c11 -pedantic "${warnings[@]}" "$file" "${link[@]}") ||
        exit "$(skip_status clang)" ;;
    cxx17) command=("$(compiler g++)" -x c++ -std=c++17 -pedantic "${warnings[@]}" "$file" -x none "${link[@]}") ||
        exit "$(skip_status g++)" ;;
    nvcc)
        PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
        nvcc=$(compiler nvcc) || exit "$(skip_status nvcc)"
        command=("$nvcc" -x cu -std=c++17 -Werror all-warnings "$file" -Xcompiler -Wall,-pthread
            -Xlinker "$library,-rpath,$(dirname "$library")")
        ;;
    dlopen)
        functions_header >"$work/functions.h"
        command=("$(compiler gcc)" -std=gnu11 "${warnings[@]}" -D_GNU_SOURCE -DKILN_TEST_DLOPEN -I "$work" "$file" -lm -ldl) ||
            exit "$(skip_status gcc)"
        ;;
    *) say "c_test.sh: '$mode' is none of c11, cxx17, clang, nvcc, dlopen"; exit 2 ;;
esac
"${command[@]}" -I "$source/include" -o "$work/$program"
mkdir "$work/data"
"$work/$program" "$work/data" "$library"
