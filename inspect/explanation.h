// Explanation: which schedule a problem gets, where it came from, and what became of every other
// one of its search space.
//
// A table is read, rules and the cost model are asked; nothing is compiled and nothing runs. Used
// by `lssar explain` and `lssar report`. Threads: plain values and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "autotune/model/cost_model.h"
#include "autotune/model/gpu_model.h"
#include "autotune/model/schedule_choice.h"
#include "autotune/space/search_space.h"
#include "autotune/table/tuning_table.h"
#include "base/status.h"

namespace lssar {

// Why a candidate of the space is not the one that runs.
enum class Standing {
  kChosen,           // it is
  kSlower,           // timed, and beaten, or not better by more than the noise
  kRuledOut,         // by its verdict: spills, wrong numbers, ...
  kNotTimed,         // compiled and checked by a search that timed others
  kEstimatedSlower,  // never tried: the model puts it behind the chosen one
  kUntried,          // never tried, although the model puts it before the chosen one
};
inline constexpr int kNumStandings = 6;
const char* standing_name(Standing standing);  // "chosen", "slower", "ruled out", ...

struct ConsideredCandidate {
  Schedule schedule;
  int algorithm = 0;  // index of Explanation::algorithms
  Standing standing = Standing::kUntried;
  CostEstimate estimate;
  // Index of Explanation::records, -1: none.
  int record = -1;
};

// Combinations of the space's values that a rule forbids.
struct RuleCount {
  std::string rule;  // the field the reason begins with
  uint64_t count = 0;
  std::string example;  // the reason of the first one, whole
};

struct ExplanationRequest {
  Problem problem;
  Sizes sizes;  // lengths of 0 are not known: see typical_sizes of autotune/search/tuner.h
  Determinism determinism = Determinism::kRepeatable;
  Target target;
  Machine machine;                         // whose records count as this GPU's
  GpuModel gpu;                            // what the model estimates for
  std::optional<Schedule> given;           // the caller's own, instead of a choice
  std::vector<const TuningTable*> tables;  // in the order in which they are asked
  // false: of the search space, only what has a record is looked at.
  bool whole_space = true;
};

struct Explanation {
  Bucket bucket;
  ScheduleChoice choice;
  CostEstimate estimate;               // of the chosen schedule
  std::optional<TuningRecord> record;  // of the chosen schedule in this bucket, the latest one
  GpuModel gpu;

  // combinations = candidates + duplicates + the counts of rejected.
  uint64_t combinations = 0;
  uint64_t duplicates = 0;
  std::vector<ConsideredCandidate> candidates;  // in the order of the space
  // The order of the candidates: the chosen one, then those with a record by time, then the others
  // by estimate.
  std::vector<uint32_t> ranking;
  std::vector<RuleCount> rejected;              // most first
  std::vector<SearchSpace::Excluded> excluded;  // whole algorithms, with why
  std::vector<std::string> algorithms;
  // The latest record of each candidate in this bucket, for this target.
  std::vector<TuningRecord> records;

  // The candidate of a rank from 0 on; there are as many as candidates.
  const ConsideredCandidate& ranked(size_t rank) const { return candidates[ranking[rank]]; }
  std::array<uint64_t, kNumStandings> count_by_standing() const;
};

// REQUIRES: validate(request.problem).ok(), and of `given`.
Explanation explain(const ExplanationRequest& request);

// "slower: 1.31 ms, 1.05 x the chosen one's": one line.
std::string reason_of(const Explanation& explanation, const ConsideredCandidate& candidate);

}  // namespace lssar
