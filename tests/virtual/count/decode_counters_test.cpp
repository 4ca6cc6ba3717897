// What few queries read if blocks divide the keys (split_keys), counted on the virtual device: keys
// once, and of the values those that have weights.
#include <cmath>

#include "tests/virtual/count/counted_call.h"

namespace lssar::test {
namespace {

struct Decode {
  const char* name;
  int64_t keys, heads, kv_heads;
  int p;
  InputKind kind;
  double most_of_values;  // the share of the values that may be read
  double most = 2;        // all bytes that are read, over those of all keys and values
};
void PrintTo(const Decode& decode, std::ostream* out) { *out << decode.name; }

class DecodeCounters : public testing::TestWithParam<Decode> {};

TEST_P(DecodeCounters, KeysAreReadOnceAndValuesWhereTheyCount) {
  const Decode& decode = GetParam();
  VirtualOptions options;
  options.target = *target_from_name("sm_80");
  options.count = true;
  const std::shared_ptr<Device> device = make_virtual_device(options);
  const std::unique_ptr<Engine> engine = Engine::create({}, device, nullptr);
  Problem problem;
  problem.dtype = DType::kBf16;
  problem.p = decode.p;
  problem.seq_q = 1;
  problem.seq_k = decode.keys;
  problem.heads = decode.heads;
  problem.kv_heads = decode.kv_heads;
  Call call(*engine, problem, {1, decode.heads, decode.kv_heads, 1, decode.keys}, decode.kind);
  call.run(Pass::kForward, default_schedule(problem, options.target));
  auto counters = counts_by_kernel(*device);
  const auto read = [&](const char* kernel) {
    EXPECT_EQ(counters.count(kernel), 1u) << kernel;
    return static_cast<double>(counters[kernel].global_of(AccessKind::kRead).bytes);
  };
  const double all_keys = static_cast<double>(decode.kv_heads * decode.keys) * 2 * problem.head_dim;
  const double rows = static_cast<double>(decode.heads), chunks = std::ceil(decode.keys / 512.0);
  const double scores = read("lssar_decode_scores"), values = read("lssar_decode_values");
  const double outputs = read("lssar_decode_outputs");
  EXPECT_GE(scores, all_keys);
  EXPECT_LE(scores, all_keys + rows * 2 * problem.head_dim * chunks + 1024);
  // The scores, the weights of listed keys, and every chunk's sums for every chunk.
  const double own = rows * static_cast<double>(decode.keys) * 8 + rows * chunks * chunks * 16;
  EXPECT_LE(values, decode.most_of_values * all_keys + own);
  const double share = (scores + values + outputs) / (2 * all_keys);
  RecordProperty("share", std::to_string(share));  // docs/performance.md has them
  EXPECT_LE(share, decode.most);
}

INSTANTIATE_TEST_SUITE_P(
    All, DecodeCounters,
    testing::Values(Decode{"P15", 4096, 4, 4, 15, InputKind::kGauss, 0.3, 0.7},
                    Decode{"P3", 4096, 4, 4, 3, InputKind::kGauss, 0.8, 1.0},
                    Decode{"P15Group8", 4096, 8, 1, 15, InputKind::kGauss, 0.9, 1.2},
                    Decode{"P3Group8", 4096, 8, 1, 3, InputKind::kGauss, 1.0, 1.4},
                    Decode{"P15Peaky", 4096, 4, 4, 15, InputKind::kPeaky, 0.02, 0.6},
                    Decode{"P3Peaky", 4096, 4, 4, 3, InputKind::kPeaky, 0.4, 0.75},
                    Decode{"P15Of64K", 65536, 1, 1, 15, InputKind::kGauss, 0.3, 0.7},
                    Decode{"P3Of64K", 65536, 1, 1, 3, InputKind::kGauss, 0.8, 1.0},
                    Decode{"P15Group8Of64K", 65536, 8, 1, 15, InputKind::kGauss, 0.9, 1.2},
                    Decode{"P3Group8Of64K", 65536, 8, 1, 3, InputKind::kGauss, 1.0, 1.4},
                    Decode{"P15PeakyOf64K", 65536, 1, 1, 15, InputKind::kPeaky, 0.02, 0.6},
                    Decode{"P3PeakyOf64K", 65536, 1, 1, 3, InputKind::kPeaky, 0.4, 0.75}),
    [](const auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace lssar::test
