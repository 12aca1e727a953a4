// SPDX-License-Identifier: Apache-2.0
//
// RemoteCache of a build without Redis (KILN_WITH_REDIS=OFF): the constructor throws an error that says so. The other
// functions are never called.
#include <kiln/error.h>

#include "cache/redis_url.h"
#include "cache/remote_cache.h"

namespace kiln {
namespace {

[[noreturn]] void none() { throw CacheError("this Kiln was built without Redis"); }

}  // namespace

struct RemoteCache::State {};
struct RemoteCache::Lease::Held {};

RemoteCache::RemoteCache(const RemoteOptions& options) {
    throw UsageError(
        "the remote cache " + parse_redis_url(options.url).place() +
        " can't be used: this Kiln was built without Redis. Configure it with KILN_WITH_REDIS=ON, or "
        "name no remote cache (KILN_REMOTE)");
}
RemoteCache::~RemoteCache() = default;

const std::string& RemoteCache::place() const { none(); }
bool RemoteCache::read_only() const { none(); }
std::string RemoteCache::problem() const { none(); }
std::uint64_t RemoteCache::failures() const { none(); }
Lookup RemoteCache::find(const BuildKey&) { none(); }
bool RemoteCache::store(const std::string&, const Bytes&) { none(); }
std::chrono::microseconds RemoteCache::ping() { none(); }
std::string RemoteCache::server_version() { none(); }
void RemoteCache::for_each(const std::function<bool(const std::string&)>&, std::stop_token) { none(); }
bool RemoteCache::contains(const std::string&) { none(); }
Bytes RemoteCache::fetch(const std::string&, std::string&) { none(); }
void RemoteCache::put(const std::string&, const Bytes&) { none(); }

RemoteCache::Lease::Lease(std::unique_ptr<Held> held) : held_(std::move(held)) {}
RemoteCache::Lease::~Lease() = default;
RemoteCache::Answer RemoteCache::try_lease(const std::string&) { none(); }

}  // namespace kiln
