#include "score/names.h"

#include "base/printable.h"

namespace lssar {

using Kind = Expression::Kind;

namespace {

template <Kind kFunction>
Expression call(const Expression* operands) {
  return apply(kFunction, operands[0]);
}

constexpr NamedFunction kFunctions[] = {
    {"min", 2, [](const Expression* o) { return min(o[0], o[1]); }},
    {"max", 2, [](const Expression* o) { return max(o[0], o[1]); }},
    {"relu", 1, [](const Expression* o) { return max(o[0], 0.0); }},
    {"abs", 1, call<Kind::kAbs>},
    {"exp", 1, call<Kind::kExp>},
    {"log", 1, call<Kind::kLog>},
    {"log1p", 1, call<Kind::kLog1p>},
    {"sqrt", 1, call<Kind::kSqrt>},
    {"tanh", 1, call<Kind::kTanh>},
    {"erf", 1, call<Kind::kErf>},
    {"sigmoid", 1, call<Kind::kSigmoid>},
    {"softplus", 1, call<Kind::kSoftplus>},
};

}  // namespace

const char* variable_name(Variable variable) {
  switch (variable) {
    case Variable::kX:
      return "x";
    case Variable::kOffset:
      return "b";
    case Variable::kLength:
      return "N";
  }
  return "?";
}

const char* comparison_name(Comparison comparison) {
  switch (comparison) {
    case Comparison::kLess:
      return "<";
    case Comparison::kLessEqual:
      return "<=";
    case Comparison::kEqual:
      return "==";
  }
  return "?";
}

const char* function_name(Kind function) {
  switch (function) {
    case Kind::kExp:
      return "exp";
    case Kind::kLog:
      return "log";
    case Kind::kLog1p:
      return "log1p";
    case Kind::kSqrt:
      return "sqrt";
    case Kind::kTanh:
      return "tanh";
    case Kind::kErf:
      return "erf";
    case Kind::kSigmoid:
      return "sigmoid";
    case Kind::kSoftplus:
      return "softplus";
    case Kind::kAbs:
      return "abs";
    case Kind::kMin:
      return "min";
    case Kind::kMax:
      return "max";
    default:
      return "?";
  }
}

const NamedFunction* find_function(std::string_view name) {
  for (const NamedFunction& function : kFunctions)
    if (function.name == name) return &function;
  return nullptr;
}

std::string all_function_names() {
  std::string names;
  for (const NamedFunction& function : kFunctions) names += std::string(function.name) + ", ";
  return names + "where";
}

std::string shown_name(std::string_view name) {
  constexpr size_t kMaxShown = 40;
  const std::string shown = printable_field(name.substr(0, kMaxShown));
  return name.size() > kMaxShown ? shown + "..." : shown;
}

}  // namespace lssar
