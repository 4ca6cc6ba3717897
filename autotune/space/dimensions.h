// The rows of the search space's table. Used by search_space.cpp alone. Threads: constants.
#pragma once

#include <span>
#include <vector>

#include <nlohmann/json.hpp>

#include "autotune/space/search_space.h"

namespace lssar {

// What a row may depend on. `schedule` is the algorithm's so far, other fields at their defaults.
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
  // Empty: those that `derived` gives, or all that the field has (flags and enumerators). The
  // default schedule's own value is put in front, wherever it stands here.
  std::vector<nlohmann::json> values;
  const char* why;
  // Where the field means something; elsewhere the dimension is not there.
  bool (*applies)(const Scope&);
  // Values that follow from the problem.
  std::vector<int> (*derived)(const Scope&) = nullptr;
  // Algorithm level: what a value is called in an algorithm's name. A value that is not there is
  // called "field value".
  struct Label {
    nlohmann::json value;
    const char* text;
  };
  std::vector<Label> labels = {};
};

std::span<const DimensionRow> dimension_rows();

// "" or why the determinism rules out what the scope's schedule has.
std::string determinism_reason(const Scope& scope);

}  // namespace lssar
