// Loads and stores of every space and width, parameters, variables, cp.async, atomics.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

// Every SIMD level, one body: `run_on` gives the levels their device.
class MemoryTest : public testing::TestWithParam<SimdLevel> {
 protected:
  std::shared_ptr<Device> device_ = open_device(GetParam());

  void expect_ok(const std::string& text, const Launch& launch, const std::vector<uint64_t>& args) {
    const Status status = run(*device_, text, launch, args);
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
};
INSTANTIATE_TEST_SUITE_P(Levels, MemoryTest, testing::ValuesIn(levels()),
                         [](const auto& p) { return simd_level_name(p.param); });

std::vector<uint8_t> bytes_up_to(int count) {
  std::vector<uint8_t> bytes(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(i * 7 + 131);
  return bytes;
}

// %p, %q: in and out; %t: thread; %o: scratch.
const char* const kTwoPointers = ".param .u64 p0, .param .u64 p1";
const char* const kProlog =
    ".reg .b64 %p, %q, %o, %l<4>; .reg .b32 %t, %r<8>; .reg .b16 %h<4>; .reg .f32 %f<8>;\n"
    ".reg .pred %g;\n"
    "ld.param.u64 %p, [p0]; ld.param.u64 %q, [p1]; mov.u32 %t, %tid.x;\n";

TEST_P(MemoryTest, NarrowLoadsExtendBySign) {
  Buffer<uint8_t> in(*device_, bytes_up_to(32));
  Buffer<int64_t> out(*device_, std::vector<int64_t>(4 * 32));
  expect_ok(
      kernel_text(kTwoPointers,
                  std::string(kProlog) +
                      "mul.wide.u32 %o, %t, 1; add.s64 %p, %p, %o;\n"
                      "mul.wide.u32 %o, %t, 32; add.s64 %q, %q, %o;\n"
                      "ld.global.u8 %h0, [%p]; cvt.u64.u16 %l0, %h0; st.global.u64 [%q], %l0;\n"
                      "ld.global.s8 %h1, [%p]; cvt.s64.s16 %l1, %h1; st.global.u64 [%q+8], %l1;\n"
                      "ld.global.s8 %r2, [%p]; cvt.s64.s32 %l2, %r2; st.global.u64 [%q+16], %l2;\n"
                      "ld.global.u8 %l3, [%p]; st.global.u64 [%q+24], %l3; ret;"),
      {}, {in.address(), out.address()});
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(out[4 * i], in[i]);
    EXPECT_EQ(out[4 * i + 1], static_cast<int8_t>(in[i]));
    EXPECT_EQ(out[4 * i + 2], static_cast<int8_t>(in[i]));
    EXPECT_EQ(out[4 * i + 3], in[i]);
  }
}

TEST_P(MemoryTest, VectorsKeepTheOrderOfElements) {
  std::vector<uint32_t> values(4 * 32);
  std::iota(values.begin(), values.end(), 100u);
  Buffer<uint32_t> in(*device_, values);
  Buffer<uint32_t> out(*device_, std::vector<uint32_t>(4 * 32));
  expect_ok(
      kernel_text(kTwoPointers,
                  std::string(kProlog) +
                      "mul.wide.u32 %o, %t, 16; add.s64 %p, %p, %o; add.s64 %q, %q, %o;\n"
                      "ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%r0, %r1, %r2, %r3}, [%p];\n"
                      "st.global.v2.b32 [%q+8], {%r0, %r1};\n"
                      "st.global.cs.v2.u32 [%q+0], {%r2, %r3}; ret;"),
      {}, {in.address(), out.address()});
  for (uint32_t i = 0; i < 32; ++i) {
    for (uint32_t k = 0; k < 4; ++k) EXPECT_EQ(out[4 * i + k], 100 + 4 * i + (k + 2) % 4);
  }
}

TEST_P(MemoryTest, LoadIntoTheRegisterOfTheAddress) {
  std::vector<uint64_t> values(32);
  std::iota(values.begin(), values.end(), 7u);
  Buffer<uint64_t> in(*device_, values);
  Buffer<uint64_t> out(*device_, std::vector<uint64_t>(32));
  expect_ok(kernel_text(kTwoPointers,
                        std::string(kProlog) +
                            "mul.wide.u32 %o, %t, 8; add.s64 %p, %p, %o; add.s64 %q, %q, %o;\n"
                            "ld.global.u64 %p, [%p]; st.global.u64 [%q], %p; ret;"),
            {}, {in.address(), out.address()});
  EXPECT_EQ(out.values(), values);
}

TEST_P(MemoryTest, SharedMemoryByAddressSymbolAndGenericPointer) {
  Buffer<uint32_t> in(*device_, std::vector<uint32_t>(32, 5));
  Buffer<uint32_t> out(*device_, std::vector<uint32_t>(3 * 32));
  expect_ok(kernel_text(kTwoPointers,
                        std::string(kProlog) +
                            "mul.lo.u32 %r0, %t, 4; mov.u32 %r1, tile; add.u32 %r1, %r1, %r0;\n"
                            "st.shared.u32 [%r1+4], %t; bar.sync 0;\n"
                            // the neighbour's value, three ways
                            "xor.b32 %r2, %r0, 4; mov.u32 %r1, tile; add.u32 %r1, %r1, %r2;\n"
                            "ld.shared.u32 %r3, [%r1+4];\n"
                            "mov.u64 %l0, tile; cvta.shared.u64 %l0, %l0; cvt.u64.u32 %l1, %r2;\n"
                            "add.s64 %l0, %l0, %l1; ld.u32 %r4, [%l0+4];\n"
                            "ld.shared.u32 %r5, [tile+8];\n"
                            "mul.wide.u32 %o, %t, 12; add.s64 %q, %q, %o;\n"
                            "st.global.u32 [%q], %r3; st.global.u32 [%q+4], %r4;\n"
                            "st.u32 [%q+8], %r5; ret;",
                        ".shared .align 8 .b8 unused[1024];\n.shared .align 16 .b8 tile[256];\n"),
            {}, {in.address(), out.address()});
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(out[3 * i], i ^ 1);
    EXPECT_EQ(out[3 * i + 1], i ^ 1);
    EXPECT_EQ(out[3 * i + 2], 1u);
  }
}

TEST_P(MemoryTest, DynamicSharedMemoryBeginsBehindTheStaticOne) {
  Buffer<uint32_t> in(*device_, {0});
  Buffer<uint32_t> out(*device_, std::vector<uint32_t>(3));
  expect_ok(
      kernel_text(kTwoPointers,
                  std::string(kProlog) +
                      "mov.u32 %r0, fixed; mov.u32 %r1, dynamic; ld.shared.u32 %r2, [dynamic+60];\n"
                      "st.global.u32 [%q], %r0; st.global.u32 [%q+4], %r1;\n"
                      "st.global.u32 [%q+8], %r2; ret;",
                  ".extern .shared .align 128 .b8 dynamic[];\n.shared .align 4 .b8 fixed[20];\n"),
      {1, 1, 64}, {in.address(), out.address()});
  EXPECT_EQ(out[0], 0u);
  EXPECT_EQ(out[1], 128u);
  EXPECT_EQ(out[2], 0xffffffffu) << "shared memory begins as poison";
}

TEST_P(MemoryTest, LocalMemoryIsEachLanesOwn) {
  Buffer<uint32_t> in(*device_, {0});
  Buffer<uint32_t> out(*device_, std::vector<uint32_t>(64));
  expect_ok(kernel_text(kTwoPointers,
                        ".local .align 16 .b8 __local_depot0[32]; .reg .b64 %SP, %SPL;\n" +
                            std::string(kProlog) +
                            "mov.u64 %SPL, __local_depot0; cvta.local.u64 %SP, %SPL;\n"
                            "st.u32 [%SP+8], %t; bar.sync 0; add.u64 %l0, %SPL, 8;\n"
                            "ld.local.u32 %r0, [%l0]; mul.wide.u32 %o, %t, 4; add.s64 %q, %q, %o;\n"
                            "st.global.u32 [%q], %r0; ret;"),
            {1, 64}, {in.address(), out.address()});
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], i);
}

TEST_P(MemoryTest, StructParametersAtAnyOffset) {
  Buffer<uint64_t> out(*device_, std::vector<uint64_t>(4));
  const std::string text = kernel_text(
      ".param .align 8 .b8 s[4096]",
      ".reg .b64 %q, %a<4>; .reg .b32 %r<4>;\n"
      "ld.param.u64 %q, [s]; ld.param.u64 %a0, [s+4088]; ld.param.v2.u32 {%r0, %r1}, [s+16];\n"
      "mov.b64 %a1, s; add.s64 %a1, %a1, 16; ld.param.u64 %a2, [%a1];\n"
      "mov.b64 %a1, s; cvta.param.u64 %a1, %a1; ld.u64 %a3, [%a1+16];\n"
      "st.global.u64 [%q], %a0; st.global.v2.u32 [%q+8], {%r1, %r0};\n"
      "st.global.u64 [%q+16], %a2; st.global.u64 [%q+24], %a3; ret;");
  std::vector<uint64_t> args(512, 0);
  args[0] = out.address();
  args[2] = 0x1111222233334444u;
  args[511] = 0xfeedfacecafebeefu;
  expect_ok(text, {1, 1}, args);
  EXPECT_EQ(out[0], 0xfeedfacecafebeefu);
  EXPECT_EQ(out[1], 0x3333444411112222u);
  EXPECT_EQ(out[2], args[2]);
  EXPECT_EQ(out[3], args[2]);
}

TEST_P(MemoryTest, VariablesHaveTheirInitialValues) {
  Buffer<uint32_t> in(*device_, {0});
  Buffer<uint64_t> out(*device_, std::vector<uint64_t>(4));
  expect_ok(kernel_text(
                kTwoPointers,
                std::string(kProlog) +
                    "ld.const.u32 %r0, [table+8]; ld.global.f32 %f0, [value];\n"
                    "cvt.u64.u32 %l0, %r0; st.global.u64 [%q], %l0; st.global.f32 [%q+8], %f0;\n"
                    "ld.global.u64 %l1, [pointer]; ld.u32 %r1, [%l1]; st.global.u32 [%q+16], %r1;\n"
                    "ld.global.u32 %r2, [zeros+396]; st.global.u32 [%q+24], %r2; ret;",
                ".const .align 4 .u32 table[4] = {1, 2, 0x30, 4};\n"
                ".global .align 4 .f32 value = 0f40490FDB;\n"
                ".global .align 8 .u64 pointer = generic(table)+4;\n"
                ".global .align 4 .b8 zeros[400];\n"),
            {1, 1}, {in.address(), out.address()});
  EXPECT_EQ(out[0], 0x30u);
  EXPECT_EQ(static_cast<uint32_t>(out[1]), 0x40490fdbu);
  EXPECT_EQ(static_cast<uint32_t>(out[2]), 2u);
  EXPECT_EQ(static_cast<uint32_t>(out[3]), 0u);
}

TEST_P(MemoryTest, AtomicsReturnTheOldValueLaneByLane) {
  Buffer<uint32_t> counter(*device_, std::vector<uint32_t>(8, 10));
  Buffer<uint32_t> out(*device_, std::vector<uint32_t>(32));
  expect_ok(
      kernel_text(
          kTwoPointers,
          std::string(kProlog) +
              "atom.global.add.u32 %r0, [%p], 2; mul.wide.u32 %o, %t, 4;\n"
              "add.s64 %q, %q, %o; st.global.u32 [%q], %r0;\n"
              "red.global.max.u32 [%p+4], %t; red.global.min.s32 [%p+8], -3;\n"
              "atom.global.inc.u32 %r1, [%p+12], 15; red.or.b32 [%p+16], %t;\n"
              "atom.global.cas.b32 %r2, [%p+20], 10, %t;\n"
              "atom.global.exch.b32 %r3, [%p+24], %t; red.relaxed.gpu.global.and.b32 [%p+28], 6;\n"
              "ret;"),
      {}, {counter.address(), out.address()});
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], 10 + 2 * i);
  EXPECT_EQ(counter[0], 74u);
  EXPECT_EQ(counter[1], 31u);
  EXPECT_EQ(static_cast<int32_t>(counter[2]), -3);
  EXPECT_EQ(counter[3], 10u) << "32 increments of a counter that wraps after 15";
  EXPECT_EQ(counter[4], 31u);
  EXPECT_EQ(counter[5], 0u);
  EXPECT_EQ(counter[6], 31u);
  EXPECT_EQ(counter[7], 2u);
}

TEST_P(MemoryTest, FloatReductionsSingleAndVector) {
  Buffer<float> sums(*device_, std::vector<float>(8, 1.0f));
  Buffer<float> out(*device_, std::vector<float>(1));
  expect_ok(
      kernel_text(kTwoPointers,
                  std::string(kProlog) +
                      "cvt.rn.f32.u32 %f0, %t; red.global.add.f32 [%p], %f0;\n"
                      "red.global.add.v2.f32 [%p+8], {%f0, 0f3F800000};\n"
                      "red.relaxed.gpu.global.add.v4.f32 [%p+16], {%f0, %f0, %f0, 0f00000000};\n"
                      "ret;"),
      {}, {sums.address(), out.address()});
  const std::vector<float> want = {497, 1, 497, 33, 497, 497, 497, 1};
  EXPECT_EQ(sums.values(), want);
}

TEST(MemoryAtomicTest, AreAtomicBetweenBlocksOnSeveralThreads) {
  const auto device = open_device(SimdLevel::kPlain, 4);
  Buffer<uint32_t> counter(*device, {0});
  const Status status =
      run(*device,
          kernel_text(".param .u64 p0",
                      ".reg .b64 %p; ld.param.u64 %p, [p0];\n"
                      "red.global.add.u32 [%p], 1; red.global.add.u32 [%p], 1; ret;"),
          {2000, 64}, {counter.address()});
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(counter[0], 2 * 2000 * 64u);
}

// cp.async: %r0 the shared address of this lane's 16 bytes.
const char* const kCopySetUp =
    "mul.lo.u32 %r0, %t, 16; mov.u32 %r1, tile; add.u32 %r0, %r0, %r1;\n"
    "mul.wide.u32 %o, %t, 16; add.s64 %p, %p, %o; add.s64 %q, %q, %o;\n";
const char* const kCopyStore =
    "ld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [%r0]; st.global.v4.u32 [%q], {%r2, %r3, %r4, %r5}; "
    "ret;";
const char* const kTile = ".shared .align 16 .b8 tile[512];\n";

TEST_P(MemoryTest, AsyncCopyArrivesAtTheWaitAndNotBefore) {
  std::vector<uint32_t> values(128);
  std::iota(values.begin(), values.end(), 1u);
  Buffer<uint32_t> in(*device_, values);
  Buffer<uint32_t> out(*device_, std::vector<uint32_t>(128));
  const std::string copy = "cp.async.cg.shared.global [%r0], [%p], 16; cp.async.commit_group;\n";
  expect_ok(kernel_text(kTwoPointers, kProlog + std::string(kCopySetUp) + copy + kCopyStore, kTile),
            {}, {in.address(), out.address()});
  EXPECT_EQ(out[0], 0xffffffffu) << "without a wait the copy is not there";
  for (const char* wait : {"cp.async.wait_group 0;\n", "cp.async.wait_all;\n"}) {
    expect_ok(kernel_text(kTwoPointers,
                          kProlog + std::string(kCopySetUp) + copy + wait + kCopyStore, kTile),
              {}, {in.address(), out.address()});
    EXPECT_EQ(out.values(), values) << wait;
  }
}

TEST_P(MemoryTest, WaitGroupLeavesTheLatestGroupsPending) {
  std::vector<uint32_t> values(128, 9);
  Buffer<uint32_t> in(*device_, values);
  Buffer<uint32_t> out(*device_, std::vector<uint32_t>(128));
  // Two groups of 8 bytes each; after wait_group 1 the first is there, the second not.
  expect_ok(kernel_text(kTwoPointers,
                        kProlog + std::string(kCopySetUp) +
                            "cp.async.ca.shared.global [%r0], [%p], 8; cp.async.commit_group;\n"
                            "cp.async.ca.shared.global [%r0+8], [%p+8], 8; cp.async.commit_group;\n"
                            "cp.async.wait_group 1;\n" +
                            kCopyStore,
                        kTile),
            {}, {in.address(), out.address()});
  for (size_t i = 0; i < 128; i += 4) {
    EXPECT_EQ(out[i], 9u);
    EXPECT_EQ(out[i + 1], 9u);
    EXPECT_EQ(out[i + 2], 0xffffffffu);
    EXPECT_EQ(out[i + 3], 0xffffffffu);
  }
}

TEST_P(MemoryTest, AsyncCopyFillsWithZerosAndThenReadsNothing) {
  std::vector<uint32_t> values(128, 9);
  Buffer<uint32_t> in(*device_, values);
  Buffer<uint32_t> out(*device_, std::vector<uint32_t>(128));
  // Odd lanes read nothing: their source, a null pointer, is not looked at. Lane 2 reads 4 bytes.
  expect_ok(kernel_text(kTwoPointers,
                        kProlog + std::string(kCopySetUp) +
                            "and.b32 %r6, %t, 1; setp.eq.s32 %g, %r6, 1;\n"
                            "selp.b32 %r7, 0, 16, %g; selp.b64 %p, 0, %p, %g;\n"
                            "setp.eq.s32 %g, %t, 2; selp.b32 %r7, 4, %r7, %g;\n"
                            "cp.async.cg.shared.global.L2::128B [%r0], [%p], 16, %r7;\n"
                            "cp.async.wait_all;\n" +
                            kCopyStore,
                        kTile),
            {}, {in.address(), out.address()});
  for (uint32_t i = 0; i < 128; ++i) {
    const uint32_t lane = i / 4;
    EXPECT_EQ(out[i], lane % 2 == 1 || (lane == 2 && i % 4 != 0) ? 0 : 9u) << i;
  }
}

TEST_P(MemoryTest, AsyncCopyIgnoresTheSourceWhereAPredicateHolds) {
  std::vector<uint32_t> values(128, 9);
  Buffer<uint32_t> in(*device_, values);
  Buffer<uint32_t> out(*device_, std::vector<uint32_t>(128));
  expect_ok(
      kernel_text(kTwoPointers,
                  kProlog + std::string(kCopySetUp) +
                      "setp.lt.u32 %g, %t, 3; cp.async.cg.shared.global [%r0], [%p], 16, %g;\n"
                      "cp.async.wait_all;\n" +
                      kCopyStore,
                  kTile),
      {}, {in.address(), out.address()});
  for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(out[i], i < 12 ? 0 : 9u) << i;
}

}  // namespace
}  // namespace lssar::test
