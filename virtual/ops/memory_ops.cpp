// ld and st.
#include "virtual/ops/address.h"
#include "virtual/ops/rows.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

// Elements have type M in memory and are extended to registers of type R.
template <class M, class R>
void load(Warp& w, const Op& op) {
  HostAddresses host;
  resolve(w, op, static_cast<u32>(sizeof(M)) * op.count, host);
  for (u32 k = 0; k < op.count; ++k) {
    if (op.list[k] == kNoRegister) continue;
    R* d = lanes<R>(w, op.list[k]);
    if (w.mask == kAllLanes) {
      for (u32 i = 0; i < kLanes; ++i) {
        d[i] = static_cast<R>(*reinterpret_cast<const M*>(host.lane[i] + k * sizeof(M)));
      }
    } else {
      for (u32 m = w.mask; m != 0; m &= m - 1) {
        const u32 i = lowest_lane(m);
        d[i] = static_cast<R>(*reinterpret_cast<const M*>(host.lane[i] + k * sizeof(M)));
      }
    }
  }
}

// A parameter at a fixed offset (checked when the kernel was decoded); the same for all lanes.
template <class M, class R>
void load_param(Warp& w, const Op& op) {
  for (u32 k = 0; k < op.count; ++k) {
    if (op.list[k] == kNoRegister) continue;
    M value;
    memcpy(&value, w.params + op.imm + k * sizeof(M), sizeof value);
    const R extended = static_cast<R>(value);
    R all[kLanes];
    LSSAR_LANES all[i] = extended;
    store_lanes(w, op.list[k], all);
  }
}

template <class M, class R>
void store(Warp& w, const Op& op) {
  HostAddresses host;
  resolve(w, op, static_cast<u32>(sizeof(M)) * op.count, host);
  // Lane by lane: if lanes write one address, the highest lane wins with all its bytes.
  for (u32 m = w.mask; m != 0; m &= m - 1) {
    const u32 i = lowest_lane(m);
    for (u32 k = 0; k < op.count; ++k) {
      *reinterpret_cast<M*>(host.lane[i] + k * sizeof(M)) =
          static_cast<M>(lanes<R>(w, op.list[k])[i]);
    }
  }
}

void nop(Warp&, const Op&) {}

#define ORDER                                                                              \
  "[.weak|.volatile|.relaxed.cta|.relaxed.cluster|.relaxed.gpu|.relaxed.sys|.acquire.cta|" \
  ".acquire.cluster|.acquire.gpu|.acquire.sys|.release.cta|.release.cluster|.release.gpu|" \
  ".release.sys]"
#define SPACE "[.global|.shared|.shared::cta|.shared::cluster|.local]"
#define CACHE                                                                              \
  "[.ca|.cg|.cs|.lu|.cv|.wb|.wt][.nc][.L1::evict_normal|.L1::evict_unchanged|"             \
  ".L1::evict_first|.L1::evict_last|.L1::no_allocate][.L2::evict_normal|.L2::evict_first|" \
  ".L2::evict_last][.L2::cache_hint][.L2::64B|.L2::128B|.L2::256B]"
// ptxas accepts this spelling too, and other compilers write it.
#define SPACE_FIRST ".(relaxed|acquire|release).(cta|cluster|gpu|sys)"
#define VECTOR "[.v2|.v4|.v8]"

// The register, the second letter, is at least as wide as the type.
#define ACCESS(types, M, letter, R)                                          \
  {"ld" ORDER SPACE CACHE VECTOR types, Bind::kLoad, letter, load<M, R>},    \
      {"ld.global" SPACE_FIRST types, Bind::kLoad, letter, load<M, R>},      \
      {"st.global" SPACE_FIRST types, Bind::kStore, letter, store<M, R>},    \
      {"ld.param" VECTOR types, Bind::kLoad, letter, load<M, R>},            \
      {"ld.param" VECTOR types, Bind::kLoadParam, letter, load_param<M, R>}, \
      {"ld.const" CACHE VECTOR types, Bind::kLoad, letter, load<M, R>}, {    \
    "st" ORDER SPACE CACHE VECTOR types, Bind::kStore, letter, store<M, R>   \
  }

const Row kRows[] = {
    ACCESS(".(b8|u8)", u8, "h", u16),
    ACCESS(".(b8|u8)", u8, "w", u32),
    ACCESS(".(b8|u8)", u8, "l", u64),
    ACCESS(".s8", s8, "h", s16),
    ACCESS(".s8", s8, "w", s32),
    ACCESS(".s8", s8, "l", s64),
    ACCESS(".(b16|u16|f16|bf16)", u16, "h", u16),
    ACCESS(".(b16|u16|f16|bf16)", u16, "w", u32),
    ACCESS(".(b16|u16|f16|bf16)", u16, "l", u64),
    ACCESS(".s16", s16, "h", s16),
    ACCESS(".s16", s16, "w", s32),
    ACCESS(".s16", s16, "l", s64),
    ACCESS(".(b32|u32|f32)", u32, "w", u32),
    ACCESS(".(b32|u32|f32)", u32, "l", u64),
    ACCESS(".s32", s32, "w", s32),
    ACCESS(".s32", s32, "l", s64),
    ACCESS(".(b64|u64|s64|f64)", u64, "l", u64),
    // Hints, which do nothing because this device has no cache.
    {"prefetch[.global].(L1|L2)", Bind::kNone, "@", nop},
    {"prefetch.global.(L2::evict_last|L2::evict_normal)", Bind::kNone, "@", nop},
    {"prefetchu.L1", Bind::kNone, "@", nop},
};

}  // namespace

LSSAR_ROWS(kMemoryRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
