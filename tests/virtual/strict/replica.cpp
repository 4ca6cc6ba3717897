#include "tests/virtual/strict/replica.h"

#include "tests/virtual/strict/replica_launch.h"

namespace lssar::test {
namespace {

constexpr uint32_t kShared = 40 << 10;

// c [m, n] = a [m, k] b [n, k]^T, or with b [k, n] where `b_rows_are_k`.
std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b, size_t m,
                           size_t n, size_t k, bool b_rows_are_k) {
  std::vector<float> c(m * n);
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (size_t l = 0; l < k; ++l) {
        sum += double{a[i * k + l]} * b[b_rows_are_k ? l * n + j : j * k + l];
      }
      c[i * n + j] = static_cast<float>(sum);
    }
  }
  return c;
}

MapShape bf16_map(uint64_t rows, uint64_t columns, uint32_t box_rows) {
  return {TensorDataType::kBfloat16, TensorSwizzle::k128Bytes, rows, columns, box_rows, 64};
}

Result<std::string> run_p_through_shared(Device& device, const DeviceFunction& function) {
  constexpr int kTiles = 5, kKeys = 64 * kTiles;
  const auto p = small_numbers(64 * kKeys, 1), v = small_numbers(kKeys * 64, 2);
  ReplicaLaunch launch(device);
  const uint64_t o = launch.output(64 * 64 * 4);
  launch.argument(launch.input(to_bf16(p)));
  launch.map_argument(launch.input(to_bf16(v)), bf16_map(kKeys, 64, 64));
  launch.argument(o);
  launch.argument<int32_t>(kTiles);
  LSSAR_RETURN_IF_ERROR(launch.launch(function, 1, 128, kShared));
  return first_difference(launch.read<float>(o, 64 * 64), product(p, v, 64, 64, kKeys, true));
}

Result<std::string> run_reduce_add(Device& device, const DeviceFunction& function) {
  constexpr int kBlocks = 2, kTiles = 5, kCount = kTiles * 2048;
  const auto x = small_numbers(kBlocks * kCount, 3);
  std::vector<float> expected(kCount, 0.0f);
  for (size_t i = 0; i < x.size(); ++i) expected[i % kCount] += x[i];
  ReplicaLaunch launch(device);
  const uint64_t sum = launch.input(std::vector<float>(kCount, 0.0f));
  launch.argument(launch.input(x));
  launch.map_argument(sum,
                      {TensorDataType::kFloat32, TensorSwizzle::kNone, kTiles * 64, 32, 64, 32});
  launch.argument(sum);
  launch.argument<int32_t>(kTiles);
  LSSAR_RETURN_IF_ERROR(launch.launch(function, kBlocks, 128, kShared));
  return first_difference(launch.read<float>(sum, kCount), expected);
}

// Kernels that add up x [tiles, 1024] into `sums` per thread; `term` is the thread of a word.
Result<std::string> run_sums(Device& device, const DeviceFunction& function, int tiles,
                             uint32_t threads, uint32_t num_sums, uint32_t (*thread_of)(uint32_t),
                             bool passes_tiles) {
  const auto x = random_words(1024 * tiles, 4);
  std::vector<uint32_t> expected(num_sums, 0u);
  for (size_t i = 0; i < x.size(); ++i) expected[thread_of(i % 1024)] += x[i];
  ReplicaLaunch launch(device);
  const uint64_t sums = launch.output(num_sums * 4);
  launch.argument(launch.input(x));
  launch.argument(sums);
  if (passes_tiles) launch.argument<int32_t>(tiles);
  LSSAR_RETURN_IF_ERROR(launch.launch(function, 1, threads, kShared));
  return first_difference(launch.read<uint32_t>(sums, num_sums), expected);
}

Result<std::string> run_read_stages(Device& device, const DeviceFunction& function) {
  // ldmatrix: lane 4 r + w gets word w of row r of each matrix of 8 rows of 4 words.
  return run_sums(
      device, function, 8, 96, 64, [](uint32_t i) { return i / 512 * 32 + i % 32; }, true);
}
Result<std::string> run_copies_that_arrive(Device& device, const DeviceFunction& function) {
  return run_sums(
      device, function, 6, 128, 64, [](uint32_t i) { return i % 64; }, true);
}
Result<std::string> run_barrier_again(Device& device, const DeviceFunction& function) {
  return run_sums(
      device, function, 2, 32, 32, [](uint32_t i) { return i % 32; }, false);
}

Result<std::string> run_add_one(Device& device, const DeviceFunction& function) {
  constexpr int kTiles = 5, kCount = kTiles * 1024;
  const auto x = random_words(kCount, 5);
  std::vector<uint32_t> expected = x;
  for (uint32_t& word : expected) ++word;
  ReplicaLaunch launch(device);
  const uint64_t y = launch.output(kCount * 4);
  launch.argument(launch.input(x));
  launch.argument(y);
  launch.argument<int32_t>(kTiles);
  LSSAR_RETURN_IF_ERROR(launch.launch(function, 1, 128, kShared));
  return first_difference(launch.read<uint32_t>(y, kCount), expected);
}

Result<std::string> run_dependent_add_one(Device& device, const DeviceFunction& function) {
  const auto x = random_words(256, 6);
  std::vector<uint32_t> expected = x;
  for (uint32_t& word : expected) ++word;
  ReplicaLaunch launch(device);
  const uint64_t y = launch.output(256 * 4);
  launch.argument(launch.input(x));
  launch.argument(y);
  LSSAR_RETURN_IF_ERROR(launch.launch(function, 2, 128, 0));
  return first_difference(launch.read<uint32_t>(y, 256), expected);
}

Result<std::string> run_multicast_gemm(Device& device, const DeviceFunction& function) {
  constexpr int kTiles = 9, kDepth = 64 * kTiles;
  const auto a = small_numbers(128 * kDepth, 7), b = small_numbers(64 * kDepth, 8);
  ReplicaLaunch launch(device);
  const uint64_t o = launch.output(128 * 64 * 4);
  launch.map_argument(launch.input(to_bf16(a)), bf16_map(128, kDepth, 64));
  launch.map_argument(launch.input(to_bf16(b)), bf16_map(64, kDepth, 32));
  launch.argument(o);
  launch.argument<int32_t>(kTiles);
  LSSAR_RETURN_IF_ERROR(launch.launch(function, 2, 160, kShared, 2));
  return first_difference(launch.read<float>(o, 128 * 64), product(a, b, 128, 64, kDepth, false));
}

Result<std::string> run_cluster_sum(Device& device, const DeviceFunction& function) {
  constexpr int kClusters = 2, kBlocks = 4;
  const auto x = small_numbers(kClusters * kBlocks * 128, 9);
  std::vector<float> expected(kClusters * 128, 0.0f);
  for (size_t i = 0; i < x.size(); ++i) expected[i / (kBlocks * 128) * 128 + i % 128] += x[i];
  ReplicaLaunch launch(device);
  const uint64_t sums = launch.output(expected.size() * 4);
  launch.argument(launch.input(x));
  launch.argument(sums);
  LSSAR_RETURN_IF_ERROR(launch.launch(function, kClusters * kBlocks, 128, 1024, kBlocks));
  return first_difference(launch.read<float>(sums, expected.size()), expected);
}

Result<std::string> run_exchange(Device& device, const DeviceFunction& function) {
  constexpr int kRounds = 9, kBlocks = 4;
  const auto x = random_words(kRounds * kBlocks * 128, 10);
  std::vector<uint32_t> expected(x.size());
  for (size_t i = 0; i < x.size(); ++i) expected[i] = x[i ^ 128];
  ReplicaLaunch launch(device);
  const uint64_t y = launch.output(x.size() * 4);
  launch.argument(launch.input(x));
  launch.argument(y);
  launch.argument<int32_t>(kRounds);
  LSSAR_RETURN_IF_ERROR(launch.launch(function, kBlocks, 128, 1024, 2));
  return first_difference(launch.read<uint32_t>(y, x.size()), expected);
}

Result<std::string> run_last_block(Device& device, const DeviceFunction& function) {
  constexpr int kBlocks = 4;
  const auto x = small_numbers(kBlocks * 128, 11);
  std::vector<float> expected(128, 0.0f);
  for (size_t i = 0; i < x.size(); ++i) expected[i % 128] += 2 * x[i];
  ReplicaLaunch launch(device);
  const uint64_t parts = launch.output(x.size() * 4), sum = launch.output(128 * 4);
  launch.argument(launch.input(x));
  launch.argument(parts);
  launch.argument(launch.input(std::vector<uint32_t>(1, 0u)));
  launch.argument(sum);
  LSSAR_RETURN_IF_ERROR(launch.launch(function, kBlocks, 128, 1024));
  return first_difference(launch.read<float>(sum, 128), expected);
}

}  // namespace

const std::vector<Replica>& replicas() {
  static const std::vector<Replica> kReplicas = {
      {"hopper_forward", "hopper_forward_d64", run_forward_64},
      {"hopper_forward", "hopper_forward_d128", run_forward_128},
      {"hopper_patterns", "p_through_shared", run_p_through_shared},
      {"hopper_patterns", "reduce_add", run_reduce_add},
      {"hopper_patterns", "read_stages", run_read_stages},
      {"hopper_patterns", "copies_that_arrive", run_copies_that_arrive},
      {"hopper_patterns", "barrier_again", run_barrier_again},
      {"hopper_patterns", "add_one", run_add_one},
      {"hopper_patterns", "dependent_add_one", run_dependent_add_one},
      {"hopper_cluster", "multicast_gemm", run_multicast_gemm},
      {"hopper_cluster", "cluster_sum", run_cluster_sum},
      {"hopper_cluster", "exchange", run_exchange},
      {"hopper_cluster", "last_block_fences", run_last_block},
      {"hopper_cluster", "last_block_acquires", run_last_block},
  };
  return kReplicas;
}

Result<std::string> run_replica(const Replica& replica, Device& device, const std::string& text) {
  Image image;
  image.bytes = text;
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceModule> module, device.load(image));
  LSSAR_ASSIGN_OR_RETURN(const DeviceFunction* function, module->function(replica.entry));
  return replica.run(device, *function);
}

}  // namespace lssar::test
