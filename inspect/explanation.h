// Explanation: which schedule a problem gets, where it came from, and why every other schedule of
// its search space was not chosen.
//
// It reads a table and asks the rules and the cost model; nothing is compiled or run. Used by
// `lssar explain` and `lssar report`. Threads: plain values and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "autotune/model/cost_model.h"
#include "autotune/model/device_model.h"
#include "autotune/model/schedule_choice.h"
#include "autotune/space/search_space.h"
#include "autotune/table/tuning_table.h"
#include "base/status.h"

namespace lssar {

// Why a candidate of the space is or is not the one that runs.
enum class Standing {
  kChosen,           // it runs
  kSlower,           // timed, and not faster by more than the noise
  kRuledOut,         // its verdict says why: spills, wrong numbers, ...
  kNotTimed,         // compiled and checked by a search that timed others
  kEstimatedSlower,  // never tried: the model estimates it to be slower than the chosen one
  kUntried,          // never tried, although the model estimates it to be faster
};
inline constexpr int kNumStandings = 6;
const char* standing_name(Standing standing);  // "chosen", "slower", "ruled out", ...

struct ConsideredCandidate {
  Schedule schedule;
  int algorithm = 0;  // index of Explanation::algorithms
  Standing standing = Standing::kUntried;
  CostEstimate estimate;
  // Index of Explanation::records; -1: there is none.
  int record = -1;
};

// Combinations of the space's values that a rule forbids.
struct RuleCount {
  std::string rule;  // the field that the reason begins with
  uint64_t count = 0;
  std::string example;  // the first such reason, complete
};

struct ExplanationRequest {
  Problem problem;
  Sizes sizes;  // 0: not known; see typical_sizes of autotune/search/tuner.h
  Determinism determinism = Determinism::kRepeatable;
  Target target;
  Machine machine;                         // its records count as this GPU's
  DeviceModel model;                       // the cost model estimates for it
  std::optional<Schedule> given;           // the caller's schedule, instead of a choice
  std::vector<const TuningTable*> tables;  // in the order in which they are asked
  // false: looks only at those schedules of the search space that have a record.
  bool whole_space = true;
};

struct Explanation {
  Bucket bucket;
  ScheduleChoice choice;
  CostEstimate estimate;               // of the chosen schedule
  std::optional<TuningRecord> record;  // the latest one of the chosen schedule in this bucket
  DeviceModel model;
  bool is_searched = true;  // lssar tune takes the problem

  // combinations = candidates + duplicates + the rejected counts.
  uint64_t combinations = 0;
  uint64_t duplicates = 0;
  std::vector<ConsideredCandidate> candidates;  // in the order of the space
  // The order of the candidates: the chosen one, those with a record by time, the others by
  // estimate.
  std::vector<uint32_t> ranking;
  std::vector<RuleCount> rejected;              // most first
  std::vector<SearchSpace::Excluded> excluded;  // whole algorithms, and why
  std::vector<std::string> algorithms;
  // The latest record of each candidate in this bucket, for this target.
  std::vector<TuningRecord> records;

  // The candidate of a rank. Ranks begin at 0; there are as many as candidates.
  const ConsideredCandidate& ranked(size_t rank) const { return candidates[ranking[rank]]; }
  std::array<uint64_t, kNumStandings> count_by_standing() const;
};

// REQUIRES: validate(request.problem).ok(), and the same for `given`.
Explanation explain(const ExplanationRequest& request);

// One line: "slower: 1.31 ms, 1.05 x the chosen one's".
std::string reason_of(const Explanation& explanation, const ConsideredCandidate& candidate);

}  // namespace lssar
