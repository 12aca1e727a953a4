// SPDX-License-Identifier: Apache-2.0
#include "compile/nvjitlink.h"

#include <kiln/error.h>

#include <algorithm>
#include <utility>

#include "base/config.h"
#include "format/format.h"

namespace kiln {
namespace fs = std::filesystem;
namespace {

class Link {
  public:
    Link(const NvJitLinkApi& api, const std::vector<std::string>& options) : api_(api) {
        std::vector<const char*> pointers;
        for (const auto& option : options) pointers.push_back(option.c_str());
        result_ = api_.create(&handle_, static_cast<unsigned>(pointers.size()), pointers.data());
    }
    ~Link() {
        if (handle_ != nullptr) api_.destroy(&handle_);
    }
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;

    void add(const LinkInput& input) {
        constexpr std::string_view kFatbin = "\x50\xed\x55\xba";
        const auto kind = input.bytes.starts_with(kFatbin) ? NvJitLinkInput::fatbin : NvJitLinkInput::ltoir;
        if (result_ == kNvJitLinkSuccess)
            result_ =
                api_.add_data(handle_, kind, input.bytes.data(), input.bytes.size(), input.name.c_str());
    }

    LinkedCubin complete() {
        LinkedCubin linked;
        if (result_ == kNvJitLinkSuccess) result_ = api_.complete(handle_);
        std::size_t bytes = 0;
        if (result_ == kNvJitLinkSuccess) result_ = api_.cubin_size(handle_, &bytes);
        if (result_ == kNvJitLinkSuccess) {
            linked.bytes.resize(bytes);
            result_ = api_.cubin(handle_, linked.bytes.data());
        }
        if (result_ != kNvJitLinkSuccess) linked.bytes.clear();
        linked.log = log(api_.error_log_size, api_.error_log) + log(api_.info_log_size, api_.info_log);
        if (linked.bytes.empty() && linked.log.empty())
            linked.log = formatted("nvJitLink's result is {}\n", result_);
        return linked;
    }

  private:
    std::string log(NvJitLinkResult (*size)(NvJitLinkHandle, std::size_t*),
                    NvJitLinkResult (*copy)(NvJitLinkHandle, char*)) const {
        std::size_t bytes = 0;
        if (handle_ == nullptr || size(handle_, &bytes) != kNvJitLinkSuccess || bytes == 0) return {};
        std::string text(bytes + 1, '\0');
        if (copy(handle_, text.data()) != kNvJitLinkSuccess) return {};
        text.resize(text.find('\0'));
        return text;
    }

    const NvJitLinkApi& api_;
    NvJitLinkHandle handle_ = nullptr;
    NvJitLinkResult result_ = kNvJitLinkSuccess;
};

}  // namespace

NvJitLinkApi NvJitLinkApi::open(DynamicLibrary library) {
    NvJitLinkApi api;
    api.library = std::move(library);
    const auto resolve = [&](auto*& function, const char* name) {
        if (!api.library.resolve(function, name))
            throw BuildError("The nvJitLink library " + api.library.path().string() + " has no function " +
                             name + ". nvJitLink of CUDA 12 or newer is needed.");
    };
    resolve(api.create, "nvJitLinkCreate");
    resolve(api.destroy, "nvJitLinkDestroy");
    resolve(api.add_data, "nvJitLinkAddData");
    resolve(api.complete, "nvJitLinkComplete");
    resolve(api.cubin_size, "nvJitLinkGetLinkedCubinSize");
    resolve(api.cubin, "nvJitLinkGetLinkedCubin");
    resolve(api.error_log_size, "nvJitLinkGetErrorLogSize");
    resolve(api.error_log, "nvJitLinkGetErrorLog");
    resolve(api.info_log_size, "nvJitLinkGetInfoLogSize");
    resolve(api.info_log, "nvJitLinkGetInfoLog");
    api.library.keep_forever();
    return api;
}

LibrarySearch nvjitlink_search(const fs::path& nvrtc, const std::vector<fs::path>& directories) {
    LibrarySearch search;
    search.product = "nvJitLink";
    search.variable = "KILN_NVJITLINK";
    search.chosen = config::nvjitlink_library();
    search.names = {"libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so"};
    search.remedy =
        "It links LTO-IR that a caller gives. Install the CUDA toolkit, or the Python package "
        "nvidia-nvjitlink "
        "(nvidia-nvjitlink-cu12 for CUDA 12) and set KILN_NVJITLINK to the libnvJitLink.so.* file in it.";
    std::error_code error;
    const fs::path real = fs::canonical(nvrtc, error);
    for (const fs::path& file : {nvrtc, real}) {
        search.directories.push_back(file.parent_path());
        search.directories.push_back(file.parent_path().parent_path().parent_path() / "nvjitlink" / "lib");
    }
    search.directories.insert(search.directories.end(), directories.begin(), directories.end());
    return search;
}

std::vector<std::string> nvjitlink_options(const std::string& arch,
                                           const std::vector<std::string>& compiled_with) {
    constexpr std::pair<std::string_view, std::string_view> kBooleans[] = {{"--ftz=", "-ftz="},
                                                                           {"--prec-div=", "-prec-div="},
                                                                           {"--prec-sqrt=", "-prec-sqrt="},
                                                                           {"--fmad=", "-fma="}};
    constexpr std::string_view kPtxas = "--ptxas-options", kRegisters = "--maxrregcount";
    // ptxas does not optimise what is to be debugged.
    const bool is_debug = std::ranges::find(compiled_with, "--device-debug") != compiled_with.end();
    std::vector<std::string> options = {"-arch=" + arch, "-lto", is_debug ? "-O0" : "-O3", "-verbose"};
    for (const std::string& one : compiled_with) {
        if (one == "--use_fast_math")
            options.insert(options.end(), {"-ftz=1", "-prec-div=0", "-prec-sqrt=0", "-fma=1"});
        if (one == "--device-debug") options.emplace_back("-g");
        if (one == "--generate-line-info") options.emplace_back("-lineinfo");
        if (one.starts_with(kRegisters)) options.push_back(one.substr(1));
        if (one.starts_with(kPtxas)) options.push_back("-Xptxas" + one.substr(kPtxas.size()));
        for (const auto& [name, linked] : kBooleans) {
            if (!one.starts_with(name)) continue;
            const std::string value = one.substr(name.size());
            options.push_back(std::string(linked) + (value == "true" ? "1" : value == "false" ? "0" : value));
        }
    }
    return options;
}

LinkedCubin link_ltoir(const NvJitLinkApi& api, const std::vector<std::string>& options,
                       const std::vector<LinkInput>& inputs) {
    Link link(api, options);
    for (const LinkInput& input : inputs) link.add(input);
    return link.complete();
}

}  // namespace kiln
