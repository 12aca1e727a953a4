// SPDX-License-Identifier: Apache-2.0
//
// A hipRTC program from a request.
#include "compile/worker/hiprtc_program.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/characters.h"
#include "format/format.h"

namespace kiln {
namespace {

// The kernel in the code that is an instance of the template in "reduce<T, BLOCK>", if there is just one. hipRTC of ROCm 5
// makes it for the expression, and yet knows it only by what the arguments stand for, "reduce<float, 256>".
std::string only_instance(const std::string& expression, std::string_view code) {
    const std::string name = expression.substr(0, expression.find('<'));
    const std::string begin = formatted("_Z{}{}I", name.size(), name);
    std::string found;
    for (std::size_t at = code.find(begin); at != std::string_view::npos; at = code.find(begin, at + 1)) {
        std::size_t end = at;
        while (end < code.size() && is_identifier_part(code[end])) ++end;
        if (!code.substr(end).starts_with(".kd"))
            continue;  // which a kernel's descriptor has behind its name
        const std::string_view symbol = code.substr(at, end - at);
        if (!found.empty() && found != symbol) return {};
        found = symbol;
    }
    return found;
}

// After a failure its functions do nothing more, and result() is the first one.
class Program {
  public:
    Program(const HiprtcApi& api, const Source& source) : api_(api) {
        std::vector<const char*> texts, names;
        for_each_header(source, [&](const Header& header) {
            // hipRTC rejects the empty text.
            texts.push_back(*header.text.c_str() == '\0' ? "\n" : header.text.c_str());
            names.push_back(header.name.c_str());
        });
        result_ = api_.create_program(&program_, source.text.c_str(), source.file_name.c_str(),
                                      static_cast<int>(texts.size()), texts.data(), names.data());
        add_name_expressions(api_, program_, source, result_);
    }
    ~Program() {
        if (program_ != nullptr) api_.destroy_program(&program_);
    }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    void compile(const std::vector<std::string>& options) {
        std::vector<const char*> pointers;
        for (const auto& option : options) pointers.push_back(option.c_str());
        if (result_ == kHiprtcSuccess)
            result_ = api_.compile_program(program_, static_cast<int>(pointers.size()), pointers.data());
    }
    std::string log() const {
        std::size_t bytes = 0;
        if (program_ == nullptr || api_.log_size(program_, &bytes) != kHiprtcSuccess) return {};
        std::string text(bytes, '\0');
        if (bytes > 0 && api_.log(program_, text.data()) != kHiprtcSuccess) return {};
        text.resize(std::min(text.size(), text.find('\0')));
        return text;
    }
    std::string code() {
        std::size_t bytes = 0;
        if (result_ == kHiprtcSuccess) result_ = api_.code_size(program_, &bytes);
        std::string text(bytes, '\0');
        if (result_ == kHiprtcSuccess) result_ = api_.code(program_, text.data());
        return text;
    }
    /// As the binary, this code, names the kernels.
    std::vector<std::string> entries(const Source& source, std::string_view code) {
        std::vector<std::string> names = all_entries(source);
        for (std::string& name : names) {
            if (!is_name_expression(name) || result_ != kHiprtcSuccess) continue;
            const char* lowered = nullptr;
            const HiprtcResult result = api_.lowered_name(program_, name.c_str(), &lowered);
            std::string found = result == kHiprtcSuccess ? lowered : only_instance(name, code);
            if (found.empty()) result_ = result;
            name = std::move(found);
        }
        return names;
    }
    HiprtcResult result() const { return result_; }

  private:
    const HiprtcApi& api_;
    HiprtcProgram program_ = nullptr;
    HiprtcResult result_ = kHiprtcSuccess;
};

// The library writes headers below `scratch`, in a directory of its own ("comgr-1f2e3d/include/"): the log
// gets their virtual names back.
std::string with_virtual_names(std::string log, const std::filesystem::path& scratch) {
    const std::string prefix = scratch.string() + "/";
    for (std::size_t at = 0; (at = log.find(prefix, at)) != std::string::npos;) {
        std::size_t end = at + prefix.size();
        for (const std::string_view folder : {"/include/", "/input/"}) {
            const auto position = log.find(folder, end);
            if (position < log.find_first_of(" \n", end)) end = position + folder.size();
        }
        log.erase(at, end - at);
    }
    return log;
}

}  // namespace

CompileResponse answer(const HiprtcApi& api, const CompileRequest& request,
                       const std::filesystem::path& scratch) {
    CompileResponse response;
    int major = 0, minor = 0;
    api.query_version(&major, &minor);
    response.version = formatted("{}.{}", major, minor);
    response.supported_archs = api.supported_archs();
    if (request.wanted == Wanted::facts) return response;

    const auto& archs = response.supported_archs;
    const std::string processor = request.arch.substr(0, request.arch.find(':'));  // "gfx90a:xnack+"
    if (!archs.empty() && std::find(archs.begin(), archs.end(), processor) == archs.end()) {
        response.status = CompileStatus::unsupported_arch;
        return response;
    }
    auto options = request.options;
    // Else headers of the system would be read, past the key. Not among the key's options: without such headers it
    // does not change the binary.
    options.emplace_back("-nostdinc");
    Program program(api, request.source);
    program.compile(options);
    response.log = with_virtual_names(program.log(), scratch);
    response.binary = program.code();
    response.entries = program.entries(request.source, response.binary);
    response.code = program.result();
    if (response.code == kHiprtcSuccess) return response;
    response.status =
        response.code == kHiprtcOutOfMemory ? CompileStatus::out_of_memory : CompileStatus::refused;
    response.error = api.error_string(response.code);
    return response;
}

}  // namespace kiln
