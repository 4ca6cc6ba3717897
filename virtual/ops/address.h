// The only way from an instruction's addresses to host memory, for each state space. It is checked:
// every lane's access must lie in a range of its space and be aligned to its size, else the launch
// faults. `bytes` is what one lane accesses, a power of two.
#pragma once

#include "virtual/count/access_counters.h"
#include "virtual/state/registers.h"

namespace lssar::vdev::LSSAR_SIMD {

struct HostAddresses {
  u8* lane[kLanes];         // set for active lanes only
  Warp* checked = nullptr;  // whose access the strict mode follows until the instruction is done
  ~HostAddresses() {
    if (checked != nullptr) [[unlikely]]
      note_access_done(*checked);
  }
};

// The addresses as the instruction has them. Inactive lanes repeat an active one, so that range
// checks may look at all lanes. REQUIRES: a lane is active.
inline void effective_addresses(const Warp& w, u32 reg, int64_t offset, bool wide, u64* out) {
  if (reg == kNoRegister) {
    LSSAR_LANES out[i] = static_cast<u64>(offset);
    return;
  }
  if (wide) {
    const u64* a = lanes<u64>(w, reg);
    LSSAR_LANES out[i] = a[i] + static_cast<u64>(offset);
  } else {
    const u32* a = lanes<u32>(w, reg);
    const u32 low = static_cast<u32>(offset);
    LSSAR_LANES out[i] = a[i] + low;
  }
  if (w.mask == kAllLanes) return;
  const u64 some = out[lowest_lane(w.mask)];
  LSSAR_LANES out[i] = (w.mask >> i) & 1 ? out[i] : some;
}

struct Extent {
  u64 low;
  u64 high;
  u64 bits;  // the bitwise or of all addresses
};
inline Extent extent_of(const u64* addresses) {
  Extent e = {~u64{0}, 0, 0};
  for (u32 i = 0; i < kLanes; ++i) {
    e.low = addresses[i] < e.low ? addresses[i] : e.low;
    e.high = addresses[i] > e.high ? addresses[i] : e.high;
    e.bits |= addresses[i];
  }
  return e;
}

// Whether [low, high + bytes) lies in [begin, begin + size).
inline bool within(const Extent& e, u32 bytes, u64 begin, u64 size) {
  return e.low >= begin && size >= bytes && e.high - begin <= size - bytes && e.high >= begin;
}

// The lane's host address. Faults if it has none.
inline u8* resolve_lane(Warp& w, const Op& op, StateSpace space, u32 lane, u64 address, u32 bytes) {
  if (space == StateSpace::kGeneric) {
    const u64 window = address >> kWindowShift;
    if (window != 0) address -= window << kWindowShift;
    space = window == 0                               ? StateSpace::kGlobal
            : window == kSharedWindow >> kWindowShift ? StateSpace::kShared
            : window == kLocalWindow >> kWindowShift  ? StateSpace::kLocal
            : window == kParamWindow >> kWindowShift  ? StateSpace::kParam
                                                      : StateSpace::kGeneric;
  }
  if (address & (bytes - 1)) {
    raise_memory_fault(w, op, MemoryFault::kMisaligned, space, lane, address, bytes);
  }
  switch (space) {
    case StateSpace::kGlobal:
    case StateSpace::kConst:
      if (address - w.range_begin < w.range_bytes &&
          w.range_bytes - (address - w.range_begin) >= bytes) {
        return reinterpret_cast<u8*>(address);
      }
      if (find_global_range(w, address, bytes)) return reinterpret_cast<u8*>(address);
      break;
    case StateSpace::kShared: {
      const u64 at = address - w.shared_begin;
      if (at < w.shared_bytes && w.shared_bytes - at >= bytes) return w.shared + at;
      if (u8* other = shared_of_other(w, op, lane, address, bytes); other != nullptr) return other;
      break;
    }
    case StateSpace::kLocal:
      if (address < w.local_bytes && w.local_bytes - address >= bytes) {
        return w.local + static_cast<u64>(lane) * w.local_bytes + address;
      }
      break;
    case StateSpace::kParam:
      if (op.flags & kOpWrites) {
        raise_memory_fault(w, op, MemoryFault::kReadOnly, space, lane, address, bytes);
      }
      if (address < w.params_bytes && w.params_bytes - address >= bytes) {
        return const_cast<u8*>(w.params) + address;
      }
      break;
    case StateSpace::kGeneric:
      raise_memory_fault(w, op, MemoryFault::kBadSpace, space, lane, address, bytes);
  }
  raise_memory_fault(w, op, MemoryFault::kOutOfRange, space, lane, address, bytes);
}

inline void resolve(Warp& w, const Op& op, StateSpace space, u32 reg, int64_t offset, bool wide,
                    u32 bytes, HostAddresses& host) {
  u64 address[kLanes];
  effective_addresses(w, reg, offset, wide, address);
  if (w.counters != nullptr) [[unlikely]]
    count_access(w, op, space, address, bytes);
  if (w.checks != nullptr) [[unlikely]] {
    check_access(w, op, space, address, bytes);
    host.checked = &w;
  }
  const Extent e = extent_of(address);
  if ((e.bits & (bytes - 1)) == 0) {
    if (space == StateSpace::kShared && within(e, bytes, w.shared_begin, w.shared_bytes)) {
      LSSAR_LANES host.lane[i] = w.shared + (address[i] - w.shared_begin);
      return;
    }
    if ((space == StateSpace::kGlobal || space == StateSpace::kGeneric) &&
        within(e, bytes, w.range_begin, w.range_bytes)) {
      LSSAR_LANES host.lane[i] = reinterpret_cast<u8*>(address[i]);
      return;
    }
  }
  for (u32 i = 0; i < kLanes; ++i) {
    if ((w.mask >> i) & 1) host.lane[i] = resolve_lane(w, op, space, i, address[i], bytes);
  }
}

// The usual operand: op.a + op.imm in op.space.
inline void resolve(Warp& w, const Op& op, u32 bytes, HostAddresses& host) {
  resolve(w, op, static_cast<StateSpace>(op.space), op.a, op.imm, (op.flags & kOpWide) != 0, bytes,
          host);
}

}  // namespace lssar::vdev::LSSAR_SIMD
