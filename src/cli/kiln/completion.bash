# SPDX-License-Identifier: Apache-2.0
#
# Completion of the command lines of kiln and jit-gemm in bash. The programs themselves know what may follow: `PROGRAM complete
# LINE` prints it, each candidate as the complete last word. Where it has nothing to say, bash completes file names.

_kiln() {
    local line=${COMP_LINE:0:COMP_POINT} word prefix candidate
    word=${line##*[[:space:]]}
    # bash replaces only what stands behind the last of its word breaks, '=' and ':' among them.
    prefix=${word%"${word##*["$COMP_WORDBREAKS"]}"}
    COMPREPLY=()
    while IFS= read -r candidate; do
        COMPREPLY+=("${candidate#"$prefix"}")
    done < <("${1/#\~/$HOME}" complete "$line" 2>/dev/null)
    compopt -o nosort 2>/dev/null  # 16, 32, 64, 128: the program's order, where bash can keep it
    # After NAME= comes the value, without a space.
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi
    return 0
}

complete -o bashdefault -o default -F _kiln kiln jit-gemm
