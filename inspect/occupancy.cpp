#include "inspect/occupancy.h"

#include <algorithm>
#include <utility>

#include "codegen/shapes.h"

namespace lssar {
namespace {

constexpr int kRegisterUnit = 256;   // granularity of a warp's registers
constexpr int kSharedUnit = 128;     // bytes
constexpr int kSystemShared = 1024;  // bytes of every block that the system reserves
// Blocks of an SM, by the toolkit's cuda_occupancy.h.
constexpr int kMostBlocks = 32;       // sm_80, 90, 100, 103
constexpr int kMostBlocksSmall = 16;  // sm_86, 87, 88
constexpr int kMostBlocksAda = 24;    // sm_89, 110, 120, 121

int round_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

int most_blocks(const Target& target) {
  if (target.major == 8 && target.minor == 0) return kMostBlocks;
  if (target.major == 8) return target.minor == 9 ? kMostBlocksAda : kMostBlocksSmall;
  return target.major >= 11 ? kMostBlocksAda : kMostBlocks;
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
