// The text of a deadlock report: which lanes wait at which line, and for what.
#include <algorithm>

#include <fmt/format.h>

#include "virtual/async/mbarrier.h"
#include "virtual/run/block_runner.h"
#include "virtual/state/fault.h"
#include "virtual/state/generic_operands.h"

namespace lssar::vdev {
namespace {

// What a split waits for that other lanes may bring about.
std::string awaited(const Warp& warp, const Split& split) {
  const Op& op = *split.waits_at;
  Cluster& cluster = *warp.cta->cluster;
  const std::string_view opcode = cluster.launch.program->instruction(op).opcode;
  switch (split.wait) {
    case WaitKind::kBarrier: {
      const BarrierState& barrier = warp.cta->barriers[split.barrier];
      return fmt::format("barrier {} of {} threads", split.barrier, barrier.expected);
    }
    case WaitKind::kPolled: {
      const GenericOperands in(warp, op);
      const uint32_t lane = lowest_bit(split.mask);
      const SharedPlace place = locate_shared(warp, op, lane, in.address(1, lane), 8, 8);
      const Mbarrier* barrier = cluster.mbarriers->find(place.rank, place.address);
      return barrier == nullptr ? "an mbarrier" : describe_wait(*barrier);
    }
    case WaitKind::kBlocked:
      if (opcode.starts_with("setmaxnreg")) {
        return fmt::format("registers: the block has {} free", warp.cta->free_registers);
      }
      if (opcode.starts_with("barrier.cluster")) return "all threads of the cluster";
      return "the other warps of its group";
    default:
      return fmt::format("lanes {:#010x} of its warp", split.need & warp.live & ~split.mask);
  }
}

}  // namespace

void BlockRunner::report_deadlock() {
  constexpr size_t kMaxReported = 16;
  const auto& first = cluster_.ctas[0].index;
  std::string text =
      fmt::format("kernel {}, block ({}, {}, {}): deadlock:", cluster_.launch.program->name,
                  first[0], first[1], first[2]);
  size_t count = 0;
  for (const Warp& warp : cluster_.warps) {
    for (uint32_t s = 0; s < warp.num_splits && warp.live != 0; ++s) {
      const Split& split = warp.splits[s];
      if (split.wait == WaitKind::kNone || ++count > kMaxReported) continue;
      const Instruction& in = cluster_.launch.program->instruction(*split.waits_at);
      text += fmt::format("\n  warp {}", warp.index);
      if (cluster_.ctas.size() > 1)
        text += fmt::format(" of block {} of the cluster", warp.cta->rank);
      text += fmt::format(", lanes {:#010x} wait at PTX line {} '{}' for {}", split.mask, in.line,
                          in.text.substr(0, 120), awaited(warp, split));
    }
  }
  if (count > kMaxReported) text += fmt::format("\n  and {} more", count - kMaxReported);
  throw LaunchFault{device_error(std::move(text))};
}

}  // namespace lssar::vdev
