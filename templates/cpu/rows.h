// Finds rows of tensors, and loads them as floats.
#pragma once

#include "templates/cpu/math.h"
#include "templates/kernels/params.cuh"

namespace lssar_device {

template <class Config>
LSSAR_HOST i64 seq_q(const AttentionParams& params) {
  return Config::kSeqQ != 0 ? Config::kSeqQ : params.seq_q;
}

template <class Config>
LSSAR_HOST i64 seq_k(const AttentionParams& params) {
  return Config::kSeqK != 0 ? Config::kSeqK : params.seq_k;
}

template <class Element>
LSSAR_HOST Element* row_pointer(const TensorRef& tensor, i64 batch, i64 head, i64 row) {
  return (Element*)tensor.data + batch * tensor.batch_stride + head * tensor.head_stride +
         row * tensor.row_stride;
}

// Loads kHeadDim elements as floats and returns the sum of their squares.
template <class Config>
LSSAR_HOST float load_row(const typename Config::Element* from, float* to) {
  constexpr int kWhole = Config::kHeadDim / Config::kLanes * Config::kLanes;
  Floats<Config> squares = {};
  for (int d = 0; d < kWhole; d += Config::kLanes) {
    const Floats<Config> x = load<Config>(from + d);
    squares = x * x + squares;
    store<Config>(to + d, x);
  }
  if constexpr (kWhole != Config::kHeadDim) {
    const Floats<Config> x = load<Config, true>(from + kWhole);
    squares = x * x + squares;
    store<Config, true>(to + kWhole, x);
  }
  return lane_sum<Config>(squares);
}

// A panel of unit vectors of k: [batch, kv_heads, panels, head_dim, kPanelKeys]. In the workspace
// these take the place of the norms of k.
template <class Config>
LSSAR_HOST float* key_panel(const AttentionParams& params, i64 slice, i64 panel) {
  constexpr i64 kPanelFloats = i64{Config::kHeadDim} * Config::kPanelKeys;
  const i64 panels = (seq_k<Config>(params) + Config::kPanelKeys - 1) / Config::kPanelKeys;
  return params.k_inv_norm + (slice * panels + panel) * kPanelFloats;
}

}  // namespace lssar_device
