// Rotary positions: turns q and k before everything else, and their gradients back at the end.
// templates/kernels/rotate.cuh says how. A block has kConstantRows rows of a head.
#pragma once

#include "templates/cpu/rows.h"
#include "templates/kernels/rotary_params.cuh"

namespace lssar_device {

template <class Config, bool kBack>
LSSAR_HOST void turn_row(float* x, const float* cos, const float* sin) {
  constexpr int kPairs = Config::kRotaryDim / 2;
  constexpr int kStep = Config::kRotaryInterleaved ? 2 : 1;
  constexpr int kApart = Config::kRotaryInterleaved ? 1 : kPairs;
  for (int pair = 0; pair < kPairs; ++pair) {
    const float a = x[kStep * pair], b = x[kStep * pair + kApart];
    const float s = kBack ? -sin[pair] : sin[pair];
    x[kStep * pair] = a * cos[pair] - b * s;
    x[kStep * pair + kApart] = b * cos[pair] + a * s;
  }
}

template <class Config>
LSSAR_HOST void store_row(typename Config::Element* to, const float* from) {
  constexpr int kWhole = Config::kHeadDim / Config::kLanes * Config::kLanes;
  for (int d = 0; d < kWhole; d += Config::kLanes) store<Config>(to + d, load<Config>(from + d));
  if constexpr (kWhole != Config::kHeadDim)
    store<Config, true>(to + kWhole, load<Config, true>(from + kWhole));
}

template <class Config, bool kBack>
LSSAR_HOST void turn_rows(const RotaryParams& params, u32 block) {
  using Element = typename Config::Element;
  constexpr int kPairs = Config::kRotaryDim / 2;
  const i64 blocks = (params.rows + Config::kConstantRows - 1) / Config::kConstantRows;
  const i64 slice = block / blocks, batch = slice / params.heads, head = slice % params.heads;
  const i64 first = block % blocks * Config::kConstantRows, end = first + Config::kConstantRows;
  for (i64 row = first; row < end && row < params.rows; ++row) {
    const i64 at = (params.first_position + row) * kPairs;
    alignas(64) float x[Config::kHeadDim];
    load_row<Config, Config::kHeadDim>(row_pointer<const Element>(params.from, batch, head, row),
                                       x);
    turn_row<Config, kBack>(x, params.cos + at, params.sin + at);
    store_row<Config>(row_pointer<Element>(params.to, batch, head, row), x);
  }
}

// Into the workspace.
template <class Config>
LSSAR_HOST void rotate(const RotaryParams& params, u32 block, void* /*scratch*/) {
  turn_rows<Config, false>(params, block);
}

// In place.
template <class Config>
LSSAR_HOST void rotate_back(const RotaryParams& params, u32 block, void* /*scratch*/) {
  turn_rows<Config, true>(params, block);
}

}  // namespace lssar_device
