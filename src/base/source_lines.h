// SPDX-License-Identifier: Apache-2.0
//
// From an address in a host kernel's shared object to the template's line, by its debug information (DWARF 4
// or 5, of GCC or Clang). Reads with libdw (dwarf_api.h); without it all places are empty.
#pragma once

#include <kiln/build.h>
#include <kiln/observe.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace kiln {

/// Keeps what it was asked once. Not thread-safe. Move-only. Once made it needs little stack (a few KB).
class SourceLines {
  public:
    /// Anything that is no such file, or has no debug information, gives empty places.
    explicit SourceLines(const Bytes& shared_object);
    SourceLines(SourceLines&&) noexcept;
    SourceLines& operator=(SourceLines&&) noexcept;
    ~SourceLines();

    /// code: the address behind a call (ObservedAccess::code); caller: the same of the call of the function
    /// that holds `code`, or 0. The place is the innermost of the calls around it, inlined ones included, that
    /// stands in a template (a file that ends in .cu), first of those of `code`, then of `caller`. Its `inner`
    /// is the innermost that stands in a header, unless that is one of those that stand for the language
    /// itself on the host: kiln/device*.h and kiln/host_*.h.
    const SourcePlace& place(std::uint32_t code, std::uint32_t caller);
    /// Where the template declares the variable; 0: not known, or in a header.
    int line_of_variable(const std::string& name);
    /// What the declaration of the shared variable aligns it to that is at `offset` in the thread-local storage; 0: not known.
    std::uint64_t alignment_of_variable(std::uint64_t offset);

  private:
    struct Reader;
    std::unique_ptr<Reader> reader_;  // null: nothing can be read
    std::map<std::pair<std::uint32_t, std::uint32_t>, SourcePlace> places_;
    std::map<std::string, int> variables_;
    std::map<std::uint64_t, std::uint64_t> alignments_;
};

/// The place of one address in the KernelFile of this name, SourceLines::place without a caller; line 0: not known.
SourcePlace place_in_file(const std::string& shared_object, std::uint64_t code) noexcept;

}  // namespace kiln
