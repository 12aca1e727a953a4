// SPDX-License-Identifier: Apache-2.0
//
// An NVRTC program from a request, with names that make equal input give equal bytes everywhere.
#include "compile/nvrtc_program.h"

#include <algorithm>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compile/hoisted_includes.h"
#include "compile/include_guard.h"
#include "format/format.h"

namespace kiln {
namespace {

// NVRTC puts the current directory before relative file names and writes the result into the line
// information. So every file gets a name below this root, which the log then loses again.
constexpr std::string_view kVirtualRoot = "/kiln-virtual/";

// The text with a #line directive that has the root before its name, and with the root before the names of its own ones.
std::string rooted(const std::string& name, const std::string& text) {
    constexpr std::string_view kLine = "#line ";
    const std::size_t guard = include_guard_end(text);
    const auto number = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(guard), '\n');
    std::string result;
    result.reserve(text.size() + kLine.size() + kVirtualRoot.size() + name.size() + 16);
    result.append(text, 0, guard).append(kLine).append(std::to_string(number)).append(" \"");
    result.append(kVirtualRoot).append(name).append("\"\n");
    std::size_t copied = guard;
    for (std::size_t at = guard; (at = text.find(kLine, at)) != text.npos; at += kLine.size()) {
        if (at != 0 && text[at - 1] != '\n') continue;
        const std::size_t quote = text.find('"', at);
        if (quote > text.find('\n', at) || quote + 1 >= text.size() || text[quote + 1] == '/') continue;
        result.append(text, copied, quote + 1 - copied).append(kVirtualRoot);
        copied = quote + 1;
    }
    return result.append(text, copied);
}

// What a compile is given, by names and texts. hoisted: #include lines in front of everything, to be precompiled; then
// no #line directive may come before their end, so that the files have their names below the root, and the names that
// #include lines have are forwarded.
class ProgramText {
  public:
    ProgramText(const Source& source, const std::string& hoisted) {
        for_each_header(source, [&](const Header& header) {
            if (hoisted.empty()) {
                add(header.name, kept(rooted(header.name, header.text)));
                return;
            }
            const std::string& name = kept(std::string(kVirtualRoot) + header.name);
            add(header.name, kept("#include \"" + name + "\"\n"));
            add(name, header.text);
        });
        if (hoisted.empty())
            main_ = rooted(source.file_name, source.text);
        else
            main_ =
                hoisted + "#pragma nv_hdrstop\n" + rooted(source.file_name, without_hoisted_includes(source));
    }

    const char* main() const { return main_.c_str(); }
    int header_count() const { return static_cast<int>(names_.size()); }
    const char* const* names() const { return names_.data(); }
    const char* const* texts() const { return texts_.data(); }

  private:
    const std::string& kept(std::string text) { return kept_.emplace_back(std::move(text)); }
    void add(const std::string& name, const std::string& text) {
        names_.push_back(name.c_str());
        texts_.push_back(text.c_str());
    }

    std::string main_;
    std::deque<std::string> kept_;            // what the source does not have as it is
    std::vector<const char*> names_, texts_;  // of kept_ and of the source, which must outlive this
};

std::string without_root(std::string log) {
    for (std::size_t at = 0; (at = log.find(kVirtualRoot, at)) != std::string::npos;)
        log.erase(at, kVirtualRoot.size());
    return log;
}

std::string until_nul(std::string text) {
    text.resize(std::min(text.size(), text.find('\0')));
    return text;
}

// After a failure its functions do nothing more, and result() is the first one.
class Program {
  public:
    Program(const NvrtcApi& api, const Source& source, const std::string& hoisted = {}) : api_(api) {
        const ProgramText text(source, hoisted);
        result_ = api_.create_program(&program_, text.main(), source.file_name.c_str(), text.header_count(),
                                      text.texts(), text.names());
        add_name_expressions(api_, program_, source, result_);
    }
    ~Program() {
        if (program_ != nullptr) api_.destroy_program(&program_);
    }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    /// Returns the log, that of a failure too.
    std::string compile(const std::vector<std::string>& options) {
        if (result_ != kNvrtcSuccess) return {};
        std::vector<const char*> pointers;
        for (const auto& option : options) pointers.push_back(option.c_str());
        const NvrtcResult compiled =
            api_.compile_program(program_, static_cast<int>(pointers.size()), pointers.data());
        std::string log = without_root(until_nul(text(api_.log_size, api_.log)));
        if (compiled != kNvrtcSuccess) result_ = compiled;
        return log;
    }
    std::string ptx() { return until_nul(text(api_.ptx_size, api_.ptx)); }
    std::string cubin() { return text(api_.cubin_size, api_.cubin); }
    std::string ltoir() {
        if (api_.ltoir_size != nullptr && api_.ltoir != nullptr) return text(api_.ltoir_size, api_.ltoir);
        if (result_ == kNvrtcSuccess) result_ = kNvrtcInvalidOption;  // as it is for older ones
        return {};
    }
    /// As the binary names the kernels.
    std::vector<std::string> entries(const Source& source) {
        std::vector<std::string> names = all_entries(source);
        for (std::string& name : names) {
            if (!is_name_expression(name) || result_ != kNvrtcSuccess) continue;
            const char* lowered = nullptr;
            result_ = api_.lowered_name(program_, name.c_str(), &lowered);
            if (result_ == kNvrtcSuccess) name = lowered;
        }
        return names;
    }
    NvrtcResult result() const { return result_; }

  private:
    using Size = NvrtcResult (*)(NvrtcProgram, std::size_t*);
    using Copy = NvrtcResult (*)(NvrtcProgram, char*);

    std::string text(Size size, Copy copy) {
        std::size_t bytes = 0;
        if (result_ == kNvrtcSuccess) result_ = size(program_, &bytes);
        std::string text(result_ == kNvrtcSuccess ? bytes : 0, '\0');
        if (!text.empty()) result_ = copy(program_, text.data());
        return text;
    }

    const NvrtcApi& api_;
    NvrtcProgram program_ = nullptr;
    NvrtcResult result_ = kNvrtcSuccess;
};

// NVRTC lists plain numbers; from 90 on each has an architecture-specific form too.
std::vector<std::string> supported_archs(const NvrtcApi& api) {
    int count = 0;
    if (api.supported_arch_count(&count) != kNvrtcSuccess || count <= 0) return {};
    std::vector<int> numbers(static_cast<std::size_t>(count));
    if (api.supported_archs(numbers.data()) != kNvrtcSuccess) return {};
    std::sort(numbers.begin(), numbers.end());
    std::vector<std::string> archs;
    for (const int number : numbers) {
        archs.push_back(formatted("sm_{}", number));
        if (number >= 90 && api.major >= 12) archs.push_back(archs.back() + "a");
    }
    return archs;
}

// more: options that are not among the key's, since they do not change the binary.
CompileResponse compiled(const NvrtcApi& api, const CompileRequest& request, CompileResponse response,
                         const std::string& hoisted, const std::vector<std::string>& more) {
    auto options = request.options;
    options.insert(options.end(), more.begin(), more.end());
    // From 12.9 on NVRTC keeps a cache of its own where there is a driver, and what comes from it has no log.
    if (std::pair(api.major, api.minor) >= std::pair(12, 9)) options.push_back("--no-cache");
    Program program(api, request.source, hoisted);
    response.log = program.compile(options);
    response.binary = request.wanted == Wanted::ptx     ? program.ptx()
                      : request.wanted == Wanted::ltoir ? program.ltoir()
                                                        : program.cubin();
    response.entries = program.entries(request.source);
    response.code = program.result();
    if (response.code == kNvrtcSuccess) return response;
    response.status =
        response.code == kNvrtcOutOfMemory ? CompileStatus::out_of_memory : CompileStatus::refused;
    response.error = api.error_string(response.code);
    return response;
}

// Options reach the headers, too.
std::string precompiled_key(const CompileRequest& request) {
    std::string key = request.hoisted_key;
    for (const std::string& option : request.options) key += '\n' + option;
    return key;
}

}  // namespace

CompileResponse answer(const NvrtcApi& api, const CompileRequest& request, PrecompiledHeaders& precompiled) {
    CompileResponse response;
    response.version = formatted("{}.{}", api.major, api.minor);
    response.supported_archs = supported_archs(api);
    if (request.wanted == Wanted::facts) return response;

    constexpr std::pair kFirstWithPch(12, 8);
    if (request.hoisted.empty() || std::pair(api.major, api.minor) < kFirstWithPch)
        return compiled(api, request, std::move(response), {}, {});
    const std::string key = precompiled_key(request);
    const bool creates = request.precompiling == Precompiling::now;
    if (auto done = precompiled.compile(key, creates, [&](const std::vector<std::string>& options) {
            return compiled(api, request, response, request.hoisted, options);
        }))
        return std::move(*done);
    response = compiled(api, request, std::move(response), {}, {});
    const bool succeeded = response.status == CompileStatus::ok;
    precompiled.compiled_without(key, succeeded);
    response.precompiles =
        succeeded && request.precompiling == Precompiling::when_idle && precompiled.lacks(key);
    return response;
}

// A source without a kernel: what stands behind the headers makes no difference to a PCH.
void precompile(const NvrtcApi& api, const CompileRequest& request, PrecompiledHeaders& precompiled) {
    CompileRequest headers = request;
    headers.source.text.clear();
    headers.source.entry.clear();
    headers.source.more_entries.clear();
    const std::string key = precompiled_key(request);
    const auto done = precompiled.compile(key, true, [&](const std::vector<std::string>& options) {
        return compiled(api, headers, {}, headers.hoisted, options);
    });
    if (!done) precompiled.compiled_without(key, true);  // as the request was
}

}  // namespace kiln
