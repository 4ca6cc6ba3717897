// Scores of the backward with keys as rows and queries as columns: from the two products of a tile
// to the operands of dv and dk. The dk/dv kernels of every architecture share this.
#pragma once

#include "templates/ptx/assembler.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/fragment.cuh"
#include "templates/tile/general_gradient.cuh"
#include "templates/tile/row_constants.cuh"
#include "templates/tile/rows.cuh"

namespace lssar_device {

// Row constants of a tile's queries in shared memory: the eight floats of each row side by side.
struct PackedConstants {
  static constexpr int kPitch = kRowConstantBytes;

  u32 base;
  template <bool kWithEpsilon, bool kWithInverse>
  LSSAR_DEVICE RowConstants load(int query) const {
    return load_row_constants_shared(base + query * kRowConstantBytes);
  }
};

// Row constants of a tile's queries in two planes of four floats per row, so that the four columns
// of a quad lie on different banks. The second plane has limits, epsilon, gain_delta and
// inverse_epsilon. A lane loads only the words it uses, because every word costs the warp a pass,
// even though there are only four different ones. kIsScaled: the scaler has put gain_delta where
// the limits were, so that one load brings it with epsilon.
template <int kQueries, bool kIsScaled>
struct PlanarConstants {
  static constexpr int kPitch = kVectorBytes;
  static constexpr int kPlaneBytes = kQueries * kVectorBytes;
  static constexpr int kBytes = 2 * kPlaneBytes;

  u32 base;
  // Without limits, and with gain_delta only where there is an epsilon.
  template <bool kWithEpsilon, bool kWithInverse>
  LSSAR_DEVICE RowConstants load(int query) const {
    RowConstants row{};
    float low[4], pair[2];
    load_shared(low, base + query * kVectorBytes);
    row.unpack_low(low);
    const u32 high = base + kPlaneBytes + query * kVectorBytes;
    if constexpr (kWithInverse) {
      load_shared(pair, high + 8);
      row.gain_delta = pair[0];
      row.inverse_epsilon = pair[1];
      if constexpr (kWithEpsilon) load_shared(row.epsilon, high + 4);
    } else if constexpr (kWithEpsilon && kIsScaled) {
      load_shared(pair, high);
      row.gain_delta = pair[0];
      row.epsilon = pair[1];
    } else if constexpr (kWithEpsilon) {
      load_shared(row.epsilon, high + 4);
      load_shared(row.gain_delta, high + 8);
    }
    return row;
  }
  // The largest demand of the lane's share of the rows. NOTE: reads whole vectors, because single
  // words would meet a bank four times.
  LSSAR_DEVICE u32 largest_demand() const {
    u32 largest = 0;
#pragma unroll
    for (int first = 0; first < kQueries; first += kWarpThreads) {
      const int query = first + warp_group_lane();
      if (kQueries % kWarpThreads != 0 && query >= kQueries) break;
      float high[4];
      load_shared(high, base + kPlaneBytes + query * kVectorBytes);
      const u32 demand = RowLimits{bits_of_float(high[0])}.demand();
      largest = demand > largest ? demand : largest;
    }
    return largest;
  }
};

template <int kQueries>
using ScaledConstants = PlanarConstants<kQueries, true>;

// The planes of score functions given as expressions. Without a second stage only the first words
// of the second plane are used: limits and epsilon.
template <class Config, int kQueries>
struct GeneralConstants {
  static constexpr int kPitch = kVectorBytes;
  static constexpr int kPlaneBytes = kQueries * kVectorBytes;
  static constexpr int kBytes = 2 * kPlaneBytes;

  u32 base;
  template <bool kWithEpsilon, bool kWithInverse>
  LSSAR_DEVICE RowConstants load(int query) const {
    RowConstants row{};
    float low[4], high[4];
    load_shared(low, base + query * kVectorBytes);
    if constexpr (Config::kSecondStage == 0) {
      float pair[2];
      load_shared(pair, base + kPlaneBytes + query * kVectorBytes);
      high[0] = pair[0];
      high[1] = pair[1];
      high[2] = high[3] = 0.0f;
    } else {
      load_shared(high, base + kPlaneBytes + query * kVectorBytes);
    }
    row.unpack_from(low, high);
    return row;
  }
};

// kHasAlibi: every kernel has these. `slope`: of the tile's head; `first_distance`: the position of
// the tile's first query minus the block's first key.
template <class Constants>
struct AlibiConstants : Constants {
  float slope, first_distance;
};

// kChangesScores: what is added to an element of key row r and query column c.
template <class Config, class Constants>
LSSAR_DEVICE AlibiTerm alibi_term(const Constants& constants, int row, int col) {
  if constexpr (!Config::kHasAlibi) {
    return {};
  } else {
    return {constants.slope, constants.first_distance + static_cast<float>(col - row)};
  }
}

// Loads the constants of the tile at query `first` of a head whose queries end within it: zeros for
// the rest. kThreads threads call it.
template <class Config, int kThreads, class Constants>
LSSAR_DEVICE void load_constants_to_end(const Constants& constants, const AttentionParams& params,
                                        int head, int first, int thread) {
  const int queries = static_cast<int>(seq_q<Config>(params));
  const float* from =
      params.row_constants + (i64{head} * queries + first) * (kRowConstantBytes / 4);
#pragma unroll 1
  for (int row = thread; row * Constants::kPitch < Constants::kPlaneBytes; row += kThreads) {
    float low[4] = {0.0f, 0.0f, 0.0f, 0.0f}, high[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (first + row < queries) {
      load_global_16(low, from + row * (kRowConstantBytes / 4));
      load_global_16(high, from + row * (kRowConstantBytes / 4) + 4);
    }
    store_shared(constants.base + row * Constants::kPitch, low);
    store_shared(constants.base + Constants::kPlaneBytes + row * Constants::kPitch, high);
  }
}

// Key row r of the block sees query column c of the tile where r - c <= limit.
struct KeyMask {
  int limit;
  bool is_needed;
};

// s: products k_j q_i -> M_ij kWeightRange. d: products v_j g_i -> dS'_ij, divided by |k_j| with
// kGradHasKeyNorm. Without kWithDk only M is computed. With kKeepsNan, weights are NaN too in rows
// that saw a NaN. `row0` is the warp's first row in the block, key_norm is 1 / |k_j|. Only the
// 8-query tiles from first_tile to end_tile are computed.
//
// Hidden weights and gradients become 0 under one branch for all tiles, so that tiles without a
// mask pay only for this branch. NOTE: the branch comes after the evaluation, when the row
// constants are no longer needed. Before it (setting scores to -infinity) it took up to 1 slot per
// score more, or spilled.
template <class Config, bool kWithDk, bool kGradHasKeyNorm, bool kKeepsNan,
          Evaluator kEvaluator = kFullSoftplus, class Constants, int kTiles>
LSSAR_DEVICE void weigh_keys(Fragment<kTiles>& s, Fragment<kTiles>& d, Constants constants,
                             const float (&key_norm)[2], int row0, KeyMask mask, int first_tile = 0,
                             int end_tile = kTiles) {
  // The lane's part of the addresses is computed apart; the rest is a constant of each load.
  u32 lane_part = static_cast<u32>(fragment_col(0) * Constants::kPitch);
  pin_register(lane_part);
  constants.base += lane_part;
  const auto is_hidden = [&](int n, int e) {
    return row0 + fragment_row(e / 2) - (fragment_col(n) + e % 2) > mask.limit;
  };
  constexpr bool kIsLinear = kEvaluator == kLinearSoftplus;
  constexpr bool kWithEpsilon = kWithDk && !kIsLinear;
  constexpr bool kWithInverse = kKeepsNan || (kWithDk && kIsLinear);
  RowConstants rows[kTiles][2];
#pragma unroll
  for (int n = first_tile; n < end_tile; ++n)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      rows[n][c] = constants.template load<kWithEpsilon, kWithInverse>(n * kTileCols + c);
      s.at[n][c] *= rows[n][c].score_scale * key_norm[0];
      s.at[n][2 + c] *= rows[n][c].score_scale * key_norm[1];
    }
#pragma unroll
  for (int n = first_tile; n < end_tile; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float product = kWithDk ? d.at[n][e] : 0.0f;
      float grad;
      if constexpr (Config::kChangesScores) {
        changed_weight_and_gradient<Config, kKeepsNan>(
            s.at[n][e],
            alibi_term<Config>(constants, row0 + fragment_row(e / 2), fragment_col(n) + e % 2),
            product, rows[n][e % 2], s.at[n][e], grad);
      } else if constexpr (Config::kIsGeneral) {
        general_weight_and_gradient<Config, kKeepsNan>(s.at[n][e], product, rows[n][e % 2],
                                                       s.at[n][e], grad);
      } else {
        weight_and_gradient<Config, kKeepsNan, kEvaluator>(s.at[n][e], product, rows[n][e % 2],
                                                           s.at[n][e], grad);
      }
      if constexpr (kWithDk) d.at[n][e] = kGradHasKeyNorm ? grad * key_norm[e / 2] : grad;
    }
  if (!mask.is_needed) return;
#pragma unroll
  for (int n = first_tile; n < end_tile; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (!is_hidden(n, e)) continue;
      s.at[n][e] = 0.0f;
      if constexpr (kWithDk) d.at[n][e] = 0.0f;
    }
}

// Rows that are NaN in `dk`, which they are in all columns, become NaN in `dv`.
template <int kDvTiles, int kDkTiles>
LSSAR_DEVICE void take_nan(Fragment<kDvTiles>& dv, const Fragment<kDkTiles>& dk) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (!is_nan(dk.at[0][2 * half])) continue;
#pragma unroll
    for (int n = 0; n < kDvTiles; ++n) dv.at[n][2 * half] = dv.at[n][2 * half + 1] = quiet_nan();
  }
}

}  // namespace lssar_device
