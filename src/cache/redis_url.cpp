// SPDX-License-Identifier: Apache-2.0
//
// A password with a '/' or '@' that was not encoded ends up in any part of the URL, so messages quote no part
// but a port of five digits at most.
#include "cache/redis_url.h"

#include <kiln/error.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "format/format.h"

namespace kiln {
namespace {

constexpr std::string_view kForm = "redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE] (rediss:// for TLS)";
constexpr std::string_view kEncode =
    "A '/', '@', ':' or '%' in a user or password is written %2F, %40, %3A or %25.";

[[noreturn]] void refuse(const std::string& what) {
    throw UsageError("The remote cache's URL " + what + ". It should be " + std::string(kForm) + ".");
}

int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

std::string decode(std::string_view text) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            result += text[i];
            continue;
        }
        const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
        const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
        if (high < 0 || low < 0)
            refuse("has a '%' in its user or password that two hexadecimal digits do not follow. " +
                   std::string(kEncode));
        result += static_cast<char>(high * 16 + low);
        i += 2;
    }
    return result;
}

bool is_digits(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<int> number(std::string_view text, int least, int most) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (!is_digits(text) || error != std::errc() || value < least || value > most) return std::nullopt;
    return value;
}

bool is_host(std::string_view text, std::string_view more) {
    return !text.empty() && text.size() <= 255 && std::all_of(text.begin(), text.end(), [&](unsigned char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
               c == '-' || more.find(static_cast<char>(c)) != std::string_view::npos;
    });
}

void parse_server(std::string_view text, RedisUrl& url) {
    const bool bracketed = text.starts_with('[');
    const auto host_end = bracketed ? text.find(']') : std::min(text.find(':'), text.size());
    if (host_end == std::string_view::npos) refuse("has a '[' without a ']'");
    const auto host = bracketed ? text.substr(1, host_end - 1) : text.substr(0, host_end);
    if (!is_host(host, bracketed ? ":%" : "_"))
        refuse("has no host, or one with characters that no host name has. " + std::string(kEncode));
    url.host = host;
    auto rest = text.substr(host_end + (bracketed ? 1 : 0));
    if (rest.empty()) return;
    const auto digits = rest.substr(1);
    const auto port = rest.starts_with(':') ? number(digits, 1, 65535) : std::nullopt;
    if (!port)
        refuse("has a port that is no number from 1 to 65535" +
               (is_digits(digits) && digits.size() <= 5 ? ": " + std::string(digits) : "") + ". " +
               std::string(kEncode));
    url.port = static_cast<std::uint16_t>(*port);
}

}  // namespace

std::string RedisUrl::place() const {
    const bool bracketed = host.find(':') != std::string::npos;
    return formatted("{}{}:{}/{}", tls ? "rediss://" : "redis://", bracketed ? "[" + host + "]" : host, port,
                     database);
}

RedisUrl parse_redis_url(std::string_view text) {
    RedisUrl url;
    if (text.starts_with("rediss://"))
        url.tls = true;
    else if (!text.starts_with("redis://"))
        refuse("starts with neither redis:// nor rediss://");
    text.remove_prefix(text.find("//") + 2);

    const auto slash = text.find('/');
    if (slash != std::string_view::npos && text.find('@', slash) != std::string_view::npos)
        refuse("has a '/' before its '@'. " + std::string(kEncode));
    auto authority = text.substr(0, slash);
    const auto at = authority.rfind('@');
    if (at != std::string_view::npos) {
        const auto credentials = authority.substr(0, at);
        const auto colon = credentials.find(':');
        url.user = decode(credentials.substr(0, colon));
        if (colon != std::string_view::npos) {
            url.password = decode(credentials.substr(colon + 1));
            if (url.password.empty()) refuse("has an empty password");
        }
        authority.remove_prefix(at + 1);
    }
    parse_server(authority, url);
    const auto database = slash == std::string_view::npos ? std::string_view() : text.substr(slash + 1);
    if (!database.empty()) {
        const auto index = number(database, 0, 9999999);
        if (!index) refuse("has a database that is no number from 0 to 9999999. " + std::string(kEncode));
        url.database = *index;
    }
    return url;
}

}  // namespace kiln
