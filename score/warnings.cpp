#include "score/warnings.h"

#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "score/derivative.h"
#include "score/program.h"
#include "score/properties.h"
#include "score/score_function_fields.h"

namespace lssar {
namespace {

struct Interval {
  double low, high;
};

// Where functions tend to have no value, and 4,000 evenly spaced numbers.
std::vector<double> arguments_to_try(const Interval& interval) {
  std::vector<double> all = {0, 0.5, -0.5};
  for (int i = 1; i <= 100; ++i) {
    all.push_back(i);
    all.push_back(-i);
  }
  constexpr int kSteps = 4000;
  for (int i = 0; i <= kSteps; ++i)
    all.push_back(interval.low + (interval.high - interval.low) * i / kSteps);
  std::erase_if(all, [&](double x) { return x < interval.low || x > interval.high; });
  return all;
}

class Function {
 public:
  Function(const Expression& expression, const ScoreRange& range)
      : program_({&expression, 1}), range_(range) {}

  double operator()(double x) {
    double value = 0;
    program_.evaluate({x, range_.offset, range_.length}, scratch_, {&value, 1});
    return value;
  }

 private:
  Program program_;
  ScoreRange range_;
  std::vector<double> scratch_;
};

std::optional<double> without_value(const Expression& expression, const Interval& interval,
                                    const ScoreRange& range) {
  Function function(expression, range);
  for (const double x : arguments_to_try(interval))
    if (!(std::abs(function(x)) <= std::numeric_limits<float>::max())) return x;
  return {};
}

void check_value(const char* field, const Expression& expression, const Interval& interval,
                 const ScoreRange& range, std::vector<std::string>* warnings) {
  const std::string text = to_string(expression);
  if (const auto x = without_value(expression, interval, range)) {
    warnings->push_back(fmt::format(
        "score.{} = {}: has no finite float32 value at x = {:g}; rows that meet it give "
        "NaN or infinity",
        field, text, *x));
    return;
  }
  const Expression slope = derivative(expression, Variable::kX);
  if (const auto x = without_value(slope, interval, range))
    warnings->push_back(
        fmt::format("score.{} = {}: its derivative {} has no finite float32 value at x = {:g}; "
                    "gradients of rows that meet it are NaN or infinity",
                    field, text, to_string(slope), *x));
}

bool has_both_signs(const Expression& expression, const Interval& interval,
                    const ScoreRange& range) {
  Function function(expression, range);
  bool has_positive = false, has_negative = false;
  for (const double x : arguments_to_try(interval)) {
    const double value = function(x);
    has_positive |= value > 0;
    has_negative |= value < 0;
  }
  return has_positive && has_negative;
}

}  // namespace

std::vector<std::string> score_warnings(const ScoreFunction& score, const ScoreRange& range) {
  std::vector<std::string> warnings;
  if (score == ScoreFunction()) return warnings;
  Interval scores = {-range.largest, range.largest};
  if (score.bias.name == BiasName::kNegLogLength) scores.low -= std::log(range.length);
  if (score.bias.name == BiasName::kNumber)
    scores = {scores.low + score.bias.number, scores.high + score.bias.number};
  const Expression& phi = score.phi.expression;
  const bool is_sum = score.normalizer == Normalizer::kSum;
  // An exponential over a sum has the largest score taken out.
  const bool is_taken_out =
      (is_sum || score.normalizer == Normalizer::kSumAbs) && as_exponential(phi);
  if (!is_taken_out) check_value("phi", phi, scores, range, &warnings);
  if (is_sum && has_both_signs(phi, scores, range))
    warnings.push_back(fmt::format(
        "score.normalizer = sum: score.phi = {} has both signs, so that a row's sum may be near 0; "
        "sum_abs is not",
        value_text(score.phi)));
  if (score.psi.expression)
    check_value("psi", *score.psi.expression, {0, range.length}, range, &warnings);
  return warnings;
}

}  // namespace lssar
