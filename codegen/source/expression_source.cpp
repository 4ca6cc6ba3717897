#include "codegen/source/expression_source.h"

#include <cctype>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "score/derivative.h"
#include "score/program.h"

namespace lssar {

using Kind = Expression::Kind;

namespace {

constexpr size_t kLongestInline = 60;

// How tightly a piece of source binds.
enum Tightness { kSum, kProduct, kAtom };

struct Piece {
  std::string text;
  Tightness tightness = kAtom;
  bool is_constant = false;

  std::string within(Tightness needed) const {
    return tightness < needed ? "(" + text + ")" : text;
  }
  bool is_name() const {
    for (const char c : text)
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') return false;
    return true;
  }
};

// Writes a program's steps. A step that is used once becomes part of its user if that stays short.
// The others become variables.
class StepWriter {
 public:
  StepWriter(SourceWriter& out, const Program& program, ExpressionForm form)
      : out_(out),
        steps_(program.steps()),
        uses_(steps_.size()),
        pieces_(steps_.size()),
        form_(form) {
    for (const Program::Step& step : steps_)
      for (const int operand : step.operands) ++uses_[operand];
    for (const int result : program.results()) ++uses_[result];
    for (size_t i = 0; i < steps_.size(); ++i) write(i);
  }

  std::string result(int index) const { return whole(pieces_[index]); }

 private:
  bool is_cpu() const { return form_ == ExpressionForm::kCpu; }

  // A constant is a float, also where other values are vectors.
  std::string whole(const Piece& piece) const {
    return is_cpu() && piece.is_constant ? "splat<Config>(" + piece.text + ")" : piece.text;
  }

  void write(size_t i) {
    Piece piece = piece_of(steps_[i]);
    const bool is_leaf = steps_[i].operands.empty();
    if (!is_leaf && (uses_[i] > 1 || piece.text.size() > kLongestInline)) {
      const std::string name = fmt::format("v{}", ++num_names_);
      write_variable(name, piece.text);
      piece = {name};
    }
    pieces_[i] = std::move(piece);
  }

  // The operand under a name, for source that uses it twice.
  std::string named(int index) {
    Piece& piece = pieces_[index];
    if (!piece.is_constant && !piece.is_name()) {
      const std::string name = fmt::format("v{}", ++num_names_);
      write_variable(name, piece.text);
      piece = {name};
    }
    return piece.text;
  }

  void write_variable(const std::string& name, const std::string& value) {
    out_.line("const $type$ $name$ = $value$;",
              {{"type", is_cpu() ? "Vector" : "float"}, {"name", name}, {"value", value}});
  }

  // `argument`: a template argument of the function, beside Config.
  Piece call(const std::string& function, const Program::Step& step,
             const std::string& argument = "") const {
    std::string text = name_of(function, argument) + "(";
    for (size_t i = 0; i < step.operands.size(); ++i)
      text += (i == 0 ? "" : ", ") + whole(pieces_[step.operands[i]]);
    return {text + ")"};
  }
  std::string name_of(const std::string& function, const std::string& argument = "") const {
    if (!is_cpu()) return function + (argument.empty() ? "" : "<" + argument + ">");
    return function + "<Config" + (argument.empty() ? "" : ", " + argument) + ">";
  }

  const Program::Step& operand(const Program::Step& step, size_t i) const {
    return steps_[step.operands[i]];
  }

  static bool is_constant(const Program::Step& step, double value) {
    return step.kind == Kind::kConstant && step.constant == value;
  }

  Piece sum(const Program::Step& step) const {
    const Piece &left = pieces_[step.operands[0]], &right = pieces_[step.operands[1]];
    const bool subtracts = right.text.starts_with("-");
    return {left.within(kSum) + (subtracts ? " - " + right.text.substr(1) : " + " + right.text),
            kSum};
  }

  Piece product(const Program::Step& step) const {
    const Piece &left = pieces_[step.operands[0]], &right = pieces_[step.operands[1]];
    for (const size_t i : {0, 1})
      if (is_constant(operand(step, i), -1))
        return {"-" + pieces_[step.operands[1 - i]].within(kAtom), kProduct};
    constexpr std::string_view kInverse = "1.0f / ";
    const auto is_inverse = [&](const Piece& piece) {
      return piece.tightness != kSum && piece.text.starts_with(kInverse);
    };
    const auto divided = [&](const Piece& x, const Piece& inverse) -> Piece {
      return {x.within(kProduct) + " / " + inverse.text.substr(kInverse.size()), kProduct};
    };
    if (is_inverse(right)) return divided(left, right);
    if (is_inverse(left)) return divided(right, left);
    return {left.within(kProduct) + " * " + right.within(kAtom), kProduct};
  }

  Piece power(const Program::Step& step) const {
    const Program::Step& exponent = operand(step, 1);
    const Piece& base = pieces_[step.operands[0]];
    if (exponent.kind != Kind::kConstant) return call("general_power", step);
    const double size = std::abs(exponent.constant);
    std::string text;
    if (size == 1) {
      text = base.within(kAtom);
    } else if (size == 0.5) {
      text = name_of("square_root") + "(" + base.text + ")";
    } else if (size <= kMostWholePower && std::nearbyint(size) == size) {
      text = name_of("whole_power", std::to_string(static_cast<int>(size))) + "(" + base.text + ")";
    } else {
      return call("general_power", step);
    }
    if (exponent.constant < 0) return {"1.0f / " + text, kProduct};
    return {text};
  }

  Piece choice(const Program::Step& step) {
    const std::string left = named(step.operands[0]), right = named(step.operands[1]);
    const char* op = step.comparison == Comparison::kLess        ? "<"
                     : step.comparison == Comparison::kLessEqual ? "<="
                                                                 : "==";
    const auto operand = [&](int i) { return whole(pieces_[step.operands[i]]); };
    return {fmt::format("{}({} {} {}, {}, {}, {}, {})", name_of("choose"), left, op, right,
                        operand(0), operand(1), operand(2), operand(3))};
  }

  Piece piece_of(const Program::Step& step) {
    // Those of a CPU are always precise.
    const std::string is_precise = form_ == ExpressionForm::kGpuPrecise ? "true" : "false";
    const auto precise = [&](const char* function) {
      return call(function, step, is_cpu() ? "" : is_precise);
    };
    switch (step.kind) {
      case Kind::kConstant:
        return {float_literal(step.constant), kAtom, true};
      case Kind::kVariable:
        return {step.variable == Variable::kX        ? "x"
                : step.variable == Variable::kOffset ? "b"
                                                     : "n"};
      case Kind::kSum:
        return sum(step);
      case Kind::kProduct:
        return product(step);
      case Kind::kPower:
        return power(step);
      case Kind::kExp:
        return precise("exponential");
      case Kind::kLog:
        return call("natural_log", step);
      case Kind::kLog1p:
        return call("log_one_plus", step);
      case Kind::kSqrt:
        return call("square_root", step);
      case Kind::kTanh:
        return precise("hyperbolic_tangent");
      case Kind::kErf:
        return call("error_function", step);
      case Kind::kSigmoid:
        return precise("sigmoid");
      case Kind::kSoftplus:
        return call("softplus", step, is_cpu() ? "" : "Config, " + is_precise);
      case Kind::kAbs:
        return call("absolute", step);
      case Kind::kMin:
        return call("minimum_or_nan", step);
      case Kind::kMax:
        return call("maximum_or_nan", step);
      case Kind::kWhere:
        return choice(step);
    }
    return {};
  }

  SourceWriter& out_;
  const std::vector<Program::Step>& steps_;
  std::vector<int> uses_;
  std::vector<Piece> pieces_;
  const ExpressionForm form_;
  int num_names_ = 0;
};

}  // namespace

void write_comment(SourceWriter& out, const std::string& text) {
  constexpr size_t kWidth = 92;
  std::string line;
  for (size_t at = 0; at < text.size();) {
    const size_t space = text.find(' ', at);
    const size_t end = space == text.npos ? text.size() : space;
    if (!line.empty() && line.size() + 1 + end - at > kWidth) {
      out.line("// $line$", {{"line", line}});
      line = "  ";
    }
    line += (line.empty() || line == "  " ? "" : " ") + text.substr(at, end - at);
    at = end + 1;
  }
  out.line("// $line$", {{"line", line}});
}

std::string float_literal(double value) {
  const float rounded = static_cast<float>(value);
  if (std::isnan(rounded)) return "quiet_nan()";
  if (std::isinf(rounded)) return rounded < 0 ? "-infinity()" : "infinity()";
  std::string text = fmt::format("{:.9g}", rounded);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

void write_expression_declarations(SourceWriter& out) {
  for (const char* function :
       {"exp2_approx(float x)", "absolute(float x)", "square_root(float x)", "quiet_nan()",
        "infinity()", "minimum_or_nan(float a, float b)", "maximum_or_nan(float a, float b)",
        "natural_log(float x)", "log_one_plus(float x)", "error_function(float x)",
        "general_power(float x, float y)",
        "choose(bool holds, float a, float b, float value, float other)"})
    out.line("LSSAR_DEVICE float $function$;", {{"function", function}});
  for (const char* function : {"exponential", "sigmoid", "hyperbolic_tangent"}) {
    out.line("template <bool kPrecise>");
    out.line("LSSAR_DEVICE float $function$(float x);", {{"function", function}});
  }
  out.line("template <class Config, bool kPrecise>");
  out.line("LSSAR_DEVICE float softplus(float x);");
  out.line("template <int kExponent>");
  out.line("LSSAR_DEVICE float whole_power(float x);");
}

void write_cpu_expression_declarations(SourceWriter& out, int lanes) {
  const std::string floats = fmt::format("VectorOf<{}>::Floats", lanes);
  const auto declare = [&](const char* name, const std::string& parameters) {
    out.line("template <class Config>");
    out.line("LSSAR_HOST $floats$ $name$($parameters$);",
             {{"floats", floats}, {"name", name}, {"parameters", parameters}});
  };
  out.line("LSSAR_HOST double log2_of(i64 n);");
  for (const char* constant : {"infinity", "quiet_nan"})
    out.line("inline __attribute__((always_inline)) float $name$();", {{"name", constant}});
  declare("splat", "float x");
  for (const char* function :
       {"exp2_of", "absolute", "square_root", "natural_log", "log_one_plus", "error_function",
        "exponential", "sigmoid", "hyperbolic_tangent", "softplus"})
    declare(function, floats + " x");
  for (const char* function : {"minimum_or_nan", "maximum_or_nan", "general_power"})
    declare(function, floats + " a, " + floats + " b");
  out.line("template <class Config>");
  out.line("LSSAR_HOST $floats$ choose(VectorOf<$lanes$>::Ints holds, $floats$ a,",
           {{"floats", floats}, {"lanes", std::to_string(lanes)}});
  out.line("    $floats$ b, $floats$ value, $floats$ other);", {{"floats", floats}});
  out.line("template <class Config, int kExponent>");
  out.line("LSSAR_HOST $floats$ whole_power($floats$ x);", {{"floats", floats}});
}

void write_function(SourceWriter& out, const char* name, const std::vector<const char*>& arguments,
                    const Expression& value, ExpressionForm form) {
  write_function(out, name, arguments, value, derivative(value, Variable::kX), form);
}

void write_function(SourceWriter& out, const char* name, const std::vector<const char*>& arguments,
                    const Expression& value, const Expression& slope, ExpressionForm form) {
  const bool is_cpu = form == ExpressionForm::kCpu;
  const char* type = is_cpu ? "Vector" : "float";
  std::string parameters;
  for (const char* argument : arguments)
    parameters += (parameters.empty() ? "" : ", ") + std::string(type) + " " + argument;
  const auto open = [&](const char* suffix, const std::string& more) {
    out.open("$qualifier$ $type$ $name$$suffix$($parameters$$more$)",
             {{"qualifier", is_cpu ? "static LSSAR_HOST" : "static LSSAR_DEVICE"},
              {"type", type},
              {"name", name},
              {"suffix", suffix},
              {"parameters", parameters},
              {"more", more}});
  };
  const Expression both[] = {value, slope};
  write_comment(out, to_string(both[0]));
  open("", "");
  const Program alone(std::span<const Expression>(both, 1));
  const StepWriter alone_steps(out, alone, form);
  out.line("return $value$;", {{"value", alone_steps.result(alone.results()[0])}});
  out.close();
  write_comment(out, "And its derivative in x: " + to_string(both[1]));
  open("_and_slope", fmt::format(", {}& slope", type));
  const Program program(both);
  const StepWriter steps(out, program, form);
  out.line("slope = $slope$;", {{"slope", steps.result(program.results()[1])}});
  out.line("return $value$;", {{"value", steps.result(program.results()[0])}});
  out.close();
}

}  // namespace lssar
