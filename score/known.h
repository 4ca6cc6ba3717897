// The activations that have names, as expressions.
#pragma once

#include <optional>
#include <string_view>

#include "score/expression.h"

namespace lssar {

struct NamedActivation {
  const char* name;
  const char* text;  // in x
};

// softplus, exp, identity, relu, relu_squared, relu6, gelu, sigmoid, mish
inline constexpr NamedActivation kNamedActivations[] = {
    {"softplus", "softplus(x)"},
    {"exp", "exp(x)"},
    {"identity", "x"},
    {"relu", "relu(x)"},
    {"relu_squared", "relu(x)^2"},
    {"relu6", "min(relu(x), 6)"},
    {"gelu", "0.5 * x * (1 + erf(x / sqrt(2)))"},
    {"sigmoid", "sigmoid(x)"},
    {"mish", "x * tanh(softplus(x))"},
};

// Nothing where the name is not one of them.
std::optional<Expression> named_activation(std::string_view name);

// The name of the activation that is this expression; null where it has none.
const char* activation_name(const Expression& phi);

}  // namespace lssar
