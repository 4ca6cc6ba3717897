// The end of a block: checks who still uses its shared memory, and whether its warp groups set
// their registers together.
#include <fmt/format.h>

#include "virtual/check/checker.h"
#include "virtual/program/wgmma.h"
#include "virtual/state/cluster.h"
#include "virtual/state/mbarrier_table.h"
#include "virtual/state/units.h"

namespace lssar::vdev {
namespace {}  // namespace

void Checker::check_block_use(const Warp& warp, const Op& op, uint32_t rank) {
  if (!block_ends_[rank].ended) return;
  report(
      ReportKind::kAsync, warp, op,
      fmt::format("uses the shared memory of block {} of the cluster, which may have ended", rank));
}

// Reports an access by another block that nothing orders before the end of this one.
void Checker::check_user(Warp& warp, const Op& op, uint32_t word, Stamp stamp, bool writes) {
  const uint32_t rank = warp.cta->rank;
  const uint32_t per_block = cluster_.launch.num_warps();
  const VectorClock& seen = block_ends_[rank].seen.seen;
  const KernelProgram& program = *cluster_.launch.program;
  const uint32_t agent = stamp_agent(stamp);
  const bool own = is_generic(stamp) && agent % num_warps_ / per_block == rank;
  if (own || seen.covers(agent, stamp_time(stamp), stamp_lane(stamp))) return;
  const uint32_t barrier = word * kWordBytes & ~(kMbarrierBytes - 1);
  if (!writes && cluster_.mbarriers->find(rank, barrier) != nullptr &&
      block_ends_[rank].made.covers(agent, stamp_time(stamp), stamp_lane(stamp))) {
    return;
  }
  const uint32_t index = stamp_op(stamp);
  report(ReportKind::kAsync, warp, op,
         fmt::format("the block ends, but its shared address {:#x}, which {}, may be in use: "
                     "nothing orders the two",
                     word * kWordBytes, describe(stamp, writes)),
         index < program.ops.size() ? &program.ops[index] : nullptr);
}

void Checker::registers_set(const Warp& warp, const Op& op) {
  register_uses_[warp.agent].op = &op;
  ++register_uses_[warp.agent].count;
}

// Checks that all warps of a group set their registers together.
void Checker::check_register_use(const Warp& last, const Op& op) {
  const uint32_t per_block = cluster_.launch.num_warps();
  const RegisterUse* uses = register_uses_.data() + last.cta->rank * per_block;
  for (uint32_t i = 0; i < per_block; ++i) {
    const RegisterUse& mine = uses[i];
    const RegisterUse& first = uses[i / kWarpsPerGroup * kWarpsPerGroup];
    if (mine.op == first.op && mine.count == first.count) continue;
    const Op& place = mine.op != nullptr ? *mine.op : first.op != nullptr ? *first.op : op;
    report(ReportKind::kSynchronise, last, place,
           fmt::format("warps {} and {} of a warp group did not set their registers by the same "
                       "instructions",
                       i / kWarpsPerGroup * kWarpsPerGroup, i));
  }
}

void Checker::warp_ended(Warp& warp, const Op& op, bool block_ended) {
  const uint32_t rank = warp.cta->rank;
  BlockEnd& end = block_ends_[rank];
  const bool shared = cluster_.launch.cluster_size() > 1;
  if (shared) release(warp, kAllLanes, end.seen);
  if (!block_ended) return;
  end.ended = true;
  check_register_use(warp, op);
  if (!shared || warp.shared_bytes == 0) return;
  SharedShadow& shadow = shadows_[rank];
  const uint32_t words = (warp.shared_bytes + kWordBytes - 1) / kWordBytes;
  for (uint32_t word = 0; word < words; ++word) {
    const Stamp stamp = shadow.writers()[word];
    if (stamp_time(stamp) >= base_) check_user(warp, op, word, stamp, true);
  }
  for (const uint32_t agent : shadow.active()) {
    shadow.for_reads_since(agent, 0, words, stamp_limit(base_), [&](uint32_t word, Stamp stamp) {
      check_user(warp, op, word, stamp, false);
    });
  }
}

}  // namespace lssar::vdev
