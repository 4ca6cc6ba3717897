// Search space: the schedules that are considered for a problem, as data.
//
// It has three levels, from the choice that changes most: algorithm (which kernels), block (tiles,
// stages, blocks per SM), thread (how scores are evaluated, what is in registers). Every level is a
// list of dimensions, every dimension a list of values; the values of a level multiply. The rows of
// data are in dimensions.cpp. Rules decide before any source is emitted: validate of
// codegen/schedule.h, and a few more in enumerate.cpp for schedules that would compile but cannot
// be good. Used by the search and by `lssar tune --list`. Threads: plain values and pure functions.
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
  // The field's name in a schedule's JSON: "forward.block_cols". Names of fields that are set
  // together are joined by '+', and each value is a list with one entry per field.
  std::string name;
  Level level = Level::kBlock;
  std::vector<nlohmann::json> values;  // the default schedule's first
  std::string why;                     // what it trades, in one line

  std::vector<std::string> fields() const;  // the names that are joined
};

// `schedule` with the dimension's fields set to `value`: one of its values, or another of the same
// shape. Errors: no such field, wrong type.
Result<Schedule> with_value(const Schedule& schedule, const Dimension& dimension,
                            const nlohmann::json& value);

// The dimensions below one choice of algorithm. Those without a meaning for it are left out.
struct Algorithm {
  std::string name;  // "hopper, dq split, persistent"
  nlohmann::json choices =
      nlohmann::json::object();  // the value of every algorithm dimension that applies, by name
  Schedule schedule;             // its default tiles, from which block and thread dimensions start
  std::vector<Dimension> block;
  std::vector<Dimension> thread;
};

struct SearchSpace {
  std::vector<Dimension> algorithm_dimensions;
  std::vector<Algorithm> algorithms;  // the legal ones; the default schedule's first
  // Choices of algorithm that no schedule of this problem can have, and why.
  struct Excluded {
    std::string name;
    std::string reason;
  };
  std::vector<Excluded> excluded;
};

// Deterministic: the same order every time.
// REQUIRES: validate(problem).ok().
SearchSpace search_space(const Problem& problem, const Target& target, Determinism determinism);

// The algorithm of the space whose choices the schedule has; null if there is none.
const Algorithm* algorithm_of(const SearchSpace& space, const Schedule& schedule);

// Every level with its dimensions, values and reasons; then what is excluded.
std::string describe(const SearchSpace& space);
nlohmann::json to_json(const SearchSpace& space);

// The schedule in canonical form: fields that no kernel of the pass reads have one fixed value, and
// defaults are spelled in one way. Schedules with the same form have the same source, and a test
// checks that others have not.
Schedule canonical_schedule(const Schedule& schedule, const Problem& problem);

// Combinations that one rule rejects.
struct RejectedByRule {
  std::string rule;  // the field its reason begins with: "forward.block_rows"
  uint64_t count = 0;
  Schedule first;
};

struct Enumeration {
  std::vector<Schedule> candidates;
  uint64_t combinations = 0;  // of values: candidates + rejected + duplicates
  uint64_t duplicates = 0;    // their canonical form is that of an earlier candidate
  std::vector<RejectedByRule> rejected_by_rule;  // in order of first use
  // If set, it is called for every rejected combination, with the rule.
  std::function<void(const Schedule&, std::string_view)> on_rejected;

  ScheduleSet seen;  // canonical forms of the candidates

  uint64_t rejected() const;
};

// Combinations of an algorithm's block dimensions.
uint64_t num_blocks(const Algorithm& algorithm);

// enumerate_blocks: the product of an algorithm's block dimensions over its default schedule, with
// thread dimensions at their defaults. enumerate_threads: the product of thread dimensions over one
// candidate. Both add to `into`; the first combination is the schedule they start from. They emit
// no source, which would take seconds: duplicates are found by canonical form, and the search
// compares the sources of the candidates it keeps.
void enumerate_blocks(const Problem& problem, const Target& target, const Algorithm& algorithm,
                      Enumeration* into);
// The first candidate of enumerate_blocks, if there is one.
std::optional<Schedule> first_block(const Problem& problem, const Target& target,
                                    const Algorithm& algorithm);
void enumerate_threads(const Problem& problem, const Target& target, const Algorithm& algorithm,
                       const Schedule& base, Enumeration* into);

// Why a legal schedule cannot be good: its accumulators alone take more registers than a thread
// has, or it promises more blocks per SM than shared memory allows. REQUIRES: validate(schedule,
// problem, target).ok().
Breach check_worth(const Schedule& schedule, const Problem& problem, const Target& target,
                   Reasons reasons = Reasons::kGiven);

// Why an enumeration rejects a schedule: it is not legal, or check_worth has a reason.
Breach find_rejection(const Schedule& schedule, const Problem& problem, const Target& target,
                      Reasons reasons = Reasons::kGiven);

// The field that a message of validate or check_worth begins with: "forward.block_rows" for
// "schedule.forward.block_rows = 80: ...".
std::string rule_of(const std::string& message);

}  // namespace lssar
