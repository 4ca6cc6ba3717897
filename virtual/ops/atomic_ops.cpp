// atom and red. They are atomic also between the host threads that run other blocks. The lanes of a
// warp take turns in order.
#include "virtual/ops/address.h"
#include "virtual/ops/rows.h"
#include "virtual/state/atomic_update.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

using namespace updates;

struct Exchange {
  template <class T>
  static T apply(T, T b) {
    return b;
  }
};
template <class F, class T>
struct Pair {  // two halves, each on its own
  static u32 apply(u32 old, u32 b) {
    const auto half = [](u32 x, u32 y) -> u32 {
      return F::apply(T{static_cast<u16>(x)}, T{static_cast<u16>(y)}).bits;
    };
    return half(old >> 16, b >> 16) << 16 | half(old & 0xffff, b & 0xffff);
  }
};
template <class F>
using HalfPair = Pair<F, f16>;
template <class F>
using BfloatPair = Pair<F, bf16>;

// f32 in global memory: subnormal operands and sums become zeros with their sign. Shared memory
// keeps them.
struct AddFlushed {
  static f32 apply(f32 old, f32 b) { return flush(flush(old) + flush(b)); }
};
inline bool is_global(const Warp& w, const Op& op, u32 lane) {
  const StateSpace space = static_cast<StateSpace>(op.space);
  if (space != StateSpace::kGeneric) return space == StateSpace::kGlobal;
  u64 address = static_cast<u64>(op.imm);
  if (op.a != kNoRegister) {
    address += (op.flags & kOpWide) != 0 ? lanes<u64>(w, op.a)[lane] : lanes<u32>(w, op.a)[lane];
  }
  return address >> kWindowShift == 0;
}
template <class F, class T>
inline T update_lane(const Warp&, const Op&, u32, u8* p, T b) {
  return update<F, T>(p, b);
}
template <>
inline f32 update_lane<Add, f32>(const Warp& w, const Op& op, u32 lane, u8* p, f32 b) {
  return is_global(w, op, lane) ? update<AddFlushed, f32>(p, b) : update<Add, f32>(p, b);
}

template <class F, class T>
void atomic(Warp& w, const Op& op) {
  HostAddresses host;
  resolve(w, op, sizeof(T), host);
  const T* b = lanes<T>(w, op.b);
  T result[kLanes] = {};
  for (u32 m = w.mask; m != 0; m &= m - 1) {
    const u32 i = lowest_lane(m);
    result[i] = update_lane<F, T>(w, op, i, host.lane[i], b[i]);
  }
  if (op.dst != kNoRegister) store_lanes(w, op.dst, result);
}

template <class T>
void compare_and_swap(Warp& w, const Op& op) {
  HostAddresses host;
  resolve(w, op, sizeof(T), host);
  const T* compare = lanes<T>(w, op.b);
  const T* value = lanes<T>(w, op.c);
  T result[kLanes] = {};
  for (u32 m = w.mask; m != 0; m &= m - 1) {
    const u32 i = lowest_lane(m);
    T expected = compare[i];
    __atomic_compare_exchange_n(reinterpret_cast<T*>(host.lane[i]), &expected, value[i], false,
                                __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    result[i] = expected;
  }
  if (op.dst != kNoRegister) store_lanes(w, op.dst, result);
}

template <class F, class T>
void reduce(Warp& w, const Op& op) {
  HostAddresses host;
  resolve(w, op, static_cast<u32>(sizeof(T)) * op.count, host);
  for (u32 m = w.mask; m != 0; m &= m - 1) {
    const u32 i = lowest_lane(m);
    for (u32 k = 0; k < op.count; ++k) {
      update_lane<F, T>(w, op, i, host.lane[i] + k * sizeof(T), lanes<T>(w, op.list[k])[i]);
    }
  }
}

constexpr u32 kMostElements = 8;

// Updates every element by itself. op.list: the op.count operands, then the destinations.
template <class F, class T>
void atomic_vector(Warp& w, const Op& op) {
  HostAddresses host;
  resolve(w, op, static_cast<u32>(sizeof(T)) * op.count, host);
  T result[kMostElements][kLanes] = {};
  for (u32 m = w.mask; m != 0; m &= m - 1) {
    const u32 i = lowest_lane(m);
    for (u32 k = 0; k < op.count; ++k) {
      result[k][i] =
          update_lane<F, T>(w, op, i, host.lane[i] + k * sizeof(T), lanes<T>(w, op.list[k])[i]);
    }
  }
  for (u32 k = 0; k < op.count; ++k) {
    const u32 destination = op.list[op.count + k];
    if (destination != kNoRegister) store_lanes(w, destination, result[k]);
  }
}

#define HOW                                                                                       \
  "[.relaxed|.acquire|.release|.acq_rel][.cta|.cluster|.gpu|.sys][.global|.shared|.shared::cta|." \
  "shared::cluster]"

#define ATOMIC(name, types, letters, F, T)                                              \
  {"atom" HOW name "[.L2::cache_hint]." types, Bind::kAtomic, letters, atomic<F, T>}, { \
    "red" HOW name "[.L2::cache_hint]." types, Bind::kReduce, letters, reduce<F, T>     \
  }

// Vectors lie in global memory.
#define HOW_GLOBAL "[.relaxed|.acquire|.release|.acq_rel][.cta|.cluster|.gpu|.sys][.global]"
#define VECTOR(name, types, letters, F, T)                                                 \
  {"atom" HOW_GLOBAL name "[.L2::cache_hint]." types, Bind::kAtomic, letters,              \
   atomic_vector<F, T>},                                                                   \
  {                                                                                        \
    "red" HOW_GLOBAL name "[.L2::cache_hint]." types, Bind::kReduce, letters, reduce<F, T> \
  }
#define HALF_VECTORS(name, F)                                         \
  VECTOR(name ".noftz", "(v2|v4|v8).f16", "hh", F, f16),              \
      VECTOR(name ".noftz", "(v2|v4|v8).bf16", "hh", F, bf16),        \
      VECTOR(name ".noftz", "(v2|v4).f16x2", "ww", HalfPair<F>, u32), \
      VECTOR(name ".noftz", "(v2|v4).bf16x2", "ww", BfloatPair<F>, u32)

const Row kRows[] = {
    ATOMIC(".add", "(u32|s32)", "ww", Add, u32),
    ATOMIC(".add", "(u64|s64)", "ll", Add, u64),
    ATOMIC(".add", "f32", "ww", Add, f32),
    ATOMIC(".add", "f64", "ll", Add, f64),
    ATOMIC(".add.noftz", "f16", "hh", HalfAdd, f16),
    ATOMIC(".add.noftz", "bf16", "hh", HalfAdd, bf16),
    ATOMIC(".add.noftz", "f16x2", "ww", HalfPair<HalfAdd>, u32),
    ATOMIC(".add.noftz", "bf16x2", "ww", BfloatPair<HalfAdd>, u32),
    ATOMIC(".min", "u32", "ww", Min, u32),
    ATOMIC(".min", "s32", "ww", Min, s32),
    ATOMIC(".min", "u64", "ll", Min, u64),
    ATOMIC(".min", "s64", "ll", Min, s64),
    ATOMIC(".max", "u32", "ww", Max, u32),
    ATOMIC(".max", "s32", "ww", Max, s32),
    ATOMIC(".max", "u64", "ll", Max, u64),
    ATOMIC(".max", "s64", "ll", Max, s64),
    ATOMIC(".and", "b32", "ww", And, u32),
    ATOMIC(".and", "b64", "ll", And, u64),
    ATOMIC(".or", "b32", "ww", Or, u32),
    ATOMIC(".or", "b64", "ll", Or, u64),
    ATOMIC(".xor", "b32", "ww", Xor, u32),
    ATOMIC(".xor", "b64", "ll", Xor, u64),
    ATOMIC(".inc", "u32", "ww", Increment, u32),
    ATOMIC(".dec", "u32", "ww", Decrement, u32),
    {"atom" HOW ".exch[.L2::cache_hint].b32", Bind::kAtomic, "ww", atomic<Exchange, u32>},
    {"atom" HOW ".exch[.L2::cache_hint].b64", Bind::kAtomic, "ll", atomic<Exchange, u64>},
    {"atom" HOW ".cas.b16", Bind::kAtomic, "hhh", compare_and_swap<u16>},
    {"atom" HOW ".cas.b32", Bind::kAtomic, "www", compare_and_swap<u32>},
    {"atom" HOW ".cas.b64", Bind::kAtomic, "lll", compare_and_swap<u64>},
    VECTOR(".add", "(v2|v4).f32", "ww", Add, f32),
    HALF_VECTORS(".add", HalfAdd),
    HALF_VECTORS(".min", HalfMin),
    HALF_VECTORS(".max", HalfMax),
};

}  // namespace

LSSAR_ROWS(kAtomicRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
