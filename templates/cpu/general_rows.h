// The rows of a forward whose score function is given as expressions: from scores to the weights
// that multiply values. Scores of a block of keys are in memory, a panel after the other, and are
// changed in place. What a row does not see is left out of every sum and gets the weight 0.
#pragma once

#include "templates/cpu/changed_scores.h"
#include "templates/cpu/general_scale.h"
#include "templates/cpu/key_walk.h"

namespace lssar_device {

// Whether r and an exponential's largest score are known before the first weight.
template <class Config>
constexpr bool kKnowsSums = Config::kHasPassOne || Config::kIsRange;

struct GeneralRow {
  i64 visible;            // N_i
  i64 seen;               // how many keys of the call it sees; without a window, the first ones
  float score_scale;      // kHasPairs: c_i / |q_i|
  float bias;             // is added to scores
  float sink_logit;       // kHasSink
  float largest_score;    // kIsExponential: so far; -infinity before the first key
  float highest, lowest;  // activation, for the power
  double sum;             // of activations, or of their magnitudes: without the sink
  double weights;         // the divisor's sum of weights
  float normalizer;       // r_i
  float m;                // largest U
  WeightScale scale;      // the power's
};

// The scores of one row for a block of keys: `pitch` numbers from panel to panel.
struct ScoreRow {
  float* first;
  i64 first_key;
  int keys;
  int pitch;
};

// kHasWindow: the same, and which keys of the call the row sees.
struct WindowScores : ScoreRow {
  VisibleKeys seen;
};

// What is subtracted from scores: 0 before the first key, so that -infinity stays -infinity.
LSSAR_HOST float origin_of(const GeneralRow& row) {
  return row.largest_score == -infinity() ? 0.0f : row.largest_score;
}

// Calls act(vector of numbers, which of their keys the row sees) for all of a row's scores, and
// writes what it returns: as floats, or by store_weights (kAreWeights).
//
// kHasWindow: the scores are WindowScores.
template <class Config, bool kAreWeights = false, class Act>
LSSAR_HOST void change_scores(const ScoreRow& scores, const GeneralRow& row, const Act& act) {
  float* at = scores.first;
  i64 seen = row.seen - scores.first_key;
  for (int key = 0; key < scores.keys; key += Config::kPanelKeys) {
    LSSAR_UNROLL
    for (int c = 0; c < Config::kPanelKeys; c += Config::kLanes) {
      const Floats<Config> x = act(
          load<Config>(at + c),
          Config::kHasWindow ? window_lanes<Config>(static_cast<const WindowScores&>(scores).seen,
                                                    scores.first_key + key + c)
                             : seen_lanes<Config>(seen));
      if constexpr (kAreWeights) {
        store_weights<Config>(at, c / Config::kLanes, x);
      } else {
        store<Config>(at + c, x);
      }
      if constexpr (!Config::kHasWindow) seen -= Config::kLanes;
    }
    at += scores.pitch;
  }
}

// kChangesScores: scaled products -> scores.
template <class Config>
LSSAR_CALLED void cap_and_lower(const ScoreRow& scores, const GeneralRow& row,
                                const AlibiRow& alibi) {
  i64 key = scores.first_key;
  change_scores<Config>(scores, row, [&](Floats<Config> x, Ints<Config>) LSSAR_WIDE {
    if constexpr (Config::kHasSoftCap) x = Config::soft_cap(x);
    if constexpr (Config::kHasAlibi) x += alibi.of_keys<Config>(key);
    key += Config::kLanes;
    return x;
  });
}

// Scores -> activations, if phi is no exponential.
template <class Config>
LSSAR_CALLED void activate(const ScoreRow& scores, const GeneralRow& row) {
  const float bias = row.bias;
  change_scores<Config>(scores, row, [&](Floats<Config> x, Ints<Config>) LSSAR_WIDE {
    return Config::phi(x + bias);
  });
}

// kIsExponential: raises the largest score to that of the block. Returns what sums so far are to be
// multiplied by. It ignores NaN, which reaches the sums.
template <class Config>
LSSAR_CALLED float raise_largest(const ScoreRow& scores, GeneralRow& row) {
  Floats<Config> most = splat<Config>(row.largest_score);
  change_scores<Config>(scores, row, [&](Floats<Config> x, Ints<Config> is_seen) LSSAR_WIDE {
    most = larger<Config>(is_seen ? x : splat<Config>(-infinity()), most);
    return x;
  });
  const float before = row.largest_score;
  row.largest_score = lane_maximum<Config>(most);
  return exp2_of<Config>(splat<Config>(before - origin_of(row)))[0];
}

// Pass one: adds the activations of a block. Those of exponentials stay scores.
template <class Config>
LSSAR_CALLED void add_activations(const ScoreRow& scores, GeneralRow& row) {
  if constexpr (Config::kIsExponential) row.sum *= raise_largest<Config>(scores, row);
  const GeneralRow known = row;
  Floats<Config> sum = {};
  Floats<Config> highest = splat<Config>(row.highest), lowest = splat<Config>(row.lowest);
  change_scores<Config>(scores, known, [&](Floats<Config> x, Ints<Config> is_seen) LSSAR_WIDE {
    Floats<Config> a = x;
    if constexpr (Config::kIsExponential) a = Config::phi(x - origin_of(known));
    if constexpr (Config::kSecondStage == 1 && !Config::kIsExponential) {
      highest = larger<Config>(is_seen ? a : splat<Config>(-infinity()), highest);
      lowest = -larger<Config>(is_seen ? -a : splat<Config>(-infinity()), -lowest);
    }
    if constexpr (Config::kActivationSum == 2) a = absolute<Config>(a);
    sum += is_seen ? a : Floats<Config>{};
    return x;
  });
  row.sum += lane_sum<Config>(sum);
  row.highest = lane_maximum<Config>(highest);
  row.lowest = -lane_maximum<Config>(-lowest);
}

template <class Config>
LSSAR_HOST float row_normalizer(const GeneralRow& row) {
  if constexpr (Config::kHasSink) {
    return (float)(row.sum + sink_activation<Config>(row.sink_logit, row.visible, origin_of(row)));
  } else if constexpr (Config::kActivationSum != 0) {
    return (float)row.sum;
  } else {
    return (float)Config::fixed_normalizer(row.visible);
  }
}

// The activation whose U is the row's largest.
template <class Config>
LSSAR_HOST float extreme_activation(const GeneralRow& row) {
  if constexpr (Config::kIsExponential) {
    return Config::kPhiSign;
  } else {
    return row.normalizer < 0.0f ? row.lowest : row.highest;
  }
}

// After pass one: what weights need from the row's sum and largest activations. Without m, or in a
// dead row, the power's weights are 0.
template <class Config>
LSSAR_HOST void finish_sums(GeneralRow& row) {
  row.normalizer = row.visible == 0 ? 0.0f : row_normalizer<Config>(row);
  if constexpr (Config::kSecondStage == 1) {
    if (row.normalizer == 0.0f) return;
    const float largest = extreme_activation<Config>(row);
    row.m =
        (float)((double)row.visible * largest / row.normalizer - row_offset<Config>(row.visible));
    if (row.m <= kDeadRow) return;
    row.scale = general_weight_scale<Config>(row.visible, row.normalizer, row.m, largest);
  }
}

// Activations (of an exponential: scores) -> weights, and adds these. REQUIRES: raise_largest.
//
// For !kKnowsSums.
template <class Config>
LSSAR_CALLED void weigh(const ScoreRow& scores, GeneralRow& row) {
  const GeneralRow known = row;
  Floats<Config> sum = {};
  const auto weigh_scores = [&](Floats<Config> x, Ints<Config> is_seen) LSSAR_WIDE {
    Floats<Config> w = x;
    if constexpr (Config::kIsExponential) w = Config::phi(x - origin_of(known));
    if constexpr (Config::kSecondStage == 1)
      w = Config::power(general_base<Config>(w, known.scale));
    if constexpr (Config::kSecondStage == 2)
      w = Config::psi(w * psi_scale(known.visible, known.normalizer),
                      splat<Config>(row_offset<Config>(known.visible)),
                      splat<Config>((float)known.visible));
    w = is_seen ? w : Floats<Config>{};
    if constexpr (Config::kDivisorSum == 2) {
      sum += absolute<Config>(w);
    } else {
      sum += w;
    }
    return w;
  };
  change_scores<Config, true>(scores, known, weigh_scores);
  row.weights += lane_sum<Config>(sum);
}

// Whether the row's output is NaN whatever its weights are: a clamp or a division hides it.
template <class Config>
LSSAR_HOST bool is_bad(const GeneralRow& row) {
  if constexpr (Config::kActivationSum == 0 && Config::kSecondStage == 0) return false;
  const float sum = (float)row.sum;
  return !(-infinity() < sum && sum < infinity()) || row.m != row.m ||
         (Config::kHasSink && row.normalizer != row.normalizer);
}

// The row's z: 0 if it has no output, NaN if that is NaN. Without a second stage, and for a psi
// without a sum, it is 1.
template <class Config>
LSSAR_HOST float row_divisor(GeneralRow& row) {
  if constexpr (!Config::kHasPassOne) {
    row.sum = row.weights;
    row.normalizer = row.visible == 0 ? 0.0f : row_normalizer<Config>(row);
  }
  if (is_bad<Config>(row)) return quiet_nan();
  if (row.normalizer == 0.0f) return 0.0f;
  const bool is_sum = Config::kSecondStage != 0 && Config::kDivisorSum != 0;
  return is_sum ? (float)row.weights : 1.0f;
}

// What sums of weighted values are multiplied by, from row_divisor's result.
template <class Config>
LSSAR_HOST float output_scale(const GeneralRow& row, float z) {
  if (z == 0.0f) return 0.0f;
  return Config::kSecondStage == 0 ? z / row.normalizer : 1.0f / z;
}

}  // namespace lssar_device
