// Tensor maps that a kernel changes: tensormap.replace and tensormap.cp_fenceproxy, in the way of
// CUTLASS's grouped products.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "tests/virtual/async/bulk_fixture.h"

namespace lssar::test {
namespace {

constexpr uint32_t kTileWords = 64;
constexpr size_t kMapBytes = 1024;      // where the tensors begin in `memory`
constexpr uint32_t kTensorWords = 256;  // of each of two
constexpr uint32_t kNewRowWords = 16;   // of the second
constexpr const char* kSyncWarp = "bar.warp.sync -1;\n";
constexpr const char* kAcquire = "fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;\n";
constexpr const char* kCopy =
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
    "[%rd3], [%a3], 128;\n";

// The parameter's map, by a lane's word each, to shared memory at %a3, and to global at %rd3.
constexpr const char* kTakeMap =
    ".shared .align 128 .b8 smap[128];\n.reg .b32 %a<8>;\n.reg .b64 %m<8>;\n"
    "shl.b32 %a1, %r1, 2;\ncvt.u64.u32 %m1, %a1;\nadd.u64 %m2, %m1, %rd1;\nld.u32 %a2, [%m2];\n"
    "mov.u32 %a3, smap;\nadd.u32 %a4, %a3, %a1;\nst.shared.u32 [%a4], %a2;\n"
    "add.u64 %m3, %m1, %rd3;\nst.global.u32 [%m3], %a2;\n"
    "mul.wide.u32 %m4, %r6, 1;\nadd.u64 %m4, %m4, %rd3;\n";  // the second tensor

std::string replace(const char* where, const char* address, const std::string& field,
                    const std::string& operands) {
  const bool wide = field == "global_address" || field == "global_stride";
  return fmt::format("tensormap.replace.tile.{}{}.b1024.{} [{}], {};\n", field, where,
                     wide ? "b64" : "b32", address, operands);
}
std::string load(uint32_t rank, uint32_t bytes) {
  return fmt::format(
             "@%p1 bra WAIT;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {};\n"
             "cp.async.bulk.tensor.{}d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], "
             "[%rd3, {{{}}}], [%r3];\n",
             bytes, rank, coordinate_list(rank)) +
         wait_for_barrier();
}
std::string by_thread_0(const std::string& body) {
  return "@%p1 bra TOGETHER;\n" + body + "TOGETHER:\n";
}

class TensorMapChangeTest : public testing::TestWithParam<BulkMode> {
 protected:
  TensorMapChangeTest() : memory_(*device_.device, words()) {
    map_.type = TensorDataType::kUint32;
    map_.rank = 2;
    map_.global_address = tensor(0);
    map_.global_dims[0] = map_.global_dims[1] = map_.box_dims[0] = map_.box_dims[1] = 8;
    map_.global_strides[0] = 32;
  }
  static std::vector<uint32_t> words() {
    std::vector<uint32_t> all(128 + kMapBytes / 4 + 2 * kTensorWords);
    for (size_t i = 0; i < all.size(); ++i) {
      const float value = static_cast<float>(i);
      std::memcpy(&all[i], &value, 4);
    }
    return all;
  }
  uint64_t base() const { return (memory_.address() + 127) / 128 * 128; }
  uint64_t tensor(uint32_t which) const { return base() + kMapBytes + which * 4 * kTensorWords; }
  uint32_t word_at(uint64_t address) const {
    return memory_[static_cast<size_t>(address - memory_.address()) / 4];
  }
  // %m4 is the second tensor.
  Status run(const std::string& body) {
    return device_.run(cluster_kernel(kTakeMap + body), map_,
                       {0, 0, static_cast<int32_t>(tensor(1) - base())}, {out_.address(), base()});
  }
  // The map's address, sizes and row length become those of the second tensor: 6 columns, 5 rows.
  static std::string replace_tensor(const char* where, const char* address) {
    return replace(where, address, "global_address", "%m4") +
           replace(where, address, "global_dim", "0, 6") +
           replace(where, address, "global_dim", "1, 5") +
           replace(where, address, "global_stride", "0, 64");
  }
  void expect_second_tensor(const std::string& body) {
    const Status status = run(body + load(2, 4 * kTileWords));
    ASSERT_TRUE(status.ok()) << status.to_string();
    for (uint32_t i = 0; i < kTileWords; ++i) {
      const uint32_t row = i / 8, column = i % 8;
      const uint64_t place = tensor(1) + 4 * (row * kNewRowWords + column);
      ASSERT_EQ(out_[i], row < 5 && column < 6 ? word_at(place) : 0u) << i;
    }
  }

  BulkDevice device_{GetParam()};
  const Buffer<uint32_t> memory_;
  const Buffer<uint32_t> out_{*device_.device, std::vector<uint32_t>(kTileWords)};
  TensorMapRequest map_;
};
INSTANTIATE_TEST_SUITE_P(Modes, TensorMapChangeTest, testing::ValuesIn(kBulkModes),
                         [](const auto& p) { return p.param.name; });

TEST_P(TensorMapChangeTest, ReplacedInSharedMemoryAndCopied) {
  expect_second_tensor(kSyncWarp + by_thread_0(replace_tensor(".shared::cta", "%a3")) + kSyncWarp +
                       kCopy + kAcquire);
}

TEST_P(TensorMapChangeTest, ReplacedInGlobalMemory) {
  expect_second_tensor(kSyncWarp + by_thread_0(replace_tensor(".global", "%rd3")) + kSyncWarp +
                       "fence.proxy.tensormap::generic.release.gpu;\n" + kAcquire);
}

TEST_P(TensorMapChangeTest, ReplacedAtGenericAddresses) {
  expect_second_tensor(kSyncWarp +
                       by_thread_0("cvt.u64.u32 %m5, %a3;\ncvta.shared.u64 %m5, %m5;\n" +
                                   replace_tensor("", "%m5") + replace_tensor("", "%rd3")) +
                       kSyncWarp + kCopy + kAcquire);
}

// All of them, from a map that has none in common: the tile is that of a map encoded so.
TEST_P(TensorMapChangeTest, EveryFieldCounts) {
  TensorMapRequest wanted;
  wanted.type = TensorDataType::kFloat32;
  wanted.rank = 2;
  wanted.global_address = tensor(1);
  wanted.global_dims[0] = 6;
  wanted.global_dims[1] = 12;
  wanted.global_strides[0] = 64;
  wanted.box_dims[0] = 8;
  wanted.box_dims[1] = 16;
  wanted.element_strides[1] = 2;
  wanted.swizzle = TensorSwizzle::k32Bytes;
  wanted.fill = TensorFill::kNan;
  const TensorMapRequest other = map_;
  map_ = wanted;
  Status status = run(kSyncWarp + std::string(kCopy) + kAcquire + load(2, 256));
  ASSERT_TRUE(status.ok()) << status.to_string();
  const std::vector<uint32_t> expected = out_.values();
  EXPECT_EQ(expected[0], word_at(tensor(1)));
  EXPECT_EQ(expected[8], word_at(tensor(1) + 128));
  float outside = 0;
  std::memcpy(&outside, &expected[7], 4);
  EXPECT_TRUE(std::isnan(outside));

  map_ = other;
  map_.type = TensorDataType::kUint8;
  map_.rank = 1;
  map_.global_dims[0] = map_.box_dims[0] = 16;
  const auto field = [](const char* name, const char* operands) {
    return replace(".shared::cta", "%a3", name, operands);
  };
  const std::string fields =
      field("elemtype", "7") + field("rank", "1") + replace_tensor(".shared::cta", "%a3") +
      field("global_dim", "1, 12") + field("box_dim", "0, 8") + field("box_dim", "1, 16") +
      field("element_stride", "0, 1") + "mov.u32 %a5, 2;\n" + field("element_stride", "1, %a5") +
      field("interleave_layout", "0") + field("swizzle_mode", "1") + field("fill_mode", "1");
  status = run(kSyncWarp + by_thread_0(fields) + kSyncWarp + kCopy + kAcquire + load(2, 256));
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(out_.values(), expected);
}

class TensorMapChangeBugTest : public TensorMapChangeTest {
 protected:
  void expect_report(const std::string& body, const char* what) {
    const Status status = run(body);
    EXPECT_NE(status.message().find(what), std::string::npos) << status.to_string();
  }
};
INSTANTIATE_TEST_SUITE_P(Strict, TensorMapChangeBugTest,
                         testing::Values(kBulkModes[2], kBulkModes[3], kBulkModes[4]),
                         [](const auto& p) { return p.param.name; });

TEST_P(TensorMapChangeBugTest, UsedWithoutAnAcquire) {
  const std::string changed = by_thread_0(replace_tensor(".shared::cta", "%a3"));
  expect_report(kSyncWarp + changed + kSyncWarp + kCopy + load(2, 256),
                "visible to it, but not to the async proxy");
}

TEST_P(TensorMapChangeBugTest, CopiedBeforeAllLanesHaveSeenTheChange) {
  expect_report(kSyncWarp + by_thread_0(replace_tensor(".shared::cta", "%a3")) + kCopy + kAcquire +
                    load(2, 256),
                "nothing orders the two");
}

TEST_P(TensorMapChangeBugTest, ReplacedBeforeOtherLanesHaveWrittenTheMap) {
  expect_report(by_thread_0(replace_tensor(".shared::cta", "%a3")) + kSyncWarp + kCopy + kAcquire +
                    load(2, 256),
                "nothing orders the two");
}

class TensorMapChangeFaultTest : public TensorMapChangeTest {
 protected:
  void expect_fault(const std::string& body, const char* what) {
    const Status status = run(kSyncWarp + body + "ret;\n");
    EXPECT_NE(status.message().find(what), std::string::npos) << status.to_string();
  }
};
INSTANTIATE_TEST_SUITE_P(Strict, TensorMapChangeFaultTest, testing::Values(kBulkModes[0]),
                         [](const auto& p) { return p.param.name; });

TEST_P(TensorMapChangeFaultTest, NamesFieldAndValue) {
  const auto on_shared = [&](const char* field, const char* operands, const char* what) {
    expect_fault(by_thread_0(replace(".shared::cta", "%a3", field, operands)), what);
  };
  on_shared("box_dim", "1, 257", "tensor map: box_dim = 257: allowed are 1 to 256");
  on_shared("global_dim", "1, 0", "tensor map: global_dim = 0: allowed are 1 to 4294967295");
  on_shared("element_stride", "1, 9", "tensor map: element_stride = 9: allowed are 1 to 8");
  on_shared("global_stride", "4, 64", "dimension of a global_stride = 4: allowed are 0 to 3");
  on_shared("box_dim", "5, 8", "tensor map: dimension = 5: allowed are 0 to 4");
  on_shared("rank", "5", "tensor map: rank - 1 = 5: allowed are 0 to 4");
  on_shared("elemtype", "13", "tensor map: elemtype = 13: allowed are 0 to 12");
  on_shared("interleave_layout", "1", "tensor map: interleave_layout = 1: allowed are 0 to 0");
  on_shared("swizzle_mode", "4", "tensor map: swizzle_mode = 4: allowed are 0 to 3");
  on_shared("fill_mode", "2", "tensor map: fill_mode = 2: allowed are 0 to 1");
}

TEST_P(TensorMapChangeFaultTest, NamesWhatIsNoMapAndWhatIsInvalid) {
  expect_fault(by_thread_0(replace(".shared::cta", "%r2", "rank", "1")),
               "no tensor map of this device");
  expect_fault(by_thread_0(replace(".shared::cta", "%a3+4", "rank", "1")),
               "not aligned to 64 bytes");
  expect_fault(by_thread_0(replace("", "%rd1", "rank", "1")), "state space");
  expect_fault(
      by_thread_0(replace(".global", "%rd3", "global_stride", "0, 40")) + kSyncWarp + load(2, 256),
      "is an invalid tensor map: global_strides[0] = 40");
  expect_fault(
      "mov.b64 %m5, %rd3;\n@%p1 add.u64 %m5, %m5, 128;\n"
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync"
      ".aligned [%m5], [%a3], 128;\n",
      "the lanes of the warp name different tensor maps");
}

}  // namespace
}  // namespace lssar::test
