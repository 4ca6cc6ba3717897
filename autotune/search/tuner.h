// The tuner: a search with its table, its lock and its worker processes around it.
//
// Used by the command and the C API. Threads and processes: any number may tune at once; one at a
// time does for each GPU, and those that waited take what it found.
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
  bool search_again = false;    // although the table has the answer; its times are not used
  double lock_timeout_s = 600;  // beyond it somebody else's tuning is an error
  std::vector<CandidateSpec> extra;

  // Each may be empty; called on the thread that tunes.
  std::function<void(const SearchProgress&)> progress;
  std::function<bool()> cancelled;
  std::function<double()> now_s;  // as SearchRequest's
};

// The budget's time begins with the workers' start; waiting for the GPU's lock is not in it.
//
// Errors: kInvalidArgument (problem, sizes); those of search(), of the table's file where a record
// cannot be appended, of the lock.
Result<SearchOutcome> tune(const TuneProblem& problem, const TuneOptions& options);

// The same with a runner of the caller's, whose device, compiler and problem are the ones that
// count.
Result<SearchOutcome> tune_with(CandidateRunner& runner, const TuneProblem& problem,
                                const TuneOptions& options);

// The sizes a problem is tuned at where the caller leaves lengths open: 4096 long, and as many
// slices as 16K tokens of 16 heads give.
Sizes typical_sizes(const Problem& problem);

}  // namespace lssar
