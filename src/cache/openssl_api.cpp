// SPDX-License-Identifier: Apache-2.0
//
// libssl brings libcrypto with it, in which its symbols are looked for, too.
#ifdef KILN_TLS

#include "cache/openssl_api.h"

#include <openssl/opensslv.h>

#include <atomic>
#include <memory>

#include "base/fork.h"
#include "format/format.h"

namespace kiln {
namespace {

struct Opened {
    OpenSslApi api;
    std::string problem;  // empty: usable
};

#ifdef KILN_OPENSSL_LINKED
void open(Opened& opened) {
#define KILN_TAKE(function) opened.api.function = &::function;
    KILN_OPENSSL_FUNCTIONS(KILN_TAKE)
#undef KILN_TAKE
}
#else
void open(Opened& opened) {
    // The version whose headers this was built with: another one may have other types.
    const std::string name = formatted("libssl.so.{}", OPENSSL_SHLIB_VERSION);
    OpenSslApi& api = opened.api;
    api.library = DynamicLibrary::open_forever(name, "which has TLS", "openssl", opened.problem);
    if (!api.library) return;
    const char* missing = nullptr;
#define KILN_RESOLVE(function) \
    if (!api.library.resolve(api.function, #function) && missing == nullptr) missing = #function;
    KILN_OPENSSL_FUNCTIONS(KILN_RESOLVE)
#undef KILN_RESOLVE
    if (missing != nullptr)
        opened.problem = api.library.path().string() + " is no OpenSSL 3: it lacks " + missing;
}
#endif

}  // namespace

const OpenSslApi* openssl_api(std::string* reason) {
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

}  // namespace kiln

#endif
