// Two passes over the keys, with memory linear in the length.
//
// Forward of LSSA and LSSAR.
//
//   pass 1:  R_i = sum_j softplus(S_ij),  largest score  ->  m_i = max_j U_ij
//   pass 2:  u_ij = U_ij / m_i,  w_ij = u_ij^p,  o_i = sum_j w_ij v_j / sum_j w_ij
//   training also:  X_i = (sum_j u_ij^(p-1) v_j - T_i o_i) / (m_i zs_i),  T_i = sum_j u_ij^(p-1)
//
// forward_block.cuh describes blocks, shared memory and barriers. (forward_range.cuh has kernels
// that run one of the passes.)
//
// kSkipTiles: a warp skips the arithmetic of a tile that has no weight above kSkipWeight^p.
#pragma once

#include "templates/kernels/forward_block.cuh"
#include "templates/tile/forward_rows.cuh"

namespace lssar_device {

template <class Config>
struct Forward : ForwardBlock<Config> {
  using Block = ForwardBlock<Config>;
  using Shape = ForwardShape<Config>;
  using Block::kKeyMmaTiles;
  using Block::needs_mask;
  using Block::num_tiles;
  using Block::params;
  using Block::place;
  using Block::queries;
  using Block::stage_address;
  using typename Block::Mma;
  using typename Block::Scores;
  static constexpr int kValueMmaTiles = Shape::kBlockDv / kTileCols;
  using Columns = Fragment<kValueMmaTiles>;
  using Ring = Pipeline<Config::kForwardStages, ForwardLoader<Config>>;

  ForwardRows<Config> rows;

  LSSAR_DEVICE explicit Forward(const AttentionParams& params) : Block(params) {}

  // Writes `hidden` over the scores or weights of keys that a row does not see.
  LSSAR_DEVICE void mask(Scores& s, i64 first, float hidden) const {
    if constexpr (!Config::kIsRange) return mask_keys<Config>(s, rows.visible, first, hidden);
    if constexpr (Config::kHasWindow) {
      const VisibleKeys in_range[2] = {keys_in_range<Config>(params, rows.visible[0]),
                                       keys_in_range<Config>(params, rows.visible[1])};
      mask_window(s, in_range, first, hidden);
    } else {
      const i64 seen[2] = {keys_in_range<Config>(params, rows.visible[0]),
                           keys_in_range<Config>(params, rows.visible[1])};
      mask_keys<Config>(s, seen, first, hidden);
    }
  }

  LSSAR_DEVICE void finish_rows() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_index() * kWarpRows + fragment_row(half);
      rows.finish_row(half, tile_row_inverse_norm<Config, Mma>(queries, row));
    }
  }

  LSSAR_DEVICE void pass_one(Ring& ring, PassOneSums<Config, kKeyMmaTiles>& sums) {
#pragma unroll 1
    for (int tile = 0; tile < num_tiles; ++tile) {
      Scores s;
      const u32 stage = stage_address(ring.next());
      if (tile == 0) finish_rows();
      this->compute_scores(s, rows.score_scale, stage);
      const i64 first = i64{tile_at<Config>(num_tiles, tile)} * Shape::kBlockCols;
      if (needs_mask(first)) mask(s, first, -infinity());
      sums.add(s);
    }
  }

  // One pass over keys and values: sum_j w_ij v_j and, for X, sum_j u_ij^(p-1) v_j.
  LSSAR_DEVICE void pass_two(Ring& ring, Columns& o, typename Mma::RowSums& zs, Columns& y,
                             typename Mma::RowSums& t) {
#pragma unroll 1
    for (int tile = 0; tile < num_tiles; ++tile) {
      Scores s;
      const u32 stage = stage_address(ring.next());
      if (!Config::kHasPassOne && tile == 0) finish_rows();
      this->compute_scores(s, rows.score_scale, stage);
      const bool is_skipped = Config::kSkipTiles && rows.has_no_weights(s);
      if (!is_skipped) rows.evaluate(s);
      const i64 first = i64{tile_at<Config>(num_tiles, tile)} * Shape::kBlockCols;
      if (needs_mask(first)) mask(s, first, 0.0f);

      const typename Shape::ValueTile values{stage_address(ring.next())};
      if (is_skipped) continue;
      typename Mma::template Operand<kKeyMmaTiles> weights;
      if constexpr (Config::kNeedsX) {
        Scores slope;
#pragma unroll
        for (int n = 0; n < kKeyMmaTiles; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            slope.at[n][e] = Config::power_slope(s.at[n][e]);
            s.at[n][e] *= slope.at[n][e];
          }
        Mma::round(weights, slope);
        t.add(weights);
        Mma::multiply(y, weights, values);
      } else {
#pragma unroll
        for (int n = 0; n < kKeyMmaTiles; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) s.at[n][e] = Config::power(s.at[n][e]);
      }
      Mma::round(weights, s);
      zs.add(weights);
      Mma::multiply(o, weights, values);
    }
  }

  LSSAR_DEVICE void run() {
    ForwardLoader<Config> loader = this->start_loads(rows);
    Ring ring(loader);
    ring.start();
    PassOneSums<Config, kKeyMmaTiles> sums;
    pass_one(ring, sums);
    rows.reduce_sums(sums);
    rows.prepare_pass_two();
#pragma unroll 1
    for (int dv_block = 0; dv_block < Shape::kNumDvBlocks; ++dv_block) {
      Columns o, y;
      typename Mma::RowSums zs, t;
      o.clear();
      y.clear();
      pass_two(ring, o, zs, y, t);
      rows.write_columns(params, place, dv_block * Shape::kBlockDv, o, y,
                         {zs.total(0), zs.total(1)}, {t.total(0), t.total(1)});
    }
    ring.finish();
  }
};

template <class Config>
LSSAR_DEVICE void forward(const AttentionParams& params) {
  Forward<Config>(params).run();
}

}  // namespace lssar_device
