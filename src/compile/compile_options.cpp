// SPDX-License-Identifier: Apache-2.0
//
// An option has one of three fates. Those that all compilers have are written one way here (-D, -U, -std,
// --use_fast_math, -G, -lineinfo, -w) and translated; those of one compiler are in its table; all others are errors,
// since an option may also read files that are not in the key, write files, or make something that is no kernel.
#include "compile/compile_options.h"

#include <kiln/error.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/arch_facts.h"
#include "base/characters.h"
#include "base/include_check.h"
#include "base/words.h"

namespace kiln {
namespace {

/// The options of one compiler, in words. NVRTC's may begin with one minus as well as with two.
struct Table {
    std::string_view flags;   ///< NAME
    std::string_view values;  ///< NAME=VALUE, or NAME VALUE
    std::string_view starts;  ///< all that begins with NAME
};

constexpr Table kNvrtcOptions = {
    "--extra-device-vectorization --minimal --restrict --device-as-default-execution-space --device-int128 "
    "--device-float128 --display-error-number --no-display-error-number",
    "--maxrregcount --ftz --prec-sqrt --prec-div --fmad --Ofast-compile --ptxas-options --modify-stack-limit "
    "--jump-table-density --device-stack-protector --split-compile --builtin-move-forward "
    "--builtin-initializer-list --optimization-info --diag-error --diag-suppress --diag-warn "
    "--brief-diagnostics",
    ""};
// Of GCC and Clang; what kGnuForbidden has is taken out of it.
constexpr std::string_view kGnuStarts = "-f -m -W -O -g";
constexpr Table kHiprtcOptions = {"", "--gpu-max-threads-per-block", kGnuStarts};
constexpr Table kHostOptions = {"", "", kGnuStarts};

/// Blanks stand between the words.
template <class Use>
bool any_word(std::string_view words, Use use) {
    while (!words.empty()) {
        const auto end = std::min(words.find(' '), words.size());
        if (use(words.substr(0, end))) return true;
        words.remove_prefix(std::min(end + 1, words.size()));
    }
    return false;
}

// They read or write files, load code into the compiler, or change what is made.
constexpr std::string_view kGnuForbidden =
    "-Wl, -Wa, -Wp, -fplugin -fpack-struct -foptimization-record -fproc-stat -fno-integrated -fprebuilt "
    "-fimplicit-module -fsanitize -fno-sanitize -fprofile -fauto-profile -fbranch-probabilities "
    "-fcs-profile -fmemory-profile -fcodegen-data -frandomize-layout-seed -fdeps- -fdebug- -ffile- -fmacro- "
    "-fdump -flto -fthin -fpic -fPIC -fpie -fPIE -fno-pic -fno-PIC "
    "-fno-pie -fno-PIE -fvisibility -fstack-usage -fcallgraph -ftime-trace -fmodule -fopt-info -fsave "
    "-fcrash -fexperimental-sanitize "
    "-fdiagnostics- -fworking-directory -fembed -fxray -finput -fexec -frandom-seed -fgpu-rdc -fcoverage "
    "-ftest-coverage -fmerge-debug -fpch -fpreprocessed -fplt -fuse-ld -fsyntax-only -fbuild-session "
    "-fcompilation -finstrument -fpass-plugin -mllvm -mlink -mrelocation -m32 -mx32 -m16 -mabi -gsplit-dwarf "
    "-grecord -gdwarf- -gen- -gmodules";

struct Owned {
    std::string_view instead;
    std::string_view names;
};
constexpr std::string_view kArchIsSet = "the architecture is that of the device, or of --arch";
constexpr std::string_view kResultIsSet = "Kiln decides what is made";
// What Kiln sets, and where its users do.
constexpr Owned kOwned[] = {
    {kArchIsSet, "--gpu-architecture --offload-arch -arch -march -mcpu -mtune"},
    {"directories of headers are given by --include-dir and `//@ include_dir`",
     "--include-path -isystem -iquote -idirafter -I"},
    {"write an #include line into the template", "--pre-include -include -imacros"},
    {kResultIsSet,
     "--dlink-time-opt -dlto --relocatable-device-code -rdc --extensible-whole-program -ewp --create-pch "
     "--use-pch --pch -pch -o -c -S -E -shared"},
    {"it writes a file", "--time -time --fdevice-time-trace -fdevice-time-trace"},
    {"kernels are written for the warp size of the architecture",
     "-mwavefrontsize64 -mno-wavefrontsize64 -mwavefrontsize32 -mno-wavefrontsize32"},
    {"Kiln sets it", "--no-source-include -mprefer-vector-width"},
    {"it sets the precision of x87 when the kernel is loaded, and Kiln keeps what was set",
     "-mpc32 -mpc64 -mpc80"},
    {"a template is C++", "-x"},
    {"kernels are linked with nothing else", "-l -L"},
};
constexpr Owned kPtxasOwned[] = {
    {kArchIsSet, "-arch --gpu-name"},
    {"the level of ptxas is a line of the template, `//@ opt_level 1`", "-O --opt-level"},
    {"it reads a file that is not in the key", "--options-file -optf"},
    {kResultIsSet, "-o --output-file -c --compile-only --input-as-string"},
};
// Letters with a value right behind them, as in -Ifolder.
constexpr std::string_view kWithValue = "-I -L -l -O";

constexpr auto kPortable =
    std::to_array<std::string_view>({"-D", "-U", "-std", "--use_fast_math", "-G", "-lineinfo", "-w"});
constexpr auto kStandards = std::to_array<std::string_view>({"c++17", "c++20", "c++23"});

const Table& table_of(Backend backend) {
    return backend == Backend::cuda ? kNvrtcOptions : backend == Backend::hip ? kHiprtcOptions : kHostOptions;
}

/// "-ftz" is "--ftz", and "-Xptxas" is "--ptxas-options".
std::string full_name(std::string_view name, Backend backend) {
    if (backend != Backend::cuda || name.starts_with("--")) return std::string(name);
    return name == "-Xptxas" ? "--ptxas-options" : "-" + std::string(name);
}

/// Reads the words of one CompileOption.
class OptionReader {
  public:
    OptionReader(const Target& target, const Source& source, OptionUse use, CompileOptions& result)
        : target_(target), source_(source), use_(use), result_(result) {}

    void read(const CompileOption& option) {
        option_ = &option;
        std::string_view text = option.text;
        if (!take_scope(text)) return;
        split(text);
        if (words_.empty()) fail("it names no option");
        for (next_ = 0; next_ < words_.size();) read_word();
    }

    /// The lines that would define the option's macros, whatever its scope is.
    void read_definitions(const CompileOption& option, std::vector<std::string>& lines) {
        option_ = &option;
        std::string_view text = option.text;
        (void)take_scope(text);
        split(text);
        for (next_ = 0; next_ < words_.size();) {
            const std::string word = words_[next_++];
            for (const std::string_view name : {"--define-macro", "-D"}) {
                if (!word.starts_with(name)) continue;
                lines.push_back(definition(value_of(word, name)) + "\n");
                break;
            }
        }
    }

  private:
    [[noreturn]] void fail(const std::string& why) const {
        const std::string message = "the compile option \"" + option_->text + "\": " + why;
        if (option_->line > 0) throw TemplateError(option_->file, option_->line, option_->column, message);
        throw UsageError(message);
    }

    /// "cuda, sm_80+: ..." loses its scope. False: the scope is another.
    bool take_scope(std::string_view& text) {
        const auto colon = text.find_first_of(":'\"");
        if (colon == text.npos || text[colon] != ':') return true;
        std::vector<std::string_view> scopes;
        std::string_view list = text.substr(0, colon);
        while (true) {
            const auto comma = std::min(list.find(','), list.size());
            scopes.push_back(trimmed(list.substr(0, comma)));
            if (comma == list.size()) break;
            list.remove_prefix(comma + 1);
        }
        // Values have colons too, so only what looks like names of backends and architectures is a scope.
        for (const std::string_view scope : scopes) {
            if (scope.empty() || scope.starts_with('-') || scope.find(' ') != scope.npos) return true;
        }
        bool applies = false;
        for (const std::string_view scope : scopes) {
            if (scope == name(Backend::cuda) || scope == name(Backend::hip) || scope == name(Backend::host))
                applies |= scope == name(target_.backend);
            else if (scope.starts_with("sm_") || scope.starts_with("gfx") || scope.starts_with("x86-64") ||
                     scope.starts_with("aarch64"))
                applies |= arch_word_means(scope, target_.arch);
            else
                fail("\"" + std::string(scope) +
                     "\" is neither a backend (cuda, hip, host) nor an architecture like sm_90a or sm_80+" +
                     did_you_mean(scope, {"cuda", "hip", "host"}));
        }
        text.remove_prefix(colon + 1);
        return applies;
    }

    /// At blanks outside of quotes.
    void split(std::string_view text) {
        words_.clear();
        std::string word;
        bool any = false;
        char quote = 0;
        for (const char c : text) {
            if (quote != 0 ? c == quote : c == '"' || c == '\'') {
                quote = quote != 0 ? '\0' : c;
                any = true;
            } else if (quote == 0 && is_blank(c)) {
                if (any) words_.push_back(std::exchange(word, {}));
                any = false;
            } else {
                if (static_cast<unsigned char>(c) < 0x20) fail("it has a control character");
                word += c;
                any = true;
            }
        }
        if (quote != 0) fail("a quote is not closed");
        if (any) words_.push_back(std::move(word));
    }

    void read_word() {
        const std::string word = words_[next_++];
        if (!word.starts_with('-'))
            fail("\"" + word + "\" is no option, which begins with a minus" +
                 (std::ranges::count(word, '=') == 1 ? "; a macro is -D" + word : ""));
        if (read_macro(word) || read_portable(word) || read_own(word)) return;
        fail_unknown(word);
    }

    /// The value behind the name: rest of this word, or the next one.
    std::string value_of(std::string_view word, std::string_view name) {
        std::string_view rest = word.substr(name.size());
        if (rest.starts_with('=')) rest.remove_prefix(1);
        if (!rest.empty()) return std::string(rest);
        if (next_ == words_.size() || words_[next_].starts_with('-'))
            fail(std::string(name) + " needs a value");
        return words_[next_++];
    }

    bool read_macro(std::string_view word) {
        for (const std::string_view name : {"--define-macro", "--undefine-macro", "-D", "-U"}) {
            if (!word.starts_with(name)) continue;
            const bool defines = name == "-D" || name == "--define-macro";
            const std::string macro = value_of(word, name);
            const std::string_view identifier = std::string_view(macro).substr(0, macro.find('='));
            if (identifier.empty() || !is_identifier_start(identifier.front()) ||
                !std::ranges::all_of(identifier, is_identifier_part) ||
                (!defines && identifier.size() != macro.size()))
                fail("\"" + macro + "\" is not NAME" + (defines ? " or NAME=VALUE" : ""));
            if (identifier.starts_with("KILN_")) fail("macros whose names begin with KILN_ are Kiln's own");
            if (is_constant(identifier))
                fail(std::string(identifier) + " is a parameter or constant of the template, and is set as " +
                     std::string(identifier) + "=VALUE");
            check_key(macro);
            result_.others.push_back((defines ? "-D" : "-U") + macro);
            return true;
        }
        return false;
    }

    /// The line of a template that would define "NAME=VALUE".
    static std::string definition(const std::string& macro) {
        std::string line = "#define " + macro;
        if (const std::size_t value = line.find('='); value != line.npos)
            line[value] = ' ';
        else
            line += " 1";
        return line;
    }

    void check_key(const std::string& macro) const {
        if (const auto rejected = rejected_text(definition(macro))) fail(rejected->message);
    }

    /// Among the declarations that the specialised source begins with.
    bool is_constant(std::string_view identifier) const {
        const std::string_view text = source_.text;
        const std::string_view head = text.substr(0, text.find("#line 1 "));
        return head.find(" " + std::string(identifier) + " = ") != head.npos;
    }

    bool read_portable(const std::string& word) {
        for (const std::string_view name : {"--std", "-std"}) {
            if (!word.starts_with(name)) continue;
            const std::string standard = value_of(word, name);
            if (std::ranges::find(kStandards, standard) == kStandards.end())
                fail("kernels are compiled as " + join({kStandards.begin(), kStandards.end()}) + "; \"" +
                     standard + "\" is none of these");
            if (target_.backend == Backend::host && standard < kStandard)
                fail(std::string("on the host kernels need ") + kStandard +
                     " or later; limit the option to others: \"cuda, hip: -std=" + standard + "\"");
            result_.standard = standard;
            return true;
        }
        const bool is_cuda = target_.backend == Backend::cuda;
        if (word == "--use_fast_math" || word == "-use_fast_math") {
            add_translation(is_cuda ? "--use_fast_math" : "-ffast-math");
            // CUDA's keeps NaNs and infinities.
            if (!is_cuda) add_translation("-fno-finite-math-only");
        } else if (word == "-G" || word == "--device-debug") {
            if (use_ == OptionUse::all) result_.debug = true;
        } else if (word == "-w" || word == "--disable-warnings") {
            result_.others.emplace_back(is_cuda ? "--disable-warnings" : "-w");
        } else if (word != "-lineinfo" && word != "--generate-line-info") {  // all builds have lines
            return false;
        }
        return true;
    }

    void add_translation(std::string option) {
        if (use_ == OptionUse::all) result_.others.push_back(std::move(option));
    }

    bool read_own(const std::string& word) {
        const std::string written = word.substr(0, word.find('='));
        const std::string name = full_name(written, target_.backend);
        const Table& table = table_of(target_.backend);
        const auto is_name = [&](std::string_view one) { return one == name; };
        if (any_word(table.flags, is_name)) {
            if (written.size() != word.size()) fail(written + " takes no value");
            add_translation(name);
        } else if (any_word(table.values, is_name)) {
            const bool is_ptxas = name == "--ptxas-options";  // whose value is an option
            const std::string value = is_ptxas && word == written && next_ < words_.size()
                                          ? words_[next_++]
                                          : value_of(word, written);
            if (is_ptxas && (value == "-v" || value == "--verbose")) return true;  // always on
            if (is_ptxas && !value.starts_with('-')) fail("\"" + value + "\" is no option of ptxas");
            if (const Owned* owned = is_ptxas ? find_owned(kPtxasOwned, value) : nullptr)
                fail(std::string(owned->instead));
            add_translation(name + "=" + value);
        } else if (begins_as_one_of(table, word)) {
            if (word.find('/') != word.npos || word.find("=list=") != word.npos)
                fail("it names a file, which is not in the build's key");
            add_translation(word);
        } else {
            return false;
        }
        return true;
    }

    static bool begins_as_one_of(const Table& table, std::string_view word) {
        const auto begins = [&](std::string_view start) { return word.starts_with(start); };
        return any_word(table.starts, begins) && !any_word(kGnuForbidden, begins) &&
               find_owned(kOwned, word) == nullptr;
    }

    /// A word is one by itself: -compress is not -c.
    static const Owned* find_owned(std::span<const Owned> table, std::string_view word) {
        const auto is = [&](std::string_view name) {
            return word.starts_with(name) && (word.size() == name.size() || word[name.size()] == '=' ||
                                              any_word(kWithValue, [&](auto one) { return one == name; }));
        };
        const auto found =
            std::ranges::find_if(table, [&](const Owned& owned) { return any_word(owned.names, is); });
        return found == table.end() ? nullptr : &*found;
    }

    [[noreturn]] void fail_unknown(const std::string& word) const {
        if (const Owned* owned = find_owned(kOwned, word)) fail(std::string(owned->instead));
        const std::string name = word.substr(0, word.find('='));
        std::vector<std::string> others, names(kPortable.begin(), kPortable.end());
        for (const Backend other : {Backend::cuda, Backend::hip, Backend::host}) {
            const Table& table = table_of(other);
            const auto collect = [&](std::string_view one) {
                names.emplace_back(one);
                return false;
            };
            const auto is_name = [&](std::string_view one) { return one == full_name(name, other); };
            if (other == target_.backend)
                static_cast<void>(any_word(table.flags, collect) || any_word(table.values, collect));
            else if (any_word(table.flags, is_name) || any_word(table.values, is_name) ||
                     begins_as_one_of(table, word))
                others.emplace_back(kiln::name(other));
        }
        std::string why = std::string(kiln::name(target_.backend)) + " has no option " + name;
        if (!others.empty())
            why += "; limit it to those that have it: \"" + join(others) + ": " + word + "\"";
        else
            why += did_you_mean(name, names) +
                   " (docs/templates.md lists those that may be given; others could read or write files "
                   "that the key does not know)";
        fail(why);
    }

    const Target& target_;
    const Source& source_;
    const OptionUse use_;
    CompileOptions& result_;
    const CompileOption* option_ = nullptr;
    std::vector<std::string> words_;
    std::size_t next_ = 0;
};

}  // namespace

CompileOptions compile_options(const Target& target, const Source& source, OptionUse use) {
    CompileOptions result;
    OptionReader reader(target, source, use, result);
    for (const CompileOption& option : source.options) reader.read(option);
    return result;
}

std::vector<std::string> macro_definitions(const Source& source) {
    CompileOptions unused;
    const Target any;
    OptionReader reader(any, source, OptionUse::language, unused);
    std::vector<std::string> lines;
    for (const CompileOption& option : source.options) reader.read_definitions(option, lines);
    return lines;
}

}  // namespace kiln
