// cp.async: queued when it is issued, delivered between then and the wait that completes its group,
// as the launch's AsyncTiming says. The source is read when it is delivered; until then the
// destination holds poison.
#include "virtual/async/copy_arrival.h"
#include "virtual/ops/address.h"
#include "virtual/ops/rows.h"
#include "virtual/state/units.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

// Delivers lanes `due(copy)` of every copy in flight.
template <class Due>
void deliver_where(Warp& w, Due due_lanes) {
  AsyncQueue& queue = w.async;
  u32 kept = 0;
  for (u32 n = 0; n < queue.size; ++n) {
    AsyncCopy& copy = queue.items[n];
    const u32 due = due_lanes(copy) & copy.mask;
    deliver_copy(w, copy, due);
    copy.mask &= ~due;
    if (copy.mask == 0) continue;
    if (kept != n) queue.items[kept] = copy;
    ++kept;
  }
  queue.size = kept;
}

// If too many copies are in flight, the older half arrives.
void make_room(Warp& w) {
  AsyncQueue& queue = w.async;
  if (queue.size == kMostInFlight) {
    u32 n = 0;
    deliver_where(w, [&](const AsyncCopy&) { return n++ < kMostInFlight / 2 ? kAllLanes : 0; });
  }
  if (queue.size == queue.capacity) grow_async_queue(queue);
}

// Copies op.count bytes from [op.b] (global, 64-bit, + op.list[0..1] as offset) to [op.a]. op.c is
// how many of them are read (the rest becomes zero); with flags 1 it is a predicate instead,
// negated by kOpNegated, to ignore the source.
void copy_async(Warp& w, const Op& op) {
  make_room(w);
  const u32 bytes = op.count;
  const bool ignore_source = (op.flags & kOpFlagsMask) == 1;
  u32 source_bytes[kLanes];
  if (op.c == kNoRegister) {
    LSSAR_LANES source_bytes[i] = bytes;
  } else if (ignore_source) {
    const u32 p = mask_of(w, op.c) ^ (op.flags & kOpNegated ? kAllLanes : 0);
    LSSAR_LANES source_bytes[i] = (p >> i) & 1 ? 0 : bytes;
  } else {
    const u32* given = lanes<u32>(w, op.c);
    LSSAR_LANES source_bytes[i] = given[i];
    for (u32 m = w.mask; m != 0; m &= m - 1) {
      if (source_bytes[lowest_lane(m)] > bytes) {
        raise_fault(w, op, "the source size of cp.async exceeds its copy size");
      }
    }
  }
  HostAddresses target;
  resolve(w, op, StateSpace::kShared, op.a, op.imm, (op.flags & kOpWide) != 0, bytes, target);

  // Lanes that read nothing may have any source address.
  HostAddresses source = {};
  const u32 active = w.mask;
  u32 reading = 0;
  for (u32 i = 0; i < kLanes; ++i) reading |= static_cast<u32>(source_bytes[i] != 0) << i;
  w.mask = active & reading;
  const int64_t offset = static_cast<int64_t>(op.list[0] | static_cast<u64>(op.list[1]) << 32);
  if (w.mask != 0) resolve(w, op, StateSpace::kGlobal, op.b, offset, true, bytes, source);
  w.mask = active;

  AsyncQueue& queue = w.async;
  AsyncCopy& copy = queue.items[queue.size++];
  copy.mask = active;
  copy.bytes = bytes;
  LSSAR_LANES copy.target[i] = target.lane[i];
  LSSAR_LANES copy.source[i] = source.lane[i];
  LSSAR_LANES copy.group[i] = w.async.commits[i];
  LSSAR_LANES copy.source_bytes[i] = static_cast<u8>(source_bytes[i]);
  if (queue.timing == AsyncTiming::kEarliest) {
    deliver_copy(w, copy, active);
    --queue.size;
    return;
  }
  for (u32 m = active; m != 0; m &= m - 1) memset(target.lane[lowest_lane(m)], kPoisonByte, bytes);
}

// Delivers the copies that the lanes of the mask committed before their group `before[lane]`.
void deliver(Warp& w, const u32* before) {
  for (u32 m = w.mask; m != 0; m &= m - 1) {
    const u32 i = lowest_lane(m);
    if (static_cast<s32>(before[i] - w.async.waited[i]) > 0) w.async.waited[i] = before[i];
  }
  deliver_where(w, [&](const AsyncCopy& copy) {
    u32 due = 0;
    for (u32 i = 0; i < kLanes; ++i) {
      due |= static_cast<u32>(static_cast<s32>(copy.group[i] - before[i]) < 0) << i;
    }
    return due & w.mask;
  });
}

// With AsyncTiming::kRandom some copies arrive after a warp's turn.
void deliver_some(Warp& w, u64 random) {
  u32 n = 0;
  deliver_where(w, [&](const AsyncCopy&) { return (random >> (n++ & 63)) & 1 ? kAllLanes : 0; });
}

void commit_group(Warp& w, const Op&) { LSSAR_LANES w.async.commits[i] += (w.mask >> i) & 1; }

// Delivers all but the latest imm groups.
void wait_group(Warp& w, const Op& op) {
  u32 before[kLanes];
  const u32 pending = static_cast<u32>(op.imm < 0x7fffffff ? op.imm : 0x7fffffff);
  LSSAR_LANES before[i] = w.async.commits[i] - pending;
  // A group number is never below 0: with fewer commits than `pending` nothing is waited for.
  LSSAR_LANES before[i] = w.async.commits[i] < pending ? 0 : before[i];
  deliver(w, before);
}

// Delivers everything, committed or not.
void wait_all(Warp& w, const Op& op) {
  commit_group(w, op);
  deliver(w, w.async.commits);
}

#define HINT "[.L2::cache_hint][.L2::64B|.L2::128B|.L2::256B]"
#define TARGET "(shared|shared::cta)"

const Row kRows[] = {
    {"cp.async.ca." TARGET ".global" HINT, Bind::kCopyAsync, "", copy_async},
    {"cp.async.cg." TARGET ".global" HINT, Bind::kCopyAsync, "", copy_async},
    {"cp.async.commit_group", Bind::kNone, "", commit_group},
    {"cp.async.wait_group", Bind::kImmediate, "", wait_group},
    {"cp.async.wait_all", Bind::kNone, "", wait_all},
};

}  // namespace

LSSAR_ROWS(kAsyncRows, kRows);

const DeliverCopies kDeliverCopies = deliver_some;

}  // namespace lssar::vdev::LSSAR_SIMD
