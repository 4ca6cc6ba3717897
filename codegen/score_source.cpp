#include "codegen/score_source.h"

#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "codegen/pass_needs.h"
#include "codegen/source/expression_source.h"
#include "score/score_function_fields.h"

namespace lssar {

namespace {

// How numbers of a row are written: c_i, the bias and r_i.
struct RowForm {
  bool is_cpu;

  const char* qualifier() const { return is_cpu ? "static LSSAR_HOST" : "static LSSAR_DEVICE"; }
  const char* type() const { return is_cpu ? "double" : "float"; }
  const char* parameter() const { return is_cpu ? "i64 num_keys" : "float num_keys"; }
  std::string number(double value) const {
    return is_cpu ? fmt::format("{:.17g}", value) : float_literal(value);
  }
  // `factor`, times log(N) where has_log.
  std::string of_length(double factor, bool has_log) const {
    if (!has_log) return number(factor);
    const std::string log2 = is_cpu ? "log2_of(num_keys)" : "log2_approx(num_keys)";
    return number(factor * std::numbers::ln2) + " * " + log2;
  }
};

// phi as 2^x, with the rate and log2(e) in the scale: see unit_of.
void write_exponential(SourceWriter& out, const Problem& problem, const RowForm& form) {
  const std::string sign = phi_sign(problem) < 0 ? "-" : "";
  const char* type = form.is_cpu ? "Vector" : "float";
  write_comment(out, to_string(problem.score.phi.expression) +
                         " over the row's largest: 2^x, with the rate and log2(e) in the scale.");
  out.open("$qualifier$ $type$ phi($type$ x)", {{"qualifier", form.qualifier()}, {"type", type}});
  out.line("return $sign$$exp2$(x);",
           {{"sign", sign}, {"exp2", form.is_cpu ? "exp2_of<Config>" : "exp2_approx"}});
  out.close();
  out.open("$qualifier$ $type$ phi_and_slope($type$ x, $type$& slope)",
           {{"qualifier", form.qualifier()}, {"type", type}});
  out.line("return slope = phi(x);");
  out.close();
}

// What scores are multiplied by beside their scale: an exponential's are in bits.
double unit_of(const Problem& problem) {
  const auto exponential = exponential_of(problem);
  return exponential ? exponential->rate * std::numbers::log2e : 1.0;
}

std::string scale_source(const Problem& problem, const RowForm& form) {
  const double d = problem.head_dim, unit = unit_of(problem);
  switch (problem.score.scale.name) {
    case ScaleName::kLogDimLogLength:
      return form.of_length(std::log(d) * unit, true);
    case ScaleName::kInvSqrtDim:
      return form.of_length(unit / std::sqrt(d), false);
    case ScaleName::kLogLengthInvSqrtDim:
      return form.of_length(unit / std::sqrt(d), true);
    case ScaleName::kNumber:
      return form.of_length(problem.score.scale.number * unit, false);
  }
  return "";
}

std::string natural_bias_source(const ScoreFunction& score, const RowForm& form) {
  switch (score.bias.name) {
    case BiasName::kNone:
      return form.of_length(0.0, false);
    case BiasName::kNegLogLength:
      return form.of_length(-1.0, true);
    case BiasName::kNumber:
      return form.of_length(score.bias.number, false);
  }
  return "";
}

std::string bias_source(const Problem& problem, const RowForm& form) {
  if (exponential_of(problem)) return form.of_length(0.0, false);  // it cancels
  return natural_bias_source(problem.score, form);
}

std::string normalizer_source(const ScoreFunction& score, const RowForm& form) {
  switch (score.normalizer) {
    case Normalizer::kLength:
      return form.is_cpu ? "(double)num_keys" : "num_keys";
    case Normalizer::kSqrtLength:
      return form.number(score.normalizer_gain) + " * " +
             (form.is_cpu ? "__builtin_sqrt(0.5 * (double)num_keys)"
                          : "square_root(0.5f * num_keys)");
    default:
      return form.number(1.0);
  }
}

int sum_kind(bool is_sum, bool is_sum_abs) { return is_sum ? 1 : is_sum_abs ? 2 : 0; }

}  // namespace

bool needs_precise_functions(const Problem& problem) {
  return problem.dtype == DType::kFp32 || problem.p > kMaxPowerOfOwnKernels;
}

SoftCap soft_cap_of(const Problem& problem) {
  using Kind = Expression::Kind;
  // The unit's sign does not matter, because tanh is odd.
  const Expression cap = static_cast<float>(std::abs(problem.score.soft_cap * unit_of(problem)));
  const Expression x = Variable::kX;
  const Expression u = apply(Kind::kExp, -2.0 * apply(Kind::kAbs, x / cap));
  return {cap * apply(Kind::kTanh, x / cap), 4.0 * u / pow(1.0 + u, 2.0)};
}

void write_score_constants(SourceWriter& out, const Problem& problem) {
  const ScoreFunction& score = problem.score;
  const bool is_exponential = exponential_of(problem).has_value();
  const int activation_sum =
      sum_kind(score.normalizer == Normalizer::kSum, score.normalizer == Normalizer::kSumAbs);
  const int second_stage = problem.p != 0 ? 1 : score.psi.expression ? 2 : 0;
  const int weight_sum = sum_kind(score.psi_normalizer == PsiNormalizer::kSum,
                                  score.psi_normalizer == PsiNormalizer::kSumAbs);
  const int divisor_sum = second_stage == 0 ? activation_sum : second_stage == 1 ? 1 : weight_sum;
  out.constant("int", "kActivationSum", std::to_string(activation_sum));
  out.constant("int", "kSecondStage", std::to_string(second_stage));
  out.constant("int", "kWeightSum", std::to_string(weight_sum));
  out.constant("int", "kDivisorSum", std::to_string(divisor_sum));
  out.constant("bool", "kIsExponential", is_exponential ? "true" : "false");
  out.constant("bool", "kFusesScale", fuses_scale(problem) ? "true" : "false");
  out.constant("bool", "kHasSink", score.sink != Sink::kNone ? "true" : "false");
  out.constant("bool", "kSinkNeedsEpsilon",
               score.sink != Sink::kNone && needs_epsilon(problem) ? "true" : "false");
  out.constant("bool", "kHasSoftCap", score.soft_cap != 0 ? "true" : "false");
  out.constant("bool", "kHasAlibi", score.alibi != Alibi::kNone ? "true" : "false");
  out.constant("bool", "kChangesScores", changes_scores(problem) ? "true" : "false");
  out.constant("float", "kScoreUnit", float_literal(unit_of(problem)));
  out.constant("float", "kPhiSign", float_literal(phi_sign(problem)));
  out.constant("float", "kGradUnit", float_literal(is_exponential ? std::numbers::ln2 : 1.0));
}

void write_score_functions(SourceWriter& out, const Problem& problem, bool is_cpu) {
  const ScoreFunction& score = problem.score;
  const RowForm rows = {is_cpu};
  const ExpressionForm form = is_cpu                             ? ExpressionForm::kCpu
                              : needs_precise_functions(problem) ? ExpressionForm::kGpuPrecise
                                                                 : ExpressionForm::kGpu;
  const auto of_keys = [&](const char* comment, const char* name, const std::string& value) {
    out.line("// $comment$", {{"comment", comment}});
    out.open("$qualifier$ $type$ $name$($parameter$)", {{"qualifier", rows.qualifier()},
                                                        {"type", rows.type()},
                                                        {"name", name},
                                                        {"parameter", rows.parameter()}});
    out.line("return $value$;", {{"value", value}});
    out.close();
  };
  of_keys("c_i, in the units of phi.", "score_scale", scale_source(problem, rows));
  of_keys("What is added to every score.", "score_bias", bias_source(problem, rows));
  if (score.sink != Sink::kNone)
    of_keys("Subtracted from a sink's logit, in place of a bias that all scores share.",
            "sink_bias", natural_bias_source(score, rows));
  of_keys("r_i, if it is not a sum.", "fixed_normalizer", normalizer_source(score, rows));
  if (score.soft_cap != 0) {
    const SoftCap cap = soft_cap_of(problem);
    write_function(out, "soft_cap", {"x"}, cap.value, cap.slope, form);
  }
  if (exponential_of(problem)) {
    write_exponential(out, problem, rows);
  } else {
    write_function(out, "phi", {"x"}, score.phi.expression, form);
  }
  if (score.psi.expression)
    write_function(out, "psi", {"x", "b", "n"}, *score.psi.expression, form);
}

std::vector<std::string> score_formula(const Problem& problem) {
  const ScoreFunction& score = problem.score;
  std::vector<std::string> lines;
  const std::string scale = score.scale.name == ScaleName::kLogDimLogLength ? "log(d) log(N)"
                            : score.scale.name == ScaleName::kInvSqrtDim    ? "1 / sqrt(d)"
                            : score.scale.name == ScaleName::kLogLengthInvSqrtDim
                                ? "log(N) / sqrt(d)"
                                : value_text(score.scale);
  const std::string bias = score.bias.name == BiasName::kNone ? ""
                           : score.bias.name == BiasName::kNegLogLength
                               ? " - log(N)"
                               : " + " + value_text(score.bias);
  std::string product = scale + (score.qk_norm ? " cos(q, k)" : " q.k");
  if (score.soft_cap != 0) product = fmt::format("{0} tanh({1} / {0})", score.soft_cap, product);
  const char* alibi = score.alibi == Alibi::kNone ? "" : " - slope |i + Lk - Lq - j|";
  lines.push_back(fmt::format("s = {}{}{},  a = {} at x = s", product, bias, alibi,
                              to_string(score.phi.expression)));
  const char* r = score.normalizer == Normalizer::kSum      ? "sum a"
                  : score.normalizer == Normalizer::kSumAbs ? "sum |a|"
                  : score.normalizer == Normalizer::kLength ? "N"
                                                            : nullptr;
  const bool is_sqrt = score.normalizer == Normalizer::kSqrtLength;
  if (score.sink != Sink::kNone) r = "(sum a + exp(sink of the head))";
  lines.push_back(is_sqrt ? fmt::format("P = a / ({} sqrt(N / 2))", score.normalizer_gain)
                  : r     ? fmt::format("P = a / {}", r)
                          : "P = a");
  if (problem.p != 0) {
    lines.push_back(fmt::format("W = max(N P - {}, 0)^{} (offset 0 where N <= 3),  o = W v / sum W",
                                problem.offset, problem.p));
  } else if (score.psi.expression) {
    const char* z = score.psi_normalizer == PsiNormalizer::kSum      ? " / sum y"
                    : score.psi_normalizer == PsiNormalizer::kSumAbs ? " / sum |y|"
                                                                     : "";
    lines.push_back(
        fmt::format("y = {} at x = N P,  o = y v{}", to_string(*score.psi.expression), z));
  } else {
    lines.push_back("o = P v");
  }
  return lines;
}

}  // namespace lssar
