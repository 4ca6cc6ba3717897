#include "tests/virtual/strict/replica_launch.h"

#include <random>

#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {

void ReplicaLaunch::map_argument(uint64_t address, const MapShape& shape) {
  TensorMapRequest request;
  request.type = shape.type;
  request.rank = 2;
  request.global_address = address;
  request.global_dims[0] = shape.columns;
  request.global_dims[1] = shape.rows;
  request.global_strides[0] = shape.columns * tensor_element_bytes(shape.type);
  request.box_dims[0] = shape.box_columns;
  request.box_dims[1] = shape.box_rows;
  request.swizzle = shape.swizzle;
  const Result<TensorMap> map = device_.encode_tensor_map(request);
  if (!map.ok()) failure_ = map.status();
  argument(map.ok() ? *map : TensorMap{});
}

Status ReplicaLaunch::launch(const DeviceFunction& function, uint32_t blocks, uint32_t threads,
                             uint32_t shared_bytes, uint32_t cluster) {
  LSSAR_RETURN_IF_ERROR(failure_);
  LSSAR_RETURN_IF_ERROR(device_.prepare(function, shared_bytes));
  LaunchConfig config;
  config.grid[0] = blocks;
  config.block[0] = threads;
  config.cluster[0] = cluster;
  config.shared_bytes = shared_bytes;
  LSSAR_RETURN_IF_ERROR(
      device_.launch(function, config, arguments_.data(), arguments_.size(), nullptr));
  return device_.synchronize(nullptr);
}

std::vector<float> small_numbers(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(static_cast<int>(random() % 9) - 4);
  return values;
}

std::vector<uint32_t> random_words(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<uint32_t> words(count);
  for (uint32_t& w : words) w = static_cast<uint32_t>(random());
  return words;
}

std::vector<uint16_t> to_bf16(const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  bits.reserve(values.size());
  for (const float v : values) bits.push_back(bfloat_bits(v));
  return bits;
}

}  // namespace lssar::test
