// Search space: which schedules are looked at for a problem, as data.
//
// Three levels, from the choice that changes most: algorithm (which kernels there are), block
// (tiles, stages, blocks per SM), thread (how scores are evaluated, what is in registers). Every
// level is a list of dimensions, every dimension a list of values; the values of a level multiply.
// The rows of data are in dimensions.cpp. Rules (validate of codegen/schedule.h, and a few more in
// enumerate.cpp for what would compile and could not be good) decide before any source is emitted.
// Used by the search and by `lssar tune --list`. Threads: plain values and pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "autotune/space/schedule_set.h"
#include "autotune/table/bucket.h"
#include "base/status.h"
#include "codegen/breach.h"
#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "codegen/target.h"

namespace lssar {

enum class Level { kAlgorithm, kBlock, kThread };
const char* level_name(Level level);  // "algorithm", "block", "thread"

struct Dimension {
  // The field's name in a schedule's JSON: "forward.block_cols". Fields that are set together are
  // joined by '+', and each value is a list, one for every field.
  std::string name;
  Level level = Level::kBlock;
  std::vector<nlohmann::json> values;  // the default schedule's first
  std::string why;                     // what it trades, for people: one line

  std::vector<std::string> fields() const;  // the names that are joined
};

// `schedule` with the dimension's field(s) set to `value`, one of its values or another of the same
// shape. Errors: no such field, wrong type.
Result<Schedule> with_value(const Schedule& schedule, const Dimension& dimension,
                            const nlohmann::json& value);

// The dimensions below one choice of algorithm. Those that mean nothing to it are not there.
struct Algorithm {
  std::string name;  // "hopper, dq split, persistent"
  nlohmann::json choices =
      nlohmann::json::object();  // the value of every algorithm dimension that applies, by name
  Schedule schedule;             // its default tiles: where block and thread dimensions start from
  std::vector<Dimension> block;
  std::vector<Dimension> thread;
};

struct SearchSpace {
  std::vector<Dimension> algorithm_dimensions;
  std::vector<Algorithm> algorithms;  // the legal ones; the default schedule's first
  // Choices of algorithm that no schedule of this problem can have, with why.
  struct Excluded {
    std::string name;
    std::string reason;
  };
  std::vector<Excluded> excluded;
};

// Deterministic: the same order every time.
// REQUIRES: validate(problem).ok().
SearchSpace search_space(const Problem& problem, const Target& target, Determinism determinism);

// The algorithm of a space that a schedule belongs to: the one whose choices it has; null where
// there is none.
const Algorithm* algorithm_of(const SearchSpace& space, const Schedule& schedule);

// For people: every level with its dimensions, values and why; then what is excluded.
std::string describe(const SearchSpace& space);
nlohmann::json to_json(const SearchSpace& space);

// The schedule with every field that no kernel of the pass reads at one fixed value, and defaults
// spelled one way. Schedules alike in it have the same source; a test holds that those that differ
// have not.
Schedule canonical_schedule(const Schedule& schedule, const Problem& problem);

// Combinations that are no candidates, by the rule that says so.
struct RejectedByRule {
  std::string rule;  // the field its reason begins with: "forward.block_rows"
  uint64_t count = 0;
  Schedule first;
};

struct Enumeration {
  std::vector<Schedule> candidates;
  uint64_t combinations = 0;  // of values: candidates + rejected + duplicates
  uint64_t duplicates = 0;    // the same, in canonical form, as an earlier candidate
  std::vector<RejectedByRule> rejected_by_rule;  // in order of first use
  // Every rejected combination is reported here where it is set, with its rule.
  std::function<void(const Schedule&, std::string_view)> on_rejected;

  ScheduleSet seen;  // canonical forms of the candidates

  uint64_t rejected() const;
};

// Combinations of an algorithm's block dimensions.
uint64_t num_blocks(const Algorithm& algorithm);

// The product of an algorithm's block dimensions over its default schedule (thread dimensions at
// their defaults), and of thread dimensions over one candidate. Adds to `into`; the first
// combination is the schedule it starts from. No source is emitted: that would take seconds, so
// duplicates are found by canonical form; the search compares the sources of those it keeps.
void enumerate_blocks(const Problem& problem, const Target& target, const Algorithm& algorithm,
                      Enumeration* into);
// The first candidate of enumerate_blocks, where there is one.
std::optional<Schedule> first_block(const Problem& problem, const Target& target,
                                    const Algorithm& algorithm);
void enumerate_threads(const Problem& problem, const Target& target, const Algorithm& algorithm,
                       const Schedule& base, Enumeration* into);

// Why a legal schedule cannot be good: accumulators alone take more registers than a thread has, or
// it promises more blocks per SM than shared memory allows.
// REQUIRES: validate(schedule, problem, target).ok().
Breach check_worth(const Schedule& schedule, const Problem& problem, const Target& target,
                   Reasons reasons = Reasons::kGiven);

// Why an enumeration rejects a schedule: it is not legal, or not worth a try.
Breach find_rejection(const Schedule& schedule, const Problem& problem, const Target& target,
                      Reasons reasons = Reasons::kGiven);

// The field a message of validate or check_worth begins with: "forward.block_rows" of
// "schedule.forward.block_rows = 80: ...".
std::string rule_of(const std::string& message);

}  // namespace lssar
