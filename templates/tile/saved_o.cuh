// What rounding takes from o. Where o has 16 bits, the forward for training saves it as bf16, and
// the backward adds it to o: the gradients of scores need o to about 2^-17.
#pragma once

#include "templates/kernels/params.cuh"
#include "templates/ptx/convert.cuh"
#include "templates/tile/rows.cuh"

namespace lssar_device {

// For two neighbouring columns. `saved_row` counts the rows of all heads.
template <class Config>
LSSAR_DEVICE void save_rounding(const AttentionParams& params, i64 saved_row, int col, float o0,
                                float o1) {
  using Element = typename Config::Element;
  float rounded0, rounded1;
  unpack(static_cast<Element*>(nullptr), pack<Element>(o0, o1), rounded0, rounded1);
  store_pair<true>(static_cast<Bf16*>(params.saved_o) + saved_row * Config::kHeadDimV + col,
                   o0 - rounded0, o1 - rounded1);
}

}  // namespace lssar_device
