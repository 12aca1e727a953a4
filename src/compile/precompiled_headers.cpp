// SPDX-License-Identifier: Apache-2.0
//
// The state of each PCH. Whatever goes wrong, the caller compiles without.
#include "compile/precompiled_headers.h"

#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

namespace kiln {

// What is to be made or taken; nullopt: nothing.
std::optional<PrecompiledHeaders::Headers> PrecompiledHeaders::next(const std::string& key, bool creates) {
    const std::lock_guard lock(mutex_);
    Headers& headers = headers_[key];
    // What is created while a worker idles was asked for by the compile before, which went without.
    if (!creates || !headers.is_awaited) headers.asked_before = std::exchange(headers.asked, ++requests_);
    headers.is_awaited = !creates;
    if (headers.state == State::wanted) {
        if (!creates) return std::nullopt;
        try {
            if (!directory_) directory_.emplace();
            if (!make_room(headers.asked_before)) return std::nullopt;
            headers.file = (directory_->path() / std::to_string(files_++)).string() + ".pch";
        } catch (const std::exception&) {  // no place for temporary files
            headers.state = State::unusable;
        }
    }
    return headers.state == State::unusable ? std::nullopt : std::optional(headers);
}

// For one more file, which the removed one may have made. False: there is none, or the other headers are used as often.
bool PrecompiledHeaders::make_room(std::uint64_t asked_before) {
    std::size_t ready = 0;
    Headers* oldest = nullptr;
    for (auto& [key, headers] : headers_) {
        if (headers.state != State::ready) continue;
        ++ready;
        if (oldest == nullptr || headers.asked < oldest->asked) oldest = &headers;
    }
    if (ready >= limits_.files) {
        if (oldest == nullptr || oldest->asked > asked_before) return false;
        remove_file(*oldest);
        oldest->state = State::wanted;
    }
    return std::filesystem::space(directory_->path()).available >= limits_.free_bytes;
}

void PrecompiledHeaders::remove_file(Headers& headers) {
    std::error_code ignored;
    std::filesystem::remove(headers.file, ignored);
}

std::optional<CompileResponse> PrecompiledHeaders::compile(const std::string& key, bool creates,
                                                           const Compile& compile) {
    const std::unique_lock busy(busy_, std::try_to_lock);
    if (!busy) return std::nullopt;
    const std::optional<Headers> headers = next(key, creates);
    if (!headers) return std::nullopt;
    const bool is_new = headers->state == State::wanted;
    CompileResponse response = compile({(is_new ? "--create-pch=" : "--use-pch=") + headers->file,
                                        // That a #line directive follows, is no matter.
                                        "--pch-messages=false", "--diag-suppress=20283"});
    const std::lock_guard lock(mutex_);
    Headers& known = headers_[key];
    known.has_failed = response.status != CompileStatus::ok;
    if (known.has_failed && is_new) remove_file(known);
    if (known.has_failed) return std::nullopt;
    known.state = State::ready;
    return response;
}

bool PrecompiledHeaders::lacks(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto known = headers_.find(key);
    return known == headers_.end() || known->second.state == State::wanted;
}

void PrecompiledHeaders::compiled_without(const std::string& key, bool succeeded) {
    const std::lock_guard lock(mutex_);
    Headers& headers = headers_[key];
    if (headers.has_failed && succeeded) {
        headers.state = State::unusable;
        remove_file(headers);
    }
    headers.has_failed = false;
}

}  // namespace kiln
