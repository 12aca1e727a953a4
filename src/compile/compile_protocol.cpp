// SPDX-License-Identifier: Apache-2.0
//
// Messages: the protocol's name, the number of strings, then each string's length and bytes. Numbers are
// 8 bytes, the lowest first.
#include "compile/compile_protocol.h"

#include <cstdint>

namespace kiln {
namespace {

constexpr std::size_t kNumberBytes = 8;

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
    std::string bytes(kCompileProtocol);
    append_number(bytes, strings.size());
    for (const auto& string : strings) {
        append_number(bytes, string.size());
        bytes += string;
    }
    return bytes;
}

std::optional<std::vector<std::string>> unpack(std::string_view bytes) {
    if (!bytes.starts_with(kCompileProtocol)) return std::nullopt;
    bytes.remove_prefix(kCompileProtocol.size());
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

}  // namespace

std::string encode(const CompileRequest& request) {
    std::vector<std::string> headers;
    for (const auto& header : request.source.headers) {
        headers.push_back(header.name);
        headers.push_back(header.text);
    }
    const auto& source = request.source;
    return pack({request.library, request.arch, pack(request.options), source.file_name, source.entry,
                 source.text, pack(headers)});
}

std::optional<CompileRequest> decode_request(std::string_view bytes) {
    auto fields = unpack(bytes);
    if (!fields || fields->size() != 7) return std::nullopt;
    const auto options = unpack((*fields)[2]);
    const auto headers = unpack((*fields)[6]);
    if (!options || !headers || headers->size() % 2 != 0) return std::nullopt;
    CompileRequest request{
        (*fields)[0], (*fields)[1], *options, {(*fields)[3], (*fields)[4], (*fields)[5], {}}};
    for (std::size_t i = 0; i < headers->size(); i += 2)
        request.source.headers.push_back({(*headers)[i], (*headers)[i + 1]});
    return request;
}

std::string encode(const CompileResponse& response) {
    return pack({std::string(1, static_cast<char>(response.status)), response.log, response.binary,
                 response.version, pack(response.supported_archs)});
}

std::optional<CompileResponse> decode_response(std::string_view bytes) {
    auto fields = unpack(bytes);
    if (!fields || fields->size() != 5 || (*fields)[0].size() != 1) return std::nullopt;
    const auto archs = unpack((*fields)[4]);
    const char status = (*fields)[0][0];
    if (!archs || std::string_view("oral").find(status) == std::string_view::npos) return std::nullopt;
    return CompileResponse{static_cast<CompileStatus>(status), (*fields)[1], (*fields)[2], (*fields)[3],
                           *archs};
}

}  // namespace kiln
