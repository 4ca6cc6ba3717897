// Plan: what a caller holds for a problem: the kernels of one or more passes, for any alignment.
//
// With PlanOptions::any_alignment every pass has two kernels, one that copies 16 bytes at a time
// and one for element-aligned tensors; a call takes the one its pointers and strides allow.
// Used by the C API. Threads: prepare may be called from any number of threads (one does the work,
// the others wait); execute too, and takes no lock.
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
  std::vector<Pass> passes;   // which of them will be executed
  bool any_alignment = true;  // false: problem.alignment holds for every call
  // Chooses the schedule of each pass and alignment; empty: default_schedule. Its schedule must be
  // legal for the problem, else create fails.
  std::function<Result<ScheduleChoice>(const Problem&)> choose;
};

class Plan {
 public:
  // Chooses and checks the schedules; compiles nothing. problem.pass is ignored. Errors: those of
  // validate() and of options.choose.
  static Result<std::unique_ptr<Plan>> create(std::shared_ptr<Engine> engine,
                                              const Problem& problem, const PlanOptions& options);

  // Compiles and loads all kernels in parallel. After a success, further calls do nothing.
  Status prepare();
  bool is_prepared() const { return is_prepared_.load(std::memory_order_acquire); }

  // Enough for every pass of the plan.
  Result<size_t> workspace_bytes(const Sizes& sizes) const;
  // What its forward for training saves, and its backward reads.
  Result<SavedBytes> saved(const Sizes& sizes) const;

  // kNotPrepared before prepare, or for a pass the plan was not made for; else as
  // Engine::execute.
  Status execute(Pass pass, const Sizes& sizes, const Tensors& tensors, const Workspace& workspace,
                 Stream stream) const;

  // What was chosen for a pass; null where the plan has no such kernel. Constant for the plan's
  // life.
  const ScheduleChoice* choice(Pass pass, bool is_fast) const;

  // The kernel of a pass, for inspection; null where there is none (yet).
  std::shared_ptr<const PreparedKernel> kernel(Pass pass, bool is_fast) const;

  Engine& engine() const { return *engine_; }

 private:
  // What is planned for a pass at an alignment.
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
  // What is planned for training. The first one, the backward's, decides where epsilon is from.
  std::vector<Planned*> training_passes() const;
  // One source of epsilon for all of them: what one has saved any other may read. Errors: a given
  // schedule that would have to change.
  Status agree_on_epsilon();
  Status prepare_one(Planned* planned) const;
  static int slot(int alignment) { return alignment >= kFastAlignment ? kFast : kPlain; }
  const Planned* find(Pass pass, int slot) const {
    return planned_[static_cast<int>(pass)][slot].get();
  }

  const std::shared_ptr<Engine> engine_;
  const Problem problem_;
  const std::unique_ptr<const PlanCapture> capture_;  // null: no call is captured
  // Kernels are written under prepare_mutex_ before is_prepared_ is set, and never after.
  std::array<std::array<std::unique_ptr<Planned>, kNumAlignments>, kNumPasses> planned_;
  std::mutex prepare_mutex_;
  std::atomic<bool> is_prepared_{false};
};

}  // namespace lssar
