// SPDX-License-Identifier: Apache-2.0
//
// Templates of one's own that are wrong: no other template of their name, built in say, takes their place without a word, and
// templates of other names are found all the same.
#include <gmock/gmock.h>
#include <kiln/kiln.h>

#include <filesystem>
#include <string>

#include "base/file.h"
#include "rejected.h"
#include "scale_kernel.h"

namespace kiln {
namespace {

using test::rejected;
using testing::HasSubstr;

class WrongTemplates : public testing::Test {
  protected:
    WrongTemplates() {
        for (const auto& place : {first(), second()}) std::filesystem::create_directory(place);
    }
    std::filesystem::path first() const { return directory_.path() / "first"; }
    std::filesystem::path second() const { return directory_.path() / "second"; }
    TemplateSet set() const { return TemplateSet({first(), second()}); }

    /// A right template.
    static std::string of(const std::string& name) {
        std::string text = test::kScale;
        for (std::size_t at = 0; (at = text.find("scale", at)) != std::string::npos; at += name.size())
            text.replace(at, 5, name);
        return text;
    }
    /// The same with an error in another line than that of the kernel.
    static std::string wrong(const std::string& name) {
        std::string text = of(name);
        return text.replace(text.find("//@ block"), 9, "//@ blokc");
    }
    static std::string found_in(const TemplateSet& set, const std::string& name) {
        return set.find(name).file();
    }
    /// Both calls, since the first one reads all files.
    static void expect_wrong(const TemplateSet& set, const std::string& name,
                             const std::filesystem::path& file) {
        for (int call = 0; call < 2; ++call)
            EXPECT_THAT(rejected<TemplateError>([&] { set.find(name); }), HasSubstr(file.string()));
    }

  private:
    TemporaryDirectory directory_;
};

TEST_F(WrongTemplates, HideTheBuiltInOneWhateverTheirFilesAreCalled) {
    write_text(first() / "mysm.cu", wrong("softmax"));
    const TemplateSet templates = set();
    expect_wrong(templates, "softmax", first() / "mysm.cu");
    EXPECT_EQ(found_in(templates, "rms_norm"), "rms_norm.cu");
}

TEST_F(WrongTemplates, HideItFromALaterDirectoryToo) {
    write_text(second() / "softmax.cu", "// no line says which kernel it is\n");
    write_text(second() / "norm.cu",
               "//@ kernel\n//@ unknown\n  //@  kernel  rms_norm<T>\n//@ kernel layer_norm\n");
    const TemplateSet templates = set();
    expect_wrong(templates, "softmax", second() / "softmax.cu");
    expect_wrong(templates, "rms_norm", second() / "norm.cu");
    EXPECT_EQ(found_in(templates, "layer_norm"), "layer_norm.cu") << "the first kernel names a template";
}

TEST_F(WrongTemplates, HideTheSameNameOfTheirDirectoryAndOfLaterOnesOnly) {
    write_text(first() / "draft.cu", wrong("scale"));
    write_text(first() / "right.cu", of("right"));
    write_text(second() / "any.cu", of("scale"));
    write_text(second() / "right.cu", wrong("right"));
    const TemplateSet templates = set();
    expect_wrong(templates, "scale", first() / "draft.cu");
    EXPECT_EQ(found_in(templates, "right"), (first() / "right.cu").string());
    EXPECT_THROW(templates.all(), TemplateError);

    std::filesystem::rename(first() / "draft.cu", second() / "draft.cu");
    expect_wrong(set(), "scale", second() / "draft.cu");
    // The file that is named as the template is used, as where both are right.
    std::filesystem::rename(second() / "any.cu", second() / "scale.cu");
    EXPECT_EQ(found_in(set(), "scale"), (second() / "scale.cu").string());
}

TEST_F(WrongTemplates, ADirectoryThatCannotBeReadHidesWhatIsBehindIt) {
    write_text(first() / "mine.cu", of("scale"));
    const TemplateSet templates = set();
    std::filesystem::remove(second());
    EXPECT_EQ(found_in(templates, "scale"), (first() / "mine.cu").string());
    expect_wrong(templates, "softmax", second());
}

}  // namespace
}  // namespace kiln
