// SPDX-License-Identifier: Apache-2.0
//
// Running a template that declares its problem (Variant::problem): random inputs, poisoned outputs, guard
// bytes before and behind every buffer, a check of the results against the template's reference in FP64, times, and
// a second check with inputs that make each contribution to a result visible.
// A reference is a template too; it runs on the host, so that checking needs a C++ compiler there.
#pragma once

#include <kiln/build.h>
#include <kiln/observe.h>
#include <kiln/service.h>
#include <kiln/template.h>
#include <kiln/timing.h>
#include <kiln/version.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln {
inline namespace KILN_ABI {

/// What floating-point inputs hold.
enum class Data {
    random,    ///< uniform in [-1, 1), rounded to the type
    integers,  ///< -2 to 2: results that are declared `exact` are right to the last bit, as always where all has integer types
    /// As the reference's `data` lines say, uniform where there are none: whatever a kernel leaves out of a result
    /// changes it by more than the bound (Pattern), if that is as small as the pattern allows: OutputCheck::contributions
    contributions
};

/// How results are compared with what is expected.
enum class Check {
    full,
    sample,
    none,
    freivalds  ///< of a GEMM (RunOptions::gemm): a sample, and Freivalds' test, which finds what is wrong anywhere
};

/// What Runner::run() does, and with which data.
struct RunOptions {
    Sizes sizes;               ///< those that differ from the defaults
    bool test_sizes = false;   ///< the defaults of tests, which are small and odd
    Data data = Data::random;  ///< what inputs hold
    std::uint64_t seed = 1;    ///< equal seeds give equal inputs, on every backend
    /// Elements that inputs, outputs and inouts begin behind an aligned address, or as many more as their alignment takes.
    int skew = 0;
    /// Not set: for each output full, or a sample of sample_elements, the first and last among them, where
    /// checking all would take more than about five seconds. A sample is smaller, but not below 1024, where
    /// it would take more than about ten seconds.
    std::optional<Check> check;
    /// Elements of a sample, also of Check::sample; those at ends, corners and powers of two, a few hundred, are always among
    /// them. Of a GEMM 4096 at most. 0 is a UsageError.
    std::uint64_t sample_elements = 65536;
    /// The problem is gemm_problem(), and Kiln itself computes what is expected, in FP64: there need be no reference and
    /// no C++ compiler. Not set `check` is then full up to 2^31 multiply-adds, else freivalds. Throws UsageError where
    /// the kernel is no such GEMM.
    bool gemm = false;
    /// Where the data is random and results are checked: a last launch, not timed, with Data::contributions is
    /// checked as well, if the references say how.
    bool check_contributions = true;

    bool time = true;            ///< else only launches that are checked
    std::optional<int> warm_up;  ///< launches before those that are timed, up to 10^6; 5, on the host 0
    /// Timed launches, 1 to 10^6. Not set: 20; on the host as many as fit two seconds, 3 to 20.
    std::optional<int> iterations;
    bool cold_l2 = false;       ///< what the kernel reads is not in the device's cache
    bool graph = false;         ///< also time the launches replayed from a captured graph
    bool keep_results = false;  ///< RunResult::outputs

    /// Told what begins: "building", "filling", "running", "checking", "timing".
    std::function<void(std::string_view)> on_phase;
    /// Told where each tensor lies, before the first launch.
    std::function<void(const MemoryRange&)> on_tensor;
};

/// Contributions to elements of an output that were left out of what its reference computes, one at a time, to see whether its
/// bounds would show that.
struct Contributions {
    std::uint64_t tried = 0;   ///< left out
    std::uint64_t hidden = 0;  ///< of them: they change the element by no more than its bound
    std::string input;         ///< that has the contribution which is hidden by most
    double change = 0;         ///< what that changes an element by
    double bound = 0;          ///< of this element
};

/// One output against its reference.
struct OutputCheck {
    std::string tensor;            ///< the output's name
    Data data = Data::random;      ///< of the inputs
    std::uint64_t elements = 0;    ///< of the output
    std::uint64_t checked = 0;     ///< of them
    std::uint64_t wrong = 0;       ///< of the checked: beyond the bound, not finite where expected is, not
                                   ///< exact where that is asked for
    std::uint64_t not_finite = 0;  ///< of the checked: NaN or infinite, as expected
    std::uint64_t unwritten = 0;   ///< of all: still what they were before the launch, where that can be told
    bool later_launch = false;     ///< found after a later launch on the same inputs; the first was right
    std::optional<std::uint64_t> wrong_rows;  ///< that fail Freivalds' test; not set: it was not made
    double worst = 0;                         ///< the largest |error| / bound; right is 1 and less
    double max_abs_error = 0;                 ///< the largest difference from what is expected
    /// The first wrong element.
    struct Wrong {
        std::vector<std::int64_t> index;  ///< one per extent
        double found = 0;                 ///< what the kernel wrote
        double expected = 0;              ///< what the reference computed
        double bound = 0;                 ///< the most that they may differ
    };
    std::optional<Wrong> first_wrong;  ///< not set: none is wrong
    /// With Data::contributions where the patterns are factors or terms. Not set: bounds are 0, so that each is visible, or
    /// it is not known which elements are single contributions.
    std::optional<Contributions> contributions;
};

/// A write beyond a tensor, into the guard bytes of a page before and behind each.
struct Overrun {
    std::string tensor;          ///< which is overrun
    bool before = false;         ///< its start; else behind its end
    std::uint64_t distance = 0;  ///< bytes between it and the nearest that was written

    std::string text() const;  ///< "before the start of y, 4 bytes away"
    bool operator==(const Overrun&) const = default;
};

/// An output or inout that is not the same on every content of an output or of scratch, which a kernel must not read before it has
/// written them.
struct Dependence {
    std::string output;  ///< what differs
    std::string tensor;  ///< the output or scratch on whose content before the launch it depends

    bool operator==(const Dependence&) const = default;
};

/// What a run found. A wrong result is no exception: see pass() and failures().
struct RunResult {
    Problem problem;                           ///< that was run
    Check check = Check::none;                 ///< how results were compared
    std::vector<OutputCheck> outputs_checked;  ///< of the first launch, see OutputCheck::later_launch
    std::vector<OutputCheck>
        contributions_checked;            ///< of the one with Data::contributions; empty: there was none
    std::vector<Overrun> overrun;         ///< where the kernel wrote beyond a tensor
    std::vector<std::string> changed;     ///< inputs that the kernel wrote to
    std::vector<std::string> not_zeroed;  ///< scratch that must be left zeroed, and is not
    /// Outputs and inouts with a reference that differ, in any bit, between the first launch and a later one on the same data.
    /// Unknown, and so empty, where nothing is checked. Those of any order are held to their references instead.
    std::vector<std::string> unstable;
    std::vector<Dependence> dependent;      ///< outputs and inouts with a reference, as above
    std::optional<TimeSummary> time;        ///< of the timed launches; not set: none was asked for
    std::optional<TimeSummary> graph_time;  ///< per launch
    Origin origin = Origin::compiled;       ///< what served the build
    BuildInfo build;                        ///< of the kernel
    /// Outputs and inouts after the first launch, in the order of the arguments. With keep_results.
    std::vector<std::pair<std::string, std::vector<std::byte>>> outputs;

    /// failures() is empty.
    bool pass() const;
    /// What is wrong, one sentence each; empty when it passes.
    std::vector<std::string> failures() const;
    std::optional<double> gflops() const;  ///< from the median; nullopt without a time or flops
    std::optional<double> gbps() const;    ///< 1e9 bytes per second
};

/// Runs variants of one service. Not thread-safe; keeps the service of the references, which has the same
/// template directories and cache.
class Runner {
  public:
    /// The service must outlive it and have a device.
    explicit Runner(Service& service);
    ~Runner();
    Runner(const Runner&) = delete;
    Runner& operator=(const Runner&) = delete;

    /// Throws VariantError for a template that is not runnable or sizes that are wrong, UsageError when
    /// the problem does not fit the memory, TemplateError for a reference that lacks what it needs, and
    /// what Service::build throws. A wrong result is no exception.
    RunResult run(const Variant& variant, const RunOptions& options = {});
    /// The same with a kernel that is already built.
    RunResult run(const AnyKernel& kernel, const RunOptions& options = {});
    /// The variant of the template's `naive` with the same values where it has such parameters and allows
    /// them; nullopt when none is declared.
    std::optional<Variant> naive(const Variant& variant) const;
    /// Of these sizes, those that the template has: for running a naive one on the same problem.
    static Sizes shared_sizes(const Variant& variant, const Sizes& sizes);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

/// Does work that launches kernels of the service, all of them built before, as Runner does: where the service's
/// options say so (isolate_host) in a child process, which has a copy of everything and gives back the bytes that the
/// work returns; else in this one. kernel: what is launched, for messages. on_phase may be empty; the work tells its
/// phases to what it is given. Throws what the work throws, and DeviceError when the child ends otherwise.
std::string launch_apart(
    const Service& service, const std::string& kernel, const std::function<void(std::string_view)>& on_phase,
    const std::function<std::string(const std::function<void(std::string_view)>&)>& work);

/// C = A * B, row-major, with the C type float: the problem of a kernel (int m, int n, int k, const T* a, const T* b,
/// float* c) with T half, bfloat16 or float, whatever its arguments are called; sizes that are called m, n and k may have
/// another order. nullopt for any other kernel, for one of whose sizes one alone is called m, n or k and has another place,
/// and for a template that declares its tensors otherwise. Sizes may be given as m, n and k, too; without a declared problem
/// their default is 1024. Throws what Variant::problem throws.
std::optional<Problem> gemm_problem(const Variant& variant, const Sizes& given = {}, bool test = false);

/// "full", "sample", "freivalds" or "none".
std::string_view name(Check check);
/// "random", "integers" or "contributions".
std::string_view name(Data data);

}  // namespace KILN_ABI
}  // namespace kiln
