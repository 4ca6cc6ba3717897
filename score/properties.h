// Properties of an expression in x: its form, and where it has no value.
#pragma once

#include <optional>
#include <vector>

#include "score/expression.h"

namespace lssar {

// C exp(lambda x)
struct Exponential {
  double factor;  // C, not 0
  double rate;    // lambda, not 0
};

// Matches C exp(lambda x). Over a sum, the largest score of such a phi can be factored out.
std::optional<Exponential> as_exponential(const Expression& phi);

// a x + c
struct Linear {
  double slope, intercept;
};
std::optional<Linear> as_linear(const Expression& expression);

struct Interval {
  double low, high;
};

// Arguments at which to try a function: 0, whole numbers, powers of two and 20,000 evenly spaced
// numbers of the interval. They usually hit the places where functions have no value or change
// sign.
std::vector<double> samples_of(const Interval& interval);

// The first of samples_of(interval) at which the expression is NaN or not a finite float32.
std::optional<double> argument_without_value(const Expression& expression, const Interval& interval,
                                             double offset, double length);

}  // namespace lssar
