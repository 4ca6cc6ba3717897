// Tuning through the C API: reads options, runs searches, and stores winners where the context's
// plans find them.
//
// Internal to the C API (capi.cpp). Threads: ContextState may be used from any number at once.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "autotune/search/tuner.h"
#include "autotune/table/tuning_table.h"
#include "base/status.h"
#include "capi/structs.h"
#include "lssar/lssar.h"
#include "runtime/engine.h"

namespace lssar::capi {

// What a context keeps for its plans.
class ContextState {
 public:
  ContextState(std::shared_ptr<Engine> engine, const ContextRequest& request,
               std::shared_ptr<const TuningTable> table)
      : engine_(std::move(engine)), request_(request), table_(std::move(table)) {}

  const std::shared_ptr<Engine>& engine() const { return engine_; }
  const ContextRequest& request() const { return request_; }

  // The current table. A returned table never changes.
  std::shared_ptr<const TuningTable> table() const;
  void add(const TuningRecord& winner);

 private:
  const std::shared_ptr<Engine> engine_;
  const ContextRequest request_;
  mutable std::mutex mutex_;
  std::shared_ptr<const TuningTable> table_;  // guarded by mutex_
};

// lssar_tune_options with copies of its texts and lengths.
struct TuneRequest {
  Budget budget;
  Determinism determinism = Determinism::kRepeatable;
  int parallel_compiles = 0;
  lssar_tune_callback callback = nullptr;
  void* user = nullptr;
  std::string worker;
  SequenceLengths lengths;  // of timed sequences; none: even_lengths
};
// `options` may be null, for all defaults.
Result<TuneRequest> tune_request(const lssar_tune_options* options);

// Whether the request's lengths, if it has some, can be those of the problem's sequences.
// kInvalidArgument names the field.
Status check_lengths_of(const TuneRequest& request, const PlanRequest& problem);

// Whether a plan for the problem takes what a search with the request's lengths finds.
// kInvalidArgument: it is for any number of queries, and the lengths have few.
// REQUIRES: check_lengths_of(request, problem).ok().
Status check_lengths_suit_plan(const TuneRequest& request, const PlanRequest& problem);

// Tunes every pass of every request, in order. Continues after an error and returns the first one.
// The value is false if the callback cancelled. REQUIRES: check_lengths_of(request, each).ok().
Result<bool> tune_problems(ContextState& context, const std::vector<PlanRequest>& problems,
                           const TuneRequest& request);

}  // namespace lssar::capi
