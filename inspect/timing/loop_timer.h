// LoopTimer: what the loops of a tuner's candidates take, read from their machine code.
//
// `lssar tune` hands it to the search (TuneOptions::loop_clocks). Threads: any number at once.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "autotune/measure/candidate_runner.h"
#include "base/status.h"
#include "runtime/engine.h"

namespace lssar {

class LoopTimer {
 public:
  // Images come from the cache of `options`, where the tuner's workers put them. One that is not
  // there is compiled once more. The device of `options` is not opened.
  explicit LoopTimer(EngineOptions options);

  // clocks_per_score of the candidate's kernel. Errors: kMissing without a disassembler or a
  // compiler; kUnsupported of a compiler that makes no cubin, and those of facts_timing.
  Result<std::vector<double>> clocks(const Problem& problem, const Target& target,
                                     const CandidateSpec& candidate);

 private:
  // Opened by the first call; all calls are for one target.
  Result<Engine*> engine(const Target& target);

  EngineOptions options_;
  std::mutex mutex_;  // guards the following
  std::unique_ptr<Engine> engine_;
  std::optional<Status> state_;  // of opening; none: not tried yet
};

}  // namespace lssar
