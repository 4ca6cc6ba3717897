// st.async and red.async: what arrives in another block's shared memory, and what may be assumed
// of it.
#include "tests/virtual/async/bulk_fixture.h"

#include <gtest/gtest.h>

#include <cstring>

namespace lssar::test {
namespace {

constexpr uint64_t kLow = 0x0123456789abcdef;
constexpr uint64_t kHigh = 0xfedcba9876543210;

// Lane 0 of block 0 sends with `instruction`, which has %r21, %r22 (block 1's tile and barrier) and
// values %r23 to %r26, %rd6, %rd7; block 1 expects `bytes`, and waits unless `forgets`.
std::string send_kernel(const std::string& instruction, uint32_t bytes, bool forgets = false) {
  return cluster_kernel(
      "mov.u64 %rd6, 0x0123456789abcdef;\nmov.u64 %rd7, 0xfedcba9876543210;\n"
      "mov.b64 {%r23, %r24}, %rd6;\nmov.b64 {%r25, %r26}, %rd7;\n"
      "setp.eq.u32 %p3, %r20, 1;\n@%p3 setp.eq.s32 %p3, %r1, 0;\n"
      "@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], " +
      std::to_string(bytes) +
      ";\nsetp.eq.u32 %p4, %r20, 0;\n@%p4 setp.eq.s32 %p4, %r1, 0;\n"
      "mapa.shared::cluster.u32 %r21, %r2, 1;\nmapa.shared::cluster.u32 %r22, %r3, 1;\n"
      "@%p4 " +
      instruction + "\nsetp.eq.u32 %p5, %r20, 0;\n@%p5 bra AFTER;\n" +
      (forgets ? "" : wait_for_barrier()) + "AFTER:\n");
}

class RemoteStoreTest : public testing::TestWithParam<BulkMode> {};
INSTANTIATE_TEST_SUITE_P(Modes, RemoteStoreTest, testing::ValuesIn(kBulkModes),
                         [](const auto& tested) { return tested.param.name; });

class StrictRemoteStoreTest : public testing::TestWithParam<BulkMode> {};
INSTANTIATE_TEST_SUITE_P(Modes, StrictRemoteStoreTest,
                         testing::Values(kBulkModes[2], kBulkModes[3], kBulkModes[4]),
                         [](const auto& tested) { return tested.param.name; });

// At byte 16 of block 1's tile.
void expect_words(const BulkMode& mode, const std::string& instruction, uint32_t bytes,
                  const std::vector<uint32_t>& want) {
  SCOPED_TRACE(instruction);
  BulkDevice device(mode);
  const Buffer<uint32_t> out(*device.device, std::vector<uint32_t>(2 * 64));
  const Status status = device.run_cluster(send_kernel(instruction, bytes), 2, {out.address(), 0});
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (uint32_t i = 0; i < 64; ++i) {
    ASSERT_EQ(out[i], tile_word(i)) << i;
    const bool written = i >= 4 && i < 4 + want.size();
    ASSERT_EQ(out[64 + i], written ? want[i - 4] : tile_word(i)) << i;
  }
}

TEST_P(RemoteStoreTest, StoresOfEveryWidth) {
  const std::string begin = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes";
  const auto low = static_cast<uint32_t>(kLow);
  const auto low2 = static_cast<uint32_t>(kLow >> 32);
  const auto high = static_cast<uint32_t>(kHigh);
  const auto high2 = static_cast<uint32_t>(kHigh >> 32);
  expect_words(GetParam(), begin + ".b32 [%r21+16], %r23, [%r22];", 4, {low});
  expect_words(GetParam(), begin + ".u64 [%r21+16], %rd6, [%r22];", 8, {low, low2});
  expect_words(GetParam(), begin + ".v2.s32 [%r21+16], {%r23, %r25}, [%r22];", 8, {low, high});
  expect_words(GetParam(), begin + ".v4.b32 [%r21+16], {%r23, %r24, %r25, %r26}, [%r22];", 16,
               {low, low2, high, high2});
  expect_words(GetParam(), begin + ".v2.b64 [%r21+16], {%rd6, %rd7}, [%r22];", 16,
               {low, low2, high, high2});
  expect_words(GetParam(), begin + ".f32 [%r21+16], 0f3f800000, [%r22];", 4, {0x3f800000});
  // Generic addresses.
  expect_words(GetParam(),
               "cvt.u64.u32 %rd8, %r21;\ncvta.shared.u64 %rd8, %rd8;\n"
               "cvt.u64.u32 %rd9, %r22;\ncvta.shared.u64 %rd9, %rd9;\n"
               "@%p4 st.async.mbarrier::complete_tx::bytes.b32 [%rd8+16], %r23, [%rd9];",
               4, {low});
}

TEST_P(RemoteStoreTest, ReductionsOfEveryKind) {
  const uint32_t was = tile_word(4);
  const auto value = static_cast<uint32_t>(kLow);
  const auto smaller = [](auto a, auto b) { return a < b ? a : b; };
  const auto s = [](uint32_t bits) { return static_cast<int32_t>(bits); };
  const std::string begin =
      "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes";
  const std::string end = " [%r21+16], %r23, [%r22];";
  const std::pair<const char*, uint32_t> kinds[] = {
      {".inc.u32", was >= value ? 0 : was + 1},
      {".dec.u32", was == 0 || was > value ? value : was - 1},
      {".min.u32", smaller(was, value)},
      {".max.u32", was ^ value ^ smaller(was, value)},
      {".min.s32", static_cast<uint32_t>(smaller(s(was), s(value)))},
      {".max.s32", was ^ value ^ static_cast<uint32_t>(smaller(s(was), s(value)))},
      {".add.u32", was + value},
      {".add.s32", was + value},
      {".and.b32", was & value},
      {".or.b32", was | value},
      {".xor.b32", was ^ value},
  };
  for (const auto& [kind, want] : kinds) {
    expect_words(GetParam(), begin + kind + end, 4, {want});
  }
  const uint64_t sum = (was | static_cast<uint64_t>(tile_word(5)) << 32) + kLow;
  expect_words(GetParam(), begin + ".add.u64 [%r21+16], %rd6, [%r22];", 8,
               {static_cast<uint32_t>(sum), static_cast<uint32_t>(sum >> 32)});
}

TEST_P(StrictRemoteStoreTest, ReadingWithoutAWaitIsReported) {
  BulkDevice device(GetParam());
  const Buffer<uint32_t> out(*device.device, std::vector<uint32_t>(2 * 64));
  const Status status = device.run_cluster(
      send_kernel("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r21+16], "
                  "%r23, [%r22];",
                  4, true),
      2, {out.address(), 0});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("race"), std::string::npos) << status.to_string();
  EXPECT_NE(status.message().find("st.async"), std::string::npos) << status.to_string();
}

TEST_P(RemoteStoreTest, DestinationAndBarrierOfDifferentBlocksAreRefused) {
  BulkDevice device(GetParam());
  const Buffer<uint32_t> out(*device.device, std::vector<uint32_t>(2 * 64));
  const Status status = device.run_cluster(
      send_kernel("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r21+16], "
                  "%r23, [%r3];",
                  4),
      2, {out.address(), 0});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("different blocks"), std::string::npos) << status.to_string();
}

}  // namespace
}  // namespace lssar::test
