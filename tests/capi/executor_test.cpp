// Grids of a call's launches, and what each launch is given.
#include "tests/capi/executor_fixture.h"

namespace lssar {
namespace {

const Sizes kSizes{2, 4, 2, 100, 300};
const MapSpec kQueries{MapTensor::kQ, 64, 64};
const MapSpec kKeys{MapTensor::kK, 128, 64};
const MapSpec kValues{MapTensor::kV, 128, 64};

class ExecutorGrid : public ExecutorTest {
 protected:
  ExecutorGrid() {
    step_.rows_per_block = 64;
    step_.threads = 128;
    step_.shared_bytes = 1000;
  }
  // grid.x for `queries` queries of one head.
  uint32_t blocks(int64_t queries, int num_sms) {
    const Result<LaunchConfig> config = launch_config(step_, {1, 1, 1, queries, 7}, num_sms);
    EXPECT_TRUE(config.ok()) << config.status().to_string();
    EXPECT_EQ(config->cluster[0], static_cast<uint32_t>(step_.cluster));
    EXPECT_EQ(config->grid[0] % config->cluster[0], 0u);
    return config->grid[0];
  }
  LaunchStep step_;
};

TEST_F(ExecutorGrid, HasABlockPerRowsOfEveryHead) {
  const LaunchConfig queries = launch_config(step_, kSizes, 1).value();
  EXPECT_EQ(queries.grid[0], 2u * 4 * 2);
  EXPECT_EQ(queries.block[0], 128u);
  EXPECT_EQ(queries.shared_bytes, 1000u);
  step_.grid_rows = GridRows::kKeys;
  EXPECT_EQ(launch_config(step_, kSizes, 1)->grid[0], 5u * 2 * 2);
}

// Rows are the queries of all heads that share keys.
TEST_F(ExecutorGrid, IsEmptyWhereTheCallHasTooFewOrTooManyRows) {
  const auto grid = [&](int64_t heads, int64_t kv_heads, int64_t queries) {
    return launch_config(step_, {1, heads, kv_heads, queries, 7}, 1)->grid[0];
  };
  step_.most_rows = 16;
  EXPECT_EQ(grid(8, 2, 4), 8u);
  EXPECT_EQ(grid(8, 2, 5), 0u);
  step_.most_rows = 0;
  step_.least_rows = 17;
  EXPECT_EQ(grid(8, 2, 4), 0u);
  EXPECT_EQ(grid(8, 2, 5), 8u);
  EXPECT_EQ(grid(0, 0, 5), 0u);
}

// Whole queries of a kv head's heads in tiles of 32 rows, two tiles to a block.
TEST_F(ExecutorGrid, OfPackedQueriesHasABlockPerTilesOfEveryKvHead) {
  step_.grid_rows = GridRows::kPackedQueries;
  step_.packed_rows = 32;
  const auto grid = [&](int64_t heads, int64_t kv_heads, int64_t queries) {
    return launch_config(step_, {1, heads, kv_heads, queries, 7}, 1)->grid[0];
  };
  EXPECT_EQ(grid(8, 2, 100), 2u * 7);  // 8 queries of 4 heads: 13 tiles
  EXPECT_EQ(grid(6, 2, 100), 2u * 5);  // 10 of 3
  EXPECT_EQ(grid(33, 1, 3), 3u);       // a query in two tiles
  EXPECT_EQ(grid(4, 4, 65), 4u * 2);
  EXPECT_EQ(grid(8, 1, 0), 0u);
  EXPECT_EQ(grid(0, 1, 10), 0u);
}

TEST_F(ExecutorGrid, OfAPersistentKernelIsWhatTheSmsHold) {
  step_.is_persistent = true;
  EXPECT_EQ(blocks(64 * 1000, 132), 132u);
  step_.blocks_per_sm = 2;
  EXPECT_EQ(blocks(64 * 1000, 132), 264u);
}

TEST_F(ExecutorGrid, OfAPersistentKernelHasNoMoreBlocksThanWork) {
  step_.is_persistent = true;
  EXPECT_EQ(blocks(64 * 5, 132), 5u);
  EXPECT_EQ(blocks(0, 132), 0u);
}

TEST_F(ExecutorGrid, OfAPersistentKernelHasABlockWhereSmsAreUnknown) {
  step_.is_persistent = true;
  EXPECT_EQ(blocks(64 * 5, 0), 1u);
  step_.cluster = 2;
  EXPECT_EQ(blocks(64 * 5, 0), 2u);
}

TEST_F(ExecutorGrid, IsRoundedUpToWholeClusters) {
  step_.cluster = 4;
  EXPECT_EQ(blocks(64 * 5, 1), 8u);
  EXPECT_EQ(blocks(64 * 8, 1), 8u);
  EXPECT_EQ(blocks(0, 1), 0u);
}

// Blocks of a cluster share the keys of one head.
TEST_F(ExecutorGrid, HasWholeClustersForEachHead) {
  step_.cluster = 2;
  EXPECT_EQ(launch_config(step_, {1, 3, 1, 64 * 5, 7}, 1)->grid[0], 3u * 6);
}

TEST_F(ExecutorGrid, OfPersistentClustersHasNoMoreThanRunAtOnce) {
  step_.is_persistent = true;
  step_.cluster = 4;
  EXPECT_EQ(blocks(64 * 1000, 10), 8u);
  EXPECT_EQ(blocks(64 * 5, 10), 8u);
  EXPECT_EQ(blocks(64 * 1, 10), 4u);
}

TEST_F(ExecutorGrid, OfPersistentClustersHasNoMoreThanTheDeviceKeepsResident) {
  step_.is_persistent = true;
  step_.cluster = 2;
  const auto grid = [&](int64_t rows, int resident_clusters) {
    return launch_config(step_, {1, 1, 1, rows, 7}, 132, resident_clusters)->grid[0];
  };
  EXPECT_EQ(grid(64 * 1000, 0), 132u);
  EXPECT_EQ(grid(64 * 1000, 60), 120u);
  EXPECT_EQ(grid(64 * 1000, 100), 132u);
  EXPECT_EQ(grid(64 * 5, 60), 6u);
  step_.is_persistent = false;
  EXPECT_EQ(grid(64 * 1000, 60), 1000u);
}

TEST_F(ExecutorGrid, BeyondTheLimitIsRefusedWithItsSizes) {
  const int64_t most = std::numeric_limits<int32_t>::max();
  const Result<LaunchConfig> config = launch_config(step_, {2, 64, 64, most, 1}, 1);
  EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(config.status().message().find("batch 2 x heads 64"), std::string::npos)
      << config.status().to_string();
  step_.is_persistent = true;
  EXPECT_FALSE(launch_config(step_, {2, 64, 64, most, 1}, 1).ok());
}

TEST_F(ExecutorTest, KernelsWithoutMapsTakeAttentionParams) {
  make_call(Pass::kForward, DType::kBf16, kSizes);
  ASSERT_TRUE(launch({step("plain", GridRows::kKeys, {})}).ok());
  ASSERT_EQ(device_.launches_.size(), 1u);
  EXPECT_TRUE(device_.launches_[0].maps.empty());
  EXPECT_EQ(device_.num_maps_, 0);
}

TEST_F(ExecutorTest, WorkspacePointersFollowTheLayout) {
  make_call(Pass::kForward, DType::kBf16, kSizes);
  const lssar_device::AttentionParams params = attention_params(call());
  EXPECT_EQ(reinterpret_cast<DevicePtr>(params.row_constants), kWorkspace + layout_.row_constants);
  EXPECT_EQ(reinterpret_cast<DevicePtr>(params.k_inv_norm), kWorkspace + layout_.k_inv_norm);
}

TEST_F(ExecutorTest, KernelsWithMapsTakeThemInTheirOrderAndZerosAfter) {
  make_call(Pass::kForward, DType::kBf16, kSizes);
  const Status status =
      launch({step("first", GridRows::kKeys, {kKeys}), step("none", GridRows::kQueries, {}),
              step("second", GridRows::kQueries, {kQueries, kKeys, kValues})});
  ASSERT_TRUE(status.ok()) << status.to_string();
  ASSERT_EQ(device_.launches_.size(), 3u);
  ASSERT_EQ(device_.launches_[0].maps.size(), static_cast<size_t>(lssar_device::kMaxTensorMaps));
  EXPECT_EQ(decoded(device_.launches_[0].maps[0]).global_address, tensors_.k.data);
  EXPECT_TRUE(device_.launches_[1].maps.empty());
  const FakeLaunch& last = device_.launches_[2];
  EXPECT_EQ(decoded(last.maps[0]).global_address, tensors_.q.data);
  EXPECT_EQ(decoded(last.maps[1]).global_address, tensors_.k.data);
  EXPECT_EQ(decoded(last.maps[2]).global_address, tensors_.v.data);
  const lssar_device::TensorMap zeros{};
  EXPECT_EQ(std::memcmp(&last.maps[3], &zeros, sizeof(zeros)), 0);
  EXPECT_EQ(last.params.q.data, reinterpret_cast<void*>(tensors_.q.data));
  EXPECT_EQ(last.params.seq_k, 300);
}

TEST_F(ExecutorTest, MapsOfALaterStepNeverKeepThoseOfAnEarlierOne) {
  make_call(Pass::kForward, DType::kBf16, kSizes);
  ASSERT_TRUE(launch({step("first", GridRows::kQueries, {kQueries, kKeys, kValues}),
                      step("second", GridRows::kQueries, {kValues})})
                  .ok());
  const lssar_device::TensorMap zeros{};
  EXPECT_EQ(decoded(device_.launches_[1].maps[0]).global_address, tensors_.v.data);
  EXPECT_EQ(std::memcmp(&device_.launches_[1].maps[1], &zeros, sizeof(zeros)), 0);
}

TEST_F(ExecutorTest, StepsWithoutRowsHaveNoMapsMade) {
  make_call(Pass::kForward, DType::kBf16, {1, 2, 2, 10, 0});
  ASSERT_TRUE(launch({step("keys", GridRows::kKeys, {kKeys}),
                      step("queries", GridRows::kQueries, {kQueries, kKeys})})
                  .ok());
  ASSERT_EQ(device_.launches_.size(), 1u);
  EXPECT_EQ(device_.num_maps_, 2);
  EXPECT_EQ(decoded(device_.launches_[0].maps[0]).global_address, tensors_.q.data);
}

TEST_F(ExecutorTest, NothingIsLaunchedWhereAMapOfALaterStepFails) {
  make_call(Pass::kForward, DType::kBf16, kSizes);
  tensors_.v.head_stride = int64_t{1} << 40;
  const Status status = launch({step("first", GridRows::kKeys, {kKeys}),
                                step("second", GridRows::kQueries, {kQueries, kValues})});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(device_.launches_.empty());
}

TEST_F(ExecutorTest, MapTheDeviceRefusesNamesTheKernelAndTheTensor) {
  make_call(Pass::kForward, DType::kBf16, kSizes);
  device_.fails_map_at_ = 2;
  const Status status = launch({step("lssar_forward", GridRows::kQueries, {kQueries, kKeys})});
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
  EXPECT_EQ(status.message(), "lssar_forward, k: map refused");
  EXPECT_TRUE(device_.launches_.empty());
}

}  // namespace
}  // namespace lssar
