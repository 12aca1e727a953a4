// SPDX-License-Identifier: Apache-2.0
//
// Exported code: compiled as C11 and as C++17 without warnings, run on a driver that writes launches down
// (fake/fake_cuda.c); what it launches is what the library computes for the same variant and sizes.
#include <gmock/gmock.h>
#include <kiln/kiln.h>
#include <kiln/tools/export.h>

#include <cstdlib>
#include <map>
#include <sstream>

#include "base/file.h"
#include "base/process.h"
#include "rejected.h"
#include "require.h"
#include "template/kernel_launch.h"
#include "template/tensor_maps.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// One call of an exported function: sizes by name, and what else is passed instead of good pointers.
struct CallOf {
    Sizes sizes;
    std::map<std::string, std::uint64_t> pointers = {};
};

constexpr std::uint64_t kFirstPointer = 0x10000;

std::uint64_t pointer_of(const CallOf& call, const std::string& name, std::size_t index) {
    const auto found = call.pointers.find(name);
    return found != call.pointers.end() ? found->second : kFirstPointer * (index + 1);
}

std::string hex(std::uint64_t value) {
    std::ostringstream text;
    text << std::hex << value;
    return text.str();
}

struct Export : testing::Test {
    TemporaryDirectory folder;
    Wisdom wisdom;

    std::filesystem::path path(const std::string& name) const { return folder.path() / name; }
    static std::filesystem::path source() { return std::getenv("KILN_TEST_SOURCE_DIR"); }

    ServiceOptions options(const std::string& arch) const {
        ServiceOptions result;
        result.arch = arch;
        result.template_directories = {source() / "examples/templates", folder.path()};
        result.compile_only = true;
        result.cache.enabled = false;
        return result;
    }
    ProcessResult run(std::vector<std::string> arguments,
                      std::vector<std::pair<std::string, std::string>> environment = {}) const {
        ProcessRequest request;
        request.arguments = std::move(arguments);
        request.environment = std::move(environment);
        request.directory = folder.path();
        request.timeout = std::chrono::seconds(240);
        return run_process(request);
    }
    void expect_runs(std::vector<std::string> arguments) const {
        const ProcessResult result = run(std::move(arguments));
        EXPECT_TRUE(result.started) << result.start_error;
        EXPECT_EQ(result.exit_status, 0) << result.error << result.output;
    }

    /// Writes and compiles the files, with a main that makes these calls of `function` and prints each status, the
    /// variant and the error.
    void build(const std::vector<ExportedFile>& files, const std::string& function, const Variant& variant,
               const std::vector<CallOf>& calls) const {
        for (const ExportedFile& file : files) write_text(path(file.name), file.text);
        const std::string stem = "kiln_" + variant.template_name();
        std::string text = "#include \"" + stem +
                           ".h\"\n#include <stdint.h>\n#include <stdio.h>\nint main(void) {\n    int s;\n"
                           "    const char* v;\n    void* const stream = (void*)(uintptr_t)0xabc;\n";
        for (const CallOf& call : calls) {
            std::string all, integers;
            std::size_t index = 0;
            for (const KernelArgument& argument : variant.arguments()) {
                const bool is_pointer = argument.type.ends_with('*');
                const std::string value =
                    is_pointer ? "(void*)(uintptr_t)0x" + hex(pointer_of(call, argument.name, index))
                               : std::to_string(call.sizes.at(argument.name));
                all += ", " + value;
                if (!is_pointer) integers += (integers.empty() ? "" : ", ") + value;
                ++index;
            }
            text += "    s = " + function + "(stream" + all + ");\n    v = " + function + "_variant(" +
                    integers +
                    ");\n    printf(\"%d|%s|%s\\n\", s, v == NULL ? \"\" : v, s == 0 ? \"\" : " + stem +
                    "_error());\n";
        }
        write_text(path("main.c"), text + "    " + stem + "_unload();\n    return 0;\n}\n");
        const std::vector<std::string> strict = {"-Wall", "-Wextra", "-pedantic", "-Werror", "-O1"};
        const auto compile = [&](std::vector<std::string> command, const char* program) {
            command.insert(command.end(), strict.begin(), strict.end());
            for (const std::string& word :
                 {std::string("main.c"), stem + ".c", std::string("-o"), std::string(program),
                  std::string("-ldl"), std::string("-lpthread")})
                command.push_back(word);
            expect_runs(std::move(command));
        };
        compile({"gcc", "-std=c11"}, "as_c");
        compile({"g++", "-std=c++17", "-x", "c++"}, "as_cpp");
        std::filesystem::create_directories(path("driver"));
        expect_runs({"gcc", "-std=c11", "-shared", "-fPIC",
                     (source() / "tests/export/fake/fake_cuda.c").string(), "-o",
                     path("driver/libcuda.so.1").string()});
    }

    struct Ran {
        std::vector<std::string> printed, log;
    };
    /// What both programs do, which is the same.
    Ran launches(const std::string& bytes, const std::string& arch = "90") const {
        std::optional<Ran> first;
        for (const char* program : {"./as_c", "./as_cpp"}) {
            const auto log = path(std::string(program + 2) + ".log");
            std::filesystem::remove(log);
            const ProcessResult result = run({program}, {{"LD_LIBRARY_PATH", path("driver").string()},
                                                         {"FAKE_LOG", log.string()},
                                                         {"FAKE_BYTES", bytes},
                                                         {"FAKE_ARCH", arch}});
            EXPECT_EQ(result.exit_status, 0) << result.error;
            Ran ran{lines(result.output), lines(read_text_if_exists(log).value_or(""))};
            if (first) {
                EXPECT_EQ(ran.printed, first->printed);
                EXPECT_EQ(ran.log, first->log);
            }
            first = std::move(ran);
        }
        return *first;
    }
    static std::vector<std::string> lines(const std::string& text) {
        std::vector<std::string> found;
        std::istringstream all(text);
        for (std::string line; std::getline(all, line);) found.push_back(line);
        return found;
    }

    /// Those tensors of the template that only some variants have, in order: behind all other arguments of the kernel,
    /// which finds null pointers for those that this variant does not have.
    static std::vector<std::string> conditional(const Variant& variant) {
        std::vector<std::string> names;
        for (const TensorArgument& tensor : variant.origin().tensors())
            if (!tensor.condition_text.empty()) names.push_back(tensor.name);
        return names;
    }

    /// Of each kernel's arguments.
    static std::string bytes_of(const Variant& variant) {
        const std::vector<std::string> last = conditional(variant);
        std::vector<std::string> bytes;
        for (const KernelArgument& argument : variant.arguments())
            if (std::ranges::find(last, argument.name) == last.end())
                bytes.emplace_back(
                    argument.type.ends_with('*') || argument.type.find("long") != std::string::npos ? "8"
                                                                                                    : "4");
        bytes.insert(bytes.end(), last.size(), "8");
        bytes.insert(bytes.end(), tensor_map_count(variant), "128");
        std::string text;
        for (std::size_t kernel = 0; kernel < kernel_count(variant); ++kernel) {
            if (kernel > 0) text.back() = ';';
            for (const std::size_t at : kernel_launch(variant, kernel).arguments) text += bytes[at] + ",";
        }
        text.pop_back();
        return text;
    }

    /// The lines that a launch of this variant writes, by what the library computes. map: the number of the last one.
    static std::vector<std::string> expected(const Variant& variant, const CallOf& call, int& map) {
        std::vector<std::uint64_t> words, launched;
        const std::vector<std::string> last = conditional(variant);
        std::map<std::string, std::uint64_t> given;  // of these
        for (const KernelArgument& argument : variant.arguments()) {
            words.push_back(argument.type.ends_with('*')
                                ? pointer_of(call, argument.name, words.size())
                                : static_cast<std::uint64_t>(call.sizes.at(argument.name)));
            if (std::ranges::find(last, argument.name) == last.end())
                launched.push_back(words.back());
            else
                given[argument.name] = words.back();
        }
        for (const std::string& name : last) launched.push_back(given[name]);
        std::vector<void*> pointers;
        for (std::uint64_t& word : words) pointers.push_back(&word);
        std::vector<Dim3> grids;
        for (std::size_t kernel = 0; kernel < kernel_count(variant); ++kernel)
            grids.push_back(grid_of_kernel(variant, kernel, pointers.data()));
        if (std::ranges::all_of(grids, [](const Dim3& grid) { return grid.count() == 0; })) return {};
        std::vector<std::string> found, arguments;
        for (const std::uint64_t word : launched) arguments.push_back(hex(word));
        for (const TensorMapSpec& spec : tensor_map_specs(variant, pointers.data())) {
            std::string extents, strides, box, steps;
            std::uint64_t stride = spec.element_bytes;
            const auto rank = static_cast<std::size_t>(spec.rank);
            if (rank == 0) {  // this variant does not have it
                arguments.emplace_back("0");
                continue;
            }
            for (std::size_t i = 0; i < rank; ++i) {
                extents += " " + std::to_string(spec.extents[rank - 1 - i]);
                if (i > 0) strides += " " + std::to_string(stride);
                stride *= spec.extents[rank - 1 - i];
                box += " " + std::to_string(spec.box[rank - 1 - i]);
                steps += " 1";
            }
            const bool whole = spec.extents[rank - 1] * spec.element_bytes % 256 == 0;
            const int swizzle = spec.swizzle_bytes == 128 ? 3 : spec.swizzle_bytes / 32;
            found.push_back("map type " +
                            std::string(spec.type == "bfloat16" ? "9"
                                        : spec.type == "float"  ? "7"
                                                                : "6") +
                            " base " + hex(words[spec.pointer_argument]) + " extents" + extents + " strides" +
                            strides + " box" + box + " steps" + steps + " interleave 0 swizzle " +
                            std::to_string(swizzle) + " promotion " + (whole ? "3" : "2") + " fill 0");
            arguments.push_back(hex(static_cast<std::uint64_t>(++map)));
        }
        const auto three = [](const Dim3& e) {
            return " " + std::to_string(e.x) + " " + std::to_string(e.y) + " " + std::to_string(e.z);
        };
        for (std::size_t kernel = 0; kernel < grids.size(); ++kernel) {
            if (grids[kernel].count() == 0) continue;
            const KernelLaunch of = kernel_launch(variant, kernel);
            std::string launch = "launch grid" + three(grids[kernel]) + " block" + three(of.block) +
                                 " shared " + std::to_string(of.dynamic_shared_bytes) + " stream abc";
            if (of.cluster != Dim3{}) launch += " cluster" + three(of.cluster);
            if (of.dependent && variant.target()->arch.starts_with("sm_90")) launch += " overlap 1";
            launch += " arguments";
            for (const std::size_t at : of.arguments) launch += " " + arguments[at];
            found.push_back(std::move(launch));
        }
        return found;
    }

    /// One variant, which all good calls must launch as the library would; `bad`: what the errors of further calls say.
    void expect_like_the_library(const std::string& name, const Values& values, const std::string& arch,
                                 std::vector<CallOf> calls,
                                 const std::vector<std::pair<CallOf, std::string>>& bad) {
        Service service(options(arch));
        const Variant variant = service.find(name).variant(values);
        std::optional<Binary> binary;
        try {
            binary = service.compile(variant).binary;
        } catch (const BuildError& error) {
            KILN_REQUIRE_OR_SKIP("nvrtc", false, error.what());
        }
        const std::vector<ExportedVariant> exported = {{variant, *binary}};
        const std::size_t good = calls.size();
        for (const auto& [call, words] : bad) calls.push_back(call);
        build(export_c(service, exported, wisdom), "kiln_" + name, variant, calls);
        const Ran ran = launches(bytes_of(variant), arch.substr(3, 2));
        std::vector<std::string> launched, wanted;
        for (const std::string& line : ran.log)
            if (line.starts_with("launch") || line.starts_with("map")) launched.push_back(line);
        int map = 0;
        // What a grid takes from the device, exported code asks the driver for.
        Target device = service.target();
        device.limits.multiprocessors = 132;
        const Variant on_device = variant.origin().for_target(device).variant(variant.values());
        for (std::size_t i = 0; i < good; ++i)
            for (const std::string& line : expected(on_device, calls[i], map)) wanted.push_back(line);
        EXPECT_EQ(launched, wanted);
        ASSERT_EQ(ran.printed.size(), calls.size());
        for (std::size_t i = 0; i < good; ++i) EXPECT_EQ(ran.printed[i], "0|" + variant.text() + "|");
        for (std::size_t i = 0; i < bad.size(); ++i) {
            EXPECT_THAT(ran.printed[good + i], testing::StartsWith("-1|"));
            EXPECT_THAT(ran.printed[good + i], HasSubstr(bad[i].second));
        }
        // It is loaded once, and unloaded.
        const auto count = [&](const std::string& begin) {
            return std::ranges::count_if(ran.log,
                                         [&](const std::string& line) { return line.starts_with(begin); });
        };
        EXPECT_EQ(count("load cubin"), 1);
        EXPECT_EQ(count("load"), 1);
        EXPECT_EQ(count("unload"), 1);
        EXPECT_EQ(count("function"), std::ssize(variant.kernels()));
        for (const VariantKernel& kernel : variant.kernels())
            EXPECT_EQ(count("set 8 " + std::to_string(kernel.dynamic_shared_bytes)),
                      kernel.dynamic_shared_bytes + 16 > 49152 ? 1 : 0);
    }
};

TEST_F(Export, GemmTiled) {
    const CallOf null{{{"m", 5}, {"n", 6}, {"k", 7}}, {{"b", 0}}};
    expect_like_the_library("gemm_tiled", {{"BM", 64}, {"BN", 32}}, "sm_90a",
                            {{{{"m", 1}, {"n", 1}, {"k", 1}}},
                             {{{"m", 97}, {"n", 136}, {"k", 88}}},
                             {{{"m", 0}, {"n", 136}, {"k", 88}}},
                             {{{"m", 100000}, {"n", 70001}, {"k", 3}}}},
                            {{null, "the argument b is a null pointer, and it has 84 bytes"},
                             {{{{"m", -1}, {"n", 6}, {"k", 7}}}, "the size m is -1; it can't be negative"}});
}

TEST_F(Export, GemmWgmmaWithTensorMaps) {
    expect_like_the_library(
        "gemm_wgmma", {}, "sm_90a",
        {{{{"m", 128}, {"n", 256}, {"k", 64}}},
         {{{"m", 97}, {"n", 136}, {"k", 88}}},
         {{{"m", 8191}, {"n", 4096}, {"k", 4096}}}},
        {{{{{"m", 97}, {"n", 136}, {"k", 88}}, {{"a", 0x10008}}},
          "the argument a is at 0x10008, and has to be at a multiple of 16"},
         {{{{"m", 97}, {"n", 136}, {"k", 83}}}, "the size k is 83; it must be a multiple of 8"},
         {{{{"m", 97}, {"n", 136}, {"k", 88}}, {{"c", 0}}}, "the argument c is a null pointer"}});
}

// Some of the tensors that only some variants have: the kernel gets null pointers for the others.
TEST_F(Export, GemmWgmmaWithConditionalTensors) {
    expect_like_the_library(
        "gemm_wgmma", {{"OUT", "half"}, {"RESIDUAL", true}, {"SPLIT_CLUSTERS", 2}, {"TMA_STORE", false}},
        "sm_90a", {{{{"m", 97}, {"n", 136}, {"k", 88}}}},
        {{{{{"m", 97}, {"n", 136}, {"k", 88}}, {{"residual", 0}}},
          "the argument residual is a null pointer"}});
}

TEST_F(Export, Softmax) {
    expect_like_the_library(
        "softmax", {}, "sm_80", {{{{"rows", 1}, {"cols", 1}}}, {{{"rows", 333}, {"cols", 1000}}}},
        {{{{{"rows", 3}, {"cols", 1000}}, {{"x", 0}}}, "the argument x is a null pointer"},
         {{{{"rows", 3}, {"cols", 1000}}, {{"x", 0x10001}}},
          "x is at 0x10001, and has to be at a multiple of 2"}});
}

TEST_F(Export, SumShuffleWithScratch) {
    expect_like_the_library(
        "sum_shuffle", {}, "sm_80", {{{{"n", 1}}}, {{{"n", 1000003}}}},
        {{{{{"n", 1000003}}, {{"sums_of_blocks", 0}}}, "the argument sums_of_blocks is a null pointer"}});
}

// Two kernels, one after the other, with the scratch tensor between them; they are C++ templates.
TEST_F(Export, SeveralKernels) {
    expect_like_the_library("reduce_template", {{"BLOCKS", 132}}, "sm_90a",
                            {{{{"n", 1}}}, {{{"n", 1000003}}}},
                            {{{{{"n", 7}}, {{"sum", 0}}}, "the argument sum is a null pointer"}});
    EXPECT_THAT(read_text_if_exists(path("as_c.log")).value_or(""),
                testing::AllOf(HasSubstr("function _Z15reduce_template"),
                               HasSubstr("function _Z16add_partial_sums")));
}

// Each with what it takes of the arguments, in an order of its own, its cluster, its shared memory, and its overlap. One with
// an empty grid is left out.
TEST_F(Export, SeveralKernelsWithLaunchesOfTheirOwn) {
    write_text(
        path("in_turn.cu"),
        "// in_turn: three kernels\n"
        "//@ size n = 100\n//@ size m = 50\n//@ input x [n]\n//@ inout y [m]\n"
        "//@ kernel in_turn\n//@ block 32\n//@ grid n, 2\n//@ cluster 1, 2\n"
        "//@ kernel second\n//@ block 64, 2\n//@ grid m\n//@ shared 65536\n//@ dependent true\n"
        "//@ kernel third\n//@ block 96\n//@ grid 3\n"
        "#include \"kiln/device.h\"\n#include \"kiln/launch.h\"\n"
        "extern \"C\" __global__ void in_turn(int n, const float* x, int m, float* y) { if (n + m < 0) y[0] "
        "= x[0]; }\n"
        "extern \"C\" __global__ void second(float* y, int m) {\n"
        "    kiln::wait_for_previous_grid();\n    float* const shared = kiln::dynamic_shared<float>();\n"
        "    shared[threadIdx.x] = m;\n    __syncthreads();\n    y[0] = shared[1];\n}\n"
        "extern \"C\" __global__ void third(float* y) { y[0] += 1; }\n");
    expect_like_the_library("in_turn", {}, "sm_90a",
                            {{{{"n", 5}, {"m", 7}}}, {{{"n", 0}, {"m", 7}}}, {{{"n", 5}, {"m", 0}}}},
                            {{{{{"n", 5}, {"m", 7}}, {{"x", 0}}}, "the argument x is a null pointer"},
                             {{{{"n", -1}, {"m", 7}}}, "the size n is -1"}});
}

// Several variants and architectures: the device's own, the wisdom for the sizes, else the nearest, else the first.
TEST_F(Export, ChoosesByArchitectureAndSizes) {
    std::vector<ExportedVariant> exported;
    std::optional<Variant> any;
    std::map<std::string, std::string> text;  // by architecture and tile
    for (const char* arch : {"compute_80", "sm_80", "sm_90a"}) {
        Service service(options(arch));
        for (const int bm : {32, 64, 128}) {
            const Variant variant = service.find("gemm_tiled").variant({{"BM", bm}});
            any = variant;
            try {
                exported.push_back({variant, service.compile(variant).binary});
            } catch (const BuildError& error) {
                KILN_REQUIRE_OR_SKIP("nvrtc", false, error.what());
            }
        }
    }
    const auto know = [&](int bm, std::int64_t m) {
        WisdomEntry entry;
        entry.template_name = "gemm_tiled";
        for (const ExportedVariant& one : exported)
            if (one.variant.value("BM").as_int() == bm) entry.values = one.variant.values();
        entry.sizes = {{"m", m}, {"n", 512}, {"k", 512}};
        entry.device = "test";
        entry.arch = "sm_90a";
        entry.median_ms = 1;
        entry.date = "2026-01-01T00:00:00Z";
        wisdom.merge(std::vector<WisdomEntry>{entry});
    };
    know(64, 512);
    know(128, 4096);
    Service service(options("sm_90a"));
    std::vector<CallOf> calls;
    for (const std::int64_t m : {512, 4096, 600, 3000}) calls.push_back({{{"m", m}, {"n", 512}, {"k", 512}}});
    build(export_c(service, exported, wisdom), "kiln_gemm_tiled", *any, calls);
    const auto tiles = [&](const std::string& arch) {
        std::string found;
        for (const std::string& line : launches("", arch).printed) {
            const std::size_t at = line.find(" BM=");
            found += at == line.npos ? line.substr(0, 2) + " "
                                     : line.substr(at + 4, line.find(' ', at + 1) - at - 4) + " ";
        }
        return found;
    };
    EXPECT_EQ(tiles("90"), "64 128 64 128 ");
    EXPECT_EQ(tiles("80"), "32 32 32 32 ");  // no wisdom: the first
    EXPECT_EQ(tiles("86"), "32 32 32 32 ");
    EXPECT_EQ(tiles("75"), "-3 -3 -3 -3 ");
    EXPECT_THAT(launches("", "75").printed[0], HasSubstr("kiln_gemm_tiled: there is no binary for sm_75"));
    EXPECT_THAT(launches("", "86").log, testing::Contains("load cubin"));
    EXPECT_THAT(launches("", "100").log, testing::Contains("load ptx"));  // newer than all of them
}

// Entries of wisdom name no code, and those that were made before the template got a parameter leave it out.
TEST_F(Export, WisdomNamesVariantsByWhatItHas) {
    Service service(options("sm_90a"));
    Binary none;
    none.entry = "softmax";
    none.bytes = std::vector<std::byte>(5);
    std::vector<ExportedVariant> exported;
    for (const int threads : {128, 256})
        exported.push_back({service.find("softmax").variant({{"T", "half"}, {"THREADS", threads}}), none});
    WisdomEntry entry;
    entry.template_name = "softmax";
    entry.values = {{"T", "half"}, {"THREADS", 256}};
    entry.sizes = {{"rows", 512}, {"cols", 1000}};
    entry.device = "test";
    entry.arch = "sm_90a";
    entry.median_ms = 1;
    entry.date = "2026-01-01T00:00:00Z";
    const auto known = [&] {
        wisdom = Wisdom();
        wisdom.merge(std::vector<WisdomEntry>{entry});
        return export_c(service, exported, wisdom)[1].text;
    };
    EXPECT_THAT(
        known(),
        HasSubstr("static const struct kiln_known kiln_known_0_0[] = {\n    {{512LL, 1000LL}, 1},\n};"));
    entry.values.emplace("NO_LONGER", 1);
    EXPECT_THAT(known(), Not(HasSubstr("struct kiln_known kiln_known_")));
    entry.values = {{"T", "half"}, {"THREADS", 512}};  // which is not exported
    EXPECT_THAT(known(), Not(HasSubstr("struct kiln_known kiln_known_")));
}

// The caller's arguments do not depend on which variant comes first.
TEST_F(Export, ScratchOfSomeVariantsIsAnArgument) {
    Service service(options("sm_90a"));
    std::vector<ExportedVariant> exported;
    for (const int split : {1, 2}) {
        const Variant variant =
            service.find("gemm_wgmma")
                .variant({{"T", "half"}, {"SPLIT_CLUSTERS", split}, {"TMA_STORE", split == 1}});
        try {
            exported.push_back({variant, service.compile(variant).binary});
        } catch (const BuildError& error) {
            KILN_REQUIRE_OR_SKIP("nvrtc", false, error.what());
        }
    }
    for (const std::int64_t k : {1024, 16384}) {
        WisdomEntry entry;
        entry.template_name = "gemm_wgmma";
        entry.values = exported[k == 1024 ? 0 : 1].variant.values();
        entry.sizes = {{"m", 1024}, {"n", 1024}, {"k", k}};
        entry.device = "test";
        entry.arch = "sm_90a";
        entry.median_ms = 1;
        entry.date = "2026-01-01T00:00:00Z";
        wisdom.merge(std::vector<WisdomEntry>{entry});
    }
    const Variant& split = exported[1].variant;
    const std::vector<CallOf> calls = {
        {{{"m", 1024}, {"n", 1024}, {"k", 1024}}, {{"partial", 0}, {"tickets", 0}}},
        {{{"m", 1024}, {"n", 1024}, {"k", 16384}}},
        {{{"m", 1024}, {"n", 1024}, {"k", 16384}}, {{"partial", 0}}}};
    const auto forward = export_c(service, exported, wisdom);
    build(forward, "kiln_gemm_wgmma", split, calls);
    const Ran ran = launches(bytes_of(split));
    ASSERT_EQ(ran.printed.size(), 3U);
    EXPECT_EQ(ran.printed[0], "0|" + exported[0].variant.text() + "|");
    EXPECT_EQ(ran.printed[1], "0|" + split.text() + "|");
    EXPECT_THAT(ran.printed[2], HasSubstr("the argument partial is a null pointer"));
    std::ranges::reverse(exported);
    EXPECT_EQ(export_c(service, exported, wisdom)[0].text, forward[0].text);
}

TEST_F(Export, ANameThatCDoesNotTakeIsAnError) {
    Service service(options("sm_90a"));
    for (const std::string name : {"linux", "stdin", "errno"}) {
        const Template of = service.parse(
            "// f: for tests.\n//@ kernel f\n//@ block 1\n//@ grid " + name +
                "\n#include \"kiln/device.h\"\nextern \"C\" __global__ void f(int " + name + ") {}\n",
            "f.cu");
        Binary none;
        none.entry = "f";
        none.bytes = std::vector<std::byte>(5);
        EXPECT_THAT(test::rejected([&] {
                        export_c(service, std::vector<ExportedVariant>{{of.variant(), none}}, {});
                    }),
                    HasSubstr("its argument " + name + " is a keyword or a macro in C"));
    }
}

TEST_F(Export, WithoutReferencesEachVariantHasAFunction) {
    Service service(options("gfx90a"));
    const auto text_of = [&](const std::string& by) {
        const Template of = service.parse(
            "// f: for tests.\n//@ kernel f\n//@ param A int in 1..8 = 2\n//@ param B int in 1..8 = 2\n"
            "//@ block 64\n//@ grid 1\n//@ size rows = 1\n//@ size cols = 1\n//@ input x [rows, cols]\n"
            "//@ output y [rows, cols]" +
                by +
                "\n#include \"kiln/device.h\"\nextern \"C\" __global__ void f(int rows, int cols, const "
                "float* x, float* y) { *y = A * *x; }\n",
            "f.cu");
        Binary none;
        none.kind = BinaryKind::code_object;
        none.entry = "f";
        none.bytes = std::vector<std::byte>(5);
        std::vector<ExportedVariant> exported;
        for (const int a : {2, 3}) exported.push_back({of.variant({{"A", a}}), none});
        return export_c(service, exported, {})[0].text;
    };
    EXPECT_THAT(text_of(""), testing::AllOf(HasSubstr("int kiln_f_A_2(void* kiln_stream, "),
                                            HasSubstr("int kiln_f_A_3(void* kiln_stream, ")));
    EXPECT_THAT(text_of(" by softmax_reference"), HasSubstr("int kiln_f(void* kiln_stream, "));
}

TEST_F(Export, EveryProblemHasAFunction) {
    std::vector<ExportedVariant> exported;
    Service service(options("gfx90a"));
    Binary none;
    none.kind = BinaryKind::code_object;
    none.entry = "softmax";
    none.bytes = std::vector<std::byte>(5);
    for (const char* type : {"half", "float"})
        exported.push_back({service.find("softmax").variant({{"T", type}}), none});
    const auto files = export_c(service, exported, {});
    ASSERT_EQ(files.size(), 2u);
    EXPECT_EQ(files[0].name, "kiln_softmax.h");
    EXPECT_THAT(files[0].text, HasSubstr("int kiln_softmax_T_half(void* kiln_stream, "));
    EXPECT_THAT(files[0].text, HasSubstr("int kiln_softmax_T_float(void* kiln_stream, "));
    for (const ExportedFile& file : files) write_text(path(file.name), file.text);
    // HIP alone compiles too.
    for (const std::vector<std::string>& compiler :
         {std::vector<std::string>{"gcc", "-std=c11"}, {"g++", "-std=c++17", "-x", "c++"}}) {
        auto command = compiler;
        for (const char* word :
             {"-Wall", "-Wextra", "-pedantic", "-Werror", "-c", "kiln_softmax.c", "-o", "softmax.o"})
            command.emplace_back(word);
        expect_runs(command);
    }
    EXPECT_THROW(export_c(service, {}, {}), UsageError);
}

}  // namespace
}  // namespace kiln
