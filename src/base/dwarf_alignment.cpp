// SPDX-License-Identifier: Apache-2.0
#include "base/dwarf_alignment.h"

#include <algorithm>
#include <cstring>

namespace kiln::dwarf {
namespace {

constexpr int kDeepest = 64;  // of damaged files
constexpr std::uint64_t kWidest = 16;

std::uint64_t number_of(const Api& api, Entry& entry, AttributeName name) {
    Attribute attribute{};
    std::uint64_t number = 0;
    if (api.attribute(&entry, name, &attribute) == nullptr || api.number(&attribute, &number) != 0) return 0;
    return number;
}

std::uint64_t alignment_of_type(const Api& api, Entry type, int depth);

/// Of an entry that has a type: a variable, an array, a qualifier. A declaration raises the alignment of the type, and never
/// lowers it. 0 where that is not known.
std::uint64_t alignment_of(const Api& api, Entry entry, int depth) {
    Attribute attribute{};
    Entry type{};
    if (api.attribute(&entry, kType, &attribute) == nullptr || api.reference(&attribute, &type) == nullptr)
        return 0;
    const std::uint64_t of_type = alignment_of_type(api, type, depth + 1);
    return of_type == 0 ? 0 : std::max(of_type, number_of(api, entry, kAlignment));
}

std::uint64_t alignment_of_type(const Api& api, Entry type, int depth) {
    if (depth > kDeepest) return 0;
    Attribute attribute{};
    const std::uint64_t declared = number_of(api, type, kAlignment), bytes = number_of(api, type, kByteSize);
    switch (api.tag(&type)) {
        case kArray:
            if (api.attribute(&type, kVector, &attribute) != nullptr) return 0;
            return alignment_of(api, type, depth);
        case kTypedef:
        case kConstant:
        case kVolatile:
            return alignment_of(api, type, depth);
        case kBaseType:
        case kEnumeration:
        case kPointer:
            return bytes;
        case kStructure:
        case kClass:
        case kUnion:
            // A compiler that knows of 8 bytes copies one of 16 at once, which a GPU's does not.
            if (declared < kWidest && bytes >= kWidest) return 0;
            return std::max<std::uint64_t>(declared, 1);
        default:
            return 0;
    }
}

/// Its location is an offset, of 4 or 8 bytes, and the operation that makes a thread-local address of it.
bool lies_at(const Api& api, Entry& entry, std::uint64_t offset) {
    constexpr unsigned kExpression = 0x18;  // the form: its length in a byte, and its operations
    constexpr unsigned char kConst4u = 0x0c, kConst8u = 0x0e, kFormTlsAddress = 0x9b,
                            kGnuPushTlsAddress = 0xe0;
    Attribute attribute{};
    if (api.attribute(&entry, kLocation, &attribute) == nullptr || attribute.form != kExpression)
        return false;
    const unsigned char* const operations = attribute.value + 1;
    const unsigned bytes = operations[0] == kConst8u ? 8 : 4;
    if (attribute.value[0] != bytes + 2 || (bytes == 4 && operations[0] != kConst4u)) return false;
    std::uint64_t found = 0;  // hosts are little-endian
    std::memcpy(&found, operations + 1, bytes);
    const unsigned char last = operations[1 + bytes];
    return found == offset && (last == kFormTlsAddress || last == kGnuPushTlsAddress);
}

std::uint64_t search(const Api& api, Entry scope, std::uint64_t offset, int depth) {
    std::uint64_t most = 0;
    Entry entry{};
    if (depth > kDeepest || api.child(&scope, &entry) != 0) return 0;
    do {
        switch (api.tag(&entry)) {
            case kVariable:
                if (lies_at(api, entry, offset)) most = std::max(most, alignment_of(api, entry, 0));
                break;
            case kSubprogram:
            case kLexicalBlock:
            case kInlinedSubroutine:
            case kNamespace:
            case kStructure:
            case kClass:
                most = std::max(most, search(api, entry, offset, depth + 1));
                break;
            default:
                break;
        }
    } while (api.sibling(&entry, &entry) == 0);
    return most;
}

}  // namespace

std::uint64_t alignment_of_thread_local(const Api& api, Entry scope, std::uint64_t offset) {
    return search(api, scope, offset, 0);
}

}  // namespace kiln::dwarf
