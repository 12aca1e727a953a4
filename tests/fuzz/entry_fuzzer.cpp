// SPDX-License-Identifier: Apache-2.0
//
// Entries: as they come, with head and checksum made right (which no mutation finds by itself), and written
// from random parts.
#include <fuzzer/FuzzedDataProvider.h>

#include <optional>

#include "base/digest.h"
#include "cache/build_key.h"
#include "cache/entry.h"
#include "fuzz.h"

namespace {

using namespace kiln;

// Of the head: magic, version, number of sections, size.
constexpr std::size_t kSizeOffset = 16;
constexpr std::size_t kSmallest = 88 + sizeof(Checksum);

bool equal(const Binary& a, const Binary& b) {
    return a.kind == b.kind && a.entry == b.entry && a.bytes == b.bytes && a.log == b.log &&
           a.compiler == b.compiler;
}

void check_sound(const Entry& entry, const Bytes& bytes) {
    KILN_FUZZ_CHECK(entry.binary.bytes.data() >= bytes.data());
    KILN_FUZZ_CHECK(entry.binary.bytes.end() <= bytes.end());
    KILN_FUZZ_CHECK(!entry.binary.bytes.empty() && !entry.binary.entry.empty());
    fuzz::touch(entry.binary.bytes);
    std::string reason;
    const std::string digest = digest_hex(entry.key_text);
    KILN_FUZZ_CHECK(decode_entry_of(digest, bytes, reason));
    KILN_FUZZ_CHECK(!decode_entry_of(digest_hex(digest), bytes, reason) && !reason.empty());
    // Written again, it says the same.
    const auto again = decode_entry(encode_entry({digest, entry.key_text}, entry.binary), reason);
    KILN_FUZZ_CHECK(again && again->key_text == entry.key_text && equal(again->binary, entry.binary));
}

void decode(std::vector<std::byte> content) {
    const Bytes bytes(std::move(content));
    std::string reason;
    const auto entry = decode_entry(bytes, reason);
    KILN_FUZZ_CHECK(entry.has_value() == reason.empty());
    if (entry) check_sound(*entry, bytes);
}

std::vector<std::byte> repaired(std::vector<std::byte> bytes) {
    const std::span<std::byte> all(bytes);
    const Bytes model = encode_entry({}, Binary{.entry = "k", .bytes = std::vector<std::byte>(1)});
    std::memcpy(bytes.data(), model.data(), kSizeOffset);
    fuzz::put(all, kSizeOffset, std::uint64_t{bytes.size()});
    const auto content = all.first(bytes.size() - sizeof(Checksum));
    fuzz::put(all, content.size(), checksum(content));
    return bytes;
}

void round_trip(const std::uint8_t* data, std::size_t size) {
    FuzzedDataProvider input(data, size);
    const std::size_t flip_at = input.ConsumeIntegral<std::size_t>();
    const auto flip = std::byte(input.ConsumeIntegralInRange(1, 255));
    const std::string text = input.ConsumeRandomLengthString();
    const BuildKey key{digest_hex(text), text};
    Binary binary;
    binary.kind = input.PickValueInArray(
        {BinaryKind::cubin, BinaryKind::ptx, BinaryKind::code_object, BinaryKind::shared_object});
    binary.entry = "k";
    binary.log = input.ConsumeRandomLengthString();
    binary.compiler = input.ConsumeRandomLengthString();
    binary.compile_ms = input.ConsumeFloatingPoint<double>();
    const auto content = input.ConsumeRemainingBytes<std::uint8_t>();
    binary.bytes = fuzz::copy_of(content.data(), content.size());
    if (binary.bytes.empty()) return;

    const Bytes encoded = encode_entry(key, binary);
    std::string reason;
    const auto entry = decode_entry_of(key.digest, encoded, reason);
    KILN_FUZZ_CHECK(entry && entry->key_text == text && entry->binary.bytes == binary.bytes);
    KILN_FUZZ_CHECK(entry->binary.log == binary.log);

    std::vector<std::byte> damaged(encoded.begin(), encoded.end());
    damaged[flip_at % damaged.size()] ^= flip;
    KILN_FUZZ_CHECK(!decode_entry(Bytes(std::move(damaged)), reason));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    decode(fuzz::copy_of(data, size));
    if (size >= kSmallest) decode(repaired(fuzz::copy_of(data, size)));
    round_trip(data, size);
    return 0;
}
