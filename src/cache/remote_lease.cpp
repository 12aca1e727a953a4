// SPDX-License-Identifier: Apache-2.0
//
// A lease is a key with a time to live that holds its holder's token. Only a holder of the token may renew or
// delete it; scripts on the server compare it atomically.
#include <sodium.h>

#include <array>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/blocked_signals.h"
#include "base/fork.h"
#include "cache/remote_state.h"

namespace kiln {
namespace {

constexpr std::string_view kLife = "5000";  // ms
constexpr long long kLongestLife = 5000;
constexpr std::chrono::milliseconds kRenewal{1200};
constexpr std::string_view kProlong =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return "
    "0";
constexpr std::string_view kDelete =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

std::string random_token() {
    std::array<unsigned char, 16> bytes;
    randombytes_buf(bytes.data(), bytes.size());
    std::array<char, 2 * bytes.size() + 1> text;
    sodium_bin2hex(text.data(), text.size(), bytes.data(), bytes.size());
    return text.data();
}

}  // namespace

struct RemoteCache::Lease::Held {
    std::shared_ptr<State> state;
    std::string key;
    std::string token = random_token();
    unsigned generation = fork_generation();
    std::mutex mutex;
    std::condition_variable ended;
    bool over = false;
    std::thread renewal;

    /// False when it is lost.
    bool prolong() {
        try {
            const auto reply = state->client.call({"EVAL", kProlong, "1", key, token, kLife});
            return reply.kind != RedisReply::Kind::integer || reply.integer == 1;
        } catch (const std::exception&) {
            return true;  // it may still be valid; the client does not call a failed server again soon
        }
    }

    void renew() {
        std::unique_lock lock(mutex);
        while (!ended.wait_for(lock, kRenewal, [&] { return over; })) {
            lock.unlock();
            if (!prolong()) return;
            lock.lock();
        }
    }

    void give_back() noexcept {
        {
            const std::lock_guard lock(mutex);
            over = true;
        }
        ended.notify_all();
        if (renewal.joinable()) renewal.join();
        try {
            (void)state->client.call({"EVAL", kDelete, "1", key, token});
        } catch (const std::exception&) {
            // It expires by itself.
        }
    }
};

RemoteCache::Lease::Lease(std::unique_ptr<Held> held) : held_(std::move(held)) {}

RemoteCache::Lease::~Lease() {
    // In a child of fork() the lease is the parent's, and so is the thread.
    if (held_->generation != fork_generation())
        (void)held_.release();
    else
        held_->give_back();
}

RemoteCache::Answer RemoteCache::try_lease(const std::string& digest) {
    // If nothing can be stored, there is no result to wait for.
    if (state_->read_only || state_->client.writes_paused()) return {};
    try {
        auto held = std::make_unique<Lease::Held>();
        held->state = state_;
        held->key = "kiln:1:lease:" + digest;
        const auto reply = state_->client.call({"SET", held->key, held->token, "NX", "PX", kLife});
        if (reply.kind == RedisReply::Kind::nil) {
            // A remaining lifetime longer than a lease's means that the server's clock was set back. Its
            // holder, if alive, renews it.
            const auto left = state_->client.call({"PTTL", held->key});
            if (left.integer > kLongestLife || left.integer == -1)
                (void)state_->client.call({"PEXPIRE", held->key, kLife});
            return {Right::theirs, nullptr};
        }
        if (!reply.is_status("OK")) return {};
        // Without a thread it is not renewed, and expires during a long compile.
        std::unique_ptr<Lease> lease(new Lease(std::move(held)));
        try {
            const BlockedSignals blocked;
            lease->held_->renewal = std::thread([all = lease->held_.get()] { all->renew(); });
        } catch (const std::system_error&) {
        }
        return {Right::mine, std::move(lease)};
    } catch (const std::exception&) {
        return {};
    }
}

}  // namespace kiln
