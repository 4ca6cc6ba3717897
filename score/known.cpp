#include "score/known.h"

#include "score/parse.h"

namespace lssar {

std::optional<Expression> named_activation(std::string_view name) {
  for (const NamedActivation& known : kNamedActivations)
    if (name == known.name) return parse_expression(known.text, {Variable::kX}).value();
  return {};
}

const char* activation_name(const Expression& phi) {
  for (const NamedActivation& known : kNamedActivations)
    if (phi == *named_activation(known.name)) return known.name;
  return nullptr;
}

}  // namespace lssar
