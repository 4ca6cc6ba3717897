#include "autotune/space/search_space.h"

#include <algorithm>

#include <fmt/format.h>

#include "autotune/space/dimensions.h"
#include "codegen/schedule_fields.h"

namespace lssar {

using nlohmann::json;

namespace {

// {"forward": {"block_cols": 64}} from "forward.block_cols" and 64.
json patch_of(const std::string& name, const json& value) {
  const size_t dot = name.find('.');
  if (dot == std::string::npos) return {{name, value}};
  return {{name.substr(0, dot), patch_of(name.substr(dot + 1), value)}};
}

Result<json> patch_of_all(const Dimension& dimension, const json& value) {
  const std::vector<std::string> fields = dimension.fields();
  if (fields.size() == 1) return patch_of(dimension.name, value);
  if (!value.is_array() || value.size() != fields.size())
    return invalid_argument(fmt::format("{} = {}: allowed are lists of {}", dimension.name,
                                        value.dump(), fields.size()));
  json patch = json::object();
  for (size_t i = 0; i < fields.size(); ++i) patch.merge_patch(patch_of(fields[i], value[i]));
  return patch;
}

json::json_pointer pointer_of(std::string field) {
  std::replace(field.begin(), field.end(), '.', '/');
  return json::json_pointer("/" + field);
}

// The values of the dimension's fields in `schedule`.
json value_in(const json& schedule, const Dimension& dimension) {
  json list = json::array();
  for (const std::string& field : dimension.fields())
    list.push_back(schedule.at(pointer_of(field)));
  return list.size() == 1 ? list[0] : list;
}

json values_of(const DimensionRow& row, const Scope& scope) {
  if (row.derived != nullptr) return row.derived(scope);
  return row.values.empty() ? json(find_leaf(row.name)->values()) : json(row.values);
}

// `current` is the scope's schedule.
Dimension dimension_of(const DimensionRow& row, const Scope& scope, const json& current) {
  Dimension dimension;
  dimension.name = row.name;
  dimension.level = row.level;
  dimension.why = row.why;
  dimension.values.push_back(value_in(current, dimension));
  for (json& value : values_of(row, scope))
    if (std::find(dimension.values.begin(), dimension.values.end(), value) ==
        dimension.values.end())
      dimension.values.push_back(std::move(value));
  return dimension;
}

std::string label_of(const DimensionRow& row, const json& value) {
  for (const DimensionRow::Label& label : row.labels)
    if (label.value == value) return label.text;
  return fmt::format("{} {}", row.name,
                     value.is_string() ? value.get<std::string>() : value.dump());
}

// Walks over the product of the algorithm dimensions. Each is taken only if it applies to what was
// chosen before it.
class AlgorithmWalk {
 public:
  AlgorithmWalk(const Problem& problem, const Target& target, Determinism determinism,
                SearchSpace* space)
      : scope_{problem, target, determinism, default_schedule(problem, target, determinism)},
        space_(space) {}

  void walk() { choose(0, json::object(), ""); }

 private:
  void choose(size_t index, const json& chosen, const std::string& name) {
    const auto rows = dimension_rows();
    while (index < rows.size() &&
           (rows[index].level != Level::kAlgorithm || !rows[index].applies(scope_)))
      ++index;
    if (index == rows.size()) return add(chosen, name);
    const DimensionRow& row = rows[index];
    const Dimension dimension = dimension_of(row, scope_, to_json(scope_.schedule));
    remember(dimension);
    const Schedule before = scope_.schedule;
    for (const json& value : dimension.values) {
      json patch = chosen;
      patch.merge_patch(patch_of(row.name, value));
      const std::string label = label_of(row, value);
      const std::string longer = name.empty() || label.empty() ? name + label : name + ", " + label;
      // Other fields get the defaults that go with the choices so far: tiles that fit.
      const Result<Schedule> schedule =
          schedule_for(scope_.problem, scope_.target, patch, scope_.determinism);
      const Status status = schedule.ok() ? check(*schedule) : schedule.status();
      // The choice itself is wrong. No tiles below it can change that.
      if (!schedule.ok() || (!status.ok() && rule_of(status.message()) == row.name)) {
        space_->excluded.push_back({longer, status.message()});
        continue;
      }
      scope_.schedule = *schedule;
      choose(index + 1, patch, longer);
      scope_.schedule = before;
    }
  }

  Status check(const Schedule& schedule) const {
    const std::string reason =
        determinism_reason({scope_.problem, scope_.target, scope_.determinism, schedule});
    if (!reason.empty()) return invalid_argument(reason);
    return validate(schedule, scope_.problem, scope_.target);
  }

  void remember(const Dimension& dimension) {
    auto& all = space_->algorithm_dimensions;
    const auto same = [&](const Dimension& other) { return other.name == dimension.name; };
    if (std::none_of(all.begin(), all.end(), same)) all.push_back(dimension);
  }

  void add(const json& patch, const std::string& name) {
    Algorithm algorithm;
    algorithm.name = name;
    for (const Dimension& dimension : space_->algorithm_dimensions)
      if (patch.contains(pointer_of(dimension.name)))
        algorithm.choices[dimension.name] = patch.at(pointer_of(dimension.name));
    fill(&algorithm);
    const Status status = check(scope_.schedule);
    if (!status.ok() && !start_elsewhere(&algorithm)) {
      space_->excluded.push_back({name, status.message()});
      return;
    }
    space_->algorithms.push_back(std::move(algorithm));
  }

  void fill(Algorithm* algorithm) const {
    algorithm->schedule = scope_.schedule;
    algorithm->block.clear();
    algorithm->thread.clear();
    const json current = to_json(scope_.schedule);
    for (const DimensionRow& row : dimension_rows()) {
      if (row.level == Level::kAlgorithm || !row.applies(scope_)) continue;
      auto& list = row.level == Level::kBlock ? algorithm->block : algorithm->thread;
      list.push_back(dimension_of(row, scope_, current));
    }
  }

  // The default's tiles do not fit this choice: starts from the first of its product that do.
  bool start_elsewhere(Algorithm* algorithm) {
    const auto first = first_block(scope_.problem, scope_.target, *algorithm);
    if (!first) return false;
    scope_.schedule = *first;
    fill(algorithm);
    return true;
  }

  Scope scope_;
  SearchSpace* space_;
};

std::string dimension_line(const Dimension& dimension) {
  return fmt::format("    {} {}: {}\n", dimension.name, json(dimension.values).dump(),
                     dimension.why);
}

json to_json(const std::vector<Dimension>& dimensions) {
  json list = json::array();
  for (const Dimension& dimension : dimensions)
    list.push_back({{"name", dimension.name},
                    {"level", level_name(dimension.level)},
                    {"values", dimension.values},
                    {"why", dimension.why}});
  return list;
}

}  // namespace

const char* level_name(Level level) {
  switch (level) {
    case Level::kAlgorithm:
      return "algorithm";
    case Level::kBlock:
      return "block";
    case Level::kThread:
      return "thread";
  }
  return "?";
}

std::vector<std::string> Dimension::fields() const {
  std::vector<std::string> fields;
  for (size_t start = 0; start <= name.size();) {
    const size_t end = std::min(name.find('+', start), name.size());
    fields.push_back(name.substr(start, end - start));
    start = end + 1;
  }
  return fields;
}

Result<Schedule> with_value(const Schedule& schedule, const Dimension& dimension,
                            const json& value) {
  LSSAR_ASSIGN_OR_RETURN(const json patch, patch_of_all(dimension, value));
  return schedule_from_json(patch, schedule);
}

SearchSpace search_space(const Problem& problem, const Target& target, Determinism determinism) {
  SearchSpace space;
  AlgorithmWalk(problem, target, determinism, &space).walk();
  return space;
}

const Algorithm* algorithm_of(const SearchSpace& space, const Schedule& schedule) {
  const json fields = to_json(schedule);
  for (const Algorithm& algorithm : space.algorithms) {
    const auto items = algorithm.choices.items();
    if (std::all_of(items.begin(), items.end(), [&](const auto& choice) {
          return fields.at(pointer_of(choice.key())) == choice.value();
        }))
      return &algorithm;
  }
  return nullptr;
}

std::string rule_of(const std::string& message) {
  const std::string prefix = "schedule.";
  const size_t start = message.rfind(prefix, 0) == 0 ? prefix.size() : 0;
  return message.substr(start, message.find_first_of(" :", start) - start);
}

std::string describe(const SearchSpace& space) {
  std::string text = "algorithm\n";
  for (const Dimension& dimension : space.algorithm_dimensions) text += dimension_line(dimension);
  for (const Algorithm& algorithm : space.algorithms) {
    text += fmt::format("{}\n  block\n", algorithm.name);
    for (const Dimension& dimension : algorithm.block) text += dimension_line(dimension);
    text += "  thread\n";
    for (const Dimension& dimension : algorithm.thread) text += dimension_line(dimension);
  }
  if (!space.excluded.empty()) text += "excluded\n";
  for (const auto& excluded : space.excluded)
    text += fmt::format("    {}: {}\n", excluded.name, excluded.reason);
  return text;
}

json to_json(const SearchSpace& space) {
  json algorithms = json::array();
  for (const Algorithm& algorithm : space.algorithms)
    algorithms.push_back({{"name", algorithm.name},
                          {"schedule", to_json(algorithm.schedule)},
                          {"block", to_json(algorithm.block)},
                          {"thread", to_json(algorithm.thread)}});
  json excluded = json::array();
  for (const auto& one : space.excluded)
    excluded.push_back({{"name", one.name}, {"reason", one.reason}});
  return {{"algorithm_dimensions", to_json(space.algorithm_dimensions)},
          {"algorithms", algorithms},
          {"excluded", excluded}};
}

}  // namespace lssar
