// Products of 16-bit tiles on tensor cores, one warp at a time.
//
// All of them accumulate.
#pragma once

#include "templates/ptx/convert.cuh"
#include "templates/ptx/memory.cuh"
#include "templates/ptx/mma.cuh"
#include "templates/tile/fragment.cuh"
#include "templates/tile/shared_tile.cuh"

namespace lssar_device {

template <class T>
struct TileMma16 {
  static_assert(sizeof(T) == 2, "fp32 tiles are multiplied by tile/mma32.cuh");
  static constexpr int kDepth = 16;  // of one mma

  // A fragment rounded to T, as the left operand: 16 rows, kTiles x 8 columns.
  template <int kTiles>
  struct Operand {
    static_assert(kTiles % 2 == 0, "an mma takes two tiles of 8 columns as its depth");
    u32 at[kTiles / 2][4];
  };

  template <int kTiles>
  static LSSAR_DEVICE void round(Operand<kTiles>& operand, const Fragment<kTiles>& x) {
#pragma unroll
    for (int step = 0; step < kTiles / 2; ++step) round_step(operand.at[step], x, step);
  }
  // Rounds the 16 columns of one step only.
  template <int kTiles>
  static LSSAR_DEVICE void round_step(u32 (&step_operand)[4], const Fragment<kTiles>& x, int step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float(&tile)[4] = x.at[2 * step + i / 2];
      step_operand[i] = pack<T>(tile[i % 2 * 2], tile[i % 2 * 2 + 1]);
    }
  }

  // x -= operand: leaves the rounding errors.
  template <int kTiles>
  static LSSAR_DEVICE void subtract(Fragment<kTiles>& x, const Operand<kTiles>& operand) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float low, high;
        unpack(static_cast<T*>(nullptr), operand.at[n / 2][n % 2 * 2 + half], low, high);
        x.at[n][2 * half] -= low;
        x.at[n][2 * half + 1] -= high;
      }
  }

  // d += a bT: 16 rows of `a` from a_row0 on, all rows of `b`. The depth is the columns of both.
  template <int kTiles, class TileA, class TileB>
  static LSSAR_DEVICE void multiply_transposed(Fragment<kTiles>& d, TileA a, int a_row0, TileB b) {
    static_assert(TileA::kCols == TileB::kCols, "both tiles have the depth as columns");
    static_assert(TileB::kRows == kTiles * kTileCols, "one row of b per column of d");
    static_assert(kTiles % 2 == 0, "matrices of b are loaded for two tiles at a time");
    const int lane = lane_index();
    const u32 a_address = a.address(a_row0 + lane % 16, lane / 16 * 8);
    const u32 b_address = b.address(lane % 8 + lane / 16 * 8, lane / 8 % 2 * 8);
#pragma unroll
    for (int depth = 0; depth < TileA::kCols; depth += kDepth) {
      u32 left[4];
      load_matrices(left, a_address + depth * sizeof(T));
#pragma unroll
      for (int n = 0; n < kTiles; n += 2) {
        u32 right[4];
        load_matrices(right, b_address + n * kTileCols * TileB::kRowBytes + depth * sizeof(T));
        mma_m16n8k16(static_cast<T*>(nullptr), d.at[n], left, right[0], right[1]);
        mma_m16n8k16(static_cast<T*>(nullptr), d.at[n + 1], left, right[2], right[3]);
      }
    }
  }

  // d += a b: the depth is the rows of `b`.
  template <class TileB>
  static LSSAR_DEVICE void multiply(Fragment<TileB::kCols / kTileCols>& d,
                                    const Operand<TileB::kRows / kTileCols>& a, TileB b) {
    const int lane = lane_index();
    const u32 b_address = b.address(lane % 16, lane / 16 * 8);
#pragma unroll
    for (int step = 0; step < TileB::kRows / kDepth; ++step) {
#pragma unroll
      for (int n = 0; n < TileB::kCols / kTileCols; n += 2) {
        u32 right[4];
        load_matrices_transposed(
            right, b_address + step * kDepth * TileB::kRowBytes + n * kTileCols * sizeof(T));
        mma_m16n8k16(static_cast<T*>(nullptr), d.at[n], a.at[step], right[0], right[1]);
        mma_m16n8k16(static_cast<T*>(nullptr), d.at[n + 1], a.at[step], right[2], right[3]);
      }
    }
  }

  // d += aT b: the depth is the rows of both; d's 16 rows are a's columns from a_col0 on, d's
  // columns are b's from b_col0 on.
  template <int kTiles, class TileA, class TileB>
  static LSSAR_DEVICE void multiply_left_transposed(Fragment<kTiles>& d, TileA a, int a_col0,
                                                    TileB b, int b_col0) {
    static_assert(TileA::kRows == TileB::kRows, "both tiles have the depth as rows");
    const int lane = lane_index();
    const u32 a_address = a.address(lane % 8 + lane / 16 * 8, a_col0 + lane / 8 % 2 * 8);
    const u32 b_address = b.address(lane % 16, b_col0 + lane / 16 * 8);
#pragma unroll
    for (int depth = 0; depth < TileA::kRows; depth += kDepth) {
      u32 left[4];
      load_matrices_transposed(left, a_address + depth * TileA::kRowBytes);
#pragma unroll
      for (int n = 0; n < kTiles; n += 2) {
        u32 right[4];
        load_matrices_transposed(right,
                                 b_address + depth * TileB::kRowBytes + n * kTileCols * sizeof(T));
        mma_m16n8k16(static_cast<T*>(nullptr), d.at[n], left, right[0], right[1]);
        mma_m16n8k16(static_cast<T*>(nullptr), d.at[n + 1], left, right[2], right[3]);
      }
    }
  }

  // Sums of a rounded operand's rows, complete in every lane of a quad, as products with ones.
  //
  // Multiplying by ones costs one mma per 16 columns. Unpacking and adding would cost two
  // instructions per element.
  struct RowSums {
    float at[4] = {0.0f, 0.0f, 0.0f, 0.0f};

    template <int kTiles>
    LSSAR_DEVICE void add(const Operand<kTiles>& operand) {
#pragma unroll
      for (int step = 0; step < kTiles / 2; ++step)
        mma_m16n8k16(static_cast<T*>(nullptr), at, operand.at[step], T::kOnePair, T::kOnePair);
    }
    // The same for the operand's magnitudes.
    template <int kTiles>
    LSSAR_DEVICE void add_magnitudes(const Operand<kTiles>& operand) {
      constexpr u32 kNoSigns = 0x7fff7fffu;
#pragma unroll
      for (int step = 0; step < kTiles / 2; ++step) {
        const u32(&x)[4] = operand.at[step];
        const u32 magnitudes[4] = {x[0] & kNoSigns, x[1] & kNoSigns, x[2] & kNoSigns,
                                   x[3] & kNoSigns};
        mma_m16n8k16(static_cast<T*>(nullptr), at, magnitudes, T::kOnePair, T::kOnePair);
      }
    }
    LSSAR_DEVICE void rescale(const float (&by)[2]) {
#pragma unroll
      for (int e = 0; e < 4; ++e) at[e] *= by[e / 2];
    }
    LSSAR_DEVICE float total(int half) const { return at[2 * half]; }
  };

  // Rounds the fragment and writes it to the 16 rows of `tile` from row0.
  template <int kTiles, class Tile>
  static LSSAR_DEVICE void store(Tile tile, int row0, const Fragment<kTiles>& x) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        store_shared(tile.address(row0 + fragment_row(half), fragment_col(n)),
                     pack<T>(x.at[n][2 * half], x.at[n][2 * half + 1]));
  }

  // Loads two neighbouring elements of a tile as floats.
  template <class Tile>
  static LSSAR_DEVICE void load_pair(float (&pair)[2], Tile tile, int row, int col) {
    u32 bits;
    load_shared(bits, tile.address(row, col));
    unpack(static_cast<T*>(nullptr), bits, pair[0], pair[1]);
  }
};

}  // namespace lssar_device
