// SPDX-License-Identifier: Apache-2.0
//
// A reference template, bound to the variant whose output it checks (kernels_src/kiln/reference.h describes
// such templates). It runs on the host, one thread per element.
#pragma once

#include <kiln/run.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "run/guarded_tensor.h"

namespace kiln {

/// The inputs and inouts of a launch as they were before it, in host memory, by name.
using HostTensors = std::map<std::string, HostBytes, std::less<>>;

/// The service that builds references: the tested service if its backend is the host and it has no observer, else a
/// host service that is created when first needed. Not thread-safe.
class ReferenceService {
  public:
    /// tested must outlive it.
    explicit ReferenceService(Service& tested) : tested_(tested) {}
    Service& get();

  private:
    Service& tested_;
    std::unique_ptr<Service> host_;
};

/// The variant of `reference` that checks this output. Throws TemplateError when it does not exist, is not a
/// reference, or does not allow the tested variant's values.
Variant reference_variant(Service& host, const Variant& tested, const std::string& output,
                          const std::string& reference);

/// Adds the variants that check the outputs of `tested`, unless they are there. What is wrong with one is told where it is
/// used.
void add_references(Service& host, const Variant& tested, std::vector<Variant>& references);

/// Sets the patterns of the problem's inputs that the references of its outputs declare (Data::contributions).
/// Returns whether there are any. Throws what reference_variant throws.
bool set_patterns(Service& host, const Variant& tested, Problem& problem);

/// Not thread-safe.
class Reference {
  public:
    /// host: the service that builds references. Checks all that can be checked without running it; builds
    /// nothing. Throws TemplateError when the reference does not exist or does not match the tested template.
    Reference(Service& host, const Variant& tested, const Problem& problem, const Tensor& output);

    const std::string& name() const { return variant_.template_name(); }
    /// The tensors that it reads.
    const std::vector<std::string>& inputs() const { return inputs_; }
    /// Throws BuildError.
    void build();
    /// Builds it if necessary, and reads the addresses of its inputs, which must not change.
    void bind(const HostTensors& inputs);

    /// Computes the expected values of the elements `which` of the output, and their error bounds. Throws
    /// DeviceError.
    void evaluate(std::span<const std::int64_t> which, double* expected, double* bound) const;

  private:
    struct Argument {
        std::string tensor;       ///< empty: a size
        std::uint64_t value = 0;  ///< of a size, in the type that the reference declares; else an address
    };

    Service& host_;
    Variant variant_;
    std::vector<Argument> arguments_;  ///< after the first four
    std::vector<std::string> inputs_;
    std::optional<AnyKernel> kernel_;
};

}  // namespace kiln
