#include "codegen/determinism.h"

#include <fmt/format.h>

namespace lssar {

const char* determinism_name(Determinism determinism) {
  return determinism == Determinism::kRepeatable ? "repeatable" : "any";
}

Result<Determinism> parse_determinism(const std::string& name) {
  for (const Determinism one : {Determinism::kRepeatable, Determinism::kAny}) {
    if (name == determinism_name(one)) return one;
  }
  return invalid_argument(
      fmt::format("determinism = \"{}\": allowed are \"repeatable\" and \"any\"", name));
}

}  // namespace lssar
