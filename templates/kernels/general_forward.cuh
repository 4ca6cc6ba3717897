// Forward of score functions given as expressions (tile/general_rows.cuh says which constants
// choose what).
//
//   without pass 1:  a_ij = phi(s_ij),  o_i = sum_j a_ij v_j / r_i;  r_i is summed along
//   with pass 1:     r_i first; then weights from N_i a_ij / r_i, divided by their sum at the end
//
// An exponential over a sum has the largest score taken out: without pass 1 the largest so far, and
// sums are multiplied along.
//
// Blocks, shared memory and barriers are those of forward_block.cuh (general_range.cuh has kernels
// that run one of the passes).
#pragma once

#include "templates/kernels/forward_block.cuh"
#include "templates/tile/changed_scores.cuh"
#include "templates/tile/general_rows.cuh"

namespace lssar_device {

template <class Config>
struct GeneralForward : ForwardBlock<Config> {
  using Block = ForwardBlock<Config>;
  using Shape = ForwardShape<Config>;
  using Block::num_tiles;
  using Block::params;
  using Block::place;
  using Block::queries;
  using Block::stage_address;
  using typename Block::Mma;
  using typename Block::Scores;
  using Columns = Fragment<Shape::kBlockDv / kTileCols>;
  using Ring = Pipeline<Config::kForwardStages, ForwardLoader<Config>>;

  GeneralRows<Config> rows;
  AlibiRows alibi;  // kHasAlibi

  LSSAR_DEVICE explicit GeneralForward(const AttentionParams& params) : Block(params) {}

  LSSAR_DEVICE void finish_rows() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_index() * kWarpRows + fragment_row(half);
      rows.finish_row(half, tile_row_inverse_norm<Config, Mma>(queries, row));
    }
  }

  // kChangesScores: applies the soft cap and ALiBi.
  LSSAR_DEVICE void change_scores(Scores& s, i64 first_key) const {
    if constexpr (Config::kHasSoftCap) cap_scores<Config>(s);
    if constexpr (Config::kHasAlibi) alibi.add_to(s, first_key);
  }

  LSSAR_DEVICE TileMask mask_of(int tile) const {
    const i64 first = i64{tile_at<Config>(num_tiles, tile)} * Shape::kBlockCols;
    return {first, this->needs_mask(first)};
  }

  LSSAR_DEVICE void sum_activations(Ring& ring) {
#pragma unroll 1
    for (int tile = 0; tile < num_tiles; ++tile) {
      Scores s;
      const u32 stage = stage_address(ring.next());
      if (tile == 0) finish_rows();
      this->compute_scores(s, rows.score_scale, stage);
      if constexpr (Config::kChangesScores) change_scores(s, mask_of(tile).first);
      rows.add_activations(s, mask_of(tile));
    }
  }

  LSSAR_DEVICE void weighted_pass(Ring& ring, Columns& o, typename Mma::RowSums& sums) {
    const int num_parts = rows.num_weight_parts();
#pragma unroll 1
    for (int tile = 0; tile < num_tiles; ++tile) {
      Scores s;
      const u32 stage = stage_address(ring.next());
      if (!Config::kHasPassOne && tile == 0) finish_rows();
      this->compute_scores(s, rows.score_scale, stage);
      if constexpr (Config::kChangesScores) change_scores(s, mask_of(tile).first);
      float factor[2];
      rows.weigh(s, mask_of(tile), factor);
      if constexpr (GeneralRows<Config>::kRescales) {
        multiply_rows(o, factor);
        sums.rescale(factor);
      }
      const typename Shape::ValueTile values{stage_address(ring.next())};
#pragma unroll 1
      for (int part = 0; part < num_parts; ++part) {
        typename Mma::template Operand<Block::kKeyMmaTiles> weights;
        // Else a row's second product would depend on the warp's other rows.
        if (Config::kIsInvariant && part > 0) rows.keep_few(s);
        Mma::round(weights, s);
        if constexpr (Config::kDivisorSum == 1) sums.add(weights);
        if constexpr (Config::kDivisorSum == 2) sums.add_magnitudes(weights);
        Mma::multiply(o, weights, values);
        Mma::subtract(s, weights);
      }
    }
  }

  LSSAR_DEVICE void run() {
    ForwardLoader<Config> loader = this->start_loads(rows);
    Ring ring(loader);
    ring.start();
    rows.clear();
    if constexpr (Config::kHasSink) rows.load_sink(params, place);
    if constexpr (Config::kHasAlibi) alibi = alibi_of_rows<Config>(params, place, rows);
    if constexpr (Config::kHasPassOne) {
      sum_activations(ring);
      rows.finish_pass_one();
    }
#pragma unroll 1
    for (int dv_block = 0; dv_block < Shape::kNumDvBlocks; ++dv_block) {
      Columns o;
      typename Mma::RowSums sums;
      o.clear();
      rows.start_columns();
      weighted_pass(ring, o, sums);
      rows.write_columns(params, place, dv_block * Shape::kBlockDv, o,
                         {sums.total(0), sums.total(1)});
    }
    ring.finish();
  }
};

template <class Config>
LSSAR_DEVICE void general_forward(const AttentionParams& params) {
  GeneralForward<Config>(params).run();
}

}  // namespace lssar_device
