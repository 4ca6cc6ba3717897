// The tuner: a search together with its table, its lock and its worker processes.
//
// Used by the command and the C API. Threads and processes: any number may call it at once. On each
// GPU one tunes at a time; those that waited take what it found.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autotune/search/search.h"
#include "base/status.h"
#include "runtime/open_device.h"

namespace lssar {

struct TuneProblem {
  Problem problem;
  Sizes sizes;  // of timed runs: all positive
  Determinism determinism = Determinism::kRepeatable;
  // With problem.varlen: the sequences of timed runs, whose number and longest lengths are `sizes`.
  // None: even_lengths.
  SequenceLengths lengths = {};
};

struct TuneOptions {
  DeviceChoice device = DeviceChoice::kAuto;
  int ordinal = 0;
  std::string target;  // "": the device's own
  CompilerChoice compiler = CompilerChoice::kAuto;
  std::string cache_directory;  // as CacheOptions::directory
  std::string table_path;       // "": records are kept in memory only
  std::string worker;           // the worker program; "": found as open_worker_runner says

  Budget budget;
  int parallel_compiles = 0;    // 0: one per core, at most 16
  bool search_again = false;    // search although the table has the answer; do not use its times
  double lock_timeout_s = 600;  // waiting longer for another process's tuning is an error
  std::vector<CandidateSpec> extra;

  // As SearchRequest's, and called likewise, for sm_90a.
  std::function<Result<std::vector<double>>(const Problem&, const Target&, const CandidateSpec&)>
      loop_clocks;

  // Each may be empty; called on the thread that tunes.
  std::function<void(const DeviceInfo&)> opened;  // once, before anything is searched
  std::function<void(const SearchProgress&)> progress;
  std::function<bool()> cancelled;
  std::function<double()> now_s;  // as SearchRequest's
};

// What is searched for a problem. Lengths that nobody gave are even_lengths. Where the problem
// leaves seq_q open and no sequence has more queries than kernels for few of them take, seq_q says
// so, because such kernels (split_keys) are candidates only then.
TuneProblem searched_problem(const TuneProblem& problem);

// kInvalidArgument: a pass that is not searched, sizes or lengths that are wrong or give no work.
Status check_task(const TuneProblem& task);

// The budget's time begins when the workers start. Waiting for the GPU's lock does not count.
//
// Errors: kInvalidArgument (problem, sizes); those of search(), of appending to the table, and of
// the lock.
Result<SearchOutcome> tune(const TuneProblem& problem, const TuneOptions& options);

// The same with the caller's runner. The runner's device, compiler and problem are used.
Result<SearchOutcome> tune_with(CandidateRunner& runner, const TuneProblem& problem,
                                const TuneOptions& options);

// The sizes that a problem is tuned at. A length that is left open is 4096. A problem with one
// batch entry of one head gets 16 heads, and as many entries as make 16K tokens: queries or keys,
// whichever are more. With varlen the lengths are those of the longest sequence, and an entry is a
// sequence.
Sizes typical_sizes(const Problem& problem);

}  // namespace lssar
