// SPDX-License-Identifier: Apache-2.0
//
// The state file of a cache directory: any bytes, and a text written from random numbers.
#include <fuzzer/FuzzedDataProvider.h>

#include "cache/disk_state.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace kiln;
    std::string reason;
    const DiskState any = parse_state(fuzz::text_of(data, size), reason);
    // What was made of it can be written, and is whole then.
    reason.clear();
    const std::string text = state_text(any);
    const DiskState again = parse_state(text, reason);
    KILN_FUZZ_CHECK(reason.empty());
    KILN_FUZZ_CHECK(state_text(again) == text);

    FuzzedDataProvider input(data, size);
    DiskState made;
    made.entry_bytes = input.ConsumeIntegral<std::uint64_t>();
    made.counted_at = input.ConsumeIntegral<std::int64_t>();
    std::string damaged = state_text(made);
    const auto at = input.ConsumeIntegral<std::size_t>() % damaged.size();
    damaged[at] = static_cast<char>(damaged[at] ^ input.ConsumeIntegralInRange(1, 255));
    KILN_FUZZ_CHECK(parse_state(damaged, reason).counted_at == 0 && !reason.empty());
    return 0;
}
