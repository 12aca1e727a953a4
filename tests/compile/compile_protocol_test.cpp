// SPDX-License-Identifier: Apache-2.0
//
// The messages between Kiln and its worker: whole, cut short, too long, damaged.
#include "compile/compile_protocol.h"

#include <gtest/gtest.h>

#include <string>

namespace kiln {
namespace {

CompileRequest request() {
    CompileRequest request;
    request.product = RuntimeProduct::hiprtc;
    request.library = "/lib/x.so";
    request.build = "build 12";
    request.wanted = Wanted::binary;
    request.arch = "gfx90a";
    request.options = {"-a", ""};
    request.source = {"f.cu", "f", std::string("te\0xt", 5), {{"h", "1"}, {"g/h", ""}}};
    request.source.more_entries = {"g<1, 2>"};
    request.hoisted = "#include <h>\n";
    request.hoisted_key = "12";
    request.precompiling = Precompiling::now;
    return request;
}

TEST(CompileProtocol, MessagesSurviveTheTrip) {
    const auto back = decode_request(encode(request()));
    ASSERT_TRUE(back);
    EXPECT_EQ(encode(*back), encode(request()));
    EXPECT_EQ(back->product, RuntimeProduct::hiprtc);
    EXPECT_EQ(back->wanted, Wanted::binary);
    EXPECT_EQ(back->build, "build 12");
    EXPECT_EQ(back->source.text, request().source.text);
    EXPECT_EQ(back->source.headers[1].name, "g/h");
    EXPECT_EQ(back->options, request().options);
    EXPECT_EQ(back->source.more_entries, request().source.more_entries);
    EXPECT_EQ(back->hoisted, request().hoisted);
    EXPECT_EQ(back->hoisted_key, "12");
    EXPECT_EQ(back->precompiling, Precompiling::now);

    const CompileResponse response{
        CompileStatus::refused, -7,  "error", "log", std::string(3, '\0'), "9.0", {"gfx90a"},
        {"f", "_Z1gv"},         true};
    auto answer = decode_response(encode(response));
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, CompileStatus::refused);
    EXPECT_EQ(answer->code, -7);
    EXPECT_EQ(answer->error, "error");
    EXPECT_EQ(answer->binary, response.binary);
    EXPECT_EQ(answer->supported_archs, response.supported_archs);
    EXPECT_EQ(answer->entries, response.entries);
    EXPECT_TRUE(answer->precompiles);
    EXPECT_EQ(take_binary(*answer).size(), 3u);
}

TEST(CompileProtocol, WhatIsCutShortOrTooLongOrDamagedDoesNotDecode) {
    const std::string whole = encode(request());
    EXPECT_EQ(arrival(whole), Arrival::whole);
    for (std::size_t size = 0; size < whole.size(); ++size) {
        EXPECT_EQ(arrival(whole.substr(0, size)), Arrival::partial) << size;
        EXPECT_FALSE(decode_request(whole.substr(0, size))) << size;
    }
    EXPECT_EQ(arrival(whole + "x"), Arrival::broken);
    EXPECT_FALSE(decode_request(whole + "x"));
    EXPECT_FALSE(decode_response(whole));
    for (std::size_t i = 0; i < whole.size(); ++i) {
        std::string damaged = whole;
        damaged[i] = '\xff';
        (void)decode_request(damaged);  // a length of 2^64 - 1 neither crashes nor allocates
    }
}

TEST(CompileProtocol, ALengthBeyondTheBoundIsBrokenAtOnce) {
    std::string head(kCompileProtocol);
    head += std::string(7, '\0') + '\x01';  // 2^56
    EXPECT_EQ(arrival(head), Arrival::broken);
    EXPECT_EQ(arrival("kiln-compile-1"), Arrival::broken);
    EXPECT_EQ(arrival("h"), Arrival::broken);
}

}  // namespace
}  // namespace kiln
