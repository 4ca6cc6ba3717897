#include "score/warnings.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "score/derivative.h"
#include "score/program.h"
#include "score/properties.h"
#include "score/score_function_fields.h"

namespace lssar {
namespace {

void check_value(const char* field, const Expression& expression, const Interval& interval,
                 const ScoreRange& range, std::vector<std::string>* warnings) {
  const std::string text = to_string(expression);
  if (const auto x = argument_without_value(expression, interval, range.offset, range.length)) {
    warnings->push_back(fmt::format(
        "score.{} = {}: has no finite float32 value at x = {:g}; rows that meet it give "
        "NaN or infinity",
        field, text, *x));
    return;
  }
  const Expression slope = derivative(expression, Variable::kX);
  if (const auto x = argument_without_value(slope, interval, range.offset, range.length))
    warnings->push_back(
        fmt::format("score.{} = {}: its derivative {} has no finite float32 value at x = {:g}; "
                    "gradients of rows that meet it are NaN or infinity",
                    field, text, to_string(slope), *x));
}

bool has_both_signs(const Expression& expression, const Interval& interval) {
  const Program program({&expression, 1});
  std::vector<double> scratch;
  bool has_positive = false, has_negative = false;
  for (const double x : samples_of(interval)) {
    double value = 0;
    program.evaluate({x}, scratch, {&value, 1});
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
  // For rows of one key -log(N) is 0, so both ends count.
  scores.low += std::min(bias_of(score.bias, range.length), bias_of(score.bias, 1));
  scores.high += std::max(bias_of(score.bias, range.length), bias_of(score.bias, 1));
  const Expression& phi = score.phi.expression;
  const bool is_sum = score.normalizer == Normalizer::kSum;
  // An exponential over a sum cannot overflow, because the largest score is factored out.
  const bool is_taken_out = normalises_by_sum(score) && as_exponential(phi);
  if (!is_taken_out) check_value("phi", phi, scores, range, &warnings);
  if (is_sum && has_both_signs(phi, scores))
    warnings.push_back(fmt::format(
        "score.normalizer = sum: score.phi = {} has both signs, so that a row's sum may be near 0; "
        "sum_abs is not",
        value_text(score.phi)));
  if (score.psi.expression)
    check_value("psi", *score.psi.expression, {0, range.length}, range, &warnings);
  return warnings;
}

}  // namespace lssar
