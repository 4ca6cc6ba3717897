#include "inspect/occupancy.h"

#include <algorithm>
#include <utility>

#include "codegen/shapes.h"

namespace lssar {
namespace {

constexpr int kRegisterUnit = 256;    // granularity of a warp's registers
constexpr int kSharedUnit = 128;      // bytes
constexpr int kSystemShared = 1024;   // bytes of every block that the system reserves
constexpr int kMostBlocks = 32;       // per SM: sm_80, 87, 90, 100
constexpr int kMostBlocksSmall = 16;  // sm_86
constexpr int kMostBlocksAda = 24;    // sm_89, sm_120

int round_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

int most_blocks(const Target& target) {
  if (target.major == 8 && target.minor == 6) return kMostBlocksSmall;
  if ((target.major == 8 && target.minor == 9) || target.major == 12) return kMostBlocksAda;
  return kMostBlocks;
}

}  // namespace

Occupancy occupancy(const Target& target, int threads, int registers, int shared_bytes) {
  Occupancy result;
  result.most_warps = target.threads_per_sm / kWarpThreads;
  const int warps = std::max(1, (threads + kWarpThreads - 1) / kWarpThreads);
  const int block_shared = round_up(shared_bytes + kSystemShared, kSharedUnit);

  result.blocks = most_blocks(target);
  result.limit = "blocks";
  const auto limit = [&](int blocks, const char* what) {
    if (blocks >= result.blocks) return;
    result.blocks = blocks;
    result.limit = what;
  };
  limit(result.most_warps / warps, "threads");
  limit(target.shared_bytes_per_sm / block_shared, "shared memory");
  if (registers > 0) {
    const int of_warp = round_up(registers * kWarpThreads, kRegisterUnit);
    // A warp's registers come from one of the SM's four register files.
    const int warps_held = target.registers_per_sm / 4 / of_warp * 4;
    limit(warps_held / warps, "registers");
  }
  result.warps = result.blocks * warps;
  return result;
}

}  // namespace lssar
