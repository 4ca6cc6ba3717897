// The forward of data/hopper_forward.cu against its formula in double.
#include <cmath>
#include <random>

#include "tests/virtual/ptx_fixture.h"
#include "tests/virtual/strict/replica_launch.h"

namespace lssar::test {
namespace {

constexpr double kScale = 0.25;

struct Forward {
  int dim, tile_keys, queries, keys;
  uint32_t shared_bytes;
};

std::vector<uint16_t> gauss_bf16(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> gauss;
  std::vector<float> values(count);
  for (float& v : values) v = gauss(random);
  return to_bf16(values);
}

std::vector<double> expected_row(const Forward& f, const std::vector<uint16_t>& q,
                                 const std::vector<uint16_t>& k, const std::vector<uint16_t>& v,
                                 int row) {
  std::vector<double> o(f.dim);
  double sum = 0;
  for (int j = 0; j < f.keys; ++j) {
    double dot = 0;
    for (int c = 0; c < f.dim; ++c) {
      dot += bfloat_value(q[row * f.dim + c]) * bfloat_value(k[j * f.dim + c]);
    }
    const double p = std::exp2(kScale * dot);
    sum += p;
    for (int c = 0; c < f.dim; ++c) o[c] += p * bfloat_value(v[j * f.dim + c]);
  }
  for (double& x : o) x /= sum;
  return o;
}

// Worked out once: the mutation test has hundreds of runs, which take less time.
struct ForwardData {
  Forward forward;
  std::vector<uint16_t> q, k, v;
  std::vector<std::vector<double>> expected;  // by row
};
ForwardData make_data(const Forward& f) {
  ForwardData data{f,
                   gauss_bf16(f.queries * f.dim, 1),
                   gauss_bf16(f.keys * f.dim, 2),
                   gauss_bf16(f.keys * f.dim, 3),
                   {}};
  for (int row = 0; row < f.queries; ++row)
    data.expected.push_back(expected_row(f, data.q, data.k, data.v, row));
  return data;
}

Result<std::string> run_forward(const ForwardData& data, Device& device,
                                const DeviceFunction& function) {
  const Forward& f = data.forward;
  const auto shape = [&](int rows, int box_rows) {
    return MapShape{TensorDataType::kBfloat16,       TensorSwizzle::k128Bytes,
                    static_cast<uint64_t>(rows),     static_cast<uint64_t>(f.dim),
                    static_cast<uint32_t>(box_rows), 64};
  };
  ReplicaLaunch launch(device);
  const size_t count = data.q.size();
  const uint64_t o = launch.output(count * 2);
  launch.map_argument(launch.input(data.q), shape(f.queries, 64));
  launch.map_argument(launch.input(data.k), shape(f.keys, f.tile_keys));
  launch.map_argument(launch.input(data.v), shape(f.keys, f.tile_keys));
  launch.map_argument(o, shape(f.queries, 64));
  launch.argument<int32_t>(f.keys);
  launch.argument(static_cast<float>(kScale));
  LSSAR_RETURN_IF_ERROR(
      launch.launch(function, static_cast<uint32_t>(f.queries + 127) / 128, 384, f.shared_bytes));
  const std::vector<uint16_t> got = launch.read<uint16_t>(o, count);
  for (int row = 0; row < f.queries; ++row) {
    const std::vector<double>& expected = data.expected[row];
    for (int c = 0; c < f.dim; ++c) {
      const double value = bfloat_value(got[row * f.dim + c]);
      // p and o are rounded to bf16: 2^-9 of what is summed, and once more of the result.
      if (!(std::fabs(value - expected[c]) <= 0.004 + 0.008 * std::fabs(expected[c]))) {
        return fmt::format("o[{}, {}] is {}, not {}", row, c, value, expected[c]);
      }
    }
  }
  return std::string();
}

}  // namespace

// Nine tiles of keys, the last one not full; rows of the second consumer are missing.
Result<std::string> run_forward_64(Device& device, const DeviceFunction& function) {
  static const ForwardData data = make_data({64, 128, 100, 1032, (16 + 64) * 1024 + 72});
  return run_forward(data, device, function);
}
Result<std::string> run_forward_128(Device& device, const DeviceFunction& function) {
  static const ForwardData data = make_data({128, 64, 100, 526, (32 + 64) * 1024 + 72});
  return run_forward(data, device, function);
}

}  // namespace lssar::test
