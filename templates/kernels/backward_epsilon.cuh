// Computes epsilon of the backward's rows if no X was saved. It runs after the row kernel, whose
// constants it completes, and before the kernels that read them.
//
// It is the dq kernel without its product (templates/kernels/backward_dq.cuh): a block owns
// kBlockRows queries of one head, 16 per warp, and walks over tiles of kBlockCols keys, longest
// rows first. Shared memory and barriers are the same.
#pragma once

#include "templates/kernels/backward_dq.cuh"
#include "templates/tile/epsilon_sum.cuh"

namespace lssar_device {

//
// Not formatted: lines break as in emitted sources.
// clang-format off
template <class Config>
LSSAR_DEVICE void backward_epsilon(const AttentionParams& params) {
  using Shape = DqShape<Config>;
  using Element = typename Config::Element;
  using Mma = typename Config::Mma;
  BackwardDq<Config> block(params);
  block.place_block();
  const BlockPlace& place = block.place;
  const i64 first_row = block.first_row;
  const i64 num_queries = seq_q<Config>(params);
  const i64 last_row = minimum(first_row + Shape::kBlockRows, num_queries) - 1;
  const i64 first_visible = num_visible_keys<Config>(params, first_row);
  const int num_tiles =
      Config::kHasWindow ? block.tiles.count :
      static_cast<int>(ceil_div(num_visible_keys<Config>(params, last_row), Shape::kBlockCols));
  const u32 shared = dynamic_shared_address();
  const typename Shape::QueryTile queries{shared};
  const typename Shape::GradTile grads{shared + Shape::QueryTile::kBytes};
  load_tile<Config, Shape::kThreads>(
      queries, row_pointer<const Element>(params.q, place.batch, place.head, first_row),
      params.q.row_stride, num_queries - first_row, Config::kHeadDim);
  load_tile<Config, Shape::kThreads>(
      grads, row_pointer<const Element>(params.grad_o, place.batch, place.head, first_row),
      params.grad_o.row_stride, num_queries - first_row, Config::kHeadDimV);
  DqLoader<Config> loader{params, place.batch, place.head / (params.heads / params.kv_heads),
                          num_tiles, shared + Shape::kStagesOffset};
  if constexpr (Config::kHasWindow) loader.num_tiles = block.tiles;
  Pipeline<Config::kDqStages, DqLoader<Config>> ring(loader);
  ring.start();

  EpsilonSum<Config> sum;
  sum.clear();
#pragma unroll 1
  for (int tile = 0; tile < num_tiles; ++tile) {
    const u32 stage = shared + Shape::kStagesOffset + ring.next() * Shape::kStageBytes;
    typename BackwardDq<Config>::Scores s, d;
    s.clear();
    d.clear();
    Mma::multiply_transposed(s, queries, block.warp_row0(), typename Shape::KeyTile{stage});
    Mma::multiply_transposed(d, grads, block.warp_row0(),
                             typename Shape::ValueTile{stage + Shape::KeyTile::kBytes});
    const i64 first_key =
        i64{tile_at<Config>(block.tiles, tile)} * Shape::kBlockCols;
    if constexpr (Config::kHasAlibi) {
      const bool needs_mask = Config::kHasWindow
                                  ? !block.common.has_all(first_key, Shape::kBlockCols)
                                  : first_key + Shape::kBlockCols > first_visible;
      sum.add(s, d, block.constants, stage + Shape::kNormsOffset,
              AlibiMask<Config>{{block.visible, first_key, needs_mask}, block.alibi});
    } else {
      sum.add(s, d, block.constants, stage + Shape::kNormsOffset,
              {block.visible, first_key,
               Config::kHasWindow ? !block.common.has_all(first_key, Shape::kBlockCols)
                                  : first_key + Shape::kBlockCols > first_visible});
    }
  }
  ring.finish();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    write_epsilon<Config>(sum, params, block.flat_row(half), half, block.visible[half]);
  }
}

}  // namespace lssar_device
