// The search: from a problem to its best schedule, top down, with every rejected candidate and the
// reason. docs/tuning_search.md describes the stages and budgets.
//
// A search knows nothing of files, locks or processes: the runner does the work, `keep_record`
// stores the results, and tuner.h puts the parts together. Threads: one search per thread. It
// compiles on threads of its own and calls back on the calling thread.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "autotune/measure/candidate_runner.h"
#include "autotune/model/cost_model.h"
#include "autotune/model/schedule_choice.h"
#include "autotune/space/search_space.h"
#include "autotune/table/bucket.h"
#include "autotune/table/tuning_table.h"
#include "base/status.h"

namespace lssar {

struct Budget {
  std::string name;         // "quick", "normal", "full"
  double seconds = 0;       // then only what an answer needs is begun (see search()); 0 = no limit
  int keep_blocks = 0;      // the most candidates of algorithm and block level to compile
  int keep_threads = 0;     // the same for the thread level, around each of the best blocks
  int expanded_blocks = 0;  // blocks that the thread level is searched for
  int finalists = 0;        // timed against each other at the end
  int first_rounds = 0;     // launches of each candidate in its first timing
  int final_rounds = 0;     // of each finalist, on each kind of data
};
// "quick" (<= 20 s), "normal" (<= 2 min), "full" (no limit). The error for an unknown name lists
// them.
Result<Budget> budget_named(const std::string& name);

// What became of a candidate of the space.
enum class Fate {
  kWon,
  kSlower,       // timed, and beaten
  kRuledOut,     // its verdict says why: spills, wrong numbers, ...
  kUnpromising,  // its estimate is not among the best of its algorithm, or of all
  kBound,        // its lower bound is above the best measured time
  kOutOfTime,    // the budget or the caller ended the search before its turn
};
const char* fate_name(Fate fate);  // "won", "slower", "ruled out", ...

struct CandidateFate {
  std::string algorithm;
  Schedule schedule;
  Fate fate = Fate::kUnpromising;
  std::string reason;  // one line
  double estimate_ms = 0;
  std::array<double, kNumResources> terms_ms = {};  // of the estimate
  double ms = 0;                                    // 0 = not timed
  // What the candidate's X costs the forward for training, by the model. It is added to times when
  // candidates are compared.
  double elsewhere_ms = 0;
  double sum_ms = 0;  // by the sum of both models; 0 = not known
};

enum class Stage { kEnumerate, kBlocks, kThreads, kHalving, kFinal, kVerify, kDone };
const char* stage_name(Stage stage);  // "enumerate", "blocks", ...

struct SearchProgress {
  Stage stage = Stage::kEnumerate;
  int done = 0;  // candidates of this stage
  int total = 0;
  double best_ms = 0;  // 0 = none yet
  std::string best;    // its schedule
  double elapsed_s = 0;
  double limit_s = 0;  // 0 = none
};

struct SearchRequest {
  Problem problem;
  Sizes sizes;              // of timed runs
  SequenceLengths lengths;  // of their sequences, with problem.varlen
  Determinism determinism = Determinism::kRepeatable;
  Target target;
  DeviceModel model;
  Calibration calibration;
  Budget budget;
  int parallel_compiles = 1;
  double spent_s = 0;  // of the budget, before the search: starting workers, reading a table

  // Records of earlier searches. Candidates with a record of this bucket, machine and source are
  // not run again. The latest chosen one is the incumbent.
  const TuningTable* known = nullptr;
  // The least time of a record. A winner must be later than the records it replaces, whatever the
  // clock of their machine said; so this is used if the clock is behind it. "": the clock's time.
  std::string earliest_time;
  // More candidates, e.g. edited by hand. They are compiled, checked and timed like any other, and
  // never dropped unmeasured. Each has a source. Its records carry that source's hash, which no
  // lookup takes for a generated kernel's, and are never chosen.
  std::vector<CandidateSpec> extra;

  // clocks_per_score of a candidate, from its machine code (inspect/timing/loop_timer.h). Also
  // called from the threads that compile, after compile(). With it the sum of both models decides
  // what is timed first, and who wins where times are only predicted. Candidates for which it
  // fails, and all if it is empty, have the cost model alone.
  std::function<Result<std::vector<double>>(const CandidateSpec&)> loop_clocks;

  // Each may be empty. An error of keep_record ends the search.
  std::function<Status(const TuningRecord&)> keep_record;
  std::function<void(const SearchProgress&)> progress;
  std::function<bool()> cancelled;
  // Monotonic. Also called from the threads that compile. Empty: the steady clock.
  std::function<double()> now_s;
};

struct SearchOutcome {
  bool cancelled = false;  // then only counts and fates below are set
  TuningRecord winner;     // its `chosen` is true
  Target target;
  std::string winner_id;          // the winner's id if it is one of `extra`; otherwise ""
  double default_ms = 0;          // of default_schedule in the same final; 0 = it was rejected
  double saving_x_ms = 0;         // elsewhere_ms of candidates that have X
  double noise = 0;               // relative: a gain must be larger, at least 2 %
  bool kept_incumbent = false;    // nothing was faster by more than the noise
  bool resumed_complete = false;  // the table already had the answer; nothing was run

  // Counts of the space and `extra`: combinations = candidates + duplicates + rejected. Every
  // candidate has a fate.
  uint64_t combinations = 0, duplicates = 0;
  std::vector<std::pair<std::string, uint64_t>> rejected_by_rule;
  std::vector<CandidateFate> fates;

  int compiled = 0, checked = 0, timed = 0, reused = 0;  // candidates
  // Those whose machine code was asked for: how many have a sum of both models, how many do not,
  // and why the first of these does not.
  int with_sum = 0, without_sum = 0;
  std::string why_no_sum;
  double rank_correlation = 0;  // of estimates and times of this search; NaN with fewer than 3
  double seconds = 0;
};

double steady_seconds();  // the clock if now_s is empty

// The budget's time is one deadline. What runs at that moment is finished. An answer then still
// needs: the default, the incumbent and `extra` compiled, checked and timed, and a full check of
// the winner; if the winner fails it, a full check of the incumbent or the default.
//
// Errors: the runner's. kDeviceError: no candidate passed; the message has the default's reason.
// REQUIRES: validate(request.problem).ok(), and check_lengths of its lengths.
Result<SearchOutcome> search(CandidateRunner& runner, const SearchRequest& request);

}  // namespace lssar
