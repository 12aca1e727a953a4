// SPDX-License-Identifier: Apache-2.0
//
// hiredis' reader with our own functions that create RedisReply. An exception must not pass through hiredis:
// a function that can't do its work returns null, which the reader reports as an error.
#include "cache/redis_reply.h"

#include <hiredis/hiredis.h>

#include <new>
#include <utility>

namespace kiln {

struct RedisReader::Bounds {
    std::size_t bytes = 0;     // of this reply, so far
    std::size_t elements = 0;  // of all arrays of this reply
};

namespace {

/// Stores a value at the task's place, and returns its address; null when there is no memory.
void* place(const redisReadTask* task, RedisReply value) noexcept {
    if (task->parent != nullptr) {
        auto& slot =
            static_cast<RedisReply*>(task->parent->obj)->elements[static_cast<std::size_t>(task->idx)];
        slot = std::move(value);
        return &slot;
    }
    return new (std::nothrow) RedisReply(std::move(value));
}

void* make_text(const redisReadTask* task, char* text, std::size_t size) noexcept {
    RedisReply reply;
    switch (task->type) {
        case REDIS_REPLY_STATUS:
            reply.kind = RedisReply::Kind::status;
            break;
        case REDIS_REPLY_ERROR:
            reply.kind = RedisReply::Kind::error;
            break;
        case REDIS_REPLY_STRING:
            reply.kind = RedisReply::Kind::bytes;
            break;
        default:
            return nullptr;  // of a later protocol, which was not asked for
    }
    try {
        const auto* data = reinterpret_cast<const std::byte*>(text);
        reply.bytes.assign(data, data + size);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
    return place(task, std::move(reply));
}

// hiredis 0.14 counts elements in int, 1.x in size_t.
template <class Count, class Bounds>
void* make_array(const redisReadTask* task, Count count) noexcept {
    int depth = 1;
    for (const auto* parent = task->parent; parent != nullptr; parent = parent->parent) ++depth;
    auto* bounds = static_cast<Bounds*>(task->privdata);
    const auto elements = static_cast<std::size_t>(count);
    if (task->type != REDIS_REPLY_ARRAY || depth > RedisReader::kDeepest ||
        elements > RedisReader::kMostElements - bounds->elements)
        return nullptr;
    bounds->elements += elements;
    RedisReply reply;
    reply.kind = RedisReply::Kind::array;
    try {
        reply.elements.resize(elements);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
    return place(task, std::move(reply));
}

void* make_integer(const redisReadTask* task, long long value) noexcept {
    RedisReply reply;
    reply.kind = RedisReply::Kind::integer;
    reply.integer = value;
    return place(task, std::move(reply));
}

void* make_nil(const redisReadTask* task) noexcept { return place(task, RedisReply()); }

void free_reply(void* reply) noexcept { delete static_cast<RedisReply*>(reply); }

template <class Bounds>
constexpr redisReplyObjectFunctions functions() {
    redisReplyObjectFunctions table{};
    table.createString = make_text;
    table.createArray = [](const redisReadTask* task, auto count) {
        return make_array<decltype(count), Bounds>(task, count);
    };
    table.createInteger = make_integer;
    table.createNil = make_nil;
    table.freeObject = free_reply;
#if HIREDIS_MAJOR >= 1
    // Of a later protocol. If null, hiredis would return numbers as pointers.
    table.createDouble = [](const redisReadTask*, double, char*, std::size_t) -> void* { return nullptr; };
    table.createBool = [](const redisReadTask*, int) -> void* { return nullptr; };
#endif
    return table;
}

}  // namespace

std::string_view RedisReply::error_code() const {
    if (kind != Kind::error) return {};
    return text().substr(0, text().find(' '));
}

void RedisReader::Free::operator()(redisReader* reader) const { redisReaderFree(reader); }

RedisReader::RedisReader() : bounds_(std::make_unique<Bounds>()) {
    static constinit redisReplyObjectFunctions table =
        functions<Bounds>();  // hiredis wants it mutable, and only reads it
    reader_.reset(redisReaderCreateWithFunctions(&table));
    if (!reader_) throw std::bad_alloc();
    reader_->privdata = bounds_.get();
}

RedisReader::RedisReader(RedisReader&&) noexcept = default;
RedisReader& RedisReader::operator=(RedisReader&&) noexcept = default;
RedisReader::~RedisReader() = default;

std::optional<RedisReply> RedisReader::feed(std::span<const std::byte> bytes) {
    bounds_->bytes += bytes.size();
    if (bounds_->bytes > kLargestReply) throw RedisProtocolError("its answer is larger than 128 MiB");
    void* object = nullptr;
    if (redisReaderFeed(reader_.get(), reinterpret_cast<const char*>(bytes.data()), bytes.size()) !=
            REDIS_OK ||
        redisReaderGetReply(reader_.get(), &object) != REDIS_OK)
        throw RedisProtocolError("its answer is not Redis' protocol, or larger than any answer should be");
    if (object == nullptr) return std::nullopt;
    const std::unique_ptr<RedisReply> reply(static_cast<RedisReply*>(object));
    if (reader_->pos != reader_->len) throw RedisProtocolError("it says more than it was asked for");
    *bounds_ = {};
    return std::move(*reply);
}

void RedisCommand::Free::operator()(char* text) const { redisFreeCommand(text); }

RedisCommand::RedisCommand(std::span<const std::string_view> words) {
    std::vector<const char*> texts;
    std::vector<std::size_t> sizes;
    for (const auto& word : words) {
        texts.push_back(word.data());
        sizes.push_back(word.size());
    }
    char* text = nullptr;
    const auto size =
        redisFormatCommandArgv(&text, static_cast<int>(words.size()), texts.data(), sizes.data());
    text_.reset(text);
    if (size < 0 || text == nullptr) throw std::bad_alloc();
    size_ = static_cast<std::size_t>(size);
}

}  // namespace kiln
