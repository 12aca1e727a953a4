// SPDX-License-Identifier: Apache-2.0
//
// Redis' protocol by hiredis: commands into bytes, bytes into replies. It uses no socket. The memory of a
// reply is bounded, whatever the server sends.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

struct redisReader;

namespace kiln {

struct RedisReply {
    enum class Kind { nil, status, error, integer, bytes, array };

    Kind kind = Kind::nil;
    std::vector<std::byte> bytes;  ///< of a status, an error or bytes
    long long integer = 0;
    std::vector<RedisReply> elements;

    std::string_view text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
    bool is_status(std::string_view wanted) const { return kind == Kind::status && text() == wanted; }
    /// The first word of an error: "NOAUTH"; empty when it is none.
    std::string_view error_code() const;
};

/// The bytes are not a reply, or exceed the bounds.
class RedisProtocolError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// Takes a server's bytes as they come. After an error it can't be used any more.
class RedisReader {
  public:
    static constexpr std::size_t kLargestReply = std::size_t{128} << 20;
    static constexpr std::size_t kMostElements = 65536;
    static constexpr int kDeepest = 4;

    RedisReader();
    RedisReader(RedisReader&&) noexcept;
    RedisReader& operator=(RedisReader&&) noexcept;
    ~RedisReader();

    /// The reply that these bytes complete. Throws RedisProtocolError, also for bytes beyond the reply's end:
    /// a server speaks only when asked.
    std::optional<RedisReply> feed(std::span<const std::byte> bytes);

  private:
    struct Free {
        void operator()(redisReader* reader) const;
    };
    struct Bounds;

    std::unique_ptr<Bounds> bounds_;
    std::unique_ptr<redisReader, Free> reader_;
};

/// One command as the server wants it, with its memory.
class RedisCommand {
  public:
    explicit RedisCommand(std::span<const std::string_view> words);
    RedisCommand(std::initializer_list<std::string_view> words)
        : RedisCommand(std::span(words.begin(), words.size())) {}

    std::span<const std::byte> bytes() const {
        return {reinterpret_cast<const std::byte*>(text_.get()), size_};
    }

  private:
    struct Free {
        void operator()(char* text) const;
    };
    std::unique_ptr<char, Free> text_;
    std::size_t size_ = 0;
};

}  // namespace kiln
