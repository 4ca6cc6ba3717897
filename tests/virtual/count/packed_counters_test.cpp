// What packing the heads that share keys (pack_gqa) spares where queries are few: products, special
// functions and loads, counted on the virtual device.
#include "tests/virtual/count/counted_call.h"

namespace lssar::test {
namespace {

constexpr int64_t kGroup = 8;
constexpr Sizes kDecoding = {1, 2 * kGroup, 2, 1, 320};

LaunchCounters count_forward(const char* target, bool packs) {
  VirtualOptions options;
  options.target = *target_from_name(target);
  options.count = true;
  const std::shared_ptr<Device> device = make_virtual_device(options);
  const std::unique_ptr<Engine> engine = Engine::create({}, device, nullptr);
  Problem problem;
  problem.causal = true;
  problem.dtype = DType::kBf16;
  Schedule schedule = default_schedule(problem, options.target);
  schedule.pack_gqa = packs;
  Call call(*engine, problem, kDecoding);
  call.run(Pass::kForward, schedule);
  return counts_by_kernel(*device)["lssar_forward"];
}

uint64_t loaded_bytes(const LaunchCounters& counters) {
  return counters.global_of(AccessKind::kRead).bytes + counters.tma_load_bytes;
}

class PackedCountersTest : public testing::TestWithParam<const char*> {};

// One tile for the eight heads of a kv head, instead of one for each: keys and values are loaded
// once. Queries are loaded the same, except for rows of a box that are zeros.
TEST_P(PackedCountersTest, OneQueryTakesAnEighthOfTheWork) {
  const LaunchCounters apart = count_forward(GetParam(), false);
  const LaunchCounters packed = count_forward(GetParam(), true);
  EXPECT_GT(packed.flop(TensorType::kBf16), 0u);
  EXPECT_EQ(packed.flop(TensorType::kBf16) * kGroup, apart.flop(TensorType::kBf16));
  constexpr double kEighth = 1.0 / kGroup;
  const auto share = [](uint64_t part, uint64_t whole) {
    return static_cast<double>(part) / static_cast<double>(whole);
  };
  EXPECT_NEAR(share(loaded_bytes(packed), loaded_bytes(apart)), kEighth, 0.01);
  EXPECT_NEAR(share(packed.of(InstructionClass::kSpecial).warps,
                    apart.of(InstructionClass::kSpecial).warps),
              kEighth, 0.01);
  EXPECT_LT(share(packed.warp_instructions, apart.warp_instructions), 0.2);
}

INSTANTIATE_TEST_SUITE_P(Targets, PackedCountersTest, testing::Values("sm_80", "sm_90a"),
                         [](const auto& p) { return std::string(p.param); });

}  // namespace
}  // namespace lssar::test
