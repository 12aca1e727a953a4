// SPDX-License-Identifier: Apache-2.0
//
// What the compile worker and Kiln say to each other: what decodes can be encoded again.
#include "compile/compile_protocol.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace kiln;
    const std::string_view text = fuzz::text_of(data, size);
    if (const auto request = decode_request(text)) {
        const std::string again = encode(*request);
        const auto second = decode_request(again);
        KILN_FUZZ_CHECK(second && encode(*second) == again);
    }
    if (const auto response = decode_response(text)) {
        const std::string again = encode(*response);
        const auto second = decode_response(again);
        KILN_FUZZ_CHECK(second && encode(*second) == again);
    }
    return 0;
}
