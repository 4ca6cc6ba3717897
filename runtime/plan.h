// Plan: the kernels of one or more passes of a problem, for any alignment.
//
// With PlanOptions::any_alignment every pass has two kernels: one copies 16 bytes at a time, the
// other serves tensors that are aligned only to their elements. Each call takes the one that its
// pointers and strides allow. Used by the C API. Threads: prepare may be called from any number of
// threads; one does the work and the others wait. So may execute, which takes no lock.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/engine.h"
#include "runtime/plan_capture.h"
#include "runtime/schedule_origin.h"

namespace lssar {

struct PlanOptions {
  std::vector<Pass> passes;   // the passes that will be executed
  bool any_alignment = true;  // false: problem.alignment holds for every call
  // Chooses the schedule of each pass and alignment. Empty: default_schedule. create fails if the
  // schedule is not legal for the problem.
  std::function<Result<ScheduleChoice>(const Problem&)> choose;
};

class Plan {
 public:
  // Chooses and checks the schedules, but compiles nothing. problem.pass is ignored. Errors: those
  // of validate() and of options.choose.
  static Result<std::unique_ptr<Plan>> create(std::shared_ptr<Engine> engine,
                                              const Problem& problem, const PlanOptions& options);

  // Compiles and loads all kernels in parallel. After a success, further calls do nothing.
  Status prepare();
  bool is_prepared() const { return is_prepared_.load(std::memory_order_acquire); }

  // The workspace that suffices for every pass of the plan.
  Result<size_t> workspace_bytes(const Sizes& sizes) const;
  // What the forward for training saves and the backward reads.
  Result<SavedBytes> saved(const Sizes& sizes) const;

  // kNotPrepared before prepare, or for a pass that the plan was not made for. Otherwise as
  // Engine::execute.
  Status execute(Pass pass, const Sizes& sizes, const Tensors& tensors, const Workspace& workspace,
                 Stream stream) const;

  // The same for a problem with varlen, whose plan has no other calls.
  Result<size_t> sequences_workspace_bytes(const Sizes& sizes, int64_t total_q,
                                           int64_t total_k) const;
  Result<SavedBytes> sequences_saved(const Sizes& sizes, int64_t total_q) const;
  Status execute_sequences(Pass pass, const Sizes& sizes, const Sequences& sequences,
                           const Tensors& tensors, const Workspace& workspace, Stream stream) const;

  // The choice for a pass, or null if the plan has no such kernel. It never changes.
  const ScheduleChoice* choice(Pass pass, bool is_fast) const;

  // The kernel of a pass, for inspection. Null if there is none, or none yet.
  std::shared_ptr<const PreparedKernel> kernel(Pass pass, bool is_fast) const;

  Engine& engine() const { return *engine_; }

 private:
  // A pass at one alignment.
  struct Planned {
    Problem problem;
    ScheduleChoice choice;
    std::shared_ptr<const PreparedKernel> kernel;
  };
  enum { kFast, kPlain, kNumAlignments };
  static constexpr size_t kNumPasses = std::size(kAllPasses);

  Plan(std::shared_ptr<Engine> engine, const Problem& problem)
      : engine_(std::move(engine)), problem_(problem), capture_(PlanCapture::from_environment()) {}
  Status add_pass(Pass pass, int alignment, const PlanOptions& options);
  // The training passes. The first one, the backward's, decides where epsilon comes from.
  std::vector<Planned*> training_passes() const;
  // Makes all of them take epsilon from the same source, so that any may read what another saved.
  // Returns an error if a given schedule would have to change.
  Status agree_on_epsilon();
  Status prepare_one(Planned* planned) const;
  // The kernel that a call with tensors of these shapes takes. kNotPrepared: as execute.
  // kInvalidArgument: sequences for a plan without varlen, or the reverse.
  Result<const Planned*> planned_for(Pass pass, bool varlen, const Sizes& sizes,
                                     const TensorShapes& shapes, const Tensors& tensors) const;
  static int slot(int alignment) { return alignment >= kFastAlignment ? kFast : kPlain; }
  const Planned* find(Pass pass, int slot) const {
    return planned_[static_cast<int>(pass)][slot].get();
  }

  const std::shared_ptr<Engine> engine_;
  const Problem problem_;
  const std::unique_ptr<const PlanCapture> capture_;  // null if no calls are captured
  // prepare() writes the kernels under prepare_mutex_ before it sets is_prepared_. Later nobody
  // does.
  std::array<std::array<std::unique_ptr<Planned>, kNumAlignments>, kNumPasses> planned_;
  std::mutex prepare_mutex_;
  std::atomic<bool> is_prepared_{false};
};

}  // namespace lssar
