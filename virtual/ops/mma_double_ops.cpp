// mma.sync of doubles: m8n8k4, m16n8k4, m16n8k8 and m16n8k16.
//
// Layouts (lane = 4 g + t). Matrices have 8 kBlocks rows.
//   register r of a         row g + 8 (r % kBlocks), column 4 (r / kBlocks) + t
//   register r of b         row 4 r + t, column g
//   register r of the sums  row g + 8 (r / 2), column 2t + r % 2
#include "virtual/ops/collective.h"
#include "virtual/ops/rows.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

template <u32 kBlocks, u32 kDepth>
struct alignas(64) Operands {
  f64 a[8 * kBlocks][kDepth];
  f64 b[kDepth][8];
  f64 c[8 * kBlocks][8];
};

template <u32 kBlocks, u32 kDepth>
inline void read_factors(const Warp& w, const u32* a, const u32* b, Operands<kBlocks, kDepth>& m) {
  for (u32 r = 0; r < kBlocks * kDepth / 4; ++r) {
    const f64* x = lanes<f64>(w, a[r]);
    for (u32 i = 0; i < kLanes; ++i) {
      m.a[8 * (r % kBlocks) + i / 4][4 * (r / kBlocks) + i % 4] = x[i];
    }
  }
  for (u32 r = 0; r < kDepth / 4; ++r) {
    const f64* x = lanes<f64>(w, b[r]);
    for (u32 i = 0; i < kLanes; ++i) m.b[4 * r + i % 4][i / 4] = x[i];
  }
}

// A function of its own, so that no arithmetic moves across the change of the rounding mode.
template <u32 kBlocks, u32 kDepth>
__attribute__((noinline)) void multiply(Operands<kBlocks, kDepth>& m) {
  for (u32 row = 0; row < 8 * kBlocks; ++row) {
    for (u32 k = 0; k < kDepth; ++k) {
      const f64 x = m.a[row][k];
      for (u32 n = 0; n < 8; ++n) m.c[row][n] = __builtin_fma(x, m.b[k][n], m.c[row][n]);
    }
  }
}

// Row::arg, and so Op::flags: the rounding, as in the machine's control word.
constexpr u8 kNearest = 0, kDown = 1, kUp = 2, kZero = 3;
constexpr u32 kModeShift = 13, kModes = 3u << kModeShift;

// NOTE: PTX does not say in which order products are added, nor whether each sum is rounded. Here
// one fma follows another, with rising k.
template <u32 kBlocks, u32 kDepth>
void mma_double(Warp& w, const Op& op) {
  if (lacks_warp(w, op)) return;
  const u32* d = op.list;
  const u32* a = d + 2 * kBlocks;
  const u32* b = a + kBlocks * kDepth / 4;
  const u32* c = b + kDepth / 4;
  Operands<kBlocks, kDepth> m;
  read_factors(w, a, b, m);
  for (u32 r = 0; r < 2 * kBlocks; ++r) {
    const f64* x = lanes<f64>(w, c[r]);
    for (u32 i = 0; i < kLanes; ++i) m.c[8 * (r >> 1) + i / 4][2 * (i % 4) + (r & 1)] = x[i];
  }
  const u32 saved = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr((saved & ~kModes) | static_cast<u32>(op.flags) << kModeShift);
  asm volatile("" ::: "memory");
  multiply(m);
  asm volatile("" ::: "memory");
  __builtin_ia32_ldmxcsr(saved);
  for (u32 r = 0; r < 2 * kBlocks; ++r) {
    f64* x = lanes<f64>(w, d[r]);
    for (u32 i = 0; i < kLanes; ++i) x[i] = m.c[8 * (r >> 1) + i / 4][2 * (i % 4) + (r & 1)];
  }
}

#define MMA(shape, rounding) "mma.sync.aligned." shape ".row.col" rounding ".f64.f64.f64.f64"
#define DOUBLES(shape, counts, blocks, depth)                                     \
  {MMA(shape, "[.rn]"), Bind::kMma, counts, mma_double<blocks, depth>, kNearest}, \
      {MMA(shape, ".rm"), Bind::kMma, counts, mma_double<blocks, depth>, kDown},  \
      {MMA(shape, ".rp"), Bind::kMma, counts, mma_double<blocks, depth>, kUp}, {  \
    MMA(shape, ".rz"), Bind::kMma, counts, mma_double<blocks, depth>, kZero       \
  }

const Row kRows[] = {
    DOUBLES("m8n8k4", "2112l", 1, 4),
    DOUBLES("m16n8k4", "4214l", 2, 4),
    DOUBLES("m16n8k8", "4424l", 2, 8),
    DOUBLES("m16n8k16", "4844l", 2, 16),
};

}  // namespace

LSSAR_ROWS(kMmaDoubleRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
