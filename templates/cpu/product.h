// The two products of a block of rows. Each has a tile of accumulators in registers and one loop. A
// step of the loop multiplies a broadcast number of every row by a few vectors.
#pragma once

#include "templates/cpu/rows.h"

namespace lssar_device {

// acc[r][c] = sum_d queries[d, r] panel[d, c]: rows of queries times a panel of keys.
template <class Config, int kRows>
LSSAR_HOST void multiply_keys(const float* queries, const float* panel,
                              Floats<Config> (&acc)[kRows][Config::kPanelVectors]) {
  LSSAR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LSSAR_UNROLL
    for (int c = 0; c < Config::kPanelVectors; ++c) acc[r][c] = Floats<Config>{};
  }
  for (int d = 0; d < Config::kHeadDim; ++d) {
    Floats<Config> keys[Config::kPanelVectors];
    LSSAR_UNROLL
    for (int c = 0; c < Config::kPanelVectors; ++c)
      keys[c] = load<Config>(panel + d * Config::kPanelKeys + c * Config::kLanes);
    LSSAR_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Floats<Config> query = splat<Config>(queries[d * kRows + r]);
      LSSAR_UNROLL
      for (int c = 0; c < Config::kPanelVectors; ++c) acc[r][c] = query * keys[c] + acc[r][c];
    }
  }
}

// outputs[r, c] += sum_j weights[r, j] values[j, c] for kVectors vectors of columns, the last of
// which may be half a vector. weights: [panels][kRows][kPanelKeys].
template <class Config, int kRows, int kVectors, bool kIsHalf>
LSSAR_HOST void multiply_columns(const float* weights, const typename Config::Element* values,
                                 i64 row_stride, int keys, float* outputs) {
  Floats<Config> acc[kRows][kVectors];
  LSSAR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LSSAR_UNROLL
    for (int c = 0; c < kVectors; ++c)
      acc[r][c] = load<Config>(outputs + r * Config::kHeadDimVPadded + c * Config::kLanes);
  }
  for (int first = 0; first < keys; first += Config::kPanelKeys) {
    const int left = keys - first;
    const int count = left < Config::kPanelKeys ? left : Config::kPanelKeys;
    for (int j = 0; j < count; ++j) {
      Floats<Config> columns[kVectors];
      LSSAR_UNROLL
      for (int c = 0; c + 1 < kVectors; ++c) columns[c] = load<Config>(values + c * Config::kLanes);
      columns[kVectors - 1] = load<Config, kIsHalf>(values + (kVectors - 1) * Config::kLanes);
      LSSAR_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const Floats<Config> weight = splat<Config>(weights[r * Config::kPanelKeys + j]);
        LSSAR_UNROLL
        for (int c = 0; c < kVectors; ++c) acc[r][c] = weight * columns[c] + acc[r][c];
      }
      values += row_stride;
    }
    weights += kRows * Config::kPanelKeys;
  }
  LSSAR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LSSAR_UNROLL
    for (int c = 0; c < kVectors; ++c)
      store<Config>(outputs + r * Config::kHeadDimVPadded + c * Config::kLanes, acc[r][c]);
  }
}

// The same for all columns of v, a chunk at a time, so that accumulators fit in registers.
template <class Config, int kRows>
LSSAR_HOST void multiply_values(const float* weights, const typename Config::Element* values,
                                i64 row_stride, int keys, float* outputs) {
  constexpr int kCols = Config::kPanelKeys;
  constexpr int kWhole = Config::kHeadDimV / kCols * kCols;
  constexpr int kRest = (Config::kHeadDimV - kWhole + Config::kLanes - 1) / Config::kLanes;
  constexpr bool kIsHalf = Config::kHeadDimV % Config::kLanes != 0;
  for (int col = 0; col < kWhole; col += kCols)
    multiply_columns<Config, kRows, Config::kPanelVectors, false>(weights, values + col, row_stride,
                                                                  keys, outputs + col);
  if constexpr (kRest != 0)
    multiply_columns<Config, kRows, kRest, kIsHalf>(weights, values + kWhole, row_stride, keys,
                                                    outputs + kWhole);
}

}  // namespace lssar_device
