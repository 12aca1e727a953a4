// SPDX-License-Identifier: Apache-2.0
//
// Pages of profilers, and running one that works, rejects counters, may not, crashes, hangs or says nothing.
#include <gmock/gmock.h>
#include <kiln/error.h>

#include <fstream>

#include "inspect/profile_page.h"
#include "inspect/profile_tools.h"
#include "profile_support.h"
#include "scoped_variable.h"

namespace kiln::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(ProfilePage, OfNsightComputeIsReadWithItsUnits) {
    std::vector<std::string> notes;
    const auto launches = read_profile_page(recorded_page(), &notes);
    ASSERT_EQ(launches.size(), 3u);
    EXPECT_THAT(notes, IsEmpty());
    const Measured& first = launches[0];
    EXPECT_EQ(first.kernel, "transpose_tiled");
    EXPECT_EQ(first.process, 2559u);
    EXPECT_EQ(first.shared_wavefronts, 50688);
    EXPECT_EQ(first.shared_ideal, 3072);
    EXPECT_EQ(first.load_wavefronts, 49152);  // with its thousands separated
    EXPECT_EQ(first.store_wavefronts, 1536);
    EXPECT_EQ(first.shared_loads, 1536);
    EXPECT_EQ(first.global_sectors, 12288);
    EXPECT_EQ(first.global_ideal, 12288);
    EXPECT_NEAR(first.warps_active.value(), 0.1209623, 1e-9);
    EXPECT_EQ(first.registers, 32);
    EXPECT_EQ(first.shared_bytes, 4096u);                    // told in Kbyte
    EXPECT_NEAR(first.elapsed_ms.value(), 0.003712, 1e-12);  // told in us
    EXPECT_EQ(first.blocks(), 8);
    EXPECT_EQ(first.blocks_by_shared, 20);
    EXPECT_NEAR(first.excess().value(), 15.5, 1e-12);
    EXPECT_EQ(launches[2].kernel, "gemm_tiled");
    EXPECT_EQ(launches[2].shared_bytes, 8256u);
    EXPECT_EQ(launches[2].excess(), 0);
}

TEST(ProfilePage, StandsAmongOtherLines) {
    const std::string text = "==PROF== Connected to process 1 (/usr/bin/kiln)\ngemm  PASS\n" +
                             recorded_page() + "==PROF== Disconnected\n\"not a row\n";
    EXPECT_EQ(read_profile_page(text).size(), 3u);
}

TEST(ProfilePage, HasGapsAndOtherUnits) {
    const auto launches = read_profile_page(
        "\"ID\",\"Process ID\",\"Kernel Name\",\"memory_l1_wavefronts_shared\",\"gpu__time_duration.sum\","
        "\"launch__shared_mem_per_block_static\",\"launch__shared_mem_per_block_dynamic\","
        "\"launch__registers_per_thread\",\"sm__warps_active.avg.pct_of_peak_sustained_active\"\r\n"
        "\"\",\"\",\"\",\"\",\"nsecond\",\"byte/block\",\"byte/block\",\"register/thread\",\"%\"\r\n"
        "\"0\",\"7\",\"scale(int, float *)\",\"n/a\",\"2,500\",\"0\",\"8,256\",\"(1; 2)\",\"50.0 (1; "
        "2)\"\r\n");
    ASSERT_EQ(launches.size(), 1u);
    EXPECT_EQ(launches[0].kernel, "scale");
    EXPECT_FALSE(launches[0].shared_wavefronts);
    EXPECT_FALSE(launches[0].shared_ideal);  // not even a column
    EXPECT_FALSE(launches[0].excess());
    EXPECT_FALSE(launches[0].registers);
    EXPECT_FALSE(launches[0].blocks());
    EXPECT_NEAR(launches[0].elapsed_ms.value(), 0.0025, 1e-12);
    EXPECT_EQ(launches[0].shared_bytes, 8256u);
    EXPECT_EQ(launches[0].warps_active, 0.5);
}

TEST(ProfilePage, ThatIsCutShortGivesTheWholeRows) {
    std::string text = recorded_page();
    text.resize(text.size() - 100);
    std::vector<std::string> notes;
    EXPECT_EQ(read_profile_page(text, &notes).size(), 2u);
    EXPECT_THAT(notes, ElementsAre(HasSubstr("is incomplete")));
}

TEST(ProfilePage, WithoutATableIsEmpty) {
    for (const char* text :
         {"", "\n\n", "==ERROR== no\n", "\"ID\",\"Kernel Name\"\n", "Index,KernelName,gpu-id\n"})
        EXPECT_THAT(read_profile_page(text), IsEmpty()) << text;
}

TEST(ProfilePage, OfRocprofv3HasARowPerCounter) {
    const std::string head =
        "\"Correlation_Id\",\"Dispatch_Id\",\"Agent_Id\",\"Queue_Id\",\"Process_Id\",\"Thread_Id\",\"Grid_"
        "Size\","
        "\"Kernel_Id\",\"Kernel_Name\",\"Workgroup_Size\",\"LDS_Block_Size\",\"Scratch_Size\",\"VGPR_Count\","
        "\"Accum_VGPR_Count\",\"SGPR_Count\",\"Counter_Name\",\"Counter_Value\",\"Start_Timestamp\","
        "\"End_Timestamp\"\n";
    const auto row = [](int dispatch, const char* kernel, const char* counter, const char* value) {
        return "1," + std::to_string(dispatch) + ",\"Agent 4\",1,77,77,1024,9,\"" + kernel +
               "\",256,8448,0,40,8,32,\"" + counter + "\"," + value + ",1000,4000\n";
    };
    const auto launches = read_profile_page(
        head + row(1, "gemm_tiled.kd", "SQ_LDS_BANK_CONFLICT", "500.000000") +
        row(1, "gemm_tiled.kd", "SQ_LDS_IDX_ACTIVE", "10500") +
        row(2, "fill(float*, int)", "SQ_LDS_IDX_ACTIVE", "0") + row(1, "gemm_tiled.kd", "SQ_WAVES", "64") +
        row(1, "gemm_tiled.kd", "OccupancyPercent", "2.5e+01"));
    ASSERT_EQ(launches.size(), 2u);
    EXPECT_EQ(launches[0].kernel, "gemm_tiled");
    EXPECT_EQ(launches[0].process, 77u);
    EXPECT_EQ(launches[0].registers, 48);
    EXPECT_EQ(launches[0].shared_bytes, 8448u);
    EXPECT_EQ(launches[0].waves, 64);
    EXPECT_EQ(launches[0].warps_active, 0.25);
    EXPECT_NEAR(launches[0].excess().value(), 0.05, 1e-12);
    EXPECT_NEAR(launches[0].elapsed_ms.value(), 0.003, 1e-12);
    EXPECT_EQ(launches[1].kernel, "fill");
    EXPECT_FALSE(launches[1].excess());
}

TEST(ProfilePage, OfRocprofHasARowPerLaunch) {
    const auto launches = read_profile_page(
        "RPL: on '221130' from '/opt/rocm' in '/tmp'\n"
        "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,arch_vgpr,accum_vgpr,sgpr,wave_"
        "size,sig,"
        "obj,SQ_WAVES,SQ_LDS_IDX_ACTIVE,SQ_LDS_BANK_CONFLICT\n"
        "0,\"gemm_tiled [clone "
        ".kd]\",0,0,0,5,6,1024,256,8704,0,20,4,16,64,0x0,0x7f2b,16.0000,1000.0000,0.0000\n");
    ASSERT_EQ(launches.size(), 1u);
    EXPECT_EQ(launches[0].kernel, "gemm_tiled");
    EXPECT_EQ(launches[0].registers, 24);
    EXPECT_EQ(launches[0].waves, 16);
    EXPECT_EQ(launches[0].excess(), 0);
}

TEST(ProfilePage, CsvHasQuotesCommasAndDoubledQuotes) {
    EXPECT_THAT(parse_csv("a,\"b,c\",\"d\"\"e\"\n\n1,,\"\"\nx"),
                ElementsAre(ElementsAre("a", "b,c", "d\"e"), ElementsAre("1", "", ""), ElementsAre("x")));
}

ProfileRequest transposing() {
    ProfileRequest request;
    request.command = {"/bin/kiln", "run", "transpose_tiled", "T=float", "a b"};
    request.kernel = "transpose_tiled";
    request.timeout = std::chrono::seconds(20);
    return request;
}

std::string error_of(const FakeTool& tool, const ProfileRequest& request = transposing()) {
    try {
        run_profiler(tool.profiler(), request);
    } catch (const DeviceError& error) {
        EXPECT_EQ(error.call(), name(tool.profiler().tool));
        return error.what();
    }
    ADD_FAILURE() << "no error";
    return {};
}

TEST(RunProfiler, RunsTheCommandItselfAndReadsThePage) {
    const FakeTool tool(ProfileTool::ncu,
                        "echo ==PROF== Connected\ncat \"$PAGE\"\necho ==PROF== Disconnected");
    const ProfileResult result = run_profiler(tool.profiler(), transposing());
    EXPECT_EQ(result.version, "2025.3.1.0");
    EXPECT_EQ(result.launches.size(), 2u) << "the product is not what was asked for";
    EXPECT_THAT(result.notes, IsEmpty());
    EXPECT_EQ(read_profile_page(result.page).size(), 3u);
    EXPECT_THAT(result.page, Not(HasSubstr("==PROF==")));
    // No shell between: an argument with a space is still one.
    EXPECT_THAT(
        tool.arguments(),
        AllOf(HasSubstr("--csv\n--page\nraw\n"), HasSubstr("--clock-control\nnone\n"),
              HasSubstr("--kernel-name\ntranspose_tiled\n"),
              HasSubstr("--metrics\nmemory_l1_wavefronts_shared,memory_l1_wavefronts_shared_ideal,"),
              HasSubstr("/bin/kiln\nrun\ntranspose_tiled\nT=float\na b\n"), Not(HasSubstr("excessive"))));
}

TEST(RunProfiler, LeavesOutWhatAVersionRejects) {
    // Each run complains of one, as patterns with and without their dots escaped; the third is content.
    const FakeTool tool(ProfileTool::ncu,
                        "case \"$*\" in\n"
                        "*shared_ideal*) echo '==ERROR== Failed to find metric "
                        "regex:^memory_l1_wavefronts_shared_ideal$' >&2; exit 1 ;;\n"
                        "*warps_active*) echo '==ERROR== Failed to find metric "
                        "regex:^sm__warps_active\\.(avg|max|min|sum)$'; exit 1 ;;\n"
                        "esac\ncat \"$PAGE\"");
    const ProfileResult result = run_profiler(tool.profiler(), transposing());
    EXPECT_EQ(result.launches.size(), 2u);
    EXPECT_THAT(
        result.notes,
        ElementsAre("ncu 2025.3.1.0 does not know memory_l1_wavefronts_shared_ideal; it was left out.",
                    "ncu 2025.3.1.0 does not know sm__warps_active.avg.pct_of_peak_sustained_active; it "
                    "was left out."));
}

TEST(RunProfiler, GivesUpWhenEverythingIsRejected) {
    const FakeTool tool(ProfileTool::ncu,
                        "echo \"==ERROR== Failed to find metric regex:^$(echo \"$*\" | sed "
                        "'s/.*--metrics \\([^ ,]*\\).*/\\1/')\"; exit 1");
    EXPECT_THAT(error_of(tool), HasSubstr("exited with status 1"));
}

TEST(RunProfiler, SaysWhatToDoWithoutTheRight) {
    const FakeTool tool(
        ProfileTool::ncu,
        "echo '==PROF== Connected to process 12'\n"
        "echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
        "Performance Counters on the target device 0.'\nexit 1");
    const std::string text = error_of(tool);
    EXPECT_THAT(text, AllOf(HasSubstr("ERR_NVGPUCTRPERM"), HasSubstr("CAP_SYS_ADMIN"),
                            HasSubstr("NVreg_RestrictProfilingToAdminUsers=0"), HasSubstr("administrator"),
                            HasSubstr("--cap-add=SYS_ADMIN")));
    EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
}

TEST(RunProfiler, ACrashIsReported) {
    EXPECT_THAT(error_of(FakeTool(ProfileTool::ncu, "echo half a word >&2\nkill -SEGV $$")),
                AllOf(HasSubstr("killed by signal 11"), HasSubstr("half a word")));
    EXPECT_THAT(error_of(FakeTool(ProfileTool::ncu, "echo 'kiln: no such template' >&2\nexit 2")),
                AllOf(HasSubstr("exited with status 2"), HasSubstr("kiln: no such template")));
}

TEST(RunProfiler, OneThatHangsIsEnded) {
    ProfileRequest request = transposing();
    request.timeout = std::chrono::milliseconds(300);
    EXPECT_THAT(error_of(FakeTool(ProfileTool::ncu, "sleep 30"), request),
                AllOf(HasSubstr("ran longer than"), HasSubstr("smaller sizes")));
}

TEST(RunProfiler, AStopRequestEndsIt) {
    std::stop_source stop;
    stop.request_stop();
    ProfileRequest request = transposing();
    request.stop = stop.get_token();
    EXPECT_THAT(error_of(FakeTool(ProfileTool::ncu, "sleep 30"), request), HasSubstr("stopped"));
}

TEST(RunProfiler, SilenceAndOtherKernelsAreReported) {
    EXPECT_THAT(error_of(FakeTool(ProfileTool::ncu, "")),
                AllOf(HasSubstr("saw no launch of transpose_tiled"), HasSubstr("printed nothing")));
    ProfileRequest request = transposing();
    request.kernel = "softmax";
    EXPECT_THAT(
        error_of(FakeTool(ProfileTool::ncu, "cat \"$PAGE\"\necho '==WARNING== No kernels were profiled.'"),
                 request),
        AllOf(HasSubstr("saw no launch of softmax"), HasSubstr("No kernels were profiled")));
    request.command.clear();
    EXPECT_THROW(run_profiler({ProfileTool::ncu, "/bin/true"}, request), UsageError);
    EXPECT_THROW(run_profiler({ProfileTool::ncu, "/nowhere/ncu"}, transposing()), DeviceError);
}

TEST(RunProfiler, APageIsUsedWhateverComesAfterIt) {
    const FakeTool tool(ProfileTool::ncu, "cat \"$PAGE\"\nexit 1");
    const ProfileResult result = run_profiler(tool.profiler(), transposing());
    EXPECT_EQ(result.launches.size(), 2u);
    EXPECT_THAT(result.notes, ElementsAre(HasSubstr("exited with status 1, after it had measured")));
}

constexpr const char* kRocprofPage =
    "\"Correlation_Id\",\"Dispatch_Id\",\"Process_Id\",\"Kernel_Name\",\"LDS_Block_Size\",\"VGPR_Count\","
    "\"Counter_Name\",\"Counter_Value\"";

TEST(RunProfiler, Rocprofv3WritesItsPageIntoAFolder) {
    // It ends well and writes nothing when a counter is unknown.
    const FakeTool tool(ProfileTool::rocprofv3,
                        "case \"$*\" in *OccupancyPercent*) exit 0 ;; esac\n"
                        "while [ $# -gt 0 ]; do [ \"$1\" = --output-directory ] && folder=$2; shift; done\n"
                        "mkdir -p \"$folder/pass_1\"\n"
                        "printf '%s\\n' '" +
                            std::string(kRocprofPage) +
                            "' '1,1,7,\"transpose_tiled\",4096,32,\"SQ_LDS_BANK_CONFLICT\",300' "
                            "'1,1,7,\"transpose_tiled\",4096,32,\"SQ_LDS_IDX_ACTIVE\",400' "
                            ">\"$folder/pass_1/kiln_counter_collection.csv\"");
    const ProfileResult result = run_profiler(tool.profiler(), transposing());
    ASSERT_EQ(result.launches.size(), 1u);
    EXPECT_EQ(result.launches[0].excess(), 3);
    EXPECT_THAT(result.notes, ElementsAre(HasSubstr("OccupancyPercent")));
    EXPECT_THAT(
        tool.arguments(),
        AllOf(HasSubstr("--pmc\nSQ_LDS_BANK_CONFLICT\nSQ_LDS_IDX_ACTIVE\nSQ_WAVES\n"),
              HasSubstr("--output-format\ncsv\n"), HasSubstr("--\n/bin/kiln\nrun\ntranspose_tiled\n")));
}

TEST(RunProfiler, RocprofReadsItsCountersFromAFile) {
    const FakeTool tool(
        ProfileTool::rocprof,
        "[ \"$1\" = -i ] && [ \"$3\" = -o ] || exit 7\n"
        "grep -q '^pmc: SQ_LDS_BANK_CONFLICT SQ_LDS_IDX_ACTIVE SQ_WAVES' \"$2\" || exit 8\n"
        "printf '%s\\n' 'Index,KernelName,pid,lds,vgpr,SQ_LDS_BANK_CONFLICT,SQ_LDS_IDX_ACTIVE' "
        "'0,\"transpose_tiled.kd\",3,4096,32,0,400' >\"$4\"");
    const ProfileResult result = run_profiler(tool.profiler(), transposing());
    ASSERT_EQ(result.launches.size(), 1u);
    EXPECT_EQ(result.launches[0].excess(), 0);
    EXPECT_EQ(result.launches[0].registers, 32);
}

TEST(FindProfiler, LooksInPathFirst) {
    const FakeTool in_path(ProfileTool::ncu, ""), elsewhere(ProfileTool::ncu, "");
    const std::filesystem::path further[] = {elsewhere.folder()};
    {
        const ScopedVariable path("PATH", "/nowhere:" + in_path.folder().string());
        EXPECT_EQ(find_profiler_in(ProfileTool::ncu, further)->program, in_path.profiler().program);
        EXPECT_EQ(find_profiler(Backend::cuda)->program, in_path.profiler().program);
        EXPECT_FALSE(find_profiler_in(ProfileTool::rocprof, further));
    }
    const ScopedVariable path("PATH", "/nowhere");
    EXPECT_EQ(find_profiler_in(ProfileTool::ncu, further)->program, elsewhere.profiler().program);
    EXPECT_FALSE(find_profiler_in(ProfileTool::ncu, {}));
    // What can't be started is none.
    std::filesystem::permissions(elsewhere.profiler().program, std::filesystem::perms::owner_read);
    EXPECT_FALSE(find_profiler_in(ProfileTool::ncu, further));
}

TEST(FindProfiler, PrefersTheLatestVersion) {
    const TemporaryDirectory root;
    for (const char* folder :
         {"usr/local/cuda-9.2/bin", "usr/local/cuda-13.0/bin", "usr/local/cuda-12.8/bin",
          "opt/nvidia/nsight-compute/2024.3.2", "opt/nvidia/nsight-compute/2025.10.0",
          "opt/nvidia/nsight-compute/2025.3.1", "opt/rocm-6.4.0/bin", "opt/rocm-10.0.0/bin"})
        std::filesystem::create_directories(root.path() / folder);
    const ScopedVariable home("CUDA_HOME", "/a/toolkit"), path("CUDA_PATH", "");
    std::vector<std::string> found;
    for (const auto& directory : profiler_directories(ProfileTool::ncu, root.path()))
        found.push_back(directory.lexically_relative(root.path()).string());
    // A folder without a name below behaves as one with.
    for (std::string& one : found)
        if (one.ends_with("/.") || one.ends_with('/')) one.erase(one.find_last_not_of("/.") + 1);
    EXPECT_EQ(std::filesystem::path(found.at(0)).filename(), "bin");
    found.erase(found.begin());
    EXPECT_THAT(found,
                ElementsAre("usr/local/cuda-13.0/bin", "usr/local/cuda-12.8/bin", "usr/local/cuda-9.2/bin",
                            "opt/nvidia/nsight-compute/2025.10.0", "opt/nvidia/nsight-compute/2025.3.1",
                            "opt/nvidia/nsight-compute/2024.3.2"));
    const auto rocm = profiler_directories(ProfileTool::rocprofv3, root.path());
    ASSERT_EQ(rocm.size(), 2u);
    EXPECT_EQ(rocm[0], root.path() / "opt/rocm-10.0.0/bin");
}

TEST(FindProfiler, RejectsWhatIsNotTheBackends) {
    EXPECT_THROW(find_profiler(Backend::host), UsageError);
    EXPECT_THROW(find_profiler(Backend::cuda, ProfileTool::rocprof), UsageError);
    EXPECT_THROW(find_profiler(Backend::hip, ProfileTool::ncu), UsageError);
    EXPECT_THAT(why_no_profiler(Backend::cuda), AllOf(HasSubstr("ncu"), HasSubstr("cuda-nsight-compute")));
    EXPECT_THAT(why_no_profiler(Backend::hip), AllOf(HasSubstr("rocprofv3"), HasSubstr("rocprofiler-sdk")));
}

}  // namespace
}  // namespace kiln::test
