// Exchanges between the lanes of a warp: shuffles, votes, reductions, matches.
#include "virtual/ops/collective.h"
#include "virtual/ops/rows.h"
#include "virtual/state/binary_functions.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

using functions::Add;
using functions::And;
using functions::Max;
using functions::Min;
using functions::Or;
using functions::Xor;

enum class ShuffleMode { kUp, kDown, kButterfly, kIndex };

// d = a of lane j, or of the lane itself if j is out of range; p says whether j is in range.
// op.imm: p or kNoRegister; op.list[0]: member mask.
template <ShuffleMode kMode>
void shuffle(Warp& w, const Op& op) {
  if (lacks_members(w, op, op.list[0])) return;
  const u32* a = lanes<u32>(w, op.a);
  const u32* b = lanes<u32>(w, op.b);
  const u32* c = lanes<u32>(w, op.c);
  u32 source[kLanes];
  u32 value[kLanes];
  u32 in_range = 0;
  LSSAR_LANES {
    const u32 lane = i;
    const u32 offset = b[i] & 31;
    const u32 segment = (c[i] >> 8) & 31;
    const u32 limit = (lane & segment) | (c[i] & 31 & ~segment);
    u32 j = 0;
    switch (kMode) {
      case ShuffleMode::kUp:
        j = lane - offset;
        break;
      case ShuffleMode::kDown:
        j = lane + offset;
        break;
      case ShuffleMode::kButterfly:
        j = lane ^ offset;
        break;
      case ShuffleMode::kIndex:
        j = (lane & segment) | (offset & ~segment);
        break;
    }
    // j may be negative here, so it is signed.
    const bool ok =
        kMode == ShuffleMode::kUp ? static_cast<s32>(j) >= static_cast<s32>(limit) : j <= limit;
    source[i] = ok ? j : lane | 0x80000000u;
  }
  for (u32 i = 0; i < kLanes; ++i) {
    value[i] = a[source[i] & 31];
    in_range |= (~source[i] >> 31) << i;
  }
  const u32 p = static_cast<u32>(op.imm);
  if (p != kNoRegister) store_mask(w, p, in_range);
  if (op.dst != kNoRegister) store_lanes(w, op.dst, value);
}

inline u32 source_mask(Warp& w, const Op& op) {
  return mask_of(w, op.a) ^ (op.flags & kOpNegated ? kAllLanes : 0);
}
void vote_all(Warp& w, const Op& op) {
  if (lacks_members(w, op, op.b)) return;
  store_mask(w, op.dst, (source_mask(w, op) & w.mask) == w.mask ? kAllLanes : 0);
}
void vote_any(Warp& w, const Op& op) {
  if (lacks_members(w, op, op.b)) return;
  store_mask(w, op.dst, (source_mask(w, op) & w.mask) != 0 ? kAllLanes : 0);
}
void vote_uniform(Warp& w, const Op& op) {
  if (lacks_members(w, op, op.b)) return;
  const u32 set = source_mask(w, op) & w.mask;
  store_mask(w, op.dst, set == 0 || set == w.mask ? kAllLanes : 0);
}
inline void store_uniform(Warp& w, u32 offset, u32 value) {
  u32 all[kLanes];
  LSSAR_LANES all[i] = value;
  store_lanes(w, offset, all);
}
void vote_ballot(Warp& w, const Op& op) {
  if (lacks_members(w, op, op.b)) return;
  store_uniform(w, op.dst, source_mask(w, op) & w.mask);
}
void active_mask(Warp& w, const Op& op) { store_uniform(w, op.dst, w.mask); }

template <class F, class T>
void redux(Warp& w, const Op& op) {
  if (lacks_members(w, op, op.b)) return;
  const T* a = lanes<T>(w, op.a);
  u32 m = w.mask;
  T result = a[lowest_lane(m)];
  for (m &= m - 1; m != 0; m &= m - 1) result = F::apply(result, a[lowest_lane(m)]);
  store_uniform(w, op.dst, static_cast<u32>(result));
}

template <class T>
void match_any(Warp& w, const Op& op) {
  if (lacks_members(w, op, op.b)) return;
  const T* a = lanes<T>(w, op.a);
  u32 result[kLanes] = {};
  for (u32 i = 0; i < kLanes; ++i) {
    for (u32 j = 0; j < kLanes; ++j) result[i] |= static_cast<u32>(a[i] == a[j]) << j;
    result[i] &= w.mask;
  }
  store_lanes(w, op.dst, result);
}
// op.imm: a predicate, or kNoRegister.
template <class T>
void match_all(Warp& w, const Op& op) {
  if (lacks_members(w, op, op.b)) return;
  const T* a = lanes<T>(w, op.a);
  const T first = a[lowest_lane(w.mask)];
  bool same = true;
  for (u32 m = w.mask; m != 0; m &= m - 1) same &= a[lowest_lane(m)] == first;
  const u32 p = static_cast<u32>(op.imm);
  if (p != kNoRegister) store_mask(w, p, same ? kAllLanes : 0);
  if (op.dst != kNoRegister) store_uniform(w, op.dst, same ? w.mask : 0);
}

// PTX leaves open which member leads, but a program may rely on it to stay the same. So it depends
// on the warp, the members and the seed only.
inline u32 leader_of(const Warp& w, u32 members) {
  if (w.elect_seed == 0) return lowest_lane(members);
  u64 hash = (static_cast<u64>(w.elect_seed) << 32 | members) + w.index * 0x9e3779b97f4a7c15u;
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdu;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53u;
  u32 skip = static_cast<u32>((hash >> 33) % static_cast<u32>(__builtin_popcount(members)));
  for (; skip != 0; --skip) members &= members - 1;
  return lowest_lane(members);
}
void elect(Warp& w, const Op& op) {
  if (lacks_members(w, op, op.a)) return;
  const u32 leader = leader_of(w, w.mask);
  store_mask(w, static_cast<u32>(op.imm), 1u << leader);
  if (op.dst != kNoRegister) store_uniform(w, op.dst, leader);
}

void warp_sync(Warp& w, const Op& op) {
  if (lacks_members(w, op, op.a)) {
    w.missing_any_op = true;
  } else if (w.checks != nullptr) {
    check_warp_sync(w);
  }
}

#define REDUX(name, type, F, T) \
  { "redux.sync." name "." type, Bind::kCollective, "www", redux<F, T> }

const Row kRows[] = {
    {"shfl.sync.up.b32", Bind::kShuffle, "wwww", shuffle<ShuffleMode::kUp>},
    {"shfl.sync.down.b32", Bind::kShuffle, "wwww", shuffle<ShuffleMode::kDown>},
    {"shfl.sync.bfly.b32", Bind::kShuffle, "wwww", shuffle<ShuffleMode::kButterfly>},
    {"shfl.sync.idx.b32", Bind::kShuffle, "wwww", shuffle<ShuffleMode::kIndex>},
    {"vote.sync.all.pred", Bind::kCollective, "ppw", vote_all},
    {"vote.sync.any.pred", Bind::kCollective, "ppw", vote_any},
    {"vote.sync.uni.pred", Bind::kCollective, "ppw", vote_uniform},
    {"vote.sync.ballot.b32", Bind::kCollective, "wpw", vote_ballot},
    {"activemask.b32", Bind::kCollective, "w", active_mask},
    REDUX("add", "(u32|s32)", Add, u32),
    REDUX("min", "u32", Min, u32),
    REDUX("min", "s32", Min, s32),
    REDUX("max", "u32", Max, u32),
    REDUX("max", "s32", Max, s32),
    REDUX("and", "b32", And, u32),
    REDUX("or", "b32", Or, u32),
    REDUX("xor", "b32", Xor, u32),
    {"match.any.sync.b32", Bind::kCollective, "www", match_any<u32>},
    {"match.any.sync.b64", Bind::kCollective, "wlw", match_any<u64>},
    {"match.all.sync.b32", Bind::kCollectivePair, "www", match_all<u32>},
    {"match.all.sync.b64", Bind::kCollectivePair, "wlw", match_all<u64>},
    {"elect.sync", Bind::kCollectivePair, "ww", elect},
    {"bar.warp.sync", Bind::kWarpSync, "w", warp_sync},
};

}  // namespace

LSSAR_ROWS(kWarpRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
