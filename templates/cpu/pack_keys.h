// Divides keys by their norms and packs them, once per kv head. Each block makes one panel. In the
// backward the values and 1 / |k| follow in the panel.
#pragma once

#include "templates/cpu/rows.h"

namespace lssar_device {

// Writes kDim numbers as a column of a panel.
template <class Config, int kDim>
LSSAR_HOST void pack_column(const float* row, float scale, float* to) {
  for (int d = 0; d < kDim; ++d) to[d * Config::kPanelKeys] = row[d] * scale;
}

// Keys past the end are zeros.
template <class Config>
LSSAR_HOST void pack_keys(const AttentionParams& params, u32 block, void* /*scratch*/) {
  using Element = typename Config::Element;
  const i64 keys = seq_k<Config>(params);
  const i64 panels = (keys + Config::kPanelKeys - 1) / Config::kPanelKeys;
  const i64 slice = block / panels, panel = block % panels;
  const i64 batch = slice / params.kv_heads, head = slice % params.kv_heads;
  float* const to = key_panel<Config>(params, slice, panel);
  const i64 first = panel * Config::kPanelKeys;
  for (int j = 0; j < Config::kPanelKeys; ++j) {
    if (first + j >= keys) {
      for (int d = 0; d < Config::kPanelRows; ++d) to[d * Config::kPanelKeys + j] = 0.0f;
      continue;
    }
    alignas(64) float key[Config::kHeadDim];
    const float squares = load_row<Config, Config::kHeadDim>(
        row_pointer<const Element>(params.k, batch, head, first + j), key);
    pack_column<Config, Config::kHeadDim>(key, inverse_norm<Config>(squares), to + j);
    if constexpr (Config::kIsBackward) {
      alignas(64) float value[Config::kHeadDimV];
      load_row<Config, Config::kHeadDimV>(
          row_pointer<const Element>(params.v, batch, head, first + j), value);
      pack_column<Config, Config::kHeadDimV>(value, 1.0f,
                                             to + Config::kHeadDim * Config::kPanelKeys + j);
      to[(Config::kPanelRows - 1) * Config::kPanelKeys + j] = inverse_norm<Config>(squares);
    }
  }
}

}  // namespace lssar_device
