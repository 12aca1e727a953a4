# SPDX-License-Identifier: Apache-2.0
#
# Completion of the command lines of kiln and jit-gemm in fish. The programs themselves know what may follow: PROGRAM complete
# LINE prints it, each candidate as the complete last word. Where it has nothing to say, fish completes file names.

function __kiln_complete
    set -l words (commandline -opc)
    set -l candidates (command $words[1] complete (commandline -cp | string collect) 2>/dev/null)
    if test (count $candidates) -gt 0
        printf '%s\n' $candidates
    else
        __fish_complete_path (commandline -ct)
    end
end

complete -c kiln -f -k -a '(__kiln_complete)'
complete -c jit-gemm -f -k -a '(__kiln_complete)'
