// SPDX-License-Identifier: Apache-2.0
//
// A message: the protocol's name, the length of what follows, and a list: the number of strings, then each
// string's length and bytes. Numbers are 8 bytes, the lowest first.
#include "compile/compile_protocol.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace kiln {
namespace {

constexpr std::size_t kNumberBytes = 8;
constexpr std::size_t kHeadBytes = kCompileProtocol.size() + kNumberBytes;

void append_number(std::string& bytes, std::uint64_t number) {
    for (std::size_t i = 0; i < kNumberBytes; ++i) bytes += static_cast<char>(number >> (8 * i) & 0xff);
}

std::optional<std::uint64_t> take_number(std::string_view& bytes) {
    if (bytes.size() < kNumberBytes) return std::nullopt;
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < kNumberBytes; ++i)
        number |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    bytes.remove_prefix(kNumberBytes);
    return number;
}

std::string pack(const std::vector<std::string>& strings) {
    std::string bytes;
    append_number(bytes, strings.size());
    for (const auto& string : strings) {
        append_number(bytes, string.size());
        bytes += string;
    }
    return bytes;
}

std::optional<std::vector<std::string>> unpack(std::string_view bytes) {
    const auto count = take_number(bytes);
    if (!count) return std::nullopt;
    std::vector<std::string> strings;
    for (std::uint64_t i = 0; i < *count; ++i) {
        const auto size = take_number(bytes);
        if (!size || *size > bytes.size()) return std::nullopt;
        strings.emplace_back(bytes.substr(0, *size));
        bytes.remove_prefix(*size);
    }
    if (!bytes.empty()) return std::nullopt;
    return strings;
}

std::string message(const std::vector<std::string>& fields) {
    const std::string body = pack(fields);
    std::string bytes(kCompileProtocol);
    append_number(bytes, body.size());
    return bytes + body;
}

// The fields of a whole message, if there are that many.
std::optional<std::vector<std::string>> fields_of(std::string_view message, std::size_t count) {
    if (arrival(message) != Arrival::whole) return std::nullopt;
    auto fields = unpack(message.substr(kHeadBytes));
    if (!fields || fields->size() != count) return std::nullopt;
    return fields;
}

template <class Enum>
std::string letter(Enum value) {
    return std::string(1, static_cast<char>(value));
}

// False when the text is not one of these letters.
template <class Enum>
bool read_letter(const std::string& text, std::string_view letters, Enum& value) {
    if (text.size() != 1 || letters.find(text[0]) == std::string_view::npos) return false;
    value = static_cast<Enum>(text[0]);
    return true;
}

}  // namespace

std::vector<std::string> all_entries(const Source& source) {
    std::vector<std::string> entries = {source.entry};
    entries.insert(entries.end(), source.more_entries.begin(), source.more_entries.end());
    return entries;
}

void set_entries(Binary& binary, std::vector<std::string> entries) {
    binary.entry = std::move(entries.front());
    entries.erase(entries.begin());
    binary.more_entries = std::move(entries);
}

Bytes take_binary(CompileResponse& response) {
    const auto text = std::make_shared<const std::string>(std::move(response.binary));
    return Bytes(text, std::as_bytes(std::span(*text)));
}

Arrival arrival(std::string_view bytes) {
    if (bytes.substr(0, kCompileProtocol.size()) != kCompileProtocol.substr(0, bytes.size()))
        return Arrival::broken;
    if (bytes.size() < kHeadBytes) return Arrival::partial;
    bytes.remove_prefix(kCompileProtocol.size());
    const std::uint64_t size = take_number(bytes).value_or(0);
    if (size > kMaxMessageBytes - kHeadBytes || bytes.size() > size) return Arrival::broken;
    return bytes.size() < size ? Arrival::partial : Arrival::whole;
}

std::string encode(const CompileRequest& request) {
    std::vector<std::string> headers;
    for_each_header(request.source, [&](const Header& header) {
        headers.push_back(header.name);
        headers.push_back(header.text);
    });
    const auto& source = request.source;
    return message({letter(request.product), request.library, request.build, letter(request.wanted),
                    request.arch, pack(request.options), source.file_name, source.entry, source.text,
                    pack(headers), pack(source.more_entries), request.hoisted, request.hoisted_key,
                    letter(request.precompiling)});
}

std::optional<CompileRequest> decode_request(std::string_view message) {
    constexpr std::size_t kFields = 14;
    auto fields = fields_of(message, kFields);
    if (!fields) return std::nullopt;
    auto& field = *fields;
    CompileRequest request;
    auto options = unpack(field[5]);
    auto headers = unpack(field[9]);
    auto more_entries = unpack(field[10]);
    if (!read_letter(field[0], "nh", request.product) || !read_letter(field[3], "fbpl", request.wanted) ||
        !read_letter(field[13], "in", request.precompiling) || !options || !headers ||
        headers->size() % 2 != 0 || !more_entries)
        return std::nullopt;
    request.library = std::move(field[1]);
    request.build = std::move(field[2]);
    request.arch = std::move(field[4]);
    request.options = std::move(*options);
    request.source = {std::move(field[6]), std::move(field[7]), std::move(field[8]), {}};
    for (std::size_t i = 0; i < headers->size(); i += 2)
        request.source.headers.push_back({std::move((*headers)[i]), std::move((*headers)[i + 1])});
    request.source.more_entries = std::move(*more_entries);
    request.hoisted = std::move(field[11]);
    request.hoisted_key = std::move(field[12]);
    return request;
}

std::string encode(const CompileResponse& response) {
    std::string code;
    append_number(code, static_cast<std::uint64_t>(response.code));
    return message({letter(response.status), code, response.error, response.log, response.binary,
                    response.version, pack(response.supported_archs), pack(response.entries),
                    response.precompiles ? "y" : "n"});
}

std::optional<CompileResponse> decode_response(std::string_view message) {
    constexpr std::size_t kFields = 9;
    auto fields = fields_of(message, kFields);
    if (!fields) return std::nullopt;
    auto& field = *fields;
    CompileResponse response;
    std::string_view code_bytes = field[1];
    const auto code = take_number(code_bytes);
    auto archs = unpack(field[6]);
    auto entries = unpack(field[7]);
    if (!read_letter(field[0], "oralm", response.status) || !code || !code_bytes.empty() || !archs ||
        !entries)
        return std::nullopt;
    response.code = static_cast<int>(*code);
    response.error = std::move(field[2]);
    response.log = std::move(field[3]);
    response.binary = std::move(field[4]);
    response.version = std::move(field[5]);
    response.supported_archs = std::move(*archs);
    response.entries = std::move(*entries);
    response.precompiles = field[8] == "y";
    return response;
}

}  // namespace kiln
