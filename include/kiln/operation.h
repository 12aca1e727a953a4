// SPDX-License-Identifier: Apache-2.0
//
// Operation: a problem rather than a kernel. It picks the variant for each shape that it is called with (wisdom, else
// the model), remembers it, provides workspace, and launches on the caller's stream. TypedOperation<Fn> is the same
// with argument types that the C++ compiler checks.
//
//     kiln::Operation gemm(service, "gemm", {{"T", kiln::Value("half")}});
//     gemm(kiln::StreamRef(cuda_stream), {{"m", m}, {"n", n}, {"k", k}}, {{"a", a}, {"b", b}, {"c", c}});
#pragma once

#include <kiln/device.h>
#include <kiln/error.h>
#include <kiln/kernel.h>
#include <kiln/service.h>
#include <kiln/template.h>
#include <kiln/version.h>
#include <kiln/wisdom.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln {
inline namespace KILN_ABI {

/// What a call does for a shape whose variant is not built yet.
enum class WhenMissing {
    build,       ///< builds it, and the call takes as long
    substitute,  ///< launches a variant that is built and legal for the shape; the best one is built in the
                 ///< background and used from then on. Where none is built yet, the call builds.
    fail         ///< throws NotReadyError
};

/// Where workspace comes from: a framework's pool, say. Both or neither.
struct WorkspaceAllocator {
    /// Memory aligned to 256 bytes, for work that is queued on `stream` from now on; nullptr or an exception: there is
    /// none.
    std::function<void*(std::size_t bytes, StreamRef stream)> allocate;
    /// Work that was queued on `stream` before may still use it. `stream` may be gone where the operation ends, in
    /// Operation::release(), and for streams beyond max_streams: it tells then whose memory it was, and takes no work. Must not throw.
    std::function<void(void* memory, std::size_t bytes, StreamRef stream)> release;
};

/// How an operation chooses, and what it may hold.
struct OperationOptions {
    WhenMissing when_missing = WhenMissing::build;  ///< what a call does for a shape that is not built
    /// Equal programs give equal bits at every run: no substitution, and a choice never changes. The wisdom must be the
    /// same too.
    bool reproducible = false;
    /// Shapes that are remembered; those least recently used go first.
    std::size_t max_shapes = 4096;
    /// Streams whose workspace is kept, likewise. What graphs use is kept beyond that.
    std::size_t max_streams = 64;
    /// Not set: Wisdom::usual(); a user's file that can't be used is reported as a warning of the service.
    std::optional<Wisdom> wisdom;
    /// Empty: memory of the device, allocated when a stream first needs it or needs more.
    WorkspaceAllocator allocator;
};

/// One argument of an operation: those of its templates without their scratch memory, in the first one's order.
struct OperationArgument {
    std::string name;      ///< as the template's kernel calls it
    std::string type;      ///< normalised: "int", "const half*"
    bool is_size = false;  ///< an integer that says how large the problem is; else the address of a tensor
    TensorRole role = TensorRole::input;  ///< of a tensor
};

/// What an operation does for a shape.
struct OperationPlan {
    Choice choice;                    ///< the best variant, and how that is known
    std::optional<double> best_ms;    ///< what wisdom measured for this very shape, with cold L2
    bool built = false;               ///< and loaded: a call launches it
    std::optional<Variant> launched;  ///< what a call launches meanwhile, with WhenMissing::substitute
    std::size_t workspace_bytes = 0;  ///< of choice.variant, or of `launched` where that needs more
    std::string failure;  ///< why it could not be built in the background; empty: it was not tried, or could

    /// Some lines for people.
    std::string text() const;
};

/// What an operation holds.
struct OperationUsage {
    std::size_t shapes = 0;           ///< remembered
    std::size_t substituted = 0;      ///< of them, those that launch another variant than the best
    std::size_t pending = 0;          ///< to be built in the background
    std::size_t streams = 0;          ///< with workspace
    std::size_t workspace_bytes = 0;  ///< of all of them, and what only graphs still use
};

/// Tensors' addresses by the name of their argument.
using TensorPointers = std::map<std::string, const void*, std::less<>>;

/// Thread-safe, but for being moved and destroyed. Of a service that compiles nothing (ServiceOptions::cached_only) it
/// launches, for shapes whose best variant is in no tier, the one of those there that is fastest; not with `reproducible`.
/// In a child of fork() it starts over, as its Service does: with no shapes, and the wisdom of its options.
class Operation {
  public:
    /// Of all templates that compute what `name` computes with these values: a template's name, or the first part of
    /// one's that ends in _naive ("gemm", "decode", "sum", a user's). fixed: values that say what is computed
    /// ({"T", "half"}); others have their defaults. The service must outlive it and have a device. Throws UsageError
    /// for a name that there is not, for a template that does not declare its sizes and tensors, and for
    /// `reproducible` with `substitute`; VariantError for values that no template allows.
    Operation(Service& service, std::string_view name, Values fixed = {}, OperationOptions options = {});
    /// The same for a template that the service need not know.
    Operation(Service& service, const Template& of, Values fixed = {}, OperationOptions options = {});
    /// Waits for what is being built in the background. What it launched must have ended where it gave workspace.
    ~Operation();
    Operation(Operation&&) noexcept;
    Operation& operator=(Operation&&) noexcept;

    /// What launch() takes, in this order.
    const std::vector<OperationArgument>& arguments() const;
    /// Throws UsageError unless these types fit arguments(), naming the first that does not.
    void check_arguments(std::span<const ArgumentType> types) const;

    /// By position, as the driver takes them: one pointer per argument, to its value. For a known shape Kiln's own
    /// part takes about 20 ns (operation-bench; docs/embedding.md) and no lock, except its stream's own where the
    /// variant needs workspace, and its kernel's where it has several or copies tensors to variables.
    /// Returns when the launch is queued, or recorded in a capture that the application began; in one, nothing is
    /// compiled, loaded or allocated. Throws UsageError for a null pointer (naming the argument) and
    /// what AnyKernel::launch throws; VariantError for a shape that no template allows; BuildError; NotReadyError.
    void launch(StreamRef stream, void* const* arguments) const;
    /// By name. Throws UsageError also for a name that is missing or unknown.
    void operator()(StreamRef stream, const Sizes& sizes, const TensorPointers& tensors) const;

    /// Chooses and builds for these shapes, in parallel; afterwards calls with them neither choose nor build. Throws
    /// what the first shape that fails throws, when all are done.
    void prepare(std::span<const Sizes> shapes) const;
    /// The same for one shape.
    void prepare(const Sizes& shape) const { prepare(std::span(&shape, 1)); }
    /// Gets the workspace that these shapes need on a stream as well, so that a capture on it finds all that it needs.
    void prepare(std::span<const Sizes> shapes, StreamRef stream) const;
    /// How much LaunchOptions::workspace needs for this shape: the scratch memory of the best variant, or of the one that a
    /// call launched instead, if that is more. A call that launches a variant instead of the best one, and finds too little
    /// for it, uses the operation's own memory.
    std::size_t workspace_bytes(const Sizes& sizes) const;
    /// Which variant, why, and what it takes; nothing is built.
    OperationPlan explain(const Sizes& sizes) const;
    /// Waits until nothing is left to be built in the background.
    void wait() const;

    /// Tunes shapes that calls or prepare() had and for which there is no wisdom, in the order in which they were first
    /// seen, for about this long, on the service's own stream; what is found is used from then on. Returns that
    /// wisdom, for Wisdom::store(). Throws UsageError when `reproducible`, and what tune() throws.
    Wisdom tune_pending(std::chrono::duration<double> budget) const;

    /// What it holds now. It takes locks: not for each call.
    OperationUsage usage() const;
    /// Forgets all shapes and frees all workspace; the device must be done with it, no launch under way, and no graph
    /// that captured a call launched again.
    void release() const;

  private:
    struct State;
    State& state() const;

    mutable std::atomic<State*> state_;
};

template <class Fn>
class TypedOperation;

/// gemm(stream, m, n, k, a, b, c): types are checked by the C++ compiler, and against the templates' declarations when
/// it is made.
template <class... Arguments>
class TypedOperation<void(Arguments...)> : public Operation {
  public:
    /// Throws UsageError: Operation::check_arguments.
    explicit TypedOperation(Operation operation) : Operation(std::move(operation)) {
        static constexpr ArgumentType types[sizeof...(Arguments) + 1] = {argument_type<Arguments>()...};
        check_arguments({types, sizeof...(Arguments)});
    }
    /// Operation::Operation() and the check of types; throws what both throw.
    TypedOperation(Service& service, std::string_view name, Values fixed = {}, OperationOptions options = {})
        : TypedOperation(Operation(service, name, std::move(fixed), std::move(options))) {}

    using Operation::operator();
    /// Operation::launch() with these arguments.
    void operator()(StreamRef stream, Arguments... arguments) const {
        void* pointers[sizeof...(Arguments) + 1] = {
            const_cast<void*>(static_cast<const volatile void*>(&arguments))...};
        launch(stream, pointers);
    }
};

}  // namespace KILN_ABI
}  // namespace kiln
