// Bulk and tensor copies of whole kernels: what arrives where, and what is refused.
#include "tests/virtual/async/bulk_fixture.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace lssar::test {
namespace {

std::vector<uint8_t> random_bytes(size_t count, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

TensorMapRequest tensor(uint32_t rank, TensorDataType type, TensorSwizzle swizzle) {
  TensorMapRequest r;
  r.type = type;
  r.rank = rank;
  r.swizzle = swizzle;
  const uint32_t element = tensor_element_bytes(type);
  const uint32_t dims[5] = {80 / element, 9, 4, 3, 3};
  const uint32_t boxes[5] = {
      (swizzle == TensorSwizzle::kNone ? 48 : swizzle_span_bytes(swizzle)) / element, 5, 2, 2, 2};
  uint64_t stride = 96;
  for (uint32_t d = 0; d < rank; ++d) {
    r.global_dims[d] = dims[d];
    r.box_dims[d] = boxes[d];
    if (d > 0) {
      r.global_strides[d - 1] = stride;
      stride *= dims[d];
    }
  }
  return r;
}

// --- Loads ---

void expect_load(const BulkMode& mode, TensorMapRequest request,
                 const std::vector<int32_t>& coordinates) {
  SCOPED_TRACE(describe_tensor_map(request));
  BulkDevice device(mode);
  const Buffer<uint8_t> memory(*device.device, random_bytes(96 * 9 * 4 * 3 * 3 + 16));
  request.global_address = (memory.address() + 15) / 16 * 16;
  const ByteMap expected = box_bytes(request, coordinates.data(), 0);
  const auto bytes = static_cast<uint32_t>(expected.size());
  const uint32_t tile_bytes = (bytes + 127) / 128 * 128;
  const Buffer<uint8_t> out(*device.device, std::vector<uint8_t>(tile_bytes, 0x11));
  const std::string issue =
      "cp.async.bulk.tensor." + std::to_string(request.rank) +
      "d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1, {" +
      coordinate_list(request.rank) + "}], [%r3];";
  const Status status =
      device.run(load_kernel(issue, bytes, tile_bytes), request, coordinates, {out.address(), 0});
  ASSERT_TRUE(status.ok()) << status.to_string();
  uint8_t fill[16] = {};
  const bool nan = request.fill == TensorFill::kNan;
  const uint32_t element = tensor_element_bytes(request.type);
  for (uint32_t i = 0; nan && i < 16; ++i) fill[i] = i % element == element - 1 ? 0x7f : 0xff;
  for (const auto& [place, source] : expected) {
    const uint8_t want =
        source == kOutsideTensor ? fill[place % 16] : *reinterpret_cast<const uint8_t*>(source);
    ASSERT_EQ(out[place], want) << "shared byte " << place;
  }
}

class BulkCopyTest : public testing::TestWithParam<BulkMode> {};
INSTANTIATE_TEST_SUITE_P(Modes, BulkCopyTest, testing::ValuesIn(kBulkModes),
                         [](const auto& tested) { return tested.param.name; });

TEST_P(BulkCopyTest, TensorLoadsOfEveryRankAndSwizzle) {
  for (uint32_t rank = 1; rank <= 5; ++rank) {
    for (uint32_t swizzle = 0; swizzle < 4; ++swizzle) {
      expect_load(GetParam(),
                  tensor(rank, TensorDataType::kBfloat16, static_cast<TensorSwizzle>(swizzle)),
                  {8, 2, 1, 1, 0});
    }
  }
}

TEST_P(BulkCopyTest, TensorLoadsOfEveryType) {
  for (uint32_t type = 0; type <= static_cast<uint32_t>(TensorDataType::kBfloat16); ++type) {
    expect_load(GetParam(), tensor(2, static_cast<TensorDataType>(type), TensorSwizzle::k64Bytes),
                {2, 3});
  }
}

TEST_P(BulkCopyTest, TensorLoadsOverTheEdgesAreFilled) {
  for (const int32_t x : {-7, 0, 20, 33, 100}) {
    for (const int32_t y : {-3, 0, 6, 9}) {
      TensorMapRequest r = tensor(2, TensorDataType::kFloat16, TensorSwizzle::k128Bytes);
      expect_load(GetParam(), r, {x, y});
      r.fill = TensorFill::kNan;
      expect_load(GetParam(), r, {x, y});
    }
  }
}

TEST_P(BulkCopyTest, TensorLoadsWithElementStrides) {
  TensorMapRequest r = tensor(3, TensorDataType::kFloat32, TensorSwizzle::k32Bytes);
  r.element_strides[0] = 3;
  r.element_strides[1] = 2;
  r.element_strides[2] = 2;
  expect_load(GetParam(), r, {1, 1, 0});
}

TEST_P(BulkCopyTest, Loads) {
  BulkDevice device(GetParam());
  const Buffer<uint64_t> source(*device.device, std::vector<uint64_t>(64, 0x1234567890abcdef));
  const Buffer<uint8_t> out(*device.device, std::vector<uint8_t>(512));
  for (const char* space : {"cluster", "cta"}) {
    const std::string issue = std::string("cp.async.bulk.shared::") + space +
                              ".global.mbarrier::complete_tx::bytes.L2::cache_hint [%r2+16], "
                              "[%rd3], 256, [%r3], %rd3;";
    const Status status = device.run(load_kernel(issue, 256, 512), std::nullopt, {},
                                     {out.address(), (source.address() + 15) / 16 * 16});
    ASSERT_TRUE(status.ok()) << status.to_string();
    for (uint32_t i = 16; i < 16 + 256; i += 8) {
      uint64_t word;
      std::memcpy(&word, out.values().data() + i, 8);
      ASSERT_EQ(word, 0x1234567890abcdefu) << i;
    }
  }
}

// --- Stores and reductions ---

TEST_P(BulkCopyTest, TensorStoresWriteOnlyTheTensor) {
  for (uint32_t rank = 1; rank <= 5; ++rank) {
    for (const int32_t x : {-9, 4, 30}) {
      TensorMapRequest r = tensor(rank, TensorDataType::kBfloat16, TensorSwizzle::k64Bytes);
      const std::vector<int32_t> at = {x, 6, -1, 1, 1};
      BulkDevice device(GetParam());
      const Buffer<uint8_t> memory(*device.device, std::vector<uint8_t>(96 * 9 * 4 * 3 * 3 + 16));
      r.global_address = (memory.address() + 15) / 16 * 16;
      const ByteMap box = box_bytes(r, at.data(), 0);
      const Status status = device.run(store_kernel("cp.async.bulk.tensor." + std::to_string(rank) +
                                                        "d.global.shared::cta.bulk_group [%rd1, {" +
                                                        coordinate_list(rank) + "}], [%r2];",
                                                    static_cast<uint32_t>(box.size())),
                                       r, at, {0, 0});
      ASSERT_TRUE(status.ok()) << status.to_string();
      std::vector<uint8_t> expected(memory.values().size());
      for (const auto& [place, target] : box) {
        if (target != kOutsideTensor) expected[target - memory.address()] = tile_byte(place);
      }
      EXPECT_EQ(memory.values(), expected) << "rank " << rank << ", x " << x;
    }
  }
}

TEST_P(BulkCopyTest, Stores) {
  BulkDevice device(GetParam());
  const Buffer<uint8_t> memory(*device.device, std::vector<uint8_t>(512 + 16));
  const uint64_t target = (memory.address() + 15) / 16 * 16;
  const Status status = device.run(
      store_kernel("cp.async.bulk.global.shared::cta.bulk_group [%rd3], [%r2+32], 128;", 256),
      std::nullopt, {}, {0, target});
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (uint32_t i = 0; i < 128; ++i) {
    ASSERT_EQ(reinterpret_cast<const uint8_t*>(target)[i], tile_byte(32 + i)) << i;
  }
}

TEST_P(BulkCopyTest, ReductionsAddToWhatIsThere) {
  BulkDevice device(GetParam());
  const Buffer<uint32_t> memory(*device.device, std::vector<uint32_t>(68, 1000));
  const uint64_t target = (memory.address() + 15) / 16 * 16;
  const std::string add =
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd3], [%r2], 256;";
  const Status status =
      device.run(store_kernel(add + "\n" + add, 256), std::nullopt, {}, {0, target});
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (uint32_t i = 0; i < 64; ++i) {
    ASSERT_EQ(reinterpret_cast<const uint32_t*>(target)[i], 1000 + 2 * tile_word(i)) << i;
  }
}

TEST_P(BulkCopyTest, TensorReductionsTakeTheMapsType) {
  BulkDevice device(GetParam());
  const Buffer<int32_t> memory(*device.device, std::vector<int32_t>(20 * 9 * 2, -5));
  TensorMapRequest r = tensor(2, TensorDataType::kInt32, TensorSwizzle::k64Bytes);
  r.global_address = (memory.address() + 15) / 16 * 16;
  const std::vector<int32_t> at = {-2, 2};
  const ByteMap box = box_bytes(r, at.data(), 0);
  const Status status = device.run(
      store_kernel("cp.reduce.async.bulk.tensor.2d.global.shared::cta.max.bulk_group [%rd1, {" +
                       coordinate_list(2) + "}], [%r2];",
                   static_cast<uint32_t>(box.size())),
      r, at, {0, 0});
  ASSERT_TRUE(status.ok()) << status.to_string();
  std::vector<int32_t> expected(memory.values().size(), -5);
  for (const auto& [place, target] : box) {
    if (target == kOutsideTensor || place % 4 != 0) continue;
    int32_t& element = expected[(target - memory.address()) / 4];
    element = std::max(element, static_cast<int32_t>(tile_word(place / 4)));
  }
  EXPECT_EQ(memory.values(), expected);
}

// --- Clusters ---

TEST_P(BulkCopyTest, MulticastsReachTheBlocksOfTheMask) {
  BulkDevice device(GetParam());
  const Buffer<uint8_t> source(*device.device, random_bytes(256 + 16));
  const Buffer<uint8_t> out(*device.device, std::vector<uint8_t>(4 * 256, 0x22));
  const uint64_t from = (source.address() + 15) / 16 * 16;
  // Block 1 sends to blocks 0, 1 and 3; each waits at its own barrier.
  const std::string text = cluster_kernel(
      "setp.ne.u32 %p3, %r20, 2;\n@%p3 setp.eq.s32 %p3, %r1, 0;\n"
      "@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 256;\n"
      "setp.eq.u32 %p4, %r20, 1;\n@%p4 setp.eq.s32 %p4, %r1, 0;\n"
      "@%p4 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%r2], [%rd3], 256, [%r3], 11;\n"
      "setp.eq.u32 %p5, %r20, 2;\n@%p5 bra AFTER;\n" +
      wait_for_barrier() + "AFTER:\n");
  const Status status = device.run_cluster(text, 4, {out.address(), from});
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (const uint32_t block : {0u, 1u, 3u}) {
    EXPECT_EQ(
        std::memcmp(out.values().data() + 256 * block, reinterpret_cast<const void*>(from), 256), 0)
        << block;
  }
  for (uint32_t i = 0; i < 256; ++i) ASSERT_EQ(out[2 * 256 + i], tile_byte(i)) << i;
}

TEST_P(BulkCopyTest, CopiesAndReducesIntoThePeersMemory) {
  for (const bool reduces : {false, true}) {
    BulkDevice device(GetParam());
    const Buffer<uint32_t> out(*device.device, std::vector<uint32_t>(2 * 64));
    const std::string opcode =
        reduces ? "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes."
                  "add.u32"
                : "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes";
    const std::string text = cluster_kernel(
        "setp.eq.u32 %p3, %r20, 1;\n"
        "@%p3 setp.eq.s32 %p3, %r1, 0;\n"
        "@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 128;\n"
        "setp.eq.u32 %p4, %r20, 0;\n@%p4 setp.eq.s32 %p4, %r1, 0;\n"
        "mapa.shared::cluster.u32 %r21, %r2, 1;\n"
        "mapa.shared::cluster.u32 %r22, %r3, 1;\n"
        "@%p4 " +
        opcode +
        " [%r21+64], [%r2], 128, [%r22];\n"
        "setp.eq.u32 %p5, %r20, 0;\n@%p5 bra AFTER;\n" +
        wait_for_barrier() + "AFTER:\n");
    const Status status = device.run_cluster(text, 2, {out.address(), 0});
    ASSERT_TRUE(status.ok()) << status.to_string();
    for (uint32_t i = 0; i < 64; ++i) {
      ASSERT_EQ(out[i], tile_word(i)) << i;
      const bool written = i >= 16 && i < 48;
      const uint32_t want = !written  ? tile_word(i)
                            : reduces ? tile_word(i) + tile_word(i - 16)
                                      : tile_word(i - 16);
      ASSERT_EQ(out[64 + i], want) << i;
    }
  }
}

}  // namespace
}  // namespace lssar::test
