// Divides keys by their norms and packs them, once per kv head. Each block makes one panel.
#pragma once

#include "templates/cpu/rows.h"

namespace lssar_device {

// Keys past the end are zeros.
template <class Config>
LSSAR_HOST void pack_keys(const AttentionParams& params, u32 block, void* /*scratch*/) {
  const i64 keys = seq_k<Config>(params);
  const i64 panels = (keys + Config::kPanelKeys - 1) / Config::kPanelKeys;
  const i64 slice = block / panels, panel = block % panels;
  const i64 batch = slice / params.kv_heads, head = slice % params.kv_heads;
  float* const to = key_panel<Config>(params, slice, panel);
  const i64 first = panel * Config::kPanelKeys;
  for (int j = 0; j < Config::kPanelKeys; ++j) {
    alignas(64) float row[Config::kHeadDim];
    float scale = 0.0f;
    if (first + j < keys) {
      using Element = typename Config::Element;
      const Element* from = row_pointer<const Element>(params.k, batch, head, first + j);
      scale = inverse_norm(load_row<Config>(from, row));
      for (int d = 0; d < Config::kHeadDim; ++d) to[d * Config::kPanelKeys + j] = row[d] * scale;
    } else {
      for (int d = 0; d < Config::kHeadDim; ++d) to[d * Config::kPanelKeys + j] = 0.0f;
    }
  }
}

}  // namespace lssar_device
