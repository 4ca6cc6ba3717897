// What can be said of an expression in x: its form, and where it has no value.
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

// Whether the expression is one of these: over a sum, the largest score can then be taken out.
std::optional<Exponential> as_exponential(const Expression& phi);

// a x + c
struct Linear {
  double slope, intercept;
};
std::optional<Linear> as_linear(const Expression& expression);

struct Interval {
  double low, high;
};

// Numbers of the interval to try a function at: 0, whole numbers, powers of two, and 20,000 evenly
// spaced ones. Where functions have no value, or change their sign, is mostly among them.
std::vector<double> samples_of(const Interval& interval);

// The first of samples_of(interval) for which the expression is NaN or no finite float32.
std::optional<double> argument_without_value(const Expression& expression, const Interval& interval,
                                             double offset, double length);

}  // namespace lssar
