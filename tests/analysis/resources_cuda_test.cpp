// SPDX-License-Identifier: Apache-2.0
//
// What is read from cubins: kernels that hold exactly so many of an instruction, the log against the ELF
// file, and every shipped template against NVIDIA's disassembler where that is installed.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "analysis/ptxas_log.h"
#include "analysis/sass.h"
#include "analysis_support.h"
#include "shared_cache.h"

namespace kiln {
namespace {

using test::count;

constexpr const char* kCudaArchs[] = {"sm_75", "sm_80",  "sm_86",  "sm_89",
                                      "sm_90", "sm_90a", "sm_100", "sm_120"};

int capability(const std::string& arch) { return std::stoi(arch.substr(3)); }

// The line so often, with the number of the repetition in the place of @: what is equal a compiler may merge.
std::string repeated(int times, const std::string& line) {
    std::string text;
    for (int i = 0; i < times; ++i) {
        std::string one = "    " + line + "\n";
        for (std::size_t mark = 0; (mark = one.find('@', mark)) != std::string::npos;)
            one.replace(mark, 1, std::to_string(i));
        text += one;
    }
    return text;
}

// So many of each instruction, none of which a compiler may drop or merge.
std::string counted_kernel() {
    return R"(
extern "C" __global__ void kernel(float* out, const float* in, int at) {
    __shared__ alignas(16) unsigned tile[512];
    const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(tile)) + threadIdx.x * 16;
    unsigned a = 1, b = 2, c = 3, d = 4;
    float x = in[at], y = in[at + 1];
    unsigned h = __float_as_uint(in[at + 2]), k = __float_as_uint(in[at + 3]);
)" +
           repeated(
               3,
               R"(asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(shared));)") +
           repeated(
               5,
               R"(asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(shared));)") +
           repeated(6, R"(asm volatile("ld.volatile.shared.u8 %0, [%1];" : "=r"(c) : "r"(shared));)") +
           repeated(
               2,
               R"(asm volatile("st.volatile.shared.v4.u32 [%4], {%0, %1, %2, %3};" :: "r"(a), "r"(b), "r"(c), "r"(d), "r"(shared));)") +
           repeated(4, R"(asm volatile("st.volatile.shared.u32 [%1], %0;" :: "r"(d), "r"(shared));)") +
           repeated(7, R"(asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(y));)") +
           repeated(9, R"(asm volatile("fma.rn.f16x2 %0, %0, %1, %1;" : "+r"(h) : "r"(k));)") +
           repeated(
               2,
               R"({ unsigned p, q; asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(p), "=r"(q) : "r"(shared + 16 * @)); a += p; b += q; })") +
           repeated(3, R"(asm volatile("bar.sync 1, 64;");)") +
           repeated(
               2,
               R"(asm volatile("st.volatile.global.v4.u32 [%4], {%0, %1, %2, %3};" :: "r"(a), "r"(b), "r"(c), "r"(d), "l"(out));)") +
           R"(
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(shared), "l"(in));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(shared), "l"(in + 4));
    asm volatile("cp.async.wait_all;");
    float e = 0, f = 0, g = 0, i = 0;
)" +
           repeated(
               4,
               R"(asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+f"(e), "+f"(f), "+f"(g), "+f"(i) : "r"(a), "r"(b), "r"(c), "r"(d), "r"(h), "r"(k));)") +
           R"(
    x += e + f + g + i;
#endif
    out[8] = x + y;
    reinterpret_cast<unsigned*>(out)[9] = a + b + c + d + h;
}
)";
}

class CubinOf : public testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        const std::string why = test::why_no_compiler(GetParam());
        KILN_REQUIRE_OR_SKIP("nvrtc", why.empty(), why);
    }
    Binary compile(const std::string& body) const { return test::compile_text(GetParam(), body); }
};

TEST_P(CubinOf, ExactlySoManyInstructions) {
    const Resources found = resources_of(compile(counted_kernel()));
    EXPECT_EQ(count(found, "LDS.128"), 3);
    EXPECT_EQ(count(found, "LDS.64"), 5);
    EXPECT_EQ(count(found, "LDS.U8"), 6);
    EXPECT_EQ(count(found, "STS.128"), 2);
    EXPECT_EQ(count(found, "STS"), 4);
    EXPECT_EQ(count(found, "FFMA"), 7);
    EXPECT_EQ(count(found, "HFMA2"), 9);
    EXPECT_EQ(count(found, "LDSM"), 2);
    EXPECT_EQ(count(found, "BAR"), 3);
    EXPECT_EQ(count(found, "STG.128"), 2);
    EXPECT_EQ(count(found, "LDL") + count(found, "STL"), 0);
    const bool ampere = capability(GetParam()) >= 80;
    EXPECT_EQ(count(found, "LDGSTS"), ampere ? 2 : 0);
    EXPECT_EQ(count(found, "HMMA"), ampere ? 4 : 0);
    int sum = 0;
    for (const auto& [name, times] : found.instructions)
        if (name != "total") sum += times;
    EXPECT_GT(count(found, "total"), sum);
}

// The log and the file's own headers are two accounts of one kernel.
TEST_P(CubinOf, TheLogAndTheFileAgree) {
    const std::string array = R"(
extern "C" __global__ void kernel(float* out, int n) {
    __shared__ float tile[77];
    float values[48];
    for (int i = 0; i < 48; ++i) values[i] = out[i];
    for (int i = 0; i < n; ++i) values[i * n % 48] += values[i % 48];
    tile[threadIdx.x] = values[n % 48];
    __syncthreads();
    out[threadIdx.x] = tile[n];
}
)";
    const std::string plain = "extern \"C\" __global__ void kernel(float* out) { out[threadIdx.x] = 1; }\n";
    for (const std::string& text : {array, plain}) {
        Binary binary = compile(text);
        const Resources told = resources_of(binary);
        ASSERT_TRUE(told.registers && told.spill_bytes && told.static_shared_bytes && told.stack_bytes);
        const bool has_array = text == array;
        EXPECT_EQ(*told.static_shared_bytes, has_array ? 77 * 4 : 0);
        EXPECT_EQ(*told.stack_bytes, has_array ? 48 * 4 : 0);
        EXPECT_EQ(*told.spill_bytes, 0U);
        EXPECT_EQ(count(told, "LDL") > 0, has_array);
        EXPECT_EQ(told.binary_bytes, binary.bytes.size());

        binary.log.clear();
        const Resources read = resources_of(binary);
        EXPECT_EQ(read.registers, told.registers);
        EXPECT_EQ(read.static_shared_bytes, told.static_shared_bytes);
        EXPECT_EQ(read.stack_bytes, told.stack_bytes);
        EXPECT_EQ(read.instructions, told.instructions);
        EXPECT_FALSE(read.spill_bytes) << "only the log tells spills";
    }
}

TEST_P(CubinOf, Spills) {
    const Resources found = resources_of(compile(R"(
extern "C" __global__ void __launch_bounds__(1024, 2) kernel(float* out, const float* in) {
    float values[64];
#pragma unroll
    for (int i = 0; i < 64; ++i) asm volatile("ld.global.f32 %0, [%1];" : "=f"(values[i]) : "l"(in + 32 * i));
#pragma unroll
    for (int i = 0; i < 64; ++i) asm volatile("st.global.f32 [%1], %0;" :: "f"(values[63 - i]), "l"(out + i));
}
)"));
    ASSERT_TRUE(found.registers && found.spill_bytes && found.stack_bytes);
    EXPECT_LE(*found.registers, 64);
    EXPECT_GT(*found.spill_bytes, 0U);
    EXPECT_GT(*found.stack_bytes, 0U);
    EXPECT_GT(count(found, "STL"), 0);
    EXPECT_GT(count(found, "LDL"), 0);
}

// The laboratory's kernel reads as often, and as wide, as it says.
TEST_P(CubinOf, LabReadsWhatItSays) {
    Service service(test::compile_for(GetParam()));
    const std::pair<int, const char*> widths[] = {
        {1, "LDS.U8"}, {2, "LDS.U16"}, {4, "LDS"}, {8, "LDS.64"}, {16, "LDS.128"}};
    for (const auto& [width, name] : widths) {
        const Variant variant = service.find("lab_banks").variant({{"WIDTH", width}, {"PITCH", width}});
        const Resources found = resources_of(service.compile(variant).binary);
        for (const auto& [other, other_name] : widths)
            EXPECT_EQ(count(found, other_name), other == width ? 32 : 0) << width << " " << other_name;
        EXPECT_EQ(found.spill_bytes, 0U);
    }
}

INSTANTIATE_TEST_SUITE_P(, CubinOf, testing::ValuesIn(kCudaArchs),
                         [](const auto& one) { return std::string(one.param); });

TEST(Cubin, HopperInstructions) {
    const std::string why = test::why_no_compiler("sm_90a");
    KILN_REQUIRE_OR_SKIP("nvrtc", why.empty(), why);
    const Resources found = resources_of(test::compile_text(
        "sm_90a",
        R"(
extern "C" __global__ void __launch_bounds__(128) kernel(float* out, unsigned long long a, unsigned long long map) {
    __shared__ alignas(1024) unsigned tile[1024];
    __shared__ unsigned long long barrier;
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(tile));
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
    float c[4] = {};
    asm volatile("wgmma.fence.sync.aligned;");
)" +
            repeated(
                3,
                R"(asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %4, 1, 1, 1, 0, 0;" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "l"(a + @));)") +
            R"(
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;");
)" +
            repeated(
                2,
                R"(asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2}], [%3];" :: "r"(to), "l"(map), "r"(0), "r"(at) : "memory");)") +
            R"(
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %1}], [%2];" :: "l"(map), "r"(0), "r"(to) : "memory");
    for (int i = 0; i < 4; ++i) out[i] = c[i];
}
)"));
    EXPECT_EQ(count(found, "HGMMA"), 3);
    EXPECT_EQ(count(found, "UTMALDG"), 2);
    EXPECT_EQ(count(found, "UTMASTG"), 1);
}

// What NVIDIA's own disassembler finds, by the names of Resources::instructions.
std::optional<test::Counts> nvdisasm_counts(const Binary& binary) {
    static const auto program = test::find_program({"nvdisasm", "/usr/local/cuda/bin/nvdisasm"});
    if (!program) return std::nullopt;
    const auto text = test::disassembly({*program, "-c"}, binary);
    if (!text) return std::nullopt;
    static const std::set<std::string> plain = {
        "FFMA",   "FFMA2", "DFMA",  "HFMA2", "MUFU", "HMMA",    "IMMA",    "DMMA",   "QMMA",    "HGMMA",
        "IGMMA",  "BGMMA", "QGMMA", "LDSM",  "STSM", "ATOMS",   "SYNCS",   "LDGSTS", "UTMALDG", "UTMASTG",
        "UBLKCP", "LDL",   "STL",   "BAR",   "SHFL", "UTCHMMA", "UTCIMMA", "UTCQMMA"};
    static const std::set<std::string> wide = {"LDS", "STS", "LDG", "STG"};
    test::Counts counts;
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
        // "        /*0010*/              @!P0 LDS.U.128 R4, [R0] ;"
        const std::size_t mark = line.find("*/");
        if (line.find_first_not_of(' ') == std::string::npos ||
            line.find("/*") != line.find_first_not_of(' ') || mark == std::string::npos ||
            line.find(';') == std::string::npos)
            continue;
        std::istringstream words(line.substr(mark + 2));
        std::string word;
        words >> word;
        if (word.starts_with('@')) words >> word;
        if (word.ends_with(';')) word.pop_back();
        std::istringstream parts(word);
        std::string name, part;
        std::getline(parts, name, '.');
        if (name == "NOP") continue;
        ++counts["total"];
        if (plain.contains(name)) ++counts[name];
        if (!wide.contains(name)) continue;
        while (std::getline(parts, part, '.'))
            for (const char* width : {"U8", "S8", "U16", "S16", "64", "128", "256"})
                if (part == width) name += "." + part;
        ++counts[name];
    }
    return counts;
}

class Disassembler : public testing::TestWithParam<const char*> {};

TEST_P(Disassembler, AgreesOnEveryTemplate) {
    const std::string arch = GetParam();
    const std::string why = test::why_no_compiler(arch);
    KILN_REQUIRE_OR_SKIP("nvrtc", why.empty(), why);
    const Binary first = test::compile_text(arch, counted_kernel());
    const auto counts = nvdisasm_counts(first);
    KILN_REQUIRE_OR_SKIP("nvdisasm", counts.has_value(), "no nvdisasm that knows " + arch + " is installed");
    EXPECT_EQ(resources_of(first).instructions, *counts);
    ServiceOptions options = test::compile_for(arch);
    options.cache = {};
    options.cache.directory = test::shared_cache();
    Service service(options);
    int compared = 0;
    for (const Template& each : service.templates()) {
        const auto& backends = each.backends();
        const auto& archs = each.archs();
        if (std::ranges::find(backends, Backend::cuda) == backends.end() ||
            (!archs.empty() && std::ranges::find(archs, arch) == archs.end()))
            continue;
        try {
            const Binary binary = service.compile(each.variant()).binary;
            EXPECT_EQ(resources_of(binary).instructions, *nvdisasm_counts(binary)) << each.name();
            ++compared;
        } catch (const VariantError&) {
            // Its defaults need a larger device.
        } catch (const BuildError& error) {
            // That it compiles is held by tests/compile.
            std::cerr << each.name() << ": " << error.what() << "\n";
        }
    }
    EXPECT_GE(compared, 3);
}

INSTANTIATE_TEST_SUITE_P(, Disassembler,
                         testing::Values("sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120"),
                         [](const auto& one) { return std::string(one.param); });

// Operations that depend on the architecture or on further bits, as ptxas 13.0 encodes them.
TEST(Sass, WordsOfOneInstruction) {
    const auto counted = [](int capability, std::uint64_t low, std::uint64_t high) {
        const std::uint64_t words[] = {low, high};
        auto counts = count_sass(std::as_bytes(std::span(words)), capability);
        counts.erase("total");
        return counts;
    };
    constexpr std::uint64_t kHfma2Mma = 0x3c003c010f177835, kIadd = 0x00000004100c7835;
    EXPECT_EQ(counted(80, kHfma2Mma, 0x008fe20000000012), (test::Counts{{"HFMA2", 1}}));
    EXPECT_EQ(counted(120, kIadd, 0x002fc800078e0200), test::Counts()) << "IADD.64";
    constexpr std::uint64_t kUtcMma = 0x00ff04100e0075ea;
    EXPECT_EQ(counted(100, kUtcMma, 0x0001d8000b800008), (test::Counts{{"UTCHMMA", 1}}));
    EXPECT_EQ(counted(100, kUtcMma, 0x0001d8000b800108), (test::Counts{{"UTCIMMA", 1}}));
    EXPECT_EQ(counted(103, kUtcMma, 0x0001d8000b800308), (test::Counts{{"UTCQMMA", 1}}));
    EXPECT_EQ(counted(120, 0xfe000004020c797e, 0x000ea80008121910), (test::Counts{{"LDG.256", 1}}));
    EXPECT_EQ(counted(89, 0x000000080404727a, 0x004ff60000002cff), (test::Counts{{"QMMA", 1}}));
    EXPECT_EQ(counted(75, 0x0000000000007918, 0x000fc00000000000), test::Counts()) << "NOP";
}

TEST(PtxasLog, OneKernelOfSeveral) {
    const std::string log =
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Compiling entry function 'other' for 'sm_90a'\n"
        "ptxas info    : Function properties for other\n"
        "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 10 registers, used 0 barriers, 20 bytes smem\n"
        "ptxas info    : Compiling entry function 'other_k' for 'sm_90a'\n"
        "ptxas info    : Function properties for callee\n"
        "    512 bytes stack frame, 1 bytes spill stores, 1 bytes spill loads\n"
        "ptxas info    : Function properties for other_k\n"
        "    128 bytes stack frame, 24 bytes spill stores, 36 bytes spill loads\n"
        "ptxas info    : Used 41 registers, 640 bytes cumulative stack size, 1024 bytes smem, 364 bytes "
        "cmem[0]\n";
    const auto other = ptxas_usage(log, "other");
    ASSERT_TRUE(other);
    EXPECT_EQ(other->registers, 10);
    EXPECT_EQ(other->shared_bytes, 20U);
    EXPECT_EQ(other->stack_bytes, 0U);
    const auto second = ptxas_usage(log, "other_k");
    ASSERT_TRUE(second);
    EXPECT_EQ(second->registers, 41);
    EXPECT_EQ(second->shared_bytes, 1024U);
    EXPECT_EQ(second->stack_bytes, 640U);
    EXPECT_EQ(second->spill_bytes, 60U);
    EXPECT_FALSE(ptxas_usage(log, "third"));
    EXPECT_FALSE(ptxas_usage(log.substr(0, log.size() / 2), "other_k"));
    EXPECT_FALSE(ptxas_usage("", "other"));
}

}  // namespace
}  // namespace kiln
