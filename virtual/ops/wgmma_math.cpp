// The product of one wgmma for all warps of a group that have come. B is unpacked once for all of
// them.
//
// Layouts (lane = 4 g + t), as in mma.sync: accumulator 4 j + 2 r + p of a warp is row g + 8 r and
// column 8 j + 2 t + p. Register r of A is rows g + 8 (r & 1) of the (r >> 1)-th 16 bytes of K,
// with 4 bytes in lane t of a group. So 8 chunks of K-major shared memory, one per row, ARE a
// register.
//
// A is spread over the lanes once per warp: for every k there are vectors whose groups of 4 lanes
// all hold that row's element. B is transposed so that the 4 columns 2 t + p of a block are a
// group, which is broadcast when it is read. One step of k is then a multiply-add per accumulator
// vector. Products are summed in the order of k, so that every instruction set gives the same bits.
#include "virtual/ops/wgmma_math.h"

#include "virtual/ops/float_vectors.h"
#include "virtual/state/units.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

constexpr u32 kDepthBytes = 32;                    // of K
constexpr u32 kVectors = 64 / kWidth;              // of floats: 16 rows in groups of 4 lanes
constexpr u32 kHalf = kVectors / 2;                // 8 rows
constexpr u32 kTileVectors = 4;                    // vectors of A and
constexpr u32 kTileBlocks = kWidth == 16 ? 2 : 1;  // blocks of 8 columns that are summed at once
constexpr u32 kMaxDepth = 32;
constexpr u32 kSignBit = 0x80000000u;

// A warp's four registers of A.
struct alignas(64) Fragment {
  u32 reg[4][kLanes];
};
// Spread A of a warp: [k][vector][lane].
struct alignas(64) SpreadRows {
  f32 value[kMaxDepth * kVectors * kWidth];
};
// B by blocks of 8 columns: [k % 4][p][k / 4][t]. `staged` has its chunks side by side.
struct alignas(64) Columns {
  f32 value[kWgmmaMaxColumns * kMaxDepth];
  u8 staged[kWgmmaMaxChunksOfB * kChunkBytes];
};

template <class T>
constexpr u32 depth_of() {
  return kDepthBytes / sizeof(T);
}

// Transposes 8 chunks of 8 16-bit elements.
inline void transpose_chunks(const u8* const* rows, u8* out) {
  __m128i r[8];
  for (u32 i = 0; i < 8; ++i) r[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[i]));
  __m128i pairs[8], quads[8];
  for (u32 i = 0; i < 4; ++i) {
    pairs[2 * i] = _mm_unpacklo_epi16(r[2 * i], r[2 * i + 1]);
    pairs[2 * i + 1] = _mm_unpackhi_epi16(r[2 * i], r[2 * i + 1]);
  }
  for (u32 i = 0; i < 2; ++i) {
    for (u32 h = 0; h < 2; ++h) {
      quads[4 * i + 2 * h] = _mm_unpacklo_epi32(pairs[4 * i + h], pairs[4 * i + 2 + h]);
      quads[4 * i + 2 * h + 1] = _mm_unpackhi_epi32(pairs[4 * i + h], pairs[4 * i + 2 + h]);
    }
  }
  for (u32 i = 0; i < 4; ++i) {
    __m128i* const to = reinterpret_cast<__m128i*>(out) + 2 * i;
    _mm_store_si128(to, _mm_unpacklo_epi64(quads[i], quads[4 + i]));
    _mm_store_si128(to + 1, _mm_unpackhi_epi64(quads[i], quads[4 + i]));
  }
}

// Gathers A of one warp from shared memory into the registers that it would have.
void gather_rows(const WgmmaCall& call, const u32* chunks, Fragment& out) {
  for (u32 r = 0; r < 4; ++r) {
    const u32 rows = r & 1;
    const u32 part = r >> 1;
    const u8* from[8];
    for (u32 i = 0; i < 8; ++i) {
      from[i] = call.shared + (call.a_mn_major ? chunks[16 * rows + 8 * part + i]
                                               : chunks[2 * (8 * rows + i) + part]);
    }
    u8* const to = reinterpret_cast<u8*>(out.reg[r]);
    if (call.a_mn_major) {
      transpose_chunks(from, to);
    } else {
      for (u32 i = 0; i < 8; ++i) memcpy(to + kChunkBytes * i, from[i], kChunkBytes);
    }
  }
}

// Part i of a register's lanes: k = first + parts * t + i.
template <class T, u32 kPart>
inline void spread_part(Bits bits, u32 sign, f32* out) {
  constexpr u32 kParts = 4 / sizeof(T);
  constexpr u32 kStep = kParts * kVectors * kWidth;  // to the next t
  const Floats value = element_to_floats(shift_right<8 * sizeof(T) * kPart>(bits), T());
  const Floats x = as_floats(flip_bits(as_bits(value), sign));
  out += kPart * kVectors * kWidth;
  store_floats(out, spread<0>(x));
  store_floats(out + kStep, spread<1>(x));
  store_floats(out + 2 * kStep, spread<2>(x));
  store_floats(out + 3 * kStep, spread<3>(x));
}

template <class T>
void spread_rows(const u32* const* reg, bool negate, SpreadRows& out) {
  constexpr u32 kParts = 4 / sizeof(T);
  const u32 sign = negate ? kSignBit : 0;
  for (u32 r = 0; r < 4; ++r) {
    for (u32 h = 0; h < kHalf; ++h) {
      const Bits bits = load_bits(reg[r] + h * kWidth);
      f32* const to = out.value + ((r >> 1) * 4 * kParts * kVectors + (r & 1) * kHalf + h) * kWidth;
      spread_part<T, 0>(bits, sign, to);
      if constexpr (kParts > 1) spread_part<T, 1>(bits, sign, to);
      if constexpr (kParts > 2) {
        spread_part<T, 2>(bits, sign, to);
        spread_part<T, 3>(bits, sign, to);
      }
    }
  }
}

// Transposes the groups of four vectors: out[i] holds lane i of each.
inline void transpose_groups(const Floats (&r)[4], Floats (&out)[4]) {
  const Floats low01 = unpack_low(r[0], r[1]);
  const Floats low23 = unpack_low(r[2], r[3]);
  const Floats high01 = unpack_high(r[0], r[1]);
  const Floats high23 = unpack_high(r[2], r[3]);
  out[0] = join_low(low01, low23);
  out[1] = join_high(low01, low23);
  out[2] = join_low(high01, high23);
  out[3] = join_high(high01, high23);
}

template <class T>
void turn_columns(u32 blocks, Columns& m) {
  constexpr u32 kDepth = depth_of<T>();
  for (u32 j = 0; j < blocks; ++j) {
    const u8* const from = m.staged + j * 8 * kDepthBytes;
    f32* const to = m.value + j * 8 * kDepth;
    Floats rows[4], turned[4];
    if constexpr (kDepth >= kWidth) {
      for (u32 p = 0; p < 2; ++p) {
        for (u32 c = 0; c < kDepth; c += kWidth) {
          for (u32 q = 0; q < 4; ++q) {
            rows[q] = load_elements(from + (2 * q + p) * kDepthBytes + c * sizeof(T), T());
          }
          transpose_groups(rows, turned);
          for (u32 i = 0; i < 4; ++i) store_floats(to + (2 * i + p) * kDepth + c, turned[i]);
        }
      }
    } else {  // a vector holds two columns
      for (u32 q = 0; q < 4; ++q) rows[q] = load_elements(from + 2 * q * kDepthBytes, T());
      transpose_groups(rows, turned);
      for (u32 i = 0; i < 4; ++i) store_floats(to + 2 * i * kDepth, turned[i]);
    }
  }
}

// MN-major: a chunk is the 8 columns at one k, in pairs. Chunks are staged in the order [k % 4][k /
// 4].
template <class T>
void split_columns(u32 blocks, Columns& m) {
  constexpr u32 kDepth = depth_of<T>();
  for (u32 j = 0; j < blocks; ++j) {
    const u8* const from = m.staged + j * 8 * kDepthBytes;
    f32* const to = m.value + j * 8 * kDepth;
    for (u32 i = 0; i < 4; ++i) {
      for (u32 c = 0; c < kDepth; c += kWidth) {
        const Bits pairs = load_bits(from + (i * kDepth + c) * 4);
        store_floats(to + 2 * i * kDepth + c, element_to_floats(pairs, T()));
        store_floats(to + (2 * i + 1) * kDepth + c, element_to_floats(shift_right<16>(pairs), T()));
      }
    }
  }
}

void stage_columns(const WgmmaCall& call, u8* to) {
  if (!call.b_mn_major) {
    for (u32 i = 0; i < 2 * call.n; ++i) {
      memcpy(to + kChunkBytes * i, call.shared + call.b_chunks[i], kChunkBytes);
    }
    return;
  }
  for (u32 i = 0; i < 2 * call.n; ++i) {
    const u32 k = i & 15;
    const u32 place = (i & ~15u) + (k & 3) * 4 + (k >> 2);
    memcpy(to + kChunkBytes * place, call.shared + call.b_chunks[i], kChunkBytes);
  }
}

void unpack_columns(const WgmmaCall& call, Columns& m) {
  stage_columns(call, m.staged);
  const u32 blocks = call.n / 8;
  switch (call.b_type) {
    case WgmmaType::kF16:
      return call.b_mn_major ? split_columns<f16>(blocks, m) : turn_columns<f16>(blocks, m);
    case WgmmaType::kBf16:
      return call.b_mn_major ? split_columns<bf16>(blocks, m) : turn_columns<bf16>(blocks, m);
    case WgmmaType::kTf32:
      return turn_columns<tf32>(blocks, m);
    case WgmmaType::kE4m3:
      return turn_columns<e4m3>(blocks, m);
    case WgmmaType::kE5m2:
      return turn_columns<e5m2>(blocks, m);
    case WgmmaType::kS8:
      return turn_columns<signed_byte>(blocks, m);
    case WgmmaType::kU8:
      return turn_columns<unsigned_byte>(blocks, m);
  }
}

void unpack_rows(const WgmmaCall& call, const u32* const* reg, SpreadRows& out) {
  switch (call.a_type) {
    case WgmmaType::kF16:
      return spread_rows<f16>(reg, call.negate, out);
    case WgmmaType::kBf16:
      return spread_rows<bf16>(reg, call.negate, out);
    case WgmmaType::kTf32:
      return spread_rows<tf32>(reg, call.negate, out);
    case WgmmaType::kE4m3:
      return spread_rows<e4m3>(reg, call.negate, out);
    case WgmmaType::kE5m2:
      return spread_rows<e5m2>(reg, call.negate, out);
    case WgmmaType::kS8:
      return spread_rows<signed_byte>(reg, false, out);
    case WgmmaType::kU8:
      return spread_rows<unsigned_byte>(reg, false, out);
  }
}

// Multiplies kBlocks blocks of 8 columns with the vectors of A from `first` on. d: 4 registers per
// block.
template <u32 kDepth, u32 kBlocks>
inline void multiply_tile(const f32* a, const f32* b, u32 first, f32* const* d, bool accumulate) {
  Floats sum[kTileVectors][2 * kBlocks];
  const auto place = [&](u32 v, u32 column) {
    return d[4 * (column >> 1) + 2 * ((first + v) / kHalf) + (column & 1)] +
           (first + v) % kHalf * kWidth;
  };
#pragma GCC unroll 8
  for (u32 v = 0; v < kTileVectors; ++v) {
#pragma GCC unroll 8
    for (u32 n = 0; n < 2 * kBlocks; ++n) {
      sum[v][n] = accumulate ? load_floats(place(v, n)) : zero_floats();
    }
  }
  a += first * kWidth;
  for (u32 high = 0; high < kDepth; high += 4) {
#pragma GCC unroll 4
    for (u32 low = 0; low < 4; ++low) {
      Floats x[kTileVectors];
#pragma GCC unroll 8
      for (u32 v = 0; v < kTileVectors; ++v) {
        x[v] = load_floats(a + ((high + low) * kVectors + v) * kWidth);
      }
#pragma GCC unroll 8
      for (u32 n = 0; n < 2 * kBlocks; ++n) {
        const f32* const column = b + (n >> 1) * 8 * kDepth + (2 * low + (n & 1)) * kDepth + high;
        const Floats y = broadcast_group(column);
#pragma GCC unroll 8
        for (u32 v = 0; v < kTileVectors; ++v) sum[v][n] = multiply_add(x[v], y, sum[v][n]);
      }
    }
  }
#pragma GCC unroll 8
  for (u32 v = 0; v < kTileVectors; ++v) {
#pragma GCC unroll 8
    for (u32 n = 0; n < 2 * kBlocks; ++n) store_floats(place(v, n), sum[v][n]);
  }
}

template <u32 kDepth, u32 kBlocks>
inline void multiply_blocks(const f32* a, const f32* b, f32* const* d, bool accumulate) {
  for (u32 first = 0; first < kVectors; first += kTileVectors) {
    multiply_tile<kDepth, kBlocks>(a, b, first, d, accumulate);
  }
}

template <u32 kDepth>
void multiply_floats(const WgmmaCall& call, u8* registers, const f32* a, const f32* b) {
  const u32 blocks = call.n / 8;
  u32 j = 0;
  f32* d[4 * kTileBlocks];
  for (; j + kTileBlocks <= blocks; j += kTileBlocks) {
    for (u32 i = 0; i < 4 * kTileBlocks; ++i) {
      d[i] = reinterpret_cast<f32*>(registers + call.d_registers[4 * j + i]);
    }
    multiply_blocks<kDepth, kTileBlocks>(a, b + j * 8 * kDepth, d, call.accumulate);
  }
  for (; j < blocks; ++j) {
    for (u32 i = 0; i < 4; ++i) {
      d[i] = reinterpret_cast<f32*>(registers + call.d_registers[4 * j + i]);
    }
    multiply_blocks<kDepth, 1>(a, b + j * 8 * kDepth, d, call.accumulate);
  }
}

// Sums in f16: computed in float for the whole depth, rounded once.
template <u32 kDepth>
void multiply_halves(const WgmmaCall& call, u8* registers, const f32* a, const f32* b) {
  alignas(64) f32 sums[4][kLanes];
  f32* const d[4] = {sums[0], sums[1], sums[2], sums[3]};
  for (u32 j = 0; j < call.n / 8; ++j) {
    for (u32 r = 0; r < 2; ++r) {
      const f16* from = reinterpret_cast<const f16*>(registers + call.d_registers[2 * j + r]);
      for (u32 i = 0; i < 2 * kLanes; ++i) sums[2 * r + (i & 1)][i >> 1] = to_float(from[i]);
    }
    multiply_blocks<kDepth, 1>(a, b + j * 8 * kDepth, d, call.accumulate);
    for (u32 r = 0; r < 2; ++r) {
      f16* const to = reinterpret_cast<f16*>(registers + call.d_registers[2 * j + r]);
      for (u32 i = 0; i < 2 * kLanes; ++i) to[i] = to_f16(sums[2 * r + (i & 1)][i >> 1]);
    }
  }
}

// Sums in s32. Those of one depth are less than 2^24, so float has them exactly.
void multiply_integers(const WgmmaCall& call, u8* registers, const f32* a, const f32* b) {
  constexpr s64 kMost = 0x7fffffff;
  alignas(64) f32 sums[4][kLanes];
  f32* const d[4] = {sums[0], sums[1], sums[2], sums[3]};
  for (u32 j = 0; j < call.n / 8; ++j) {
    multiply_blocks<kMaxDepth, 1>(a, b + j * 8 * kMaxDepth, d, false);
    for (u32 r = 0; r < 4; ++r) {
      s32* const to = reinterpret_cast<s32*>(registers + call.d_registers[4 * j + r]);
      for (u32 i = 0; i < kLanes; ++i) {
        s64 sum = static_cast<s64>(sums[r][i]) + (call.accumulate ? to[i] : 0);
        if (call.saturate) sum = sum > kMost ? kMost : sum < -kMost - 1 ? -kMost - 1 : sum;
        to[i] = static_cast<s32>(sum);
      }
    }
  }
}

void multiply(const WgmmaCall& call, u8* registers, const f32* a, const f32* b) {
  switch (call.a_type) {
    case WgmmaType::kF16:
    case WgmmaType::kBf16:
      return call.half_sums ? multiply_halves<16>(call, registers, a, b)
                            : multiply_floats<16>(call, registers, a, b);
    case WgmmaType::kTf32:
      return multiply_floats<8>(call, registers, a, b);
    case WgmmaType::kE4m3:
    case WgmmaType::kE5m2:
      return call.half_sums ? multiply_halves<32>(call, registers, a, b)
                            : multiply_floats<32>(call, registers, a, b);
    case WgmmaType::kS8:
    case WgmmaType::kU8:
      return multiply_integers(call, registers, a, b);
  }
}

}  // namespace

void execute_wgmma(const WgmmaCall& call) {
  Columns columns;
  unpack_columns(call, columns);
  // All operands are read before any sum is written. They are also written long before they are
  // used, because loads that follow narrower stores are slow.
  Fragment fragments[kWarpsPerGroup];
  if (call.a_registers == nullptr) {
    for (u32 w = 0; w < call.num_warps; ++w) {
      gather_rows(call, call.warps[w].a_chunks, fragments[w]);
    }
  }
  SpreadRows rows;
  for (u32 w = 0; w < call.num_warps; ++w) {
    const u32* reg[4];
    for (u32 r = 0; r < 4; ++r) {
      reg[r] = call.a_registers == nullptr
                   ? fragments[w].reg[r]
                   : reinterpret_cast<const u32*>(call.warps[w].a + call.a_registers[r]);
    }
    unpack_rows(call, reg, rows);
    multiply(call, call.warps[w].d, rows.value, columns.value);
  }
}

}  // namespace lssar::vdev::LSSAR_SIMD
