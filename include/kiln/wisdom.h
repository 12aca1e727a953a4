// SPDX-License-Identifier: Apache-2.0
//
// Wisdom: which variant was fastest for a problem on a device, as `kiln tune` found it, kept in text files that
// can be merged. Chooser: the variant to use for a problem, from wisdom or else from a model.
// Finding wisdom is kiln/tune.h.
#pragma once

#include <kiln/service.h>
#include <kiln/template.h>
#include <kiln/version.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {
inline namespace KILN_ABI {

/// The fastest variant of one template for one problem on one kind of device.
struct WisdomEntry {
    std::string template_name;  ///< whose variant it is
    Values values;              ///< all of the template's
    /// The names of those values that say what is computed rather than how ("T", "TRANS_A"): they belong to the
    /// problem. See problem_parameters().
    std::vector<std::string> problem_values;
    Sizes sizes;              ///< all of the template's
    std::string device;       ///< its name: "NVIDIA H200"
    std::string arch;         ///< "sm_90a"
    double median_ms = 0;     ///< per launch, with cold L2
    std::uint64_t tried = 0;  ///< variants that were timed for it
    std::string digest;       ///< template_digest() of what was timed
    std::string compiler;     ///< "NVRTC 13.0, build 65be0db3"
    std::string date;         ///< UTC: "2026-11-22T03:05:00Z"

    /// A line of a file, without the newline.
    std::string text() const;
    /// Two entries of the same slot are about the same problem: device, architecture, template, problem values,
    /// sizes.
    std::string slot() const;
};

/// A set of entries, sorted: one per slot, and after prefer() one per slot and digest. Plain data.
class Wisdom {
  public:
    /// Throws UsageError naming file and line for what is not right; nothing is skipped. file: for messages.
    static Wisdom parse(std::string_view text, const std::string& file);
    /// Throws the same, and where there is no such file that can be read.
    static Wisdom load(const std::filesystem::path& file);
    /// What came with the program.
    static const Wisdom& shipped();
    /// KILN_WISDOM, else kiln/wisdom.txt in $XDG_CONFIG_HOME or $HOME/.config; empty when none is set.
    static std::filesystem::path user_file();
    /// Shipped entries, and the user's, which take precedence. One that can't be used is left out, and `problem` says
    /// why.
    static Wisdom usual(std::string* problem = nullptr);
    /// Merges `found` into a file, which need not exist: under a lock, and so that readers see the old file or the
    /// new one. Comments in the file are lost. Throws UsageError for a file that is damaged or can't be written.
    static void store(const std::filesystem::path& file, const Wisdom& found);

    /// Of entries of one slot, that of the newest source stays (digest and compiler of the entry with the newest
    /// date; one more than a day in the future counts as the oldest), and of those the best time, with the newest date.
    /// The order of the entries does not matter.
    void merge(const std::vector<WisdomEntry>& entries);
    /// All entries of another one.
    void merge(const Wisdom& other) { merge(other.entries()); }
    /// The entries of `other` replace those of their slots that have the same digest. Others are kept next to
    /// them, since which of the two is the template's own only a Chooser knows.
    void prefer(const Wisdom& other);
    /// Drops the entries for which it returns false.
    void keep_if(const std::function<bool(const WisdomEntry&)>& is_wanted);

    /// In their order in a file.
    const std::vector<WisdomEntry>& entries() const { return entries_; }
    /// There are no entries.
    bool empty() const { return entries_.empty(); }
    /// The file.
    std::string text() const;

  private:
    std::vector<WisdomEntry> entries_;
};

/// Of a template's source and all headers that it may include: 16 hexadecimal digits. It must have a variant on its
/// target. Throws VariantError else.
std::string template_digest(const Template& of);

/// The parameters that say what a template computes: its types, those that a reference of its outputs has too, and
/// those in the extents or the fill of a tensor other than scratch. service: to find references.
std::vector<std::string> problem_parameters(const Service& service, const Template& of);

/// Where a choice comes from.
enum class ChoiceOrigin {
    wisdom,   ///< an entry for these very sizes
    nearest,  ///< an entry for other sizes
    model     ///< no entry would do: the analytic model
};
/// "wisdom", "nearest" or "model".
std::string_view name(ChoiceOrigin origin);

/// A variant for a problem, and how it was chosen.
struct Choice {
    Variant variant;                            ///< that was chosen
    ChoiceOrigin origin = ChoiceOrigin::model;  ///< how
    std::optional<WisdomEntry> entry;           ///< of wisdom
    /// The entry was found with another source of the template (or of its headers) than there is now.
    bool stale = false;
    /// Entries that are for this problem, and can't be used with the templates as they are: why, a sentence each.
    std::vector<std::string> unusable;

    /// One line: "by wisdom of 2026-11-22 for this shape, the best of 312 variants".
    std::string text() const;
};

/// A variant that was considered for a problem.
struct ConsideredVariant {
    Variant variant;                            ///< that was considered
    ChoiceOrigin origin = ChoiceOrigin::model;  ///< where its time comes from
    double ms = 0;       ///< measured for these sizes (wisdom), or estimated; for ordering, not a prediction
    std::string reason;  ///< what the time is made of, for people
};

/// The template that stands for a family: the one of this name, else NAME_naive ("gemm" means gemm_naive, and with it
/// all that compute the same). Throws UsageError that lists the nearest names.
Template find_family(const Service& service, std::string_view name);

/// Chooses variants for one service's target. Thread-safe: const throughout.
class Chooser {
  public:
    /// The service must outlive it; it needs no device (entries then match by architecture alone).
    explicit Chooser(const Service& service, Wisdom wisdom = Wisdom::usual());
    /// The same for a device that is elsewhere, by its name, "NVIDIA H200"; empty: the service's. Its architecture is the
    /// service's target.
    Chooser(const Service& service, Wisdom wisdom, const std::string& device);
    ~Chooser();
    Chooser(const Chooser&) = delete;
    Chooser& operator=(const Chooser&) = delete;

    /// Of these templates, which compute the same, the variant for this problem. fixed: values that must be so, such
    /// as T; a template that lacks one of those parameters is passed over, unless it is a bool that is false: what has no
    /// switch for it does not do it. Problem parameters that are not fixed have
    /// their defaults. sizes: those that are not given have their defaults. Takes less than 10 ms; equal requests
    /// get equal choices. Throws VariantError when no template has a variant for this problem (with the reason of the
    /// last), UsageError for no templates.
    Choice choose(std::span<const Template> templates, const Values& fixed, const Sizes& sizes) const;
    /// The same of one template.
    Choice choose(const Template& of, const Values& fixed, const Sizes& sizes) const;

    /// What choose() considers for this problem, the variant that it takes first and then by time: at most `most`.
    /// Throws what choose() throws.
    std::vector<ConsideredVariant> considered(std::span<const Template> templates, const Values& fixed,
                                              const Sizes& sizes, std::size_t most) const;

    /// Of these variants, which compute the same, those that take these sizes, the fastest first: by entries for these very
    /// sizes, else by the model.
    std::vector<Variant> ranked(std::span<const Variant> variants, const Sizes& sizes) const;

    /// The templates that compute what `of` computes with these values, itself included, for this target: runnable,
    /// with the same root of `naive` lines (gemm_naive), the same sizes, and the same tensors but scratch (names,
    /// roles, types, extents), parameters that say what is computed and that are not fixed having their defaults.
    /// Ordered by name; all of them may be given to choose(). Naive ones, which no other measures itself by but
    /// which name none, are left out unless they are `of`, and so are templates whose files are
    /// wrong (a warning of the service).
    std::vector<Template> alternatives(const Template& of, const Values& fixed = {}) const;

    /// alternatives() without `of` itself where it is a naive template and there are others: what has a chance to be the
    /// fastest.
    std::vector<Template> candidates(const Template& of, const Values& fixed = {}) const;

    /// That it was given.
    const Wisdom& wisdom() const;
    /// Why the user's calibration is not used, after a choice that needed it; empty: it is, or there is none.
    std::string calibration_problem() const;

  private:
    struct State;
    const Service& service() const;
    std::unique_ptr<State> state_;
};

}  // namespace KILN_ABI
}  // namespace kiln
