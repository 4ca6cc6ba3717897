// ScoreFunction: how the weights of a row are computed from its dot products.
//
//   s_ij = cap(scale_i (q_i . k_j)) + bias_i - slope_h |i - j|
//                                            with qk_norm: of the unit vectors of q and k;
//                                            cap(x) = soft_cap tanh(x / soft_cap), or x; slope_h
//                                            and the distance of positions: only with alibi
//   a_ij = phi(s_ij)                         0 for masked keys
//   P_ij = a_ij / r_i                        r: the normalizer
//   stage 2 is one of: none; the problem's re-weighting (p, offset); psi:
//   y_ij = psi(N_i P_ij), weights y_ij / z_i  z: the psi_normalizer
//
// Values: copying is cheap, and any thread may read one.
#pragma once

#include <cstdint>
#include <optional>

#include "score/expression.h"

namespace lssar {

// The factor of the dot products of row i.
enum class ScaleName {
  kLogDimLogLength,      // log(d) log(N_i): the entropy-invariant scale of LSSA and LSSAR
  kInvSqrtDim,           // 1 / sqrt(d)
  kLogLengthInvSqrtDim,  // log(N_i) / sqrt(d)
  kNumber,
};

// The term that is added to every score of row i.
enum class BiasName {
  kNone,
  kNegLogLength,  // -log(N_i)
  kNumber,
};

// A name, or a number: `number` holds it if the name is kNumber, and is 0 otherwise.
template <typename Name>
struct NameOrNumber {
  Name name = {};
  double number = 0;

  bool operator==(const NameOrNumber&) const = default;
};
using ScoreScale = NameOrNumber<ScaleName>;
using ScoreBias = NameOrNumber<BiasName>;

// phi, in x. If it is C exp(lambda x) and the normalizer is a sum, the largest lambda s of a row is
// factored out first.
struct Activation {
  Activation();  // softplus
  explicit Activation(Expression phi) : expression(std::move(phi)) {}

  Expression expression;

  bool operator==(const Activation&) const = default;
};

// The divisor of a row's activations. A row whose normalizer is 0 has P = 0 and no gradients.
enum class Normalizer {
  kSum,
  kSumAbs,
  kNone,        // 1
  kLength,      // N_i
  kSqrtLength,  // normalizer_gain * sqrt(N_i / 2)
};

// psi, in x = N_i P_ij, b = offset (0 if N_i <= 3) and N = N_i. Empty: there is no such stage.
struct SecondStage {
  std::optional<Expression> expression;

  bool operator==(const SecondStage&) const = default;
};

// The divisor of a row's psi. A row whose divisor is 0 has no output.
enum class PsiNormalizer { kNone, kSum, kSumAbs };

// Learned parameters of a call (lssar_call). They need phi exp and the normalizer sum.
enum class Sink {
  kNone,
  kPerHead,  // a logit t_h of each query head adds exp(t_h) to the sum of its rows
};

// A call's slopes, one of each query head (lssar_call). They have no gradient.
enum class Alibi {
  kNone,
  kPerHead,  // scores fall by slope_h for every position between query and key
};

// The soft caps that are allowed beside 0.
inline constexpr double kLeastSoftCap = 1e-6, kMostSoftCap = 1e6;

// The defaults are those of LSSA and LSSAR.
struct ScoreFunction {
  ScoreScale scale;
  ScoreBias bias;
  bool qk_norm = true;  // q and k are divided by their L2 norms
  Activation phi;
  Normalizer normalizer = Normalizer::kSum;
  double normalizer_gain = 1.0;  // gamma of kSqrtLength; 1 elsewhere
  SecondStage psi;               // allowed only if the problem's p is 0
  PsiNormalizer psi_normalizer = PsiNormalizer::kNone;
  Sink sink = Sink::kNone;
  double soft_cap = 0;  // what scores stay below, bias and alibi aside; 0: any score
  Alibi alibi = Alibi::kNone;

  bool operator==(const ScoreFunction&) const = default;
};

// c_i and the bias of a row that sees `length` keys. `dim` is the head dim of q and k.
double scale_of(const ScoreScale& scale, int64_t dim, double length);
double bias_of(const ScoreBias& bias, double length);

// Whether r is a sum of the activations or of their magnitudes.
bool normalises_by_sum(const ScoreFunction& score);

}  // namespace lssar
