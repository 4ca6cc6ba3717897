// The rows of the search space's table. Used by search_space.cpp alone. Threads: constants.
#pragma once

#include <span>
#include <vector>

#include <nlohmann/json.hpp>

#include "autotune/space/search_space.h"

namespace lssar {

// What a row may depend on. `schedule` holds the choices of the algorithm; its other fields are
// defaults.
struct Scope {
  const Problem& problem;
  const Target& target;
  Determinism determinism;
  Schedule schedule;

  bool is_hopper() const { return schedule.variant == Variant::kHopper; }
  bool is_backward() const { return problem.pass == Pass::kBackward; }
};

struct DimensionRow {
  const char* name;  // as Dimension::name
  Level level;
  // Empty: the values that `derived` returns, or all values of the field (flags and enumerators).
  // The default schedule's own value always comes first.
  std::vector<nlohmann::json> values;
  const char* why;
  // Whether the field has a meaning. If not, the dimension does not exist.
  bool (*applies)(const Scope&);
  // Values that follow from the problem or the target.
  std::vector<nlohmann::json> (*derived)(const Scope&) = nullptr;
  // For the algorithm level: what a value is called in an algorithm's name. A value without a label
  // is called "field value".
  struct Label {
    nlohmann::json value;
    const char* text;
  };
  std::vector<Label> labels = {};
};

std::span<const DimensionRow> dimension_rows();

// "", or why the determinism forbids what the scope's schedule has.
std::string determinism_reason(const Scope& scope);

}  // namespace lssar
