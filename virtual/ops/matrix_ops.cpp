// ldmatrix, stmatrix, movmatrix and mma.sync.
//
// Layouts (lane = 4 g + t): a 32-bit register of 16-bit pairs, read over the 32 lanes, IS an 8x8
// row-major matrix: row g, columns 2t and 2t + 1. So ldmatrix copies rows, and the fragments of mma
// are such matrices: a0, a1 rows 0-7 and 8-15 of columns 0-7, a2, a3 of columns 8-15; b0, b1 the
// columns of b as rows, k 0-7 and 8-15. Accumulators: c0, c1 row g, columns 2t, 2t + 1; c2, c3 row
// g + 8.
#include "virtual/ops/address.h"
#include "virtual/ops/collective.h"
#include "virtual/ops/mma_fragments.h"
#include "virtual/ops/rows.h"
#include "virtual/state/units.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

inline void transpose(const u8* const* rows, u16* d) {
  u16 m[8][8];
  for (u32 r = 0; r < 8; ++r) memcpy(m[r], rows[r], kMatrixRowBytes);
  for (u32 r = 0; r < 8; ++r) {
    for (u32 c = 0; c < 8; ++c) d[r * 8 + c] = m[c][r];
  }
}

// Lanes 8k .. 8k + 7 give the row addresses of matrix k.
inline void resolve_rows(Warp& w, const Op& op, HostAddresses& rows) {
  const u32 mask = w.mask;
  if (op.count < 4) w.mask = (1u << (8 * op.count)) - 1;
  resolve(w, op, kMatrixRowBytes, rows);
  w.mask = mask;
}

template <bool kTranspose>
void load_matrix(Warp& w, const Op& op) {
  if (lacks_warp(w, op)) return;
  HostAddresses rows;
  resolve_rows(w, op, rows);
  for (u32 k = 0; k < op.count; ++k) {
    if (op.list[k] == kNoRegister) continue;
    u8* d = lanes<u8>(w, op.list[k]);
    if (kTranspose) {
      transpose(rows.lane + 8 * k, reinterpret_cast<u16*>(d));
    } else {
      for (u32 r = 0; r < 8; ++r)
        memcpy(d + r * kMatrixRowBytes, rows.lane[8 * k + r], kMatrixRowBytes);
    }
  }
}

template <bool kTranspose>
void store_matrix(Warp& w, const Op& op) {
  if (lacks_warp(w, op)) return;
  HostAddresses rows;
  resolve_rows(w, op, rows);
  for (u32 k = 0; k < op.count; ++k) {
    const u8* source = lanes<u8>(w, op.list[k]);
    alignas(16) u16 transposed[64];
    if (kTranspose) {
      const u8* source_rows[8];
      for (u32 r = 0; r < 8; ++r) source_rows[r] = source + r * kMatrixRowBytes;
      transpose(source_rows, transposed);
      source = reinterpret_cast<const u8*>(transposed);
    }
    for (u32 r = 0; r < 8; ++r)
      memcpy(rows.lane[8 * k + r], source + r * kMatrixRowBytes, kMatrixRowBytes);
  }
}

void move_matrix(Warp& w, const Op& op) {
  if (lacks_warp(w, op)) return;
  const u8* source = lanes<u8>(w, op.a);
  const u8* rows[8];
  for (u32 r = 0; r < 8; ++r) rows[r] = source + r * kMatrixRowBytes;
  alignas(64) u16 transposed[64];
  transpose(rows, transposed);
  memcpy(lanes<u8>(w, op.dst), transposed, sizeof transposed);
}

// Operands in op.list: d, a, b, c. Even columns come first, as in a register's lanes.
template <u32 kSteps>  // k = 8 kSteps
struct alignas(16) Operands {
  f32 a[16][8 * kSteps];
  f32 b[8 * kSteps][8];
  f32 c[16][8];
};
constexpr u32 column_place(u32 n) { return 4 * (n & 1) + (n >> 1); }

template <class T, u32 kSteps>
inline void read_halves(const Warp& w, const u32* a, const u32* b, Operands<kSteps>& m) {
  for (u32 r = 0; r < 2 * kSteps; ++r) {
    const T* x = lanes<T>(w, a[r]);
    for (u32 g = 0; g < 8; ++g) {
      for (u32 j = 0; j < 8; ++j) m.a[8 * (r & 1) + g][8 * (r >> 1) + j] = to_float(x[8 * g + j]);
    }
  }
  for (u32 r = 0; r < kSteps; ++r) {
    const T* x = lanes<T>(w, b[r]);
    for (u32 j = 0; j < 8; ++j) {
      for (u32 n = 0; n < 8; ++n) m.b[8 * r + j][column_place(n)] = to_float(x[8 * n + j]);
    }
  }
}

// Products of these formats are exact in float's range. So rounding them first gives the bits of a
// fused multiply-add.
using Quad = f32 __attribute__((vector_size(16)));

template <u32 kSteps>
inline void multiply(Operands<kSteps>& m) {
  constexpr u32 kRows = 4;  // at once, so that sums of different rows overlap
  for (u32 first = 0; first < 16; first += kRows) {
    Quad sums[kRows][2];
    for (u32 r = 0; r < kRows; ++r) memcpy(sums[r], m.c[first + r], sizeof sums[r]);
    for (u32 k = 0; k < 8 * kSteps; ++k) {
      Quad columns[2];
      memcpy(columns, m.b[k], sizeof columns);
      for (u32 r = 0; r < kRows; ++r) {
        const f32 x = m.a[first + r][k];
        for (u32 h = 0; h < 2; ++h) sums[r][h] = x * columns[h] + sums[r][h];
      }
    }
    for (u32 r = 0; r < kRows; ++r) memcpy(m.c[first + r], sums[r], sizeof sums[r]);
  }
}

template <u32 kSteps>
inline void read_floats(const Warp& w, const u32* c, Operands<kSteps>& m) {
  for (u32 r = 0; r < 4; ++r) {
    const f32* x = lanes<f32>(w, c[r]);
    for (u32 g = 0; g < 8; ++g)
      memcpy(&m.c[8 * (r >> 1) + g][4 * (r & 1)], x + 4 * g, sizeof(Quad));
  }
}
template <u32 kSteps>
inline void write_floats(const Warp& w, const u32* d, const Operands<kSteps>& m) {
  for (u32 r = 0; r < 4; ++r) {
    f32* x = lanes<f32>(w, d[r]);
    for (u32 g = 0; g < 8; ++g)
      memcpy(x + 4 * g, &m.c[8 * (r >> 1) + g][4 * (r & 1)], sizeof(Quad));
  }
}

template <class T, u32 kSteps>
void mma_float(Warp& w, const Op& op) {
  if (lacks_warp(w, op)) return;
  const u32* d = op.list;
  const u32* a = d + 4;
  const u32* b = a + 2 * kSteps;
  const u32* c = b + kSteps;
#ifdef __AVX2__
  multiply_fragments<T, kSteps>(w, d, a, b, c);
#else
  Operands<kSteps> m;
  read_halves<T, kSteps>(w, a, b, m);
  read_floats(w, c, m);
  multiply(m);
  write_floats(w, d, m);
#endif
}

// Accumulation in f16: sums in float, rounded once at the end.
template <u32 kSteps>
void mma_half(Warp& w, const Op& op) {
  if (lacks_warp(w, op)) return;
  const u32* d = op.list;
  const u32* a = d + 2;
  const u32* b = a + 2 * kSteps;
  const u32* c = b + kSteps;
  Operands<kSteps> m;
  read_halves<f16, kSteps>(w, a, b, m);
  for (u32 r = 0; r < 2; ++r) {
    const f16* x = lanes<f16>(w, c[r]);
    for (u32 i = 0; i < 64; ++i) m.c[8 * r + i / 8][column_place(i % 8)] = to_float(x[i]);
  }
  multiply(m);
  for (u32 r = 0; r < 2; ++r) {
    f16* x = lanes<f16>(w, d[r]);
    for (u32 i = 0; i < 64; ++i) x[i] = to_f16(m.c[8 * r + i / 8][column_place(i % 8)]);
  }
}

// tf32: the low 13 bits of an operand are ignored. k = 4 kHalves; a0, a1 column t, a2, a3 column
// t + 4; b0 row t, b1 row t + 4, column g.
template <u32 kHalves>
void mma_tf32(Warp& w, const Op& op) {
  if (lacks_warp(w, op)) return;
  const u32* d = op.list;
  const u32* a = d + 4;
  const u32* b = a + 2 * kHalves;
  const u32* c = b + kHalves;
  Operands<1> m = {};
  const auto value = [](u32 bits) { return bits_to<f32>(bits & ~0x1fffu); };
  for (u32 r = 0; r < 2 * kHalves; ++r) {
    const u32* x = lanes<u32>(w, a[r]);
    for (u32 i = 0; i < kLanes; ++i) m.a[8 * (r & 1) + i / 4][4 * (r >> 1) + i % 4] = value(x[i]);
  }
  for (u32 r = 0; r < kHalves; ++r) {
    const u32* x = lanes<u32>(w, b[r]);
    for (u32 i = 0; i < kLanes; ++i) m.b[4 * r + i % 4][column_place(i / 4)] = value(x[i]);
  }
  read_floats(w, c, m);
  multiply(m);
  write_floats(w, d, m);
}

#define SPACE "[.shared|.shared::cta]"
#define MMA(shape, types) "mma.sync.aligned." shape ".row.col." types

// Operands of mma: how many registers d, a, b and c have.
const Row kRows[] = {
    {"ldmatrix.sync.aligned.m8n8.(x1|x2|x4)" SPACE ".b16", Bind::kMatrixLoad, "",
     load_matrix<false>},
    {"ldmatrix.sync.aligned.m8n8.(x1|x2|x4).trans" SPACE ".b16", Bind::kMatrixLoad, "",
     load_matrix<true>},
    {"stmatrix.sync.aligned.m8n8.(x1|x2|x4)" SPACE ".b16", Bind::kMatrixStore, "",
     store_matrix<false>},
    {"stmatrix.sync.aligned.m8n8.(x1|x2|x4).trans" SPACE ".b16", Bind::kMatrixStore, "",
     store_matrix<true>},
    {"movmatrix.sync.aligned.m8n8.trans.b16", Bind::kCollective, "ww", move_matrix},
    {MMA("m16n8k16", "f32.bf16.bf16.f32"), Bind::kMma, "4424", mma_float<bf16, 2>},
    {MMA("m16n8k16", "f32.f16.f16.f32"), Bind::kMma, "4424", mma_float<f16, 2>},
    {MMA("m16n8k8", "f32.bf16.bf16.f32"), Bind::kMma, "4214", mma_float<bf16, 1>},
    {MMA("m16n8k8", "f32.f16.f16.f32"), Bind::kMma, "4214", mma_float<f16, 1>},
    {MMA("m16n8k16", "f16.f16.f16.f16"), Bind::kMma, "2422", mma_half<2>},
    {MMA("m16n8k8", "f16.f16.f16.f16"), Bind::kMma, "2212", mma_half<1>},
    {MMA("m16n8k8", "f32.tf32.tf32.f32"), Bind::kMma, "4424", mma_tf32<2>},
    {MMA("m16n8k4", "f32.tf32.tf32.f32"), Bind::kMma, "4214", mma_tf32<1>},
};

}  // namespace

LSSAR_ROWS(kMatrixRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
