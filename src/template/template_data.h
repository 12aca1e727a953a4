// SPDX-License-Identifier: Apache-2.0
//
// The data that the handles Template and Variant share. All of it is immutable.
#pragma once

#include <kiln/template.h>

#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "template/expression.h"
#include "template/front_matter.h"
#include "template/includes.h"
#include "template/launch_program.h"
#include "template/parameter.h"
#include "template/pointer_arguments.h"
#include "template/rule_set.h"
#include "template/tensor_maps.h"

namespace kiln {

/// A parsed file, whatever the target.
struct TemplateContent {
    TemplateContent(std::string text, std::string file, const HeaderFinder& find_header);

    std::string text;       ///< the body, front matter included
    std::string file;       ///< as named by the caller
    std::string file_name;  ///< its last part
    FrontMatter front_matter;
    std::vector<Constraint> constraints;
    Includes includes;
    std::vector<std::filesystem::path> include_directories;  ///< absolute, in their order
    std::string type_words;  ///< declarations of half and the like, where the text uses them bare
    std::string identity;    ///< digest of the text, the file name and the user's headers
    std::size_t identity_hash;
};

struct TemplateData {
    TemplateData(std::shared_ptr<const TemplateContent> content, std::optional<Target> target);
    TemplateData(const TemplateData&) = delete;
    TemplateData& operator=(const TemplateData&) = delete;

    std::shared_ptr<const TemplateContent> content;
    std::optional<Target> target;
    Limits limits;  ///< the target's; without one the defaults
    RuleSet rules;
};

/// A tensor map without its extents, which depend on launch arguments.
struct TensorMapProgram {
    TensorMapSpec spec;  ///< rank 0: this variant has no such map
    std::vector<LaunchProgram> extents;
};

/// How one kernel of a variant is launched.
struct LaunchData {
    Dim3 block, cluster;
    std::size_t dynamic_shared_bytes = 0;
    std::size_t static_shared_bytes = 0;
    bool dependent = false;    ///< a launch may begin before the one before it in the stream has ended
    bool cooperative = false;  ///< all blocks run at once
    std::vector<LaunchProgram> grid;
};

/// A tensor that a launch copies to a variable of the module.
struct VariableProgram {
    std::string name;
    std::size_t argument = 0;  ///< its place among those that callers pass
    std::size_t element_bytes = 0;
    std::vector<LaunchProgram> extents;
};

/// Of a variant's first kernel, and of the others.
struct VariantData : LaunchData {
    std::vector<LaunchData> others;  ///< in their order
    const LaunchData& launch(std::size_t kernel) const { return kernel == 0 ? *this : others[kernel - 1]; }
    std::shared_ptr<const TemplateData> origin;
    Codes codes;
    Values values;
    std::string text;
    std::size_t hash = 0;
    int opt_level = kUsualOptLevel;  ///< of ptxas
    std::shared_ptr<const std::vector<KernelArgument>> arguments;
    /// Of each argument of the kernel before the tensor maps: its place in `arguments`; nullopt: callers do not pass it.
    std::vector<std::optional<std::size_t>> places;
    std::array<std::int64_t, 3> largest_grid{};
    std::vector<TensorMapProgram> tensor_maps;  ///< in the kernel's order
    std::vector<VariableProgram> variables;     ///< that this variant has
    std::vector<PointerArgument> pointers;      ///< likewise, of the tensors that are declared and there
};

/// The interface of a variant for the library's other layers.
struct VariantAccess {
    static const VariantData& data(const Variant& variant) { return *variant.data_; }
};

/// `environment`: of these legal values. Of `made`, what concerns arguments is set.
std::vector<TensorMapProgram> tensor_map_programs(const FrontMatter& front_matter, const VariantData& made,
                                                  const Environment& environment);

/// Makes variants of one template. Those with the same types and tensors share their argument list.
class VariantMaker {
  public:
    /// code: the values of parameters of that kind; the default where there is none.
    VariantMaker(std::shared_ptr<const TemplateData> origin, Values code)
        : origin_(std::move(origin)), code_(std::move(code)) {}

    /// The values must be legal, and the codes of code those of what was given.
    std::shared_ptr<const VariantData> make(const Codes& codes);

  private:
    /// As in VariantData.
    struct PassedArguments {
        std::shared_ptr<const std::vector<KernelArgument>> arguments;
        std::vector<std::optional<std::size_t>> places;
    };
    void set_arguments(VariantData& made, const Environment& environment);
    PassedArguments passed_arguments(const Codes& codes, const std::vector<bool>& is_there) const;

    std::shared_ptr<const TemplateData> origin_;
    Values code_;
    /// By the codes of types, and of what is there.
    std::map<Codes, PassedArguments> arguments_;
};

}  // namespace kiln
