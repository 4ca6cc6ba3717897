// Blocks per SM, against figures of NVIDIA's occupancy rules worked out by hand.
#include "inspect/occupancy.h"

#include <gtest/gtest.h>

namespace lssar {
namespace {

struct Case {
  const char* name;
  const char* target;
  int threads, registers, shared_bytes;
  int blocks;
  const char* limit;
};

class OccupancyOf : public testing::TestWithParam<Case> {};

TEST_P(OccupancyOf, IsTheLeastOfWhatFits) {
  const Case& c = GetParam();
  const Occupancy result =
      occupancy(*target_from_name(c.target), c.threads, c.registers, c.shared_bytes);
  EXPECT_EQ(result.blocks, c.blocks);
  EXPECT_EQ(result.limit, c.limit);
  EXPECT_EQ(result.warps, c.blocks * ((c.threads + 31) / 32));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, OccupancyOf,
    testing::Values(
        // 65536 registers in quarters of 16384; a warp of 128 per thread takes 4096.
        Case{"registers", "sm_80", 128, 128, 0, 4, "registers"},
        // 168 x 32 = 5376: three warps in a quarter, twelve in all, which are one block.
        Case{"three_warp_groups", "sm_90a", 384, 168, 0, 1, "registers"},
        Case{"one_register_more", "sm_90a", 384, 169, 0, 0, "registers"},
        Case{"unknown_registers", "sm_80", 128, -1, 0, 16, "threads"},
        // 164 KiB; a block's 40 KiB and the system's 1 KiB.
        Case{"shared_exactly", "sm_80", 128, 32, 40 * 1024, 4, "shared memory"},
        Case{"shared_a_byte_more", "sm_80", 128, 32, 40 * 1024 + 1, 3, "shared memory"},
        Case{"threads", "sm_86", 256, 32, 0, 6, "threads"},
        Case{"blocks_ampere", "sm_80", 32, 16, 0, 32, "blocks"},
        Case{"blocks_small", "sm_86", 32, 16, 0, 16, "blocks"},
        Case{"blocks_orin", "sm_87", 32, 16, 0, 16, "blocks"},
        Case{"blocks_ada", "sm_89", 32, 16, 0, 24, "blocks"},
        Case{"blocks_blackwell", "sm_100", 32, 16, 0, 32, "blocks"},
        Case{"blocks_rtx_50", "sm_120", 32, 16, 0, 24, "blocks"}),
    [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace lssar
