// Registers that are filled before a warp runs: constants and special registers.
#include <cstring>

#include "virtual/run/block_runner.h"

namespace lssar::vdev {
namespace {

void fill_register(uint8_t* place, RegClass reg_class, uint64_t bits) {
  const auto fill = [&](auto value) {
    for (uint32_t i = 0; i < kLanes; ++i)
      std::memcpy(place + i * sizeof value, &value, sizeof value);
  };
  switch (reg_class) {
    case RegClass::kPred:
      std::memcpy(place, &bits, 4);
      break;
    case RegClass::k16:
      fill(static_cast<uint16_t>(bits));
      break;
    case RegClass::k32:
      fill(static_cast<uint32_t>(bits));
      break;
    case RegClass::k64:
      fill(bits);
      break;
  }
}

}  // namespace

void BlockRunner::fill_constants(Warp& warp) {
  std::memset(warp.registers, 0, kScratchBytes);
  for (const Constant& c : cluster_.launch.program->constants) {
    const uint64_t bits = c.in_shared ? c.bits + warp.shared_begin : c.bits;
    fill_register(warp.registers + c.offset, c.reg_class, bits);
  }
}

uint32_t BlockRunner::special_value(const Warp& warp, Special which, uint32_t lane) const {
  const auto& block = cluster_.launch.block;
  const auto& cluster = cluster_.launch.cluster;
  const auto& index = warp.cta->index;
  const uint32_t rank = warp.cta->rank;
  const uint32_t thread = warp.index * kLanes + lane;
  switch (which) {
    case Special::kTidX:
      return thread % block[0];
    case Special::kTidY:
      return thread / block[0] % block[1];
    case Special::kTidZ:
      return thread / block[0] / block[1];
    case Special::kNtidX:
      return block[0];
    case Special::kNtidY:
      return block[1];
    case Special::kNtidZ:
      return block[2];
    case Special::kCtaidX:
      return index[0];
    case Special::kCtaidY:
      return index[1];
    case Special::kCtaidZ:
      return index[2];
    case Special::kNctaidX:
      return cluster_.launch.grid[0];
    case Special::kNctaidY:
      return cluster_.launch.grid[1];
    case Special::kNctaidZ:
      return cluster_.launch.grid[2];
    case Special::kLaneId:
      return lane;
    case Special::kWarpId:
      return warp.index;
    case Special::kNumWarps:
      return cluster_.launch.num_warps();
    case Special::kSmId:
      return index[0] % cluster_.launch.num_sms;
    case Special::kNumSms:
      return cluster_.launch.num_sms;
    case Special::kGridId:
      return 0;
    case Special::kLaneMaskEq:
      return 1u << lane;
    case Special::kLaneMaskLt:
      return (1u << lane) - 1;
    case Special::kLaneMaskLe:
      return (2u << lane) - 1;
    case Special::kLaneMaskGt:
      return ~((2u << lane) - 1);
    case Special::kLaneMaskGe:
      return ~((1u << lane) - 1);
    case Special::kDynamicShared:
      return cluster_.launch.dynamic_shared_bytes;
    case Special::kTotalShared:
      return cluster_.launch.shared_bytes;
    case Special::kClusterCtaidX:
      return rank % cluster[0];
    case Special::kClusterCtaidY:
      return rank / cluster[0] % cluster[1];
    case Special::kClusterCtaidZ:
      return rank / cluster[0] / cluster[1];
    case Special::kClusterNctaidX:
      return cluster[0];
    case Special::kClusterNctaidY:
      return cluster[1];
    case Special::kClusterNctaidZ:
      return cluster[2];
    case Special::kClusterCtarank:
      return rank;
    case Special::kClusterNctarank:
      return cluster_.launch.cluster_size();
    case Special::kClusteridX:
      return index[0] / cluster[0];
    case Special::kClusteridY:
      return index[1] / cluster[1];
    case Special::kClusteridZ:
      return index[2] / cluster[2];
    case Special::kNclusteridX:
      return cluster_.launch.grid[0] / cluster[0];
    case Special::kNclusteridY:
      return cluster_.launch.grid[1] / cluster[1];
    case Special::kNclusteridZ:
      return cluster_.launch.grid[2] / cluster[2];
  }
  return 0;
}

void BlockRunner::fill_specials(Warp& warp) {
  for (const SpecialRegister& s : cluster_.launch.program->specials) {
    uint8_t* place = warp.registers + s.offset;
    if (s.which == Special::kGridId) {
      fill_register(place, RegClass::k64, cluster_.launch.grid_id);
      continue;
    }
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const uint32_t value = special_value(warp, s.which, lane);
      std::memcpy(place + lane * sizeof value, &value, sizeof value);
    }
  }
}

}  // namespace lssar::vdev
