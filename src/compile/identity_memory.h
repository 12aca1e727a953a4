// SPDX-License-Identifier: Apache-2.0
//
// IdentityMemory: remembers compilers' identities for as long as none of the files that they were computed
// from has changed. An identity is the digest of a hundred megabytes and takes child processes to compute; every start
// of a process needs it. So identities are remembered, in the process and in a small file of the cache, together with
// stamps (device, inode, size, times of change in ns) of every file and directory that they depend on.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// Where the text of the memory is kept between processes. Nothing throws; what can't be kept is lost.
class IdentityStore {
  public:
    virtual ~IdentityStore() = default;
    /// Empty when there is nothing, or nothing that is trusted.
    virtual std::string read() = 0;
    virtual void write(const std::string& text) = 0;
};

/// Thread-safe.
class IdentityMemory {
  public:
    struct Answer {
        std::vector<std::string> values;
        /// What the values depend on; a change of any of them makes them void. What is not there counts too:
        /// that it comes is a change.
        std::vector<std::filesystem::path> watched;
    };
    using Derive = std::function<Answer()>;

    /// Without a store answers are remembered in this process alone.
    explicit IdentityMemory(std::shared_ptr<IdentityStore> store = nullptr) : store_(std::move(store)) {}

    /// The values for this question: remembered ones while nothing has changed that they depend on, else what
    /// `derive` finds, whose exceptions pass through and are not remembered.
    std::vector<std::string> ask(const std::string& question, const Derive& derive);

  private:
    struct Record {
        std::string question;  ///< a checksum of it
        std::string stamps;    ///< a checksum of them
        std::vector<std::string> watched;
        std::vector<std::string> values;
    };
    static std::string text_of(const std::vector<Record>& records);
    static std::vector<Record> parse(const std::string& text);
    static bool holds(const Record& record);

    const std::shared_ptr<IdentityStore> store_;
    std::mutex mutex_;
    std::map<std::string, Record> known_;  ///< by question
    bool read_ = false;
    std::vector<Record> stored_;
};

}  // namespace kiln
