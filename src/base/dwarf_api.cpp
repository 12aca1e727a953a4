// SPDX-License-Identifier: Apache-2.0
//
// Opens libdw.so.1, which brings libelf with it, and resolves the table.
#include "base/dwarf_api.h"

#include <atomic>
#include <memory>

#include "base/fork.h"

namespace kiln::dwarf {
namespace {

struct Opened {
    Api api;
    std::string problem;  // empty: usable
};

void open(Opened& opened) {
    Api& api = opened.api;
    api.library =
        DynamicLibrary::open_forever("libdw.so.1", "which reads debug information", "libdw1", opened.problem);
    if (!api.library) return;
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
    static std::atomic<const Opened*> known{nullptr};
    const Opened& opened = made_once(known, [] {
        auto made = std::make_unique<Opened>();
        open(*made);
        return made;
    });
    if (opened.problem.empty()) return &opened.api;
    if (reason != nullptr) *reason = opened.problem;
    return nullptr;
}

}  // namespace kiln::dwarf
