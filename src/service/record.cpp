// SPDX-License-Identifier: Apache-2.0
//
// Record as text, and how several processes add to one file. The reader takes the part of JSON that a record needs:
// objects, arrays, strings without escapes but of quotes and backslashes, integers, true and false.
#include <kiln/error.h>
#include <kiln/record.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <system_error>

#include "base/file.h"
#include "base/file_lock.h"
#include "base/output_file.h"
#include "format/format.h"

namespace kiln {
namespace {

constexpr std::uint64_t kMostBytesOfARecord = 64 << 20;
constexpr std::chrono::seconds kRecordPatience{5};

constexpr std::size_t kMostBytesOfAString = 1 << 18;  // as much as code has, in quotes

std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        result += c;
    }
    return result + "\"";
}

/// Values are types, numbers, and code as Code::text() writes it; anything else is left out by add().
bool is_plain(std::string_view text) {
    return text.size() <= kMostBytesOfAString &&
           std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
}

/// Options of compilers may have any characters but those of control.
bool is_option(std::string_view text) {
    return text.size() <= kMostBytesOfAString && std::ranges::all_of(text, [](char c) {
               return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
           });
}

bool is_plain_name(std::string_view text) {
    return text.size() < 256 && is_plain(text) && text.find_first_of("\"\\") == text.npos;
}

bool can_be_kept(const RecordedValues& one) {
    return is_plain_name(one.template_name) && is_plain_name(one.backend) && is_plain_name(one.arch) &&
           std::ranges::all_of(one.compile_options,
                               [](const std::string& text) { return is_option(text); }) &&
           std::ranges::all_of(one.values, [](const auto& value) {
               return is_plain_name(value.first) && is_plain(value.second);
           });
}

std::string head_text(const RecordedValues& one) {
    std::string text = "{\"template\": " + quoted(one.template_name) +
                       ", \"backend\": " + quoted(one.backend) + ", \"arch\": " + quoted(one.arch) +
                       ", \"values\": {";
    const char* separator = "";
    for (const auto& [name, value] : one.values) {
        text += separator + quoted(name) + ": " + quoted(value);
        separator = ", ";
    }
    text += "}";
    if (!one.compile_options.empty()) {
        separator = ", \"compile_options\": [";
        for (const std::string& option : one.compile_options) {
            text += separator + quoted(option);
            separator = ", ";
        }
        text += "]";
    }
    return text + (one.debug ? ", \"debug\": true" : "");
}

class RecordReader {
  public:
    RecordReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

    Record read() {
        Record record;
        bool headed = false;
        object([&](const std::string& name) {
            if (name == "kiln_record") {
                if (integer() != 1) fail("its version is not 1");
                headed = true;
            } else if (name == "complete") {
                record.complete = boolean() && record.complete;
            } else if (name == "variants") {
                array([&] { record.add(item(nullptr)); });
            } else if (name == "operations") {
                array([&] {
                    std::set<Sizes> shapes;
                    const RecordedValues operation = item(&shapes);
                    for (const Sizes& sizes : shapes) record.add(operation, sizes);
                });
            } else {
                fail("it has an unknown member \"" + name + "\"");
            }
        });
        if (!headed) fail("the member \"kiln_record\" is missing");
        skip();
        if (at_ != text_.size()) fail("something follows its end");
        return record;
    }

  private:
    [[noreturn]] void fail(const std::string& why) const {
        const auto line =
            1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
        throw UsageError(
            formatted("{}:{}: this is no record of an application: {}; ServiceOptions::record makes one.",
                      file_, line, why));
    }
    void skip() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }
    bool take(char c) {
        skip();
        if (at_ == text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }
    void expect(char c) {
        if (!take(c)) fail(std::string("'") + c + "' is missing");
    }
    std::string string(bool (*fits)(std::string_view) = is_plain) {
        expect('"');
        std::string value;
        for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
            if (text_[at_] == '\\' && ++at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\')
                fail("a string has an escape that is neither \\\" nor \\\\");
            if (at_ < text_.size()) value += text_[at_];
        }
        if (at_ == text_.size()) fail("a string has no end");
        if (!fits(value)) fail("a string is too long, or has characters that no name has");
        ++at_;
        return value;
    }
    std::int64_t integer() {
        skip();
        std::int64_t value = 0;
        const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
        if (error != std::errc()) fail("an integer is missing");
        at_ = static_cast<std::size_t>(end - text_.data());
        return value;
    }
    bool boolean() {
        skip();
        for (const bool value : {true, false}) {
            const std::string_view word = value ? "true" : "false";
            if (!text_.substr(at_).starts_with(word)) continue;
            at_ += word.size();
            return value;
        }
        fail("true or false is missing");
    }
    template <class Member>
    void object(Member member) {
        expect('{');
        if (take('}')) return;
        do {
            const std::string name = string();
            expect(':');
            member(name);
        } while (take(','));
        expect('}');
    }
    template <class Element>
    void array(Element element) {
        expect('[');
        if (take(']')) return;
        do element();
        while (take(','));
        expect(']');
    }
    RecordedValues item(std::set<Sizes>* shapes) {
        RecordedValues one;
        object([&](const std::string& name) {
            if (name == "template")
                one.template_name = string();
            else if (name == "backend")
                one.backend = string();
            else if (name == "arch")
                one.arch = string();
            else if (name == "values")
                object([&](const std::string& parameter) { one.values[parameter] = string(); });
            else if (name == "compile_options")
                array([&] { one.compile_options.push_back(string(is_option)); });
            else if (name == "debug")
                one.debug = boolean();
            else if (name == "shapes" && shapes != nullptr)
                array([&] {
                    Sizes sizes;
                    object([&](const std::string& size) { sizes[size] = integer(); });
                    shapes->insert(std::move(sizes));
                });
            else
                fail("an item has an unknown member \"" + name + "\"");
        });
        if (one.template_name.empty() || one.backend.empty() || one.arch.empty())
            fail("an item lacks its template, backend or arch");
        return one;
    }

    std::string_view text_;
    const std::string& file_;
    std::size_t at_ = 0;
};

FileLock locked_record(const std::filesystem::path& file) {
    if (auto lock = FileLock::acquire_for(file, kRecordPatience)) return std::move(*lock);
    throw UsageError("the record " + file.string() +
                     " can't be written: " + FileLock::place_for(file).string() +
                     " has been held for five seconds by another process.");
}

}  // namespace

bool Record::add(const RecordedValues& variant) {
    if (variants.contains(variant)) return false;
    if (variants.size() >= kMostVariants || !can_be_kept(variant)) return complete = false;
    return variants.insert(variant).second;
}

bool Record::add(const RecordedValues& operation, const Sizes& sizes) {
    const auto found = operations.find(operation);
    if (found != operations.end() && found->second.contains(sizes)) return false;
    if (shapes >= kMostShapes || !can_be_kept(operation)) return complete = false;
    ++shapes;
    return operations[operation].insert(sizes).second;
}

void Record::merge(const Record& other) {
    for (const RecordedValues& variant : other.variants) add(variant);
    for (const auto& [operation, seen] : other.operations)
        for (const Sizes& sizes : seen) add(operation, sizes);
    complete = complete && other.complete;
}

std::string Record::text() const {
    std::string text = std::string("{\"kiln_record\": 1, \"complete\": ") + (complete ? "true" : "false") +
                       ",\n\"variants\": [";
    const char* separator = "\n ";
    for (const RecordedValues& variant : variants) {
        text += separator + head_text(variant) + "}";
        separator = ",\n ";
    }
    text += "],\n\"operations\": [";
    separator = "\n ";
    for (const auto& [operation, seen] : operations) {
        text += separator + head_text(operation) + ", \"shapes\": [";
        separator = ",\n ";
        const char* before_shape = "\n  ";
        for (const Sizes& sizes : seen) {
            text += std::string(before_shape) + "{";
            before_shape = ",\n  ";
            const char* comma = "";
            for (const auto& [name, size] : sizes) {
                text += formatted("{}{}: {}", comma, quoted(name), size);
                comma = ", ";
            }
            text += "}";
        }
        text += "]}";
    }
    return text + "]}\n";
}

Record Record::parse(std::string_view text, const std::string& file) {
    return RecordReader(text, file).read();
}

Record Record::load(const std::filesystem::path& file) {
    std::optional<std::string> text;
    try {
        text = read_text_if_exists(file, kMostBytesOfARecord);
    } catch (const std::system_error& error) {
        throw UsageError("the record can't be read: " + std::string(error.what()));
    }
    if (!text)
        throw UsageError(
            file.string() +
            ": there is no such record; an application writes one if it sets ServiceOptions::record.");
    return parse(*text, file.string());
}

void Record::store(const std::filesystem::path& file, const Record& seen) {
    try {
        if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
        const OutputPlace place(file);
        if (place.is_stream())
            throw UsageError("the record " + file.string() +
                             " can't be written: it is no regular file, and what is there is read again.");
        const FileLock lock = locked_record(place.path());
        Record all;
        if (const auto text = read_text_if_exists(place.path(), kMostBytesOfARecord); text && !text->empty())
            all = parse(*text, file.string());
        const std::string before = all.text();
        all.merge(seen);
        const std::string text = all.text();
        if (text != before || !std::filesystem::exists(place.path())) write_output_file(place.path(), text);
    } catch (const std::system_error& error) {
        throw UsageError("the record " + file.string() + " can't be written: " + error.what());
    }
}

}  // namespace kiln
