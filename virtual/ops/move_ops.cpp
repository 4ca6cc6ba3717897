// mov in all its forms, cvta and isspacep.
#include "virtual/ops/rows.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

template <class T>
void mov(Warp& w, const Op& op) {
  T* d = lanes<T>(w, op.dst);
  const T* a = lanes<T>(w, op.a);
  LSSAR_LANES d[i] = a[i];
}
void mov_mask(Warp& w, const Op& op) { mask_of(w, op.dst) = mask_of(w, op.a); }

// d = {list[0], list[1], ...}, the first in the low bits.
template <class D, class E>
void pack(Warp& w, const Op& op) {
  constexpr u32 kCount = sizeof(D) / sizeof(E);
  D* d = lanes<D>(w, op.dst);
  D result[kLanes] = {};
  for (u32 k = 0; k < kCount; ++k) {
    const E* e = lanes<E>(w, op.list[k]);
    LSSAR_LANES result[i] |= static_cast<D>(e[i]) << (k * sizeof(E) * 8);
  }
  LSSAR_LANES d[i] = result[i];
}
template <class D, class E>
void unpack(Warp& w, const Op& op) {
  constexpr u32 kCount = sizeof(D) / sizeof(E);
  D value[kLanes];
  const D* a = lanes<D>(w, op.a);
  LSSAR_LANES value[i] = a[i];
  for (u32 k = 0; k < kCount; ++k) {
    if (op.list[k] == kNoRegister) continue;
    E part[kLanes];
    LSSAR_LANES part[i] = static_cast<E>(value[i] >> (k * sizeof(E) * 8));
    store_lanes(w, op.list[k], part);
  }
}

// Bytes: each in the low half of a 16-bit register.
template <class D>
void pack_bytes(Warp& w, const Op& op) {
  D* d = lanes<D>(w, op.dst);
  D result[kLanes] = {};
  for (u32 k = 0; k < sizeof(D); ++k) {
    const u16* e = lanes<u16>(w, op.list[k]);
    LSSAR_LANES result[i] = static_cast<D>(result[i] | static_cast<u32>(e[i] & 0xff) << (8 * k));
  }
  LSSAR_LANES d[i] = result[i];
}
template <class D>
void unpack_bytes(Warp& w, const Op& op) {
  D value[kLanes];
  const D* a = lanes<D>(w, op.a);
  LSSAR_LANES value[i] = a[i];
  for (u32 k = 0; k < sizeof(D); ++k) {
    if (op.list[k] == kNoRegister) continue;
    u16 part[kLanes];
    LSSAR_LANES part[i] = static_cast<u16>((value[i] >> (8 * k)) & 0xff);
    store_lanes(w, op.list[k], part);
  }
}

enum class Clock { kCycles32, kCyclesHigh, kCycles64, kTimer64, kTimerLow, kTimerHigh };
void read_clock(Warp& w, const Op& op) {
  const Clock which = static_cast<Clock>(op.flags);
  const bool timer = which >= Clock::kTimer64;
  const u64 now = timer ? read_global_timer() : read_block_clock(w);
  const bool high = which == Clock::kCyclesHigh || which == Clock::kTimerHigh;
  if (which == Clock::kCycles64 || which == Clock::kTimer64) {
    u64 value[kLanes];
    LSSAR_LANES value[i] = now;
    store_lanes(w, op.dst, value);
  } else {
    u32 value[kLanes];
    LSSAR_LANES value[i] = static_cast<u32>(high ? now >> 32 : now);
    store_lanes(w, op.dst, value);
  }
}

// Addresses of shared, local and parameter memory become generic by adding their window.
template <class T, uint64_t kWindow>
void to_generic(Warp& w, const Op& op) {
  T* d = lanes<T>(w, op.dst);
  const T* a = lanes<T>(w, op.a);
  LSSAR_LANES d[i] = static_cast<T>(a[i] + kWindow);
}
template <class T, uint64_t kWindow>
void from_generic(Warp& w, const Op& op) {
  T* d = lanes<T>(w, op.dst);
  const T* a = lanes<T>(w, op.a);
  LSSAR_LANES d[i] = static_cast<T>(a[i] - kWindow);
}
template <u32 kShift>
void is_within(Warp& w, const Op& op, u64 window) {
  const u64* a = lanes<u64>(w, op.a);
  u32 result = 0;
  for (u32 i = 0; i < kLanes; ++i) {
    result |= static_cast<u32>(a[i] >> kShift << kShift == window) << i;
  }
  mask_of(w, op.dst) = result;
}
template <uint64_t kWindow>
void is_space(Warp& w, const Op& op) {
  is_within<kWindowShift>(w, op, kWindow);
}
void is_own_shared(Warp& w, const Op& op) {
  is_within<kRankShift>(w, op, kSharedWindow + w.shared_begin);
}

#define SHARED "(shared|shared::cta)"
#define ANY_SHARED "(shared|shared::cta|shared::cluster)"

const Row kRows[] = {
    {"mov.pred", Bind::kAlu, "pp", mov_mask},
    {"mov.(b16|u16|s16|f16|bf16)", Bind::kAlu, "hh", mov<u16>},
    {"mov.(b32|u32|s32|f32)", Bind::kAlu, "ww", mov<u32>},
    {"mov.(b64|u64|s64|f64)", Bind::kAlu, "ll", mov<u64>},
    {"mov.b32", Bind::kPack, "whh", pack<u32, u16>},
    {"mov.b64", Bind::kPack, "lww", pack<u64, u32>},
    {"mov.b64", Bind::kPack, "lhhhh", pack<u64, u16>},
    {"mov.b32", Bind::kUnpack, "hhw", unpack<u32, u16>},
    {"mov.b64", Bind::kUnpack, "wwl", unpack<u64, u32>},
    {"mov.b64", Bind::kUnpack, "hhhhl", unpack<u64, u16>},
    {"mov.b16", Bind::kPack, "hhh", pack_bytes<u16>},
    {"mov.b32", Bind::kPack, "whhhh", pack_bytes<u32>},
    {"mov.b16", Bind::kUnpack, "hhh", unpack_bytes<u16>},
    {"mov.b32", Bind::kUnpack, "hhhhw", unpack_bytes<u32>},
    {"mov.(b32|u32|s32)", Bind::kClock, "w", read_clock},
    {"mov.(b64|u64|s64)", Bind::kClock, "l", read_clock},
    {"cvta[.to].(global|const).u64", Bind::kAlu, "ll", mov<u64>},
    {"cvta." ANY_SHARED ".u64", Bind::kAlu, "ll", to_generic<u64, kSharedWindow>},
    {"cvta.local.u64", Bind::kAlu, "ll", to_generic<u64, kLocalWindow>},
    {"cvta.param[::entry].u64", Bind::kAlu, "ll", to_generic<u64, kParamWindow>},
    {"cvta.to." ANY_SHARED ".u64", Bind::kAlu, "ll", from_generic<u64, kSharedWindow>},
    {"cvta.to.local.u64", Bind::kAlu, "ll", from_generic<u64, kLocalWindow>},
    {"cvta.to.param[::entry].u64", Bind::kAlu, "ll", from_generic<u64, kParamWindow>},
    {"isspacep.global", Bind::kAlu, "pl", is_space<0>},
    {"isspacep." SHARED, Bind::kAlu, "pl", is_own_shared},
    {"isspacep.shared::cluster", Bind::kAlu, "pl", is_space<kSharedWindow>},
    {"isspacep.param[::entry]", Bind::kAlu, "pl", is_space<kParamWindow>},
    {"isspacep.local", Bind::kAlu, "pl", is_space<kLocalWindow>},
};

}  // namespace

LSSAR_ROWS(kMoveRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
