// SPDX-License-Identifier: Apache-2.0
//
// The headers that reach the compilers: closure, order, and what stays out.
#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "template/embedded.h"
#include "template/includes.h"
#include "template_support.h"

namespace kiln {
namespace {

using Strings = std::vector<std::string>;
using test::template_text;

Strings names(const std::vector<Header>& headers) {
    Strings result;
    for (const Header& header : headers) result.push_back(header.name);
    return result;
}

/// Those that are not of the prelude.
Strings own_names(const Variant& variant, Backend backend = Backend::cuda) {
    Strings result;
    for (const Header& header : variant.source(backend).headers)
        if (!header.name.starts_with("kiln/")) result.push_back(header.name);
    return result;
}

TEST(Includes, Names) {
    EXPECT_EQ(
        included_names("#include \"a.h\"\n  #\tinclude\"b/c.h\" // x\n#include <d.h>\n// #include \"e.h\"\n"
                       "#include \"f.h\r\n#include \"\"\n#define X \"g.h\"\n#include \"h.h\""),
        (Strings{"a.h", "b/c.h", "h.h"}));
}

TEST(Includes, ClosureOfGivenHeaders) {
    const std::string text = "#include \"z.h\"\n#include \"missing.h\"\n" + template_text("");
    const Variant variant = Template::parse(text, "k.cu",
                                            {{"z.h", "#include \"a.h\"\n"},
                                             {"a.h", "#include \"z.h\"\n#include \"sub/b.h\"\n"},
                                             {"sub/b.h", "int b;\n"},
                                             {"unused.h", "int u;\n"}})
                                .variant();
    EXPECT_EQ(own_names(variant), (Strings{"a.h", "sub/b.h", "z.h"}));
    EXPECT_EQ(variant.source(Backend::cuda).headers[0].text, "#include \"z.h\"\n#include \"sub/b.h\"\n");
}

TEST(Includes, ThePreludeIsAlwaysThereAndOnlyThisBackends) {
    const Variant variant = test::make("").variant();
    const auto has = [&](Backend backend, const std::string& name) {
        return std::ranges::count(names(variant.source(backend).headers), name) == 1;
    };
    for (Backend backend : {Backend::cuda, Backend::hip, Backend::host}) {
        EXPECT_TRUE(has(backend, "kiln/device.h"));
        const auto headers = variant.source(backend).headers;
        EXPECT_TRUE(std::ranges::is_sorted(headers, {}, &Header::name));
    }
    const auto embedded = embedded_files();
    const auto device = std::ranges::find(embedded, "kiln/device.h", &EmbeddedFile::name);
    ASSERT_NE(device, embedded.end());
    EXPECT_EQ(variant.source(Backend::hip).headers.front().text, device->text);
}

TEST(Includes, HeadersOfAnotherBackendStayOut) {
    const HeaderFinder find = [](const std::string& name) -> std::optional<std::string> {
        if (name == "kiln/device.h")
            return "#include \"kiln/device_cuda.h\"\n#include \"kiln/device_hip.h\"\n#include "
                   "\"kiln/device_host.h\"\n";
        if (name == "kiln/device_host.h") return "#include \"kiln/host_abi.h\"\n#include \"math.h\"\n";
        return "";
    };
    const Includes includes("", find);
    EXPECT_EQ(names(includes.headers(Backend::cuda)), (Strings{"kiln/device.h", "kiln/device_cuda.h"}));
    EXPECT_EQ(names(includes.headers(Backend::hip)), (Strings{"kiln/device.h", "kiln/device_hip.h"}));
    EXPECT_EQ(names(includes.headers(Backend::host)),
              (Strings{"kiln/device.h", "kiln/device_host.h", "kiln/host_abi.h", "math.h"}));
}

TEST(Includes, DirectoryOfALoadedTemplate) {
    const TemporaryDirectory directory;
    const auto root = directory.path() / "root";
    std::filesystem::create_directories(root / "sub");
    write_text(directory.path() / "secret.h", "int secret;\n");
    write_text(root / "own.h", "#include \"sub/deep.h\"\n#include \"../secret.h\"\n");
    write_text(root / "sub" / "deep.h", "#include \"own.h\"\n#include \"sub/../../secret.h\"\n");
    write_text(root / "unused.h", "");
    write_text(root / "k.cu", "#include \"own.h\"\n#include \"" + (directory.path() / "secret.h").string() +
                                  "\"\n" + template_text(""));
    EXPECT_EQ(own_names(Template::load(root / "k.cu").variant()), (Strings{"own.h", "sub/deep.h"}));
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(root);
    EXPECT_EQ(own_names(Template::load("k.cu").variant()), (Strings{"own.h", "sub/deep.h"}));
    std::filesystem::current_path(before);
}

TEST(Includes, AGivenHeaderMustNotEscapeEither) {
    const std::string text = "#include \"../x.h\"\n#include \"/x.h\"\n" + template_text("");
    EXPECT_EQ(own_names(Template::parse(text, "k.cu", {{"../x.h", ""}, {"/x.h", ""}}).variant()), Strings{});
}

TEST(Includes, AUsersHeaderWinsOverThePrelude) {
    const Variant variant =
        Template::parse(template_text(""), "k.cu", {{"kiln/device.h", "int mine;\n"}}).variant();
    EXPECT_EQ(variant.source(Backend::cuda).headers.front().text, "int mine;\n");
}

}  // namespace
}  // namespace kiln
