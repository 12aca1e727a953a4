#compdef kiln jit-gemm
# SPDX-License-Identifier: Apache-2.0
#
# Completion of the command lines of kiln and jit-gemm in zsh. The programs themselves know what may follow: PROGRAM complete
# LINE prints it, each candidate as the complete last word. Where it has nothing to say, zsh completes file names.

_kiln() {
    local line=${LBUFFER}
    local -a candidates
    candidates=(${(f)"$(${~words[1]} complete "$line" 2>/dev/null)"})
    if (( ! ${#candidates} )); then
        _files
        return
    fi
    # After NAME= comes the value, without a space; the program's order is kept.
    if [[ ${#candidates} -eq 1 && ${candidates[1]} == *= ]]; then
        compadd -V kiln -S '' -- $candidates
    else
        compadd -V kiln -- $candidates
    fi
}

if [[ ${funcstack[1]} == _kiln ]]; then
    _kiln "$@"
else
    compdef _kiln kiln jit-gemm
fi
