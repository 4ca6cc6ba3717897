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

// python/lssar/_score_text.py has these rows again (docs/architecture.md, "A score function").
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

// Returns nothing if the name is unknown.
std::optional<Expression> named_activation(std::string_view name);

// The name of the activation that equals this expression, or null.
const char* activation_name(const Expression& phi);

}  // namespace lssar
