#include "analysis/statistics/delimited_text.hpp"
#include "analysis/tables/side_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "made_trace.hpp"

namespace nsys_explain::analysis {
namespace {

using ::testing::HasSubstr;
using testing::integer_at;
using testing::MadeTrace;
using testing::row_with;

double real_at(const Table& table, std::string_view name, std::size_t row) {
  return column<double>(table, name).at(row);
}

template <class Parse>
std::string problem(const Parse& parse, std::string_view text) {
  try {
    parse(text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(GpuPeaks, AreFoundByTheGpusName) {
  const PeakTable table;
  EXPECT_EQ(table.find("NVIDIA A100-SXM4-40GB")->bandwidth_gbs, 1555);
  EXPECT_EQ(table.find("NVIDIA A100-SXM4-80GB")->bandwidth_gbs, 2039);
  EXPECT_EQ(table.find("NVIDIA A100 80GB PCIe")->bandwidth_gbs, 1935);
  EXPECT_EQ(table.find("NVIDIA H100 80GB HBM3")->multiprocessors, 132);
  EXPECT_EQ(table.find("NVIDIA H100 PCIe")->multiprocessors, 114);
  EXPECT_EQ(table.find("NVIDIA A10")->bandwidth_gbs, 600);
  EXPECT_EQ(table.find("NVIDIA TITAN RTX")->threads_per_multiprocessor, 1024);
  // What exports of these GPUs hold themselves (TARGET_INFO_GPU: memoryBandwidth, smCount, maxBlocksPerSm,
  // maxWarpsPerSm).
  EXPECT_EQ(table.find("NVIDIA A100-SXM4-80GB")->bandwidth_gbs, 2039);
  EXPECT_EQ(table.find("NVIDIA H100 80GB HBM3")->bandwidth_gbs, 3352);
  EXPECT_EQ(table.find("NVIDIA TITAN RTX")->bandwidth_gbs, 672);
  EXPECT_EQ(table.find("NVIDIA TITAN RTX")->blocks_per_multiprocessor, 16);
  // Nobody's figure stands for a GPU for which public ones disagree.
  EXPECT_EQ(table.find("NVIDIA A10G")->fp16_tflops, 0);
  EXPECT_EQ(table.find("NVIDIA A10G")->bandwidth_gbs, 600);
  EXPECT_FALSE(table.find("NVIDIA B100"));
  EXPECT_FALSE(table.find("NVIDIA GeForce 9800"));
  EXPECT_FALSE(table.find(""));
}

TEST(GpuPeaks, TheUsersComeFirstAndKeepWhatTheyDoNotTell) {
  const PeakTable table = parse_gpu_peaks("# ours\nfp16=900 bandwidth=3000 H100\nbandwidth=500.5 My GPU\n");
  const auto h100 = table.find("NVIDIA H100 80GB HBM3");
  EXPECT_EQ(h100->fp16_tflops, 900);
  EXPECT_EQ(h100->bandwidth_gbs, 3000);
  EXPECT_EQ(h100->fp8_tflops, 1978.9);
  EXPECT_EQ(table.find("my-gpu 3")->bandwidth_gbs, 500.5);
  EXPECT_THAT(problem(parse_gpu_peaks, "fp16=900"), HasSubstr("line 1 of the GPU peaks names no GPU"));
  EXPECT_THAT(problem(parse_gpu_peaks, "\nfp17=900 X"), HasSubstr("line 2 of the GPU peaks has the unknown key"));
  EXPECT_THAT(problem(parse_gpu_peaks, "fp16=fast X"), HasSubstr("no number above 0"));
}

/// As the exports of these GPUs have it; an RTX 3060 is in no list of ours.
TEST(GpuPeaks, WhatTheExportTellsStandsBetweenTheUsersAndOurs) {
  const GpuLimits rtx3060{360'048'000'000, 28, 1536, 16, 102400, 8};
  const auto unknown = PeakTable().find("NVIDIA GeForce RTX 3060", rtx3060);
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->fp16_tflops, 0);
  EXPECT_DOUBLE_EQ(unknown->bandwidth_gbs, 360.048);
  EXPECT_EQ(theoretical_occupancy(*unknown, 512, 32, 0)->percent, 100);  // 3 blocks of 16 warps
  const GpuLimits exported{3'000'000'000'000, 100, 2048, 32, 233472, 9};
  const auto h100 = PeakTable().find("NVIDIA H100 80GB HBM3", exported);
  EXPECT_EQ(h100->bandwidth_gbs, 3000);
  EXPECT_EQ(h100->multiprocessors, 100);
  EXPECT_EQ(h100->fp16_tflops, 989.4);
  EXPECT_EQ(parse_gpu_peaks("bandwidth=2000 H100").find("NVIDIA H100 80GB HBM3", exported)->bandwidth_gbs, 2000);
  // A GTX 1060's export leaves the number of blocks 0: then nothing is said of occupancy.
  const auto gtx1060 = PeakTable().find("GeForce GTX 1060", {192'192'000'000, 10, 2048, 0, 98304, 6});
  EXPECT_FALSE(theoretical_occupancy(*gtx1060, 256, 32, 0));
}

/// By CUDA's occupancy rules, worked out by hand for 2048 threads, 32 blocks, 65,536 registers and 164 KB (A100).
TEST(Occupancy, IsLimitedByWhatRunsOutFirst) {
  const GpuPeaks a100 = *PeakTable().find("NVIDIA A100-SXM4-40GB");
  const auto full = theoretical_occupancy(a100, 256, 32, 0);  // 8 blocks of 8 warps
  EXPECT_EQ(full->percent, 100);
  EXPECT_EQ(full->limit, "threads");
  const auto small = theoretical_occupancy(a100, 32, 32, 0);  // 32 blocks of one warp
  EXPECT_EQ(small->percent, 50);
  EXPECT_EQ(small->limit, "blocks");
  // 128 registers: 4096 a warp, 16 warps at once; 2 blocks of 8 warps.
  const auto registers = theoretical_occupancy(a100, 256, 128, 0);
  EXPECT_EQ(registers->blocks, 2);
  EXPECT_EQ(registers->percent, 25);
  EXPECT_EQ(registers->limit, "registers");
  // 48 KB + 1 KB: 3 blocks fit into 164 KB.
  const auto shared = theoretical_occupancy(a100, 256, 32, 49152);
  EXPECT_EQ(shared->blocks, 3);
  EXPECT_EQ(shared->percent, 37.5);
  EXPECT_EQ(shared->limit, "shared memory");
  EXPECT_FALSE(theoretical_occupancy(a100, 0, 32, 0));
  EXPECT_FALSE(theoretical_occupancy({}, 256, 32, 0));
  // Of rows that hold anything: more than any GPU has.
  EXPECT_FALSE(theoretical_occupancy(a100, 256, 1 << 27, 0));
  EXPECT_FALSE(theoretical_occupancy(a100, 256, 32, 2'147'483'647));
  EXPECT_FALSE(theoretical_occupancy(a100, 2'147'483'647, 32, 0));
}

constexpr const char* cublas_log =
    R"(I! cuBLAS (v12.3) function cublasStatus_t cublasGemmEx(cublasHandle_t, int) called:
i!  handle: type=cublasHandle_t; val=POINTER (IN HEX:0x0xb850e50)
i!  transa: type=cublasOperation_t; val=CUBLAS_OP_T(1)
i!  m: type=int; val=1000
i!  n: type=int; val=200
i!  k: type=int; val=50
i!  Atype: type=cudaDataType_t; val=CUDA_R_16BF(14)
i!  computeType: type=cublasComputeType_t; val=CUBLAS_COMPUTE_32F(68)
i! Time: 2026-01-01T07:13:36 elapsed from start 0.033333 minutes or 2.000000 seconds
i!Process=100; Thread=140220191823680; GPU=0; Handle=POINTER (IN HEX:0x(nil))
I! cuBLAS (v12.3) function cublasStatus_t cublasSetStream_v2(cublasHandle_t, cudaStream_t) called:
i!Process=100; Thread=140220191823680; GPU=0
[2026-01-01 07:13:36][cublasLt][100][Trace][cublasLtMatmul] A=0x1 Adesc=[type=R_16F rows=64 cols=100 ld=64] B=0x2 Bdesc=[type=R_16F rows=64 cols=300 ld=64] C=0x3 Cdesc=[type=R_16F rows=100 cols=300 ld=100] D=0x3 Ddesc=[type=R_16F rows=100 cols=300 ld=100] computeDesc=[computeType=COMPUTE_32F scaleType=R_32F transa=OP_T] algo=[x]
[2026-01-01 07:13:36][cublasLt][100][Api][cublasLtCreate] handle=0x1
I! cuBLAS (v12.3) function cublasStatus_t cublasSgemm_v2(cublasHandle_t, int) called:
i!  m: type=int; val=10
i!  n: type=int; val=10
i!  k: type=int; val=10
i!Process=100; Thread=140220191823680; GPU=0
)";

TEST(CublasLog, MultiplicationsAreTwoMnk) {
  const GemmLog log = parse_cublas_log(cublas_log);
  ASSERT_EQ(log.size(), 1U);
  const auto& types = log.at(100);
  EXPECT_EQ(types.at("fp16").calls, 2);
  EXPECT_EQ(types.at("fp16").flops, 2.0 * 1000 * 200 * 50 + 2.0 * 100 * 300 * 64);
  EXPECT_EQ(types.at("fp32").flops, 2000);
  EXPECT_THAT(problem(parse_cublas_log, "hello\n"), HasSubstr("CUBLAS_LOGINFO_DBG=1"));
}

// The shapes of lines that cuBLAS 13 and CUDA.jl's users publish: arguments over several lines, the handle's math mode
// after them, and cuBLAS' own calls into cublasLt in cublasLt's log.
TEST(CublasLog, TypesAsTheirPeaksAreStated) {
  const auto lt = [](const char* function, const char* type, const char* compute) {
    return std::string("[2026-05-04 15:08:47][cublasLt][53055][Trace][") + function +
           "] A=0X33022 Adesc=[type=" + type + " rows=1024 cols=2048 ld=1024] B=0X32EE5 Bdesc=[type=" + type +
           " rows=1024 cols=32 ld=1024] C=0X33022 Cdesc=[type=R_16BF rows=2048 cols=32 ld=2048] D=0X32EE5 Ddesc=[type=R_16BF rows=2048 cols=32 ld=2048] computeDesc=[computeType=" +
           compute +
           " scaleType=R_32F transa=OP_T smCountTarget=48 aScalePointer=0x1] algo=[algoId=67 tile=MATMUL_TILE_64x32] workSpace=0X0 workSpaceSizeInBytes=0 beta=0 outOfPlace=0 stream=0X0\n";
  };
  constexpr double flops = 2.0 * 2048 * 32 * 1024;
  const GemmLog log = parse_cublas_log(
      lt("cublasLtMatmul", "R_8F_E4M3", "COMPUTE_32F") + lt("cublasLtMatmul", "R_4F_E2M1", "COMPUTE_32F") +
      lt("cublasLtMatmul", "R_8I", "COMPUTE_32I") + lt("cublasLtMatmul", "R_32F", "COMPUTE_32F_FAST_TF32") +
      lt("cublasLtMatmul", "C_64F", "COMPUTE_64F") +
      "[2026-05-04 15:08:47][cublasLt][53055][Api][cublasLtMatmulAlgoGetHeuristic] Adesc=[type=R_8F_E4M3 rows=128 cols=1088 ld=128] Bdesc=[type=R_8F_E4M3 rows=64 cols=1088 ld=64]\n");
  const auto& types = log.at(53055);
  EXPECT_EQ(types.at("fp8").flops, flops);
  EXPECT_EQ(types.at("fp8").calls, 1);
  EXPECT_EQ(types.at("fp4").flops, flops);
  EXPECT_EQ(types.at("int8").flops, flops);
  EXPECT_EQ(types.at("tf32").flops, flops);
  EXPECT_EQ(types.at("fp64").flops, 4 * flops);  // complex
  EXPECT_EQ(types.count("fp32"), 0U);
}

TEST(CublasLog, WhatCublasHandsOnCountsOnce) {
  const std::string handed_on =
      "[2026-05-04 15:08:47][cublasLt][14102][Trace][cublasLtSSSMatmul] A=0X1 Adesc=[type=R_32F rows=20 cols=10 ld=20] B=0X2 Bdesc=[type=R_32F rows=20 cols=30 ld=20] C=0X3 Cdesc=[type=R_32F rows=10 cols=30 ld=10] D=0X3 Ddesc=[type=R_32F rows=10 cols=30 ld=10] computeDesc=[computeType=COMPUTE_32F scaleType=R_32F transa=OP_T]\n";
  const std::string called =
      "I! cuBLAS (v13.4.1) function cublasStatus_t cublasSgemm_v2(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const float*, const float*, int, const float*, int, const float*, float*, int) called:\n"
      "i!  handle: type=cublasHandle_t; val=POINTER (IN HEX:0x0x2d3c1100)\n"
      "i!  transa: type=cublasOperation_t; val=CUBLAS_OP_T(1)\n"
      "i!  m: type=int; val=10\ni!  n: type=int; val=30\ni!  k: type=int; val=20\n"
      "i!  alpha: type=float; val=POINTER (IN HEX:0x0x7ffd937acafc)\n"
      "i! Time: 2026-09-11T18:38:49 elapsed from start 0.016667 minutes or 1.000000 seconds\n"
      "i!Process=14102; Thread=129943171284992; GPU=0; Handle=POINTER (IN HEX:0x(nil)); StreamId=POINTER (IN HEX:0x(nil)) (defaultStream); MathMode=CUBLAS_DEFAULT_MATH\n"
      "i! COMPILED WITH: GNU GCC/G++ / 8.5.0 20210514 (Red Hat 8.5.0-26)\n";
  for (const std::string& text : {handed_on, called, called + handed_on, handed_on + called}) {
    const GemmLog log = parse_cublas_log(text);
    EXPECT_EQ(log.at(14102).at("fp32").calls, 1);
    EXPECT_EQ(log.at(14102).at("fp32").flops, 2.0 * 10 * 30 * 20);
  }
  std::string with_tf32 = called;
  with_tf32.replace(with_tf32.find("CUBLAS_DEFAULT_MATH"), 19, "CUBLAS_TF32_TENSOR_OP_MATH");
  EXPECT_EQ(parse_cublas_log(with_tf32).at(14102).at("tf32").calls, 1);
}

TEST(ModelFlops, AchievedAndPeakStandSideBySide) {
  MadeTrace made;
  made.device().gpu_name = "NVIDIA A100-SXM4-40GB";
  made.launch(0, 1, 1000, 2000, "ampere_gemm");
  made.launch(2, 3, 2000, 3000, "ampere_gemm");
  made.launch(4, 5, 5000, 6000, "softmax");
  RooflineEvidence evidence;
  evidence.gemms = {{100, {{"fp16", {2, 62'400'000}}}}};  // in 2 us: 31.2 TFLOP/s, a tenth of the peak
  std::vector<Table> tables = roofline_tables(made.events(), evidence);
  const Table* flops = find_table(tables, "model_flops");
  ASSERT_EQ(flops->row_count(), 1U);
  EXPECT_EQ(integer_at(*flops, "scaled", 0), 0);
  EXPECT_NEAR(real_at(*flops, "gemm_tflops", 0), 31.2, 1e-9);
  EXPECT_EQ(real_at(*flops, "peak_tflops", 0), 312);
  EXPECT_NEAR(real_at(*flops, "gemm_percent", 0), 10, 1e-9);
  EXPECT_NEAR(real_at(*flops, "mfu_percent", 0), 4, 1e-9);  // over 5 us
  // A log of twice as many calls as the trace holds: half of its FLOPs.
  evidence.gemms = {{0, {{"fp16", {4, 124'800'000}}}}};
  tables = roofline_tables(made.events(), evidence);
  flops = find_table(tables, "model_flops");
  EXPECT_EQ(integer_at(*flops, "scaled", 0), 1);
  EXPECT_NEAR(real_at(*flops, "gemm_percent", 0), 10, 1e-9);
  // Logs of other processes say nothing about this one.
  evidence.gemms = {{7, {{"fp16", {2, 1}}}}, {8, {{"fp16", {2, 1}}}}};
  EXPECT_EQ(find_table(roofline_tables(made.events(), evidence), "model_flops")->row_count(), 0U);
}

TEST(Ncu, BothFormsOfTheCsvAreRead) {
  const std::string by_metric = R"csv(==PROF== Connected to process 1
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","1","add(float *, int)","dram__bytes.sum","Mbyte","1.50"
"0","1","add(float *, int)","smsp__sass_thread_inst_executed_op_fadd_pred_on.sum","inst","1,000,000"
"0","1","add(float *, int)","smsp__sass_thread_inst_executed_op_ffma_pred_on.sum","inst","500,000"
"1","1","add(float *, int)","dram__bytes.sum","Mbyte","2.50"
)csv";
  const std::string raw =
      R"csv("ID","Kernel Name","dram__bytes.sum","smsp__sass_thread_inst_executed_op_fadd_pred_on.sum","smsp__sass_thread_inst_executed_op_ffma_pred_on.sum","smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio","smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"
"","","Mbyte","inst","inst","inst","inst"
"0","add(float *, int)","1.50","1000000","500000","0.5","3.25"
"1","add(float *, int)","2.50","","","",""
)csv";
  for (const std::string& text : {by_metric, raw}) {
    const std::vector<NcuKernel> kernels = parse_ncu_csv(text);
    ASSERT_EQ(kernels.size(), 1U);
    EXPECT_EQ(kernels[0].name, "add(float *, int)");
    EXPECT_EQ(kernels[0].launches, 2);
    EXPECT_DOUBLE_EQ(kernels[0].dram_bytes, 2e6);
    EXPECT_DOUBLE_EQ(kernels[0].flops, 2e6);
    EXPECT_EQ(kernels[0].sm_percent, -1);
  }
  EXPECT_EQ(top_stall(parse_ncu_csv(raw)[0].stalls), "long_scoreboard");
  EXPECT_EQ(parse_ncu_csv(raw)[0].bank_conflicts, -1);
  EXPECT_EQ(
      parse_ncu_csv(
          "ID,Kernel Name,l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum,l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum\n0,k,100,20\n1,k,140,0\n")
          [0]
              .bank_conflicts,
      130)
      << "the mean of 120 and 140";
  const std::string head = "\"ID\",\"Kernel Name\",";
  EXPECT_EQ(
      top_stall(
          parse_ncu_csv(
              head +
              "smsp__pcsamp_warps_issue_stalled_selected,smsp__pcsamp_warps_issue_stalled_mio_throttle,smsp__pcsamp_warps_issue_stalled_barrier,smsp__pcsamp_warps_issue_stalled_barrier_not_issued\n0,k,900,40,70,800\n")
              [0]
                  .stalls),
      "barrier")
      << "selected is no stall";
  EXPECT_EQ(
      top_stall(
          parse_ncu_csv(
              head +
              "smsp__average_warp_latency_issue_stalled_wait.ratio,smsp__average_warp_latency_issue_stalled_lg_throttle.ratio,smsp__pcsamp_warps_issue_stalled_barrier\n0,k,1.5,4.25,99\n")
              [0]
                  .stalls),
      "lg_throttle")
      << "families of metrics are not compared";
  EXPECT_THAT(problem(parse_ncu_csv, "a,b\n1,2\n"), HasSubstr("ncu --import"));
}

constexpr const char* ncu_header =
    R"csv("ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
)csv";

std::string ncu_row(const char* id, const char* process, const char* metric, const char* unit, const char* value) {
  return std::string("\"") + id + "\",\"" + process +
         "\",\"python3\",\"host\",\"sgemm\",\"1\",\"7\",\"(512, 1, 1)\",\"(128, 1, 1)\",\"0\",\"8.9\",\"Command line profiler metrics\",\"" +
         metric + "\",\"" + unit + "\",\"" + value + "\"\n";
}

TEST(Ncu, NumbersByTheLocaleThatWroteThem) {
  const std::string text = std::string("==PROF== Connected to process 7\n") + ncu_header +
                           ncu_row("0", "7", "gpu__time_duration.sum", "ns", "117.344") +
                           ncu_row("0", "7", "dram__bytes.sum", "byte", "27.595.520") +
                           ncu_row("0", "7", "sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", "65,77");
  const std::vector<NcuKernel> kernels = parse_ncu_csv(text);
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_DOUBLE_EQ(kernels[0].dram_bytes, 27'595'520);
  EXPECT_DOUBLE_EQ(kernels[0].sm_percent, 65.77);
}

TEST(Ncu, LaunchesOfSeveralProcessesAndWhatWasNotMeasured) {
  const std::string text = std::string(ncu_header) + ncu_row("0", "7", "dram__bytes_read.sum", "Mbyte", "2.5") +
                           ncu_row("0", "7", "dram__bytes_write.sum", "Kbyte", "500") +
                           "==PROF== Profiling \"sgemm\" - 1: 0%....50%....100% - 2 passes\n" +
                           ncu_row("0", "8", "dram__bytes_read.sum", "byte", "1,000,000") +
                           ncu_row("0", "8", "dram__bytes_write.sum", "byte", "0") +
                           ncu_row("1", "8", "dram__bytes_read.sum", "byte", "n/a") +
                           ncu_row("1", "8", "sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", "nan");
  const std::vector<NcuKernel> kernels = parse_ncu_csv(text);
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].launches, 3);
  EXPECT_DOUBLE_EQ(kernels[0].dram_bytes, 2e6);  // 3 MB and 1 MB
  EXPECT_EQ(kernels[0].sm_percent, -1);
}

TEST(Ncu, TheRawPageWithItsRowOfUnits) {
  const std::vector<NcuKernel> kernels = parse_ncu_csv(
      R"csv(==PROF== Connected to process 1234 (/usr/bin/python3)
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","dram__bytes_read.sum","dram__bytes_write.sum","gpu__time_duration.sum","sm__throughput.avg.pct_of_peak_sustained_elapsed"
"","","","","","","","","","","","Mbyte","Mbyte","usecond","%"
"0","1234","python3","host","ampere_fp16_gemm","1","7","(256, 1, 1)","(1,080, 1, 1)","0","8.0","1,234.50","0.5","1,250","62.5"
)csv");
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_DOUBLE_EQ(kernels[0].dram_bytes, 1'235e6);
  EXPECT_DOUBLE_EQ(kernels[0].sm_percent, 62.5);
}

TEST(Numbers, WithPointOrCommaButNeverTheWrongOne) {
  EXPECT_EQ(decimal_mark_of("1,234.5"), DecimalMark::point);
  EXPECT_EQ(decimal_mark_of("1,234,567"), DecimalMark::point);
  EXPECT_EQ(decimal_mark_of("-0.5"), DecimalMark::point);
  EXPECT_EQ(decimal_mark_of("(128, 1, 1)"), DecimalMark::point);  // no number at all
  EXPECT_EQ(decimal_mark_of(""), DecimalMark::point);
  for (const char* text : {"65,77", "27.595.520", "1.234,5", "1234,567", "0,123", ",5", "1,23,456"}) {
    EXPECT_EQ(decimal_mark_of(text), DecimalMark::comma) << text;
    EXPECT_EQ(parse_number(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_number("1.234,5", DecimalMark::comma), 1234.5);
  EXPECT_EQ(parse_number("117.344", DecimalMark::comma), 117344);
  EXPECT_EQ(parse_number("1,234.5"), 1234.5);
  EXPECT_EQ(parse_number("98 %"), 98);
  for (const char* text : {"[N/A]", "[Not Supported]", "n/a", "nan", "inf", ""})
    EXPECT_EQ(parse_number(text), std::nullopt) << text;
}

TEST(Roofline, PlacesKernelsUnderTheirCeilings) {
  MadeTrace made;
  made.device().gpu_name = "NVIDIA A100-SXM4-40GB";
  made.launch(0, 1, 0, 2000, "add");
  RooflineEvidence evidence;
  NcuKernel add;
  add.name = "add(float *, int)";
  add.flops = 1e6;
  add.dram_bytes = 1.555e6;
  add.sm_percent = 20;
  add.dram_percent = 70;
  NcuKernel elsewhere;
  elsewhere.name = "elsewhere";
  evidence.ncu = {add, elsewhere};
  const std::vector<Table> tables = roofline_tables(made.events(), evidence);
  const Table& roofline = *find_table(tables, "roofline");
  ASSERT_EQ(roofline.row_count(), 1U);
  EXPECT_NEAR(real_at(roofline, "achieved_tflops", 0), 0.5, 1e-9);
  EXPECT_NEAR(real_at(roofline, "achieved_gbs", 0), 777.5, 1e-9);
  EXPECT_NEAR(real_at(roofline, "bandwidth_percent", 0), 50, 1e-9);
  EXPECT_NEAR(real_at(roofline, "attainable_tflops", 0), 1.0, 1e-9);
  EXPECT_EQ(column<std::string>(roofline, "bound")[0], "memory");
}

TEST(Weights, BandwidthIsBytesOverKernelTime) {
  MadeTrace made;
  made.device().gpu_name = "NVIDIA A100-SXM4-40GB";
  made.launch(0, 1, 0, 1000, "gemvx::kernel<8>");
  made.launch(2, 3, 2000, 3000, "gemvx::kernel<8>");
  RooflineEvidence evidence;
  evidence.weights = parse_weights("# layer\n0.311M ^gemvx\n5 nothing\n");
  const std::vector<Table> tables = roofline_tables(made.events(), evidence);
  const Table& weights = *find_table(tables, "weight_bandwidth");
  ASSERT_EQ(weights.row_count(), 1U);
  EXPECT_NEAR(real_at(weights, "achieved_gbs", 0), 311, 1e-9);
  EXPECT_NEAR(real_at(weights, "bandwidth_percent", 0), 20, 1e-9);
  EXPECT_THAT(problem(parse_weights, "12"), HasSubstr("line 1 of the weights has no pattern"));
  EXPECT_THAT(problem(parse_weights, "many gemv"), HasSubstr("no number of bytes"));
  EXPECT_THAT(problem(parse_weights, "1M ("), HasSubstr("not a regular expression"));
}

TEST(KernelOccupancy, WavesCountBlocksOverWhatFits) {
  MadeTrace made;
  made.device().gpu_name = "NVIDIA A100-SXM4-40GB";
  KernelKind& kernel = made.launch(0, 1, 0, 1000, "k");
  kernel.grid_x = 108 * 8 + 1;
  kernel.grid_y = kernel.grid_z = 1;
  kernel.block_x = 256;
  kernel.block_y = kernel.block_z = 1;
  kernel.registers_per_thread = 32;
  const std::vector<Table> tables = roofline_tables(made.events(), {});
  const Table& occupancy = *find_table(tables, "kernel_occupancy");
  ASSERT_EQ(occupancy.row_count(), 1U);
  EXPECT_EQ(real_at(occupancy, "occupancy_percent", 0), 100);
  EXPECT_NEAR(real_at(occupancy, "waves", 0), 1 + 1.0 / 864, 1e-12);
}

}  // namespace
}  // namespace nsys_explain::analysis
