// What changes scores between their scale and phi, in the units of phi: first the soft cap, then
// ALiBi.
//
//   x_ij -> cap(x_ij) + slope_h |position_i - j|
//
// kHasSoftCap:    Config::soft_cap, and with its derivative Config::soft_cap_and_slope.
// kHasAlibi:      row i stands at position i + Lk - Lq among the keys. Slopes of heads are the
//                 call's, times -kScoreUnit.
// kChangesScores: one of them, or both.
#pragma once

#include "templates/tile/fragment.cuh"
#include "templates/tile/rows.cuh"

namespace lssar_device {

// ALiBi's slope of a head. Slopes are in the argument's field of X, which problems with ALiBi do
// not save.
template <class Config>
LSSAR_DEVICE float alibi_slope(const AttentionParams& params, int head) {
  return static_cast<const float*>(params.saved_x)[head] * -Config::kScoreUnit;
}

// The position of a row, counted from the call's first key.
template <class Config>
LSSAR_DEVICE i64 row_position(const AttentionParams& params, i64 row) {
  if constexpr (Config::kIsRange) return row + params.query_shift - params.first_key;
  return row + seq_k<Config>(params) - seq_q<Config>(params);
}

// What ALiBi adds to a score.
struct AlibiTerm {
  float slope = 0.0f, distance = 0.0f;

  LSSAR_DEVICE float add_to(float x) const { return fma(slope, absolute(distance), x); }
};

template <class Config, int kTiles>
LSSAR_DEVICE void cap_scores(Fragment<kTiles>& s) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) s.at[n][e] = Config::soft_cap(s.at[n][e]);
}

// The two query rows of a lane, with keys as columns.
struct AlibiRows {
  float slope[2];
  i64 position[2];

  // The term of column `col` of the tile whose first key is `first`. The distance is exact up to
  // 2^24, so it is the same wherever tiles begin.
  LSSAR_DEVICE AlibiTerm term(int half, i64 first, int col) const {
    return {slope[half], static_cast<float>(position[half] - first) - static_cast<float>(col)};
  }
  template <int kTiles>
  LSSAR_DEVICE void add_to(Fragment<kTiles>& s, i64 first) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        s.at[n][e] = term(e / 2, first, fragment_col(n) + e % 2).add_to(s.at[n][e]);
  }
};

// The AlibiRows of the lane's rows. A row without keys may have no head. REQUIRES: the rows are
// placed.
template <class Config, class Rows>
LSSAR_DEVICE AlibiRows alibi_of_rows(const AttentionParams& params, const BlockPlace& place,
                                     const Rows& rows) {
  AlibiRows alibi;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const bool has_keys = rows.visible[half] != 0;
    alibi.slope[half] = has_keys ? alibi_slope<Config>(params, rows.head_of(place, half)) : 0.0f;
    alibi.position[half] = row_position<Config>(params, rows.row[half]);
  }
  return alibi;
}

}  // namespace lssar_device
