// Scores of the backward with queries as rows and keys as columns: from a tile's two products to
// the operand of dq. The dq kernels of all architectures share this.
#pragma once

#include "templates/ptx/memory.cuh"
#include "templates/tile/fragment.cuh"
#include "templates/tile/general_gradient.cuh"
#include "templates/tile/row_constants.cuh"
#include "templates/tile/score_fragment.cuh"

namespace lssar_device {

// Row `half` of the lane sees the keys below visible[half]; `first` is the tile's first key.
//
// kHasWindow: it sees the keys visible[half].
template <class Config>
struct QueryMask {
  const RowKeys<Config> (&visible)[2];
  i64 first;
  bool is_needed;
};

// kHasAlibi: every mask is one of these.
template <class Config>
struct AlibiMask : QueryMask<Config> {
  AlibiRows alibi;
};

// kChangesScores: what is added to an element of the tile.
template <class Config>
LSSAR_DEVICE AlibiTerm alibi_term(const QueryMask<Config>& mask, int half, int col) {
  if constexpr (!Config::kHasAlibi) return {};
  return static_cast<const AlibiMask<Config>&>(mask).alibi.term(half, mask.first, col);
}

// kChangesScores: all elements.
template <class Config, int kTiles>
LSSAR_DEVICE void change_query_scores(Fragment<kTiles>& s, const QueryMask<Config>& mask) {
  if constexpr (Config::kHasSoftCap) cap_scores<Config>(s);
  if constexpr (Config::kHasAlibi)
    static_cast<const AlibiMask<Config>&>(mask).alibi.add_to(s, mask.first);
}

// s: products q_i k_j, d: products g_i v_j -> dS'_ij / |k_j|, in d. `norms`: the tile's 1 / |k_j|.
template <class Config, Evaluator kEvaluator = kFullSoftplus, int kTiles>
LSSAR_DEVICE void weigh_queries(Fragment<kTiles>& s, Fragment<kTiles>& d,
                                const RowConstants (&rows)[2], u32 norms,
                                const QueryMask<Config>& mask) {
  const float score_scale[2] = {rows[0].score_scale, rows[1].score_scale};
  scale_scores(s, score_scale, norms);
  if constexpr (!Config::kIsGeneral) {
    if (mask.is_needed) mask_keys<Config>(s, mask.visible, mask.first, -infinity());
  }
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    float norm[2];
    load_shared(norm, norms + fragment_col(n) * 4);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      float weight, grad;
      if constexpr (Config::kChangesScores) {
        changed_weight_and_gradient<Config, false>(
            s.at[n][e], alibi_term<Config>(mask, e / 2, fragment_col(n) + e % 2), d.at[n][e],
            rows[e / 2], weight, grad);
      } else if constexpr (Config::kIsGeneral) {
        general_weight_and_gradient<Config, false>(s.at[n][e], d.at[n][e], rows[e / 2], weight,
                                                   grad);
      } else {
        weight_and_gradient<Config, false, kEvaluator>(s.at[n][e], d.at[n][e], rows[e / 2], weight,
                                                       grad);
      }
      d.at[n][e] = grad * norm[e % 2];
    }
  }
  // Hidden keys cannot be marked by a special score here, because phi need not be 0 anywhere.
  if constexpr (Config::kIsGeneral) {
    if (mask.is_needed) mask_keys<Config>(d, mask.visible, mask.first, 0.0f);
  }
}

}  // namespace lssar_device
