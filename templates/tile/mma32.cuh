// The products of tile/mma16.cuh for float32 tiles, by fused multiply-adds on the same fragments.
// They have float32 accuracy on every target, and kernels use them like those of mma16.cuh.
#pragma once

#include "templates/ptx/memory.cuh"
#include "templates/tile/fragment.cuh"
#include "templates/tile/shared_tile.cuh"

namespace lssar_device {

template <class T>
struct TileMma32 {
  static_assert(sizeof(T) == 4, "16-bit tiles are multiplied by tile/mma16.cuh");

  template <int kTiles>
  using Operand = Fragment<kTiles>;

  template <int kTiles>
  static LSSAR_DEVICE void round(Operand<kTiles>& operand, const Fragment<kTiles>& x) {
    operand = x;
  }

  template <int kTiles>
  static LSSAR_DEVICE void subtract(Fragment<kTiles>& x, const Operand<kTiles>& operand) {
    x.clear();
  }

  template <int kTiles, class TileA, class TileB>
  static LSSAR_DEVICE void multiply_transposed(Fragment<kTiles>& d, TileA a, int a_row0, TileB b) {
    static_assert(TileA::kCols == TileB::kCols, "both tiles have the depth as columns");
    static_assert(TileB::kRows == kTiles * kTileCols, "one row of b per column of d");
#pragma unroll 1
    for (int depth = 0; depth < TileA::kCols; depth += 4) {
      float left[2][4];
      load_shared(left[0], a.address(a_row0 + fragment_row(0), depth));
      load_shared(left[1], a.address(a_row0 + fragment_row(1), depth));
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float right[4];
          load_shared(right, b.address(fragment_col(n) + c, depth));
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            d.at[n][c] = fma(left[0][i], right[i], d.at[n][c]);
            d.at[n][2 + c] = fma(left[1][i], right[i], d.at[n][2 + c]);
          }
        }
      }
    }
  }

  // One row of b times a column of the left operand, for both rows of the lane.
  template <int kTiles, class TileB>
  static LSSAR_DEVICE void add_outer(Fragment<kTiles>& d, float left0, float left1, TileB b,
                                     int b_row, int b_col0) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float right[2];
      load_shared(right, b.address(b_row, b_col0 + fragment_col(n)));
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        d.at[n][c] = fma(left0, right[c], d.at[n][c]);
        d.at[n][2 + c] = fma(left1, right[c], d.at[n][2 + c]);
      }
    }
  }

  // Columns of `a` are spread over the quad, so each is broadcast by the lane that holds it.
  template <class TileB>
  static LSSAR_DEVICE void multiply(Fragment<TileB::kCols / kTileCols>& d,
                                    const Operand<TileB::kRows / kTileCols>& a, TileB b) {
    const int quad_lane0 = lane_index() / 4 * 4;
#pragma unroll
    for (int m = 0; m < TileB::kRows / kTileCols; ++m) {
      // One column at a time. Unrolled, the loads of several columns would take too many registers.
#pragma unroll 1
      for (int k = 0; k < kTileCols; ++k) {
        const bool is_odd = k % 2 != 0;
        const float left0 = shuffle(is_odd ? a.at[m][1] : a.at[m][0], quad_lane0 + k / 2);
        const float left1 = shuffle(is_odd ? a.at[m][3] : a.at[m][2], quad_lane0 + k / 2);
        add_outer(d, left0, left1, b, m * kTileCols + k, 0);
      }
    }
  }

  template <int kTiles, class TileA, class TileB>
  static LSSAR_DEVICE void multiply_left_transposed(Fragment<kTiles>& d, TileA a, int a_col0,
                                                    TileB b, int b_col0) {
    static_assert(TileA::kRows == TileB::kRows, "both tiles have the depth as rows");
#pragma unroll 1
    for (int depth = 0; depth < TileA::kRows; ++depth) {
      float left0, left1;
      load_shared(left0, a.address(depth, a_col0 + fragment_row(0)));
      load_shared(left1, a.address(depth, a_col0 + fragment_row(1)));
      add_outer(d, left0, left1, b, depth, b_col0);
    }
  }

  struct RowSums {
    float at[2] = {0.0f, 0.0f};

    template <int kTiles>
    LSSAR_DEVICE void add(const Operand<kTiles>& operand) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        at[0] += operand.at[n][0] + operand.at[n][1];
        at[1] += operand.at[n][2] + operand.at[n][3];
      }
    }
    template <int kTiles>
    LSSAR_DEVICE void add_magnitudes(const Operand<kTiles>& operand) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        at[0] += absolute(operand.at[n][0]) + absolute(operand.at[n][1]);
        at[1] += absolute(operand.at[n][2]) + absolute(operand.at[n][3]);
      }
    }
    LSSAR_DEVICE void rescale(const float (&by)[2]) {
      at[0] *= by[0];
      at[1] *= by[1];
    }
    LSSAR_DEVICE float total(int half) const { return quad_sum(at[half]); }
  };

  template <int kTiles, class Tile>
  static LSSAR_DEVICE void store(Tile tile, int row0, const Fragment<kTiles>& x) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        store_shared(tile.address(row0 + fragment_row(half), fragment_col(n)), x.at[n][2 * half],
                     x.at[n][2 * half + 1]);
  }

  template <class Tile>
  static LSSAR_DEVICE void load_pair(float (&pair)[2], Tile tile, int row, int col) {
    load_shared(pair, tile.address(row, col));
  }
};

}  // namespace lssar_device
