// Compares counters with counts derived by hand, which are written beside each kernel.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "device/counters_text.h"
#include "gemm_ptx.h"
#include "tests/virtual/count/counting_device.h"
#include "virtual/count/instruction_class.h"
#include "virtual/count/kernel_counts.h"

namespace lssar::test {
namespace {

uint64_t sum_of_classes(const LaunchCounters& counters) {
  uint64_t sum = 0;
  for (const InstructionCount& count : counters.instructions) sum += count.warps;
  return sum;
}

void expect_class(const LaunchCounters& counters, InstructionClass instruction_class,
                  uint64_t warps, uint64_t lanes) {
  EXPECT_EQ(counters.of(instruction_class).warps, warps) << to_string(instruction_class);
  EXPECT_EQ(counters.of(instruction_class).lanes, lanes) << to_string(instruction_class);
}

// 200 floats by 2 blocks of 128 threads: warps 0 to 5 are whole, warp 6 has 8 lanes, warp 7 none. 8
// warps execute 7 instructions before the branch, 7 warps 5 after it, 8 warps ret.
const char* const kCopy =
    "ld.param.u64 %p, [p0]; ld.param.u64 %q, [p1];\n"
    "mov.u32 %t, %tid.x; mov.u32 %r0, %ctaid.x; mad.lo.u32 %t, %r0, 128, %t;\n"
    "setp.ge.u32 %g, %t, 200; @%g bra DONE;\n"
    "mul.wide.u32 %o, %t, 4; add.s64 %p, %p, %o; add.s64 %q, %q, %o;\n"
    "ld.global.f32 %f0, [%p]; st.global.f32 [%q], %f0;\n"
    "DONE: ret;";

LaunchCounters run_copy(int num_threads, bool count = true) {
  const auto device = counting_device(num_threads, count);
  const Memory in(device, 800), out(device, 800);
  expect_ok(run(*device, kernel_text(kPointers, std::string(kRegisters) + kCopy),
                {.grid = 2, .block = 128}, {in.address(), out.address()}));
  return device->counters();
}

TEST(CountersTest, CoalescedCopy) {
  const LaunchCounters c = run_copy(1);
  EXPECT_EQ(c.launches, 1u);
  EXPECT_TRUE(c.detailed);
  EXPECT_EQ(c.warp_instructions, 7u * 8 + 5 * 7 + 8);
  expect_class(c, InstructionClass::kMemory, 2 * 8 + 2 * 7, 2 * 256 + 2 * 200);
  expect_class(c, InstructionClass::kMove, 2 * 8, 2 * 256);
  expect_class(c, InstructionClass::kInteger, 2 * 8 + 3 * 7, 2 * 256 + 3 * 200);
  expect_class(c, InstructionClass::kControl, 2 * 8, 2 * 256);
  EXPECT_EQ(sum_of_classes(c), c.warp_instructions);
  for (const AccessKind kind : {AccessKind::kRead, AccessKind::kWrite}) {
    EXPECT_EQ(c.global_of(kind).requests, 7u);
    EXPECT_EQ(c.global_of(kind).bytes, 800u);
    EXPECT_EQ(c.global_of(kind).sectors, 6u * 4 + 1);
    EXPECT_EQ(c.shared_of(kind).requests, 0u);
  }
  EXPECT_EQ(c.global_of(AccessKind::kAtomic).requests, 0u);
  EXPECT_EQ(c.worst_global.lost, 0u);
  EXPECT_EQ(c.barriers, 0u);
}

TEST(CountersTest, AreTheSameForAnyNumberOfThreads) {
  EXPECT_EQ(counters_json({{"k", run_copy(1)}}), counters_json({{"k", run_copy(3)}}));
}

TEST(CountersTest, WithoutCountingOnlyInstructionsAre) {
  const LaunchCounters c = run_copy(1, false);
  EXPECT_FALSE(c.detailed);
  EXPECT_EQ(c.warp_instructions, 7u * 8 + 5 * 7 + 8);
  EXPECT_EQ(sum_of_classes(c), 0u);
  EXPECT_EQ(c.global_of(AccessKind::kRead).requests, 0u);
}

// A 32 x 32 tile of floats, written by rows (warp w row w: 1 wavefront each), read by columns (32
// words of one bank: 32 wavefronts, 31 lost), one barrier. 32 warps of one block.
TEST(CountersTest, ColumnsOfATileConflict) {
  const auto device = counting_device();
  const Memory in(device, 4096), out(device, 4096);
  const std::string body = std::string(kRegisters) +
                           "ld.param.u64 %p, [p0]; ld.param.u64 %q, [p1];\n"
                           "mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.s64 %p, %p, %o;\n"
                           "add.s64 %q, %q, %o; ld.global.f32 %f0, [%p];\n"
                           "mov.u32 %r0, tile; shl.b32 %r1, %t, 2; add.u32 %r1, %r0, %r1;\n"
                           "st.shared.f32 [%r1], %f0;\n"
                           "bar.sync 0;\n"
                           "and.b32 %r2, %t, 31; shr.u32 %r3, %t, 5; shl.b32 %r2, %r2, 7;\n"
                           "shl.b32 %r3, %r3, 2; add.u32 %r2, %r2, %r3; add.u32 %r2, %r0, %r2;\n"
                           "ld.shared.f32 %f1, [%r2];\n"
                           "fma.rn.f32 %f1, %f1, %f1, %f1; ex2.approx.f32 %f1, %f1;\n"
                           "st.global.f32 [%q], %f1; ret;";
  const std::string text = kernel_text(kPointers, body, ".shared .align 16 .b8 tile[4096];");
  expect_ok(run(*device, text, {.grid = 1, .block = 1024}, {in.address(), out.address()}));
  const LaunchCounters c = device->counters();
  const SharedTraffic& write = c.shared_of(AccessKind::kWrite);
  EXPECT_EQ(write.requests, 32u);
  EXPECT_EQ(write.bytes, 4096u);
  EXPECT_EQ(write.wavefronts, 32u);
  EXPECT_EQ(write.lost(), 0u);
  const SharedTraffic& read = c.shared_of(AccessKind::kRead);
  EXPECT_EQ(read.requests, 32u);
  EXPECT_EQ(read.bytes, 4096u);
  EXPECT_EQ(read.wavefronts, 32u * 32);
  EXPECT_EQ(read.lost(), 32u * 31);
  EXPECT_EQ(c.worst_shared.lost, 32u * 31);
  EXPECT_EQ(c.worst_shared.requests, 32u);
  EXPECT_EQ(c.worst_shared.text, "ld.shared.f32 %f1, [%r2];");
  EXPECT_EQ(c.worst_shared.kernel, "k");
  const auto before = text.begin() + static_cast<std::ptrdiff_t>(text.find("ld.shared.f32"));
  EXPECT_EQ(c.worst_shared.line, 1 + std::count(text.begin(), before, '\n'));
  EXPECT_EQ(c.barriers, 32u);
  expect_class(c, InstructionClass::kSync, 32, 1024);
  expect_class(c, InstructionClass::kFma, 32, 1024);
  expect_class(c, InstructionClass::kSpecial, 32, 1024);
  EXPECT_EQ(c.global_of(AccessKind::kWrite).sectors, 128u);
  EXPECT_EQ(sum_of_classes(c), c.warp_instructions);
}

// gemm.cu at 64 x 64 x 64: one block of 4 warps, 2 stages of k, both loaded by cp.async.
//   per warp and stage: 16 mma.m16n8k16; 10 ldmatrix.x4, swizzled so that no 8 rows share a bank;
//     2 barriers; 4 cp.async of 16 bytes per thread: 8 rows of 64 bytes, 2 sectors each, and 512
//     contiguous bytes of shared memory: 4 wavefronts.
//   per warp: 32 stores; each of 8 rows of which every second float is written: 8 sectors.
class CountersGemmTest : public testing::TestWithParam<bool> {};

struct GemmParams {  // as in gemm.cu
  uint64_t a, b, c;
  int32_t m, n, k, unused;
};

TEST_P(CountersGemmTest, MatrixProduct) {
  const auto device = counting_device(2);
  const Memory a(device, 64 * 64 * 2), b(device, 64 * 64 * 2), out(device, 64 * 64 * 4);
  Image image;
  image.bytes = GetParam() ? kGemmClang : kGemmNvcc;
  const auto module = device->load(image);
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const GemmParams params = {a.address(), b.address(), out.address(), 64, 64, 64, 0};
  LaunchConfig config;
  config.block[0] = 128;
  config.shared_bytes = 16384;
  expect_ok(device->launch(**(*module)->function("gemm"), config, &params, sizeof params, nullptr));

  const LaunchCounters c = device->counters();
  constexpr uint64_t kWarpStages = 4 * 2;
  expect_class(c, InstructionClass::kTensor, kWarpStages * 16, kWarpStages * 16 * 32);
  EXPECT_EQ(c.flop(TensorType::kBf16), 2u * 64 * 64 * 64);
  EXPECT_EQ(c.flop(TensorType::kF16), 0u);
  const SharedTraffic& read = c.shared_of(AccessKind::kRead);
  EXPECT_EQ(read.requests, kWarpStages * 10);
  EXPECT_EQ(read.bytes, kWarpStages * 10 * 512);
  EXPECT_EQ(read.wavefronts, kWarpStages * 10 * 4);
  EXPECT_EQ(read.lost(), 0u);
  const SharedTraffic& write = c.shared_of(AccessKind::kWrite);
  EXPECT_EQ(write.requests, kWarpStages * 4);
  EXPECT_EQ(write.bytes, kWarpStages * 4 * 512);
  EXPECT_EQ(write.wavefronts, kWarpStages * 4 * 4);
  EXPECT_EQ(write.lost(), 0u);
  const GlobalTraffic& loads = c.global_of(AccessKind::kRead);
  EXPECT_EQ(loads.requests, kWarpStages * 4);
  EXPECT_EQ(loads.bytes, 2u * 64 * 64 * 2);
  EXPECT_EQ(loads.sectors, kWarpStages * 4 * 16);
  const GlobalTraffic& stores = c.global_of(AccessKind::kWrite);
  EXPECT_EQ(stores.requests, 4u * 32);
  EXPECT_EQ(stores.bytes, 64u * 64 * 4);
  EXPECT_EQ(stores.sectors, 4u * 32 * 8);
  EXPECT_EQ(c.worst_global.lost, 4u * (8 - 4)) << "of one of the 32 stores, by 4 warps";
  EXPECT_EQ(c.barriers, kWarpStages * 2);
  EXPECT_EQ(sum_of_classes(c), c.warp_instructions);
}
INSTANTIATE_TEST_SUITE_P(Compilers, CountersGemmTest, testing::Bool(),
                         [](const auto& p) { return p.param ? "clang" : "nvcc"; });

// Lanes that come to a shuffle from two sides wait for each other: add counts 16 + 16 lanes,
// shuffle once with 32. bar.warp.sync counts where each half comes to it: twice.
TEST(CountersTest, WaitingLanesAreCountedOnce) {
  const auto device = counting_device();
  const std::string body = std::string(kRegisters) +
                           "mov.u32 %t, %tid.x; setp.lt.u32 %g, %t, 16; @%g bra LOW;\n"
                           "add.u32 %r0, %t, 1; bar.warp.sync 0xffffffff; add.u32 %r0, %t, 4;\n"
                           "bra BOTH;\n"
                           "LOW: add.u32 %r0, %t, 2; bar.warp.sync 0xffffffff;\n"
                           "BOTH: shfl.sync.idx.b32 %r1, %r0, 0, 31, 0xffffffff; ret;";
  expect_ok(run(*device, kernel_text("", body), {}, {}));
  const LaunchCounters c = device->counters();
  expect_class(c, InstructionClass::kInteger, 1 + 3, 32 + 3 * 16);
  expect_class(c, InstructionClass::kWarp, 1, 32);
  expect_class(c, InstructionClass::kSync, 2, 32);
  expect_class(c, InstructionClass::kControl, 1 + 1 + 1, 32 + 16 + 32);
  EXPECT_EQ(c.barriers, 0u);
  EXPECT_EQ(sum_of_classes(c), c.warp_instructions);
}

TEST(CountersTest, BytesOfBulkCopiesAreSummedOverRunners) {
  const vdev::KernelProgram program;
  vdev::LaunchCounts launch(program);
  vdev::RunnerCounts runners[2];
  for (vdev::RunnerCounts& runner : runners) {
    runner.begin(&launch);
    vdev::count_tma(runner.accesses(), vdev::TmaDirection::kLoad, 4096);
    vdev::count_tma(runner.accesses(), vdev::TmaDirection::kStore, 256);
    vdev::count_tma(runner.accesses(), vdev::TmaDirection::kReduce, 16);
    runner.end();
    vdev::count_tma(runner.accesses(), vdev::TmaDirection::kReduce, 1);  // not counting: nothing
  }
  const LaunchCounters c = launch.summary();
  EXPECT_EQ(c.tma_load_bytes, 2u * 4096);
  EXPECT_EQ(c.tma_store_bytes, 2u * 256);
  EXPECT_EQ(c.tma_reduce_bytes, 2u * 16);
}

TEST(CountersTest, KernelsAreToldApartAndSummed) {
  const auto device = counting_device();
  const std::string one = kernel_text("", "ret;");
  std::string two = kernel_text("", ".reg .b32 %r; mov.u32 %r, 1; ret;");
  expect_ok(run(*device, one, {}, {}));
  expect_ok(run(*device, one, {}, {}));
  Image image;
  image.bytes = two.replace(two.find("k("), 2, "other(");
  const auto module = device->load(image);
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  LaunchConfig config;
  config.block[0] = 32;
  expect_ok(device->launch(**(*module)->function("other"), config, nullptr, 0, nullptr));
  const std::vector<KernelCounters> kernels = device->kernel_counters();
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].kernel, "k");
  EXPECT_EQ(kernels[0].counters.launches, 2u);
  EXPECT_EQ(kernels[0].counters.warp_instructions, 2u);
  EXPECT_EQ(kernels[1].kernel, "other");
  EXPECT_EQ(kernels[1].counters.of(InstructionClass::kMove).warps, 1u);
  EXPECT_EQ(device->counters().launches, 3u);
  EXPECT_EQ(device->counters().warp_instructions, 4u);
}

TEST(CountersTextTest, TableAndJsonHoldTheSameFigures) {
  const std::vector<KernelCounters> kernels = {{"copy", run_copy(1)}, {"again", run_copy(1)}};
  const nlohmann::json json = counters_json(kernels);
  ASSERT_EQ(json["kernels"].size(), 2u);
  EXPECT_EQ(json["kernels"][0]["kernel"], "copy");
  EXPECT_EQ(json["kernels"][0]["instructions"]["memory"]["warps"], 30);
  EXPECT_EQ(json["kernels"][0]["global"]["read"]["sectors"], 25);
  EXPECT_EQ(json["total"]["launches"], 2);
  EXPECT_EQ(json["total"]["warp_instructions"], 198);
  EXPECT_TRUE(json["total"]["worst_shared"].is_null());
  const std::string table = counters_table(kernels);
  EXPECT_NE(table.find("kernel copy: 1 launch\n"), std::string::npos) << table;
  EXPECT_NE(table.find("all kernels: 2 launches\n"), std::string::npos) << table;
  EXPECT_NE(table.find("32.0"), std::string::npos) << "bytes per sector\n" << table;
  EXPECT_EQ(table.find("shared memory"), std::string::npos) << "nothing was there\n" << table;
}

struct ClassCase {
  const char* opcode;
  InstructionClass instruction_class;
  uint64_t flop = 0;
  TensorType type = TensorType::kF16;
};
class ClassTest : public testing::TestWithParam<ClassCase> {};
TEST_P(ClassTest, FollowsFromTheOpcode) {
  const vdev::InstructionInfo info = vdev::classify(GetParam().opcode);
  EXPECT_EQ(info.instruction_class, GetParam().instruction_class) << GetParam().opcode;
  EXPECT_EQ(info.tensor_flop, GetParam().flop) << GetParam().opcode;
  EXPECT_EQ(info.tensor_type, GetParam().type) << GetParam().opcode;
}
INSTANTIATE_TEST_SUITE_P(
    Cases, ClassTest,
    testing::Values(ClassCase{"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
                              InstructionClass::kTensor, 2048, TensorType::kTf32},
                    ClassCase{"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32",
                              InstructionClass::kTensor, 8192, TensorType::kFp8},
                    ClassCase{"mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
                              InstructionClass::kTensor, 4096, TensorType::kF16},
                    // A warp group's product, a quarter for each of its warps.
                    ClassCase{"wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16",
                              InstructionClass::kTensor, 2 * 16 * 128 * 16, TensorType::kBf16},
                    ClassCase{"wgmma.wait_group.sync.aligned", InstructionClass::kSync},
                    ClassCase{"lg2.approx.ftz.f32", InstructionClass::kSpecial},
                    ClassCase{"div.full.f32", InstructionClass::kSpecial},
                    ClassCase{"div.rn.f32", InstructionClass::kFloat},
                    ClassCase{"fma.rn.ftz.bf16x2", InstructionClass::kFma},
                    ClassCase{"mad.rn.f32", InstructionClass::kFma},
                    ClassCase{"mad.lo.s32", InstructionClass::kInteger},
                    ClassCase{"setp.gt.and.f32", InstructionClass::kFloat},
                    ClassCase{"setp.ne.b64", InstructionClass::kInteger},
                    ClassCase{"selp.f32", InstructionClass::kInteger},
                    ClassCase{"and.pred", InstructionClass::kInteger},
                    ClassCase{"prmt.b32.f4e", InstructionClass::kInteger},
                    ClassCase{"cvt.rn.bf16x2.f32", InstructionClass::kConversion},
                    ClassCase{"cvta.to.global.u64", InstructionClass::kMove},
                    ClassCase{"cp.async.cg.shared.global", InstructionClass::kMemory},
                    ClassCase{"cp.async.wait_group", InstructionClass::kSync},
                    ClassCase{"cp.async.bulk.tensor.2d.shared::cluster.global",
                              InstructionClass::kMemory},
                    ClassCase{"cp.async.bulk.commit_group", InstructionClass::kSync},
                    ClassCase{"mbarrier.try_wait.parity.shared.b64", InstructionClass::kSync},
                    ClassCase{"barrier.cluster.arrive", InstructionClass::kSync},
                    ClassCase{"redux.sync.add.s32", InstructionClass::kWarp},
                    ClassCase{"red.global.add.f32", InstructionClass::kMemory},
                    ClassCase{"ret", InstructionClass::kControl}));

}  // namespace
}  // namespace lssar::test
