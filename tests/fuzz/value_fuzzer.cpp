// SPDX-License-Identifier: Apache-2.0
//
// Values on the remote: any bytes, and signed ones, of which no byte may change.
#include <fuzzer/FuzzedDataProvider.h>

#include "cache/entry.h"
#include "cache/remote_value.h"
#include "fuzz.h"

namespace {

using namespace kiln;

void take(const Bytes& value) {
    const SignatureKey key(16, std::byte{1});
    const std::string digest(64, 'a');
    std::string reason;
    // Nobody signs by chance; without a key of one's own, what is inside is an entry or nothing.
    KILN_FUZZ_CHECK(signed_entry(key, digest, value, reason).empty() && !reason.empty());
    const Bytes entry = signed_entry({}, digest, value, reason);
    fuzz::touch(entry);
    (void)decode_entry_of(digest, entry, reason);
}

void round_trip(FuzzedDataProvider input) {
    const SignatureKey key = input.ConsumeBytes<std::byte>(input.ConsumeIntegralInRange(1, 100));
    const std::string digest = input.ConsumeRandomLengthString(64);
    const std::size_t flip_at = input.ConsumeIntegral<std::size_t>();
    const auto flip = std::byte(input.ConsumeIntegralInRange(1, 255));
    const auto entry = input.ConsumeRemainingBytes<std::byte>();
    if (key.empty() || entry.empty()) return;

    std::vector<std::byte> value = signature_head(key, digest, entry);
    value.insert(value.end(), entry.begin(), entry.end());
    std::string reason;
    KILN_FUZZ_CHECK(signed_entry(key, digest, Bytes(value), reason) == Bytes(entry));
    KILN_FUZZ_CHECK(signed_entry({}, digest, Bytes(value), reason) == Bytes(entry));
    KILN_FUZZ_CHECK(signed_entry(key, digest + "x", Bytes(value), reason).empty());
    value[flip_at % value.size()] ^= flip;
    KILN_FUZZ_CHECK(signed_entry(key, digest, Bytes(value), reason).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    take(Bytes(fuzz::copy_of(data, size)));
    round_trip({data, size});
    return 0;
}
