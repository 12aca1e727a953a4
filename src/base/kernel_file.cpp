// SPDX-License-Identifier: Apache-2.0
//
// The name is /proc/self/fd/N with 128 random bits in it, each an empty part of a path or a ".", so that it needs no
// directory of its own. The loader also compares the numbers of files: that of a file in memory is given to no other
// as long as it is mapped.
#include "base/kernel_file.h"

#include <sys/mman.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "base/fork.h"

namespace kiln {
namespace {

constexpr std::string_view kDescriptors = "/proc/self/fd/";
constexpr std::string_view kDigits = "0123456789";

// Of all kernel files, which a child of fork() has too: one list per process, in which a kernel's address is looked for
// when it has failed. Read and changed under ForkExclusion.
constinit KernelFile* first_file = nullptr;

std::string unique_place() {
    std::array<unsigned char, 16> random{};
    if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
        throw std::system_error(errno, std::generic_category(), "the system gives no random numbers");
    std::string place(kDescriptors);
    for (const unsigned char byte : random)
        for (int bit = 0; bit < 8; ++bit) place += (byte >> bit & 1) != 0 ? "./" : "/";
    return place;
}

}  // namespace

KernelFile::KernelFile(Bytes bytes) : place_(unique_place()), bytes_(std::move(bytes)) {
    const ForkExclusion alone;
    next_ = std::exchange(first_file, this);
    if (next_ != nullptr) next_->before_ = this;
}

KernelFile::~KernelFile() {
    const ForkExclusion alone;
    (before_ == nullptr ? first_file : before_->next_) = next_;
    if (next_ != nullptr) next_->before_ = before_;
}

std::string KernelFile::name(const FileDescriptor& file) const {
    return place_ + std::to_string(file.value());
}

void KernelFile::use(const FileDescriptor& file) {
    const std::size_t size = bytes_.size();
    void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.value(), 0);
    if (memory == MAP_FAILED) return;
    const std::shared_ptr<const void> owner(
        memory, [size](const void* begin) { ::munmap(const_cast<void*>(begin), size); });
    replace({owner, {static_cast<const std::byte*>(memory), size}});
}

void KernelFile::replace(Bytes bytes) {
    const ForkExclusion alone;
    std::swap(bytes_, bytes);
}

std::optional<Bytes> bytes_of_kernel(std::string_view name) noexcept try {
    const std::string_view place = name.substr(0, name.find_last_not_of(kDigits) + 1);
    const ForkExclusion alone;
    for (const KernelFile* file = first_file; file != nullptr; file = file->next_)
        if (file->place_ == place) return file->bytes_;
    return std::nullopt;
} catch (const std::exception&) {
    return std::nullopt;
}

}  // namespace kiln
