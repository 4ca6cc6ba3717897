// The first step of the backward computes the constants of query rows, and clears the sums of dq.
#pragma once

#include "templates/cpu/ordered_dq.h"
#include "templates/cpu/row_constants.h"

namespace lssar_device {

template <class Config>
LSSAR_HOST void backward_rows(const AttentionParams& params, u32 block, void* /*scratch*/) {
  using Element = typename Config::Element;
  const i64 queries = seq_q<Config>(params);
  const RowPlace place = query_place<Config, Config::kConstantRows>(params, block);
  const i64 end = place.first_row + Config::kConstantRows;
  for (i64 row = place.first_row; row < end && row < queries; ++row) {
    if constexpr (Config::kSumsDq) clear_query_sums<Config>(params, place, row);
    const i64 flat = flat_row<Config>(params, place, row);
    const RowStats stats = load_stats<Config>(params, flat);
    const i64 visible = visible_keys<Config>(params, row);
    *row_constants(params, flat) = RowConstants{};
    if (visible == 0 || stats.zs == 0.0f) continue;
    alignas(64) float query[Config::kHeadDim];
    alignas(64) float g[Config::kHeadDimV];
    const float squares = load_row<Config, Config::kHeadDim>(
        row_pointer<const Element>(params.q, place.batch, place.head, row), query);
    load_row<Config, Config::kHeadDimV>(
        row_pointer<const Element>(params.grad_o, place.batch, place.head, row), g);
    const float delta = output_dot<Config>(
        params, g, row_pointer<const Element>(params.o, place.batch, place.head, row), flat);
    float g_x = 0.0f;
    if constexpr (Config::kNeedsX) {
      using SavedX = typename Config::SavedX;
      g_x = row_dot<Config>(g, (const SavedX*)params.saved_x + flat * Config::kHeadDimV);
    }
    *row_constants(params, flat) = make_row_constants<Config>(
        stats, visible, query_scale<Config>(squares, visible), delta, g_x);
  }
}

}  // namespace lssar_device
