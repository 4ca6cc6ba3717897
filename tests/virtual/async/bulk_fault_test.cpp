// What bulk copies refuse, and what the strict mode reports of them.
#include "tests/virtual/async/bulk_fixture.h"

#include <gtest/gtest.h>

#include <cstring>

#include "device/tensor_map_codec.h"

namespace lssar::test {
namespace {

constexpr const char* kLoad =
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes ";
constexpr const char* kPlainLoad =
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes ";
constexpr const char* kPlainStore = "cp.async.bulk.global.shared::cta.bulk_group ";

class BulkFaultTest : public testing::Test {
 protected:
  BulkFaultTest() : memory(*device.device, std::vector<uint8_t>(16 * 128 + 128)) {
    map.type = TensorDataType::kFloat32;
    map.rank = 2;
    map.global_address = aligned();
    map.global_dims[0] = 32;
    map.global_dims[1] = 16;
    map.global_strides[0] = 128;
    map.box_dims[0] = 8;
    map.box_dims[1] = 8;
  }
  uint64_t aligned() const { return (memory.address() + 127) / 128 * 128; }

  void expect_load_fails(const std::string& issue, const char* message) {
    expect_fails(load_kernel(issue, 256, 512), message);
  }
  void expect_fails(const std::string& text, const char* message) {
    const Status status = device.run(text, map, {0, 0}, {memory.address(), aligned()});
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.message().find(message), std::string::npos) << status.to_string();
  }

  BulkDevice device{kBulkModes[2]};
  const Buffer<uint8_t> memory;
  TensorMapRequest map;
};

TEST_F(BulkFaultTest, TheSharedAddressOfABoxHas128Bytes) {
  expect_load_fails(std::string(kLoad) + "[%r2+64], [%rd1, {%r4, %r5}], [%r3];",
                    "at address 0x40: not aligned to 128 bytes");
}

// As a kernel may write one, past the checks of the host's encode call.
TEST_F(BulkFaultTest, ABoxBeyondAnySharedMemoryIsRefused) {
  TensorMapRequest forged = map;
  forged.rank = 3;
  for (uint32_t d = 0; d < 3; ++d) forged.box_dims[d] = forged.global_dims[d] = 128;
  forged.global_strides[0] = 512;
  forged.global_strides[1] = 512 * 128;
  const std::string issue =
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%r2], [%rd1, {%r4, %r5, %r6}], [%r3];";
  const Status status =
      device.run_map(load_kernel(issue, 256, 512), vdev::encode_tensor_map(forged), {0, 0, 0},
                     {memory.address(), aligned()});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(
      status.message().find("a box of 8388608 bytes: no shared memory holds more than 1048576"),
      std::string::npos)
      << status.to_string();
}

TEST_F(BulkFaultTest, PlainCopiesAreAlignedTo16Bytes) {
  expect_load_fails(std::string(kPlainLoad) + "[%r2+8], [%rd3], 256, [%r3];",
                    "at address 0x8: not aligned to 16 bytes");
  expect_load_fails(std::string(kPlainLoad) + "[%r2], [%rd3+8], 256, [%r3];",
                    "not aligned to 16 bytes");
}

TEST_F(BulkFaultTest, SizesAreMultiplesOf16) {
  expect_load_fails("mov.u32 %r21, 40;\n" + std::string(kPlainLoad) + "[%r2], [%rd3], %r21, [%r3];",
                    "a size of 40 bytes: allowed are multiples of 16");
}

TEST_F(BulkFaultTest, BoxesStayWithinSharedMemory) {
  expect_load_fails(std::string(kLoad) + "[%r2+512], [%rd1, {%r4, %r5}], [%r3];",
                    "out of bounds: the block has");
}

TEST_F(BulkFaultTest, CopiesStayWithinGlobalMemory) {
  expect_load_fails(
      "mov.u64 %rd5, 4096;\n" + std::string(kPlainLoad) + "[%r2], [%rd5], 256, [%r3];",
      "out of bounds: it lies in no allocated or imported range");
  expect_fails(
      store_kernel("mov.u64 %rd5, 4096;\n" + std::string(kPlainStore) + "[%rd5], [%r2], 256;", 256),
      "out of bounds: it lies in no allocated or imported range");
}

TEST_F(BulkFaultTest, TensorsStayWithinGlobalMemory) {
  map.global_address = uint64_t{1} << 20;
  expect_load_fails(std::string(kLoad) + "[%r2], [%rd1, {%r4, %r5}], [%r3];",
                    "out of bounds: it lies in no allocated or imported range");
}

TEST_F(BulkFaultTest, BarriersMustBeInitialised) {
  expect_load_fails(std::string(kPlainLoad) + "[%r2], [%rd3], 256, [%r2];",
                    "no mbarrier was initialised at shared address 0x0");
}

TEST_F(BulkFaultTest, MapsAreAlignedTo64Bytes) {
  expect_load_fails(
      "add.u64 %rd5, %rd1, 32;\n" + std::string(kLoad) + "[%r2], [%rd5, {%r4, %r5}], [%r3];",
      "is not aligned to 64 bytes");
}

TEST_F(BulkFaultTest, MapsDoNotLieInSharedMemory) {
  expect_load_fails("cvt.u64.u32 %rd5, %r2;\ncvta.shared.u64 %rd5, %rd5;\n" + std::string(kLoad) +
                        "[%r2], [%rd5, {%r4, %r5}], [%r3];",
                    "a tensor map must lie in global, constant or parameter memory");
}

TEST_F(BulkFaultTest, WhatIsNoMapIsNotTaken) {
  expect_load_fails(std::string(kLoad) + "[%r2], [%rd3, {%r4, %r5}], [%r3];",
                    "is no tensor map of this device");
}

TEST_F(BulkFaultTest, TheRankIsTheMaps) {
  expect_load_fails(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%r2], [%rd1, {%r4, %r5, %r6}], [%r3];",
      "a tensor map of rank 2 where one of rank 3 is expected");
}

TEST_F(BulkFaultTest, MulticastsNameBlocksOfTheCluster) {
  for (const char* mask : {"0", "2"}) {
    expect_load_fails(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%r2], [%rd3], 256, [%r3], " +
            std::string(mask) + ";",
        "of a cluster of 1");
  }
}

TEST_F(BulkFaultTest, AMapTypeWithoutTheReductionIsRefused) {
  expect_fails(store_kernel("cp.reduce.async.bulk.tensor.2d.global.shared::cta.xor.bulk_group "
                            "[%rd1, {%r4, %r5}], [%r2];",
                            256),
               "there is no such reduction of elements of type");
}

// --- Reports of the strict mode ---

TEST_F(BulkFaultTest, StoresOfWhatNobodyWroteAreReported) {
  const std::string text = cluster_kernel(
      ".shared .align 128 .b8 more[128];\nmov.u32 %r21, more;\n@%p1 bra AFTER;\n" +
      std::string(kPlainStore) +
      "[%rd3], [%r21], 128;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nAFTER:\n");
  expect_fails(text, "the copy reads shared memory that nobody wrote");
}

TEST_F(BulkFaultTest, OverwritingASourceThatIsBeingReadIsReported) {
  const std::string store =
      std::string(kPlainStore) + "[%rd3], [%r2], 256;\n" + "cp.async.bulk.commit_group;\n";
  expect_fails(store_kernel(store + "st.shared.u32 [%r2], %r1;", 256), "race");
  // With the reads awaited it is right.
  const Status status = device.run(
      store_kernel(store + "cp.async.bulk.wait_group.read 0;\nst.shared.u32 [%r2], %r1;", 256), map,
      {0, 0}, {memory.address(), aligned()});
  EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST_F(BulkFaultTest, ReadingGlobalMemoryAfterWaitingForReadsOnlyIsReported) {
  const std::string store =
      std::string(kPlainStore) + "[%rd3], [%r2], 256;\n" + "cp.async.bulk.commit_group;\n";
  expect_fails(
      store_kernel(store + "cp.async.bulk.wait_group.read 0;\nld.global.u32 %r21, [%rd3];", 256),
      "race");
  const Status status = device.run(
      store_kernel(store + "cp.async.bulk.wait_group 0;\nld.global.u32 %r21, [%rd3];", 256), map,
      {0, 0}, {memory.address(), aligned()});
  EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST_F(BulkFaultTest, ReductionsOfSeveralThreadsDoNotRace) {
  // All lanes add to the same words, and wait for their own groups.
  const std::string text = cluster_kernel(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd3], [%r2], 128;\n"
      "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n");
  const Buffer<uint8_t> out(*device.device, std::vector<uint8_t>(256));
  const Status status = device.run(text, map, {0, 0}, {out.address(), aligned()});
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (uint32_t i = 0; i < 32; ++i) {
    uint32_t sum;
    std::memcpy(&sum, reinterpret_cast<const void*>(aligned() + 4 * i), 4);
    ASSERT_EQ(sum, 32 * tile_word(i)) << i;
  }
}

}  // namespace
}  // namespace lssar::test
