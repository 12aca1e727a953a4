// SPDX-License-Identifier: Apache-2.0
//
// Opens libdw.so.1, which brings libelf with it, and resolves the table.
#include "base/dwarf_api.h"

namespace kiln::dwarf {
namespace {

struct Opened {
    Api api;
    std::string problem;  // empty: usable
};

void open(Opened& opened) {
    Api& api = opened.api;
    std::string error;
    api.library = DynamicLibrary::open({"libdw.so.1"}, &error);
    if (!api.library) {
        opened.problem = "libdw.so.1, which reads debug information, was not found";
        if (error.find("No such file") == std::string::npos) opened.problem += " (" + error + ")";
        opened.problem += "; on Debian and Ubuntu: apt-get install libdw1";
        return;
    }
    api.library.keep_forever();
    std::string missing;
#define KILN_RESOLVE(member, symbol, result, arguments) \
    if (!api.library.resolve(api.member, #symbol)) missing += missing.empty() ? #symbol : ", " #symbol;
    KILN_DWARF_FUNCTIONS(KILN_RESOLVE)
#undef KILN_RESOLVE
    if (!missing.empty()) {
        opened.problem =
            api.library.path().string() + " lacks " + missing + "; elfutils 0.171 or newer is needed";
    } else if (api.elf_version(kElfVersion) == 0) {
        opened.problem = api.library.path().string() + " does not know this version of ELF";
    }
}

}  // namespace

const Api* api(std::string* reason) {
    static const Opened opened = [] {
        Opened made;
        open(made);
        return made;
    }();
    if (opened.problem.empty()) return &opened.api;
    if (reason != nullptr) *reason = opened.problem;
    return nullptr;
}

}  // namespace kiln::dwarf
