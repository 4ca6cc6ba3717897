#include "score/score_function.h"

#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "score/known.h"
#include "score/parse.h"
#include "score/score_function_fields.h"

namespace lssar {

namespace {

const std::vector<Variable> kOfPhi = {Variable::kX};
const std::vector<Variable> kOfPsi = {Variable::kX, Variable::kOffset, Variable::kLength};

// Reads a string field as an expression. An error names the field and shows the character.
void read_expression(JsonFields& fields, const char* name, const std::vector<Variable>& variables,
                     const auto& take) {
  if (!fields.has(name)) return fields.read_absent(name);
  std::string text;
  fields.read(name, text);
  if (!fields.status().ok()) return;
  const Result<Expression> parsed = parse_expression(text, variables);
  if (!parsed.ok()) return fields.fail(parsed.status().with_context(fields.path(name)));
  take(*parsed);
}

std::string activation_names() {
  std::string names;
  for (const NamedActivation& known : kNamedActivations) names += std::string(known.name) + ", ";
  return names;
}

}  // namespace

Activation::Activation()
    : expression([] {
        static const Expression softplus = *named_activation("softplus");
        return softplus;
      }()) {}

template <typename Name>
void FieldForm<NameOrNumber<Name>>::write(nlohmann::json& object, const char* name,
                                          const T& value) {
  if (value.name == Name::kNumber) {
    object[name] = value.number;
  } else {
    object[name] = enum_name(value.name);
  }
}

template <typename Name>
void FieldForm<NameOrNumber<Name>>::read(JsonFields& fields, const char* name, T& value) {
  if (fields.is_number(name)) {
    double number = 0;
    fields.read(name, number);
    value = {Name::kNumber, number};
  } else if (fields.has(name)) {
    fields.read_enum(name, enum_names<Name>, value.name);
    value.number = 0;
  } else {
    fields.read_absent(name);
  }
}

template struct FieldForm<ScoreScale>;
template struct FieldForm<ScoreBias>;

std::string FieldForm<Activation>::allowed() {
  return activation_names() + "or an expression in x";
}

std::string FieldForm<Activation>::text(const Activation& value) {
  const char* name = activation_name(value.expression);
  return name != nullptr ? name : to_string(value.expression);
}

void FieldForm<Activation>::write(nlohmann::json& object, const char* name,
                                  const Activation& value) {
  const char* known = activation_name(value.expression);
  object[known != nullptr ? "activation" : name] = text(value);
}

void FieldForm<Activation>::read(JsonFields& fields, const char* name, Activation& value) {
  constexpr const char* kName = "activation";
  if (fields.has(name) && fields.has(kName)) {
    return fields.fail(invalid_argument(fields.path(name) + " and " + fields.path(kName) +
                                        ": give only one, because they are the same field"));
  }
  const char* given = fields.has(kName) ? kName : name;
  fields.read_absent(given == name ? kName : name);
  if (!fields.has(given)) return fields.read_absent(given);
  std::string text;
  fields.read(given, text);
  if (!fields.status().ok()) return;
  if (const auto named = named_activation(text)) {
    value = Activation(*named);
  } else if (given == kName) {
    fields.fail(invalid_argument(fields.path(kName) + " = \"" + text + "\": allowed are " +
                                 activation_names() + "and any expression as phi"));
  } else {
    read_expression(fields, name, kOfPhi, [&](const Expression& e) { value = Activation(e); });
  }
}

std::string FieldForm<SecondStage>::allowed() { return "expressions in x, b and N"; }

std::string FieldForm<SecondStage>::text(const SecondStage& value) {
  return value.expression ? "/" + to_string(*value.expression) : "";
}

void FieldForm<SecondStage>::write(nlohmann::json& object, const char* name,
                                   const SecondStage& value) {
  if (value.expression) object[name] = to_string(*value.expression);
}

void FieldForm<SecondStage>::read(JsonFields& fields, const char* name, SecondStage& value) {
  read_expression(fields, name, kOfPsi, [&](const Expression& e) { value.expression = e; });
}

double scale_of(const ScoreScale& scale, int64_t dim, double length) {
  const double d = static_cast<double>(dim);
  switch (scale.name) {
    case ScaleName::kLogDimLogLength:
      return std::log(d) * std::log(length);
    case ScaleName::kInvSqrtDim:
      return 1 / std::sqrt(d);
    case ScaleName::kLogLengthInvSqrtDim:
      return std::log(length) / std::sqrt(d);
    case ScaleName::kNumber:
      return scale.number;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

bool normalises_by_sum(const ScoreFunction& score) {
  return score.normalizer == Normalizer::kSum || score.normalizer == Normalizer::kSumAbs;
}

double bias_of(const ScoreBias& bias, double length) {
  switch (bias.name) {
    case BiasName::kNone:
      return 0;
    case BiasName::kNegLogLength:
      return -std::log(length);
    case BiasName::kNumber:
      return bias.number;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace lssar
