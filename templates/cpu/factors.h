// What a step of a product multiplies, for each kind of numbers that a target has products of:
//
//   floats  one coordinate of keys, or one key's values. Keys are unit vectors, and queries have
//           their scale.
//   pairs   two coordinates, or two keys' values (kHasPairs). Keys and queries are as the caller
//           has them, and the products are scaled.
//
// The kernels take steps by these functions, so most of their code is the same for both. product.h
// and pack_keys.h have more functions that differ. Kernels test kHasPairs only where they scale
// products or leave keys out.
#pragma once

#include "templates/cpu/pairs.h"
#include "templates/cpu/rows.h"

namespace lssar_device {

// A vector of floats, or of words with a pair each.
template <class Config>
using Factors = typename Config::Factors;

// Steps of a product of `numbers` numbers.
template <class Config>
constexpr int steps_of(int numbers) {
  return numbers / (Config::kHasPairs ? 2 : 1);
}

template <class Config>
LSSAR_HOST Floats<Config> add_products(Factors<Config> a, Factors<Config> b, Floats<Config> sum) {
  if constexpr (Config::kHasPairs)
    return add_pair_products<Config>(a, b, sum);
  else
    return a * b + sum;
}

// A step's factors of a panel's keys, and of one row: the same for all keys. Only kCount factors
// are loaded, and zeros follow. For floats kCount is kLanes or half of it.
template <class Config, int kCount = Config::kLanes>
LSSAR_HOST Factors<Config> load_factors(const float* panel) {
  if constexpr (Config::kHasPairs)
    return load_pairs<Config, kCount>(panel);
  else
    return load<Config, kCount != Config::kLanes>(panel);
}
template <class Config>
LSSAR_HOST Factors<Config> splat_factor(const float* row) {
  if constexpr (Config::kHasPairs)
    return splat_pair<Config>(row);
  else
    return splat<Config>(*row);
}

// A row's factors in products with panels. Returns the sum of its squares.
template <class Config, int kDim>
LSSAR_HOST float load_row_factors(const typename Config::Element* from, float* row) {
  const float squares = load_row<Config, kDim>(from, row);
  if constexpr (Config::kHasPairs) __builtin_memcpy(row, from, kDim * sizeof(*from));
  return squares;
}

// Multiplies a query's factors by its scale. Pairs stay as they are, because their products are
// scaled.
template <class Config>
LSSAR_HOST void scale_query(float scale, float* query) {
  if constexpr (!Config::kHasPairs)
    for (int d = 0; d < Config::kHeadDim; ++d) query[d] *= scale;
}

// Loads a query of place's head as factors, and returns scale_of(the sum of its squares). A query
// that sees no keys becomes zeros.
template <class Config, class ScaleOf>
LSSAR_HOST float load_query(const AttentionParams& params, const RowPlace& place, i64 row,
                            i64 visible, float* query, const ScaleOf& scale_of) {
  if (visible == 0) {
    for (int d = 0; d < Config::kHeadDim; ++d) query[d] = 0.0f;
    return 0.0f;
  }
  const float scale = scale_of(load_row_factors<Config, Config::kHeadDim>(
      row_pointer<const typename Config::Element>(params.q, place.batch, place.head, row), query));
  scale_query<Config>(scale, query);
  return scale;
}

}  // namespace lssar_device
