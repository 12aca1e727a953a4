// SPDX-License-Identifier: Apache-2.0
//
// Entries on a Redis server. Entries from the server are checked before use, like files.
#include "cache/remote_cache.h"

#include <kiln/error.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <new>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "base/file.h"
#include "base/fork.h"
#include "cache/entry.h"
#include "cache/remote_state.h"
#include "format/format.h"

namespace kiln {
namespace {

using Kind = RedisReply::Kind;
using Manner = RedisClient::Manner;

constexpr std::string_view kEntryPrefix = "kiln:1:entry:";
constexpr std::size_t kShortestKey = 16;
constexpr std::uint64_t kLongestSecret = 64 << 10;        // a password, a key
constexpr std::uint64_t kLongestCertificates = 16 << 20;  // a system's bundle has a quarter of one MiB

std::string entry_key(const std::string& digest) { return std::string(kEntryPrefix) + digest; }

bool is_digest(std::string_view text) {
    return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// what: "password". Messages name the file, never its content.
std::string read_secret(const std::filesystem::path& file, const std::string& what,
                        std::uint64_t most_bytes = kLongestSecret) {
    try {
        if (auto text = read_text_if_exists(file, most_bytes)) return std::move(*text);
    } catch (const std::system_error& error) {
        throw UsageError("The " + what + " file of the remote cache can't be read: " + error.what() + ".");
    }
    throw UsageError("The " + what + " file of the remote cache does not exist: " + file.string() + ".");
}

std::string read_password(const std::filesystem::path& file) {
    std::string text = read_secret(file, "password");
    text.resize(std::min(text.find('\n'), text.size()));
    if (text.ends_with('\r')) text.pop_back();
    if (text.empty())
        throw UsageError("The password file of the remote cache has an empty first line: " + file.string() +
                         ".");
    return text;
}

SignatureKey read_key(const std::filesystem::path& file) {
    const std::string text = read_secret(file, "signature key");
    if (text.size() < kShortestKey)
        throw UsageError(
            formatted("The signature key of the remote cache has {} bytes and needs {} or more: {}. A good "
                      "one: head -c 32 /dev/urandom > {}",
                      text.size(), kShortestKey, file.string(), file.string()));
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

RedisSettings make_settings(const RemoteOptions& options) {
    RedisSettings settings{parse_redis_url(options.url), options.ca_file, options.timeout};
    auto& url = settings.url;
    const std::string remote = "The remote cache " + url.place();
    if (options.timeout < std::chrono::milliseconds(1) || options.timeout > std::chrono::minutes(1))
        throw UsageError(formatted("{} is given a time limit of {} ms; it can be 1 to 60000 ms.", remote,
                                   options.timeout.count()));
    if (!options.password_file.empty()) {
        if (!url.password.empty())
            throw UsageError(remote +
                             " is given a password in its URL and a password file; give one of them.");
        url.password = read_password(options.password_file);
    }
    if (!url.user.empty() && url.password.empty())
        throw UsageError(remote +
                         " is given a user without a password. A password alone is written "
                         "redis://:PASSWORD@HOST, or put into a password file.");
    if (url.tls && !tls_available())
        throw UsageError(remote + " wants TLS, and this build of Kiln has none (KILN_TLS=OFF).");
    if (!url.tls && !options.ca_file.empty())
        throw UsageError(remote +
                         " is given certificates to trust, but is not reached through TLS; write "
                         "rediss:// instead of redis://.");
    if (!options.ca_file.empty() &&
        read_secret(options.ca_file, "certificate", kLongestCertificates).find("CERTIFICATE-----") ==
            std::string::npos)
        throw UsageError("The certificate file of the remote cache holds no certificate (PEM): " +
                         options.ca_file.string() + ".");
    return settings;
}

/// The value of a digest on the server.
struct Found {
    bool there = false;
    Bytes bytes;
    std::optional<Entry> entry;  ///< not set: `reason` says why
    std::string reason;
};

Found open_value(const SignatureKey& key, const std::string& digest, RedisReply reply) {
    Found found;
    if (reply.kind == Kind::nil) return found;
    found.there = true;
    if (reply.kind != Kind::bytes) {
        found.reason = "it is no string";
        return found;
    }
    Bytes bytes = signed_entry(key, digest, Bytes(std::move(reply.bytes)), found.reason);
    if (!found.reason.empty()) return found;
    if (bytes.size() > RemoteCache::kLargestEntry) {
        found.reason = "it is larger than 64 MiB";
        return found;
    }
    found.entry = decode_entry_of(digest, bytes, found.reason);
    if (found.entry) found.bytes = std::move(bytes);
    return found;
}

RedisCommand set_command(const SignatureKey& key, const std::string& digest, const Bytes& entry) {
    auto value = signature_head(key, digest, {entry.data(), entry.size()});
    const auto view = [](const std::byte* bytes, std::size_t size) {
        return std::string_view(reinterpret_cast<const char*>(bytes), size);
    };
    if (value.empty()) return {"SET", entry_key(digest), view(entry.data(), entry.size())};
    value.insert(value.end(), entry.begin(), entry.end());
    return {"SET", entry_key(digest), view(value.data(), value.size())};
}

/// For operators: an error that the server answers is thrown too, unless it is one of the value and is
/// wanted.
RedisReply ask(RedisClient& client, const RedisCommand& command, std::initializer_list<Kind> wanted) {
    try {
        auto reply = client.call(command, Manner::insistent);
        const bool is_wanted = std::find(wanted.begin(), wanted.end(), reply.kind) != wanted.end();
        if (is_wanted && (reply.kind != Kind::error || reply.error_code() == "WRONGTYPE")) return reply;
        throw CacheError(
            "The remote cache " + client.settings().url.place() + " answered what it should not" +
            (reply.kind == Kind::error ? ": " + client.settings().quote(reply.text()) : "") + ".");
    } catch (const RedisError& error) {
        throw CacheError(error.what());
    }
}

/// Its lock knows nothing of fork(), and each call takes it.
void prepare_sodium() {
    static std::atomic<bool> is_prepared{false};
    if (is_prepared.load(std::memory_order_acquire)) return;
    const ForkExclusion here;
    if (sodium_init() < 0)
        throw UsageError("The remote cache can't be used: this system gives no random numbers.");
    is_prepared.store(true, std::memory_order_release);
}

}  // namespace

RemoteCache::RemoteCache(const RemoteOptions& options) {
    prepare_sodium();
    auto key = options.signature_key_file.empty() ? SignatureKey() : read_key(options.signature_key_file);
    state_ = std::make_shared<State>(make_settings(options), std::move(key), options.read_only);
}

RemoteCache::~RemoteCache() = default;

const std::string& RemoteCache::place() const { return state_->place; }
bool RemoteCache::read_only() const { return state_->read_only; }
std::string RemoteCache::problem() const { return state_->client.problem(); }
std::uint64_t RemoteCache::failures() const { return state_->client.failures(); }

Lookup RemoteCache::find(const BuildKey& key) {
    Lookup lookup;
    try {
        auto reply = state_->client.call({"GET", entry_key(key.digest)});
        if (reply.kind == Kind::error && reply.error_code() != "WRONGTYPE") {
            state_->client.leave_alone("does not let entries be read: " +
                                       state_->client.settings().quote(reply.text()));
            return lookup;
        }
        auto found = open_value(state_->key, key.digest, std::move(reply));
        if (!found.there) return lookup;
        lookup.place = state_->place;
        if (found.entry && found.entry->key_text != key.text) {
            found.entry.reset();
            found.reason = "it was made of other ingredients";
        }
        if (found.entry) {
            lookup.binary = std::move(found.entry->binary);
            lookup.entry = std::move(found.bytes);
        } else {
            lookup.rejected = "The entry " + key.digest + " of the remote cache " + state_->place +
                              " is not used: " + found.reason + ".";
        }
    } catch (const std::exception&) {
        // Paused, failed (problem() says why), or no memory: a miss.
    }
    return lookup;
}

bool RemoteCache::store(const std::string& digest, const Bytes& entry) {
    try {
        if (state_->read_only || entry.size() > kLargestEntry || state_->client.writes_paused()) return false;
        const auto reply = state_->client.call(set_command(state_->key, digest, entry));
        if (reply.is_status("OK")) return true;
        state_->client.pause_writes("takes no entries: " + state_->client.settings().quote(reply.text()));
    } catch (const std::exception&) {
        // Paused, failed, or no memory: another process may store it.
    }
    return false;
}

std::chrono::microseconds RemoteCache::ping() {
    const auto begin = std::chrono::steady_clock::now();
    ask(state_->client, {"PING"}, {Kind::status});
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);
}

std::string RemoteCache::server_version() {
    constexpr std::string_view kLine = "redis_version:";
    const auto reply = ask(state_->client, {"INFO", "server"}, {Kind::bytes});
    const auto text = reply.text();
    const auto begin = text.find(kLine);
    if (begin == std::string_view::npos)
        throw CacheError("The remote cache " + place() + " does not report its version.");
    const auto version = text.substr(begin + kLine.size());
    return state_->client.settings().quote(version.substr(0, version.find_first_of("\r\n")));
}

void RemoteCache::for_each(const std::function<bool(const std::string& digest)>& each, std::stop_token stop) {
    const std::string pattern = std::string(kEntryPrefix) + "*";
    std::unordered_set<std::string> seen;  // the server may name a key more than once
    std::string cursor = "0";
    do {
        const auto reply =
            ask(state_->client, {"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"}, {Kind::array});
        if (reply.elements.size() != 2 || reply.elements[0].kind != Kind::bytes ||
            reply.elements[1].kind != Kind::array)
            throw CacheError("The remote cache " + place() + " answered SCAN with what is no list of keys.");
        cursor = reply.elements[0].text();
        for (const auto& name : reply.elements[1].elements) {
            auto text = name.text();
            if (!text.starts_with(kEntryPrefix)) continue;
            text.remove_prefix(kEntryPrefix.size());
            if (is_digest(text) && seen.emplace(text).second && !each(std::string(text))) return;
        }
    } while (cursor != "0" && !stop.stop_requested());
}

bool RemoteCache::contains(const std::string& digest) {
    return ask(state_->client, {"EXISTS", entry_key(digest)}, {Kind::integer}).integer != 0;
}

Bytes RemoteCache::fetch(const std::string& digest, std::string& reason) {
    auto found =
        open_value(state_->key, digest,
                   ask(state_->client, {"GET", entry_key(digest)}, {Kind::bytes, Kind::nil, Kind::error}));
    reason = found.there ? found.reason : "it is not there";
    return std::move(found.bytes);
}

void RemoteCache::put(const std::string& digest, const Bytes& entry) {
    if (state_->read_only) throw CacheError("The remote cache " + place() + " is set to read-only.");
    if (entry.size() > kLargestEntry)
        throw CacheError(formatted("The entry {} has {} bytes; the remote cache takes 64 MiB at most.",
                                   digest, entry.size()));
    ask(state_->client, set_command(state_->key, digest, entry), {Kind::status});
}

}  // namespace kiln
