// What can be said of an expression in x: its form, and where it has no value.
#pragma once

#include <optional>

#include "score/expression.h"

namespace lssar {

// C exp(lambda x)
struct Exponential {
  double factor;  // C, not 0
  double rate;    // lambda, not 0
};

// Whether the expression is one of these: over a sum, the largest score can then be taken out.
std::optional<Exponential> as_exponential(const Expression& phi);

// a x + c
struct Linear {
  double slope, intercept;
};
std::optional<Linear> as_linear(const Expression& expression);

// A finite x for which the expression is NaN, or Inf though |x| is at most `largest`: the first
// found among 0, whole numbers, powers of two and 20,000 evenly spaced numbers up to `largest`.
std::optional<double> argument_without_value(const Expression& expression, double largest,
                                             double offset, double length);

}  // namespace lssar
