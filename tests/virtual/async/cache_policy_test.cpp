// Cache policies are taken and have no effect.
#include "tests/virtual/async/bulk_fixture.h"

#include <gtest/gtest.h>

namespace lssar::test {
namespace {

// Lane i: %rd4 is &out[i], %rd5 is &extra[i] of 8 bytes, %r21 is i + 100.
std::string kernel(const std::string& body) {
  return ".version 8.0\n.target sm_90a\n.address_size 64\n"
         ".visible .entry k(.param .u64 out, .param .u64 in)\n{\n"
         ".reg .b32 %r<30>;\n.reg .f32 %f<9>;\n.reg .b64 %rd<20>;\n"
         ".shared .align 16 .b8 tile[512];\n"
         "mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd6, %r1, 8;\nadd.u32 %r21, %r1, 100;\n"
         "ld.param.u64 %rd4, [out];\nadd.u64 %rd4, %rd4, %rd6;\n"
         "ld.param.u64 %rd5, [in];\nadd.u64 %rd5, %rd5, %rd6;\n"
         "createpolicy.fractional.L2::evict_first.b64 %rd9, 1.0;\n" +
         body + "ret;\n}\n";
}

void expect_output(const std::string& body, uint64_t (*want)(uint64_t lane)) {
  SCOPED_TRACE(body);
  BulkDevice device(kBulkModes[2]);
  const Buffer<uint64_t> out(*device.device, std::vector<uint64_t>(32, 7));
  std::vector<uint64_t> values(32);
  for (uint64_t i = 0; i < 32; ++i) values[i] = i << 32 | (1000 + i);
  const Buffer<uint64_t> in(*device.device, values);
  Launch launch;
  launch.block = 32;
  const Status status = run(*device.device, kernel(body), launch, {out.address(), in.address()});
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (uint64_t i = 0; i < 32; ++i) ASSERT_EQ(out[i], want(i)) << i;
}

uint64_t the_input(uint64_t lane) { return lane << 32 | (1000 + lane); }

TEST(CachePolicyTest, LoadsAndStores) {
  expect_output(
      "ld.global.L1::evict_first.L2::cache_hint.b64 %rd7, [%rd5], %rd9;\n"
      "st.global.L2::cache_hint.b64 [%rd4], %rd7, %rd9;\n",
      the_input);
  expect_output(
      "ld.global.nc.L1::no_allocate.L2::cache_hint.L2::256B.v2.u32 {%r2, %r3}, [%rd5], %rd9;\n"
      "st.global.L1::evict_last.L2::cache_hint.v2.b32 [%rd4+0], {%r2, %r3}, %rd9;\n",
      the_input);
}

TEST(CachePolicyTest, Atomics) {
  const auto sum = [](uint64_t lane) { return 107 + lane; };
  expect_output("red.global.add.L2::cache_hint.u32 [%rd4], %r21, %rd9;\n", sum);
  expect_output("atom.global.add.L2::cache_hint.u32 %r2, [%rd4], %r21, %rd9;\n", sum);
  expect_output("atom.global.exch.L2::cache_hint.b32 %r2, [%rd4], %r21, %rd9;\n",
                [](uint64_t lane) { return 100 + lane; });
}

TEST(CachePolicyTest, Copies) {
  expect_output(
      "mov.u32 %r2, tile;\nshl.b32 %r3, %r1, 3;\nadd.u32 %r2, %r2, %r3;\n"
      "cp.async.ca.shared.global.L2::cache_hint.L2::128B [%r2], [%rd5], 8, %rd9;\n"
      "cp.async.wait_all;\nld.shared.b64 %rd7, [%r2];\nst.global.b64 [%rd4], %rd7;\n",
      the_input);
}

TEST(CachePolicyTest, PoliciesAreMadeInEveryWay) {
  const std::string store = "st.global.L2::cache_hint.u64 [%rd4], 5, %rd9;\n";
  for (const char* made : {
           "createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %rd9, 0f3f000000;",
           "createpolicy.fractional.L2::evict_unchanged.b64 %rd9;",
           "createpolicy.range.L2::evict_last.L2::evict_first.b64 %rd9, [%rd5], 64, %r21;",
           "createpolicy.range.global.L2::evict_normal.b64 %rd9, [%rd5], 64, 128;",
           "createpolicy.cvt.L2.b64 %rd9, 0x10f0;",
       }) {
    expect_output(std::string(made) + "\n" + store, [](uint64_t) { return uint64_t{5}; });
  }
}

TEST(CachePolicyTest, APolicyHas64BitsAndMustBeThere) {
  BulkDevice device(kBulkModes[0]);
  for (const char* body : {"ld.global.L2::cache_hint.b64 %rd7, [%rd5];\n",
                           "ld.global.L2::cache_hint.b64 %rd7, [%rd5], %r21;\n",
                           "ld.global.b64 %rd7, [%rd5], %rd9;\n"}) {
    EXPECT_FALSE(run(*device.device, kernel(body), {}, {0, 0}).ok()) << body;
  }
}

}  // namespace
}  // namespace lssar::test
