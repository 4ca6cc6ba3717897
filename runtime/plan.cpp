#include "runtime/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "base/json_text.h"
#include "base/log.h"
#include "runtime/replay.h"
#include "score/warnings.h"

namespace lssar {
namespace {

Result<ScheduleChoice> pick_schedule(const Problem& problem, const Target& target,
                                     const PlanOptions& options) {
  ScheduleChoice choice{default_schedule(problem, target), ScheduleOrigin::kDefault, "default"};
  if (options.choose) {
    LSSAR_ASSIGN_OR_RETURN(choice, options.choose(problem));
  }
  // The given schedule serves both alignments, but only the aligned kernel may copy 16 bytes.
  if (choice.origin == ScheduleOrigin::kGiven && problem.alignment < kFastAlignment &&
      options.any_alignment) {
    choice.schedule.load_path = LoadPath::kPlain;
  }
  LSSAR_RETURN_IF_ERROR(validate(choice.schedule, problem, target));
  return choice;
}

// For error messages.
std::string pass_text(const Problem& problem, const Schedule& schedule) {
  return fmt::format("{} at alignment {} has schedule.epsilon = {}", pass_name(problem.pass),
                     problem.alignment, epsilon_name(schedule.epsilon));
}

// Logged before the launch, because this line may be the last one of a failing program. Running out
// of memory here must not fail the call.
void log_execute(const PreparedKernel& kernel, Engine& engine, const Sizes& sizes) {
  try {
    log(LogLevel::kTrace, "execute: " + execute_line(kernel, engine, sizes));
  } catch (const std::bad_alloc&) {
  }
}

// Without norms q . k is unbounded. Assume scores as large as in a trained model.
ScoreRange range_of_scores(const Problem& problem) {
  constexpr double kTypicalLength = 131072, kTypicalScore = 64;
  ScoreRange range;
  range.length = problem.seq_k != 0 ? static_cast<double>(problem.seq_k) : kTypicalLength;
  range.offset = problem.offset;
  range.largest = problem.score.qk_norm
                      ? std::abs(scale_of(problem.score.scale, problem.head_dim, range.length))
                      : kTypicalScore;
  return range;
}

}  // namespace

Result<std::unique_ptr<Plan>> Plan::create(std::shared_ptr<Engine> engine, const Problem& problem,
                                           const PlanOptions& options) {
  std::unique_ptr<Plan> plan(new Plan(std::move(engine), problem));
  for (const Pass pass : options.passes) {
    if (options.any_alignment) {
      LSSAR_RETURN_IF_ERROR(plan->add_pass(pass, kFastAlignment, options));
      LSSAR_RETURN_IF_ERROR(plan->add_pass(pass, dtype_bytes(problem.dtype), options));
    } else {
      LSSAR_RETURN_IF_ERROR(plan->add_pass(pass, problem.alignment, options));
    }
  }
  LSSAR_RETURN_IF_ERROR(plan->agree_on_epsilon());
  if (problem.varlen && plan->capture_ != nullptr)
    log(LogLevel::kWarning, "LSSAR_CAPTURE_DIR: calls of sequences are not captured");
  for (const std::string& warning : score_warnings(problem.score, range_of_scores(problem)))
    log(LogLevel::kWarning, warning);
  return plan;
}

std::vector<Plan::Planned*> Plan::training_passes() const {
  std::vector<Planned*> passes;
  for (const Pass pass : {Pass::kBackward, Pass::kForwardTrain}) {
    for (const auto& planned : planned_[static_cast<int>(pass)]) {
      if (planned != nullptr) passes.push_back(planned.get());
    }
  }
  return passes;
}

Status Plan::agree_on_epsilon() {
  const std::vector<Planned*> passes = training_passes();
  if (passes.empty()) return {};
  const Problem& decides = passes[0]->problem;
  const Schedule& decided = passes[0]->choice.schedule;
  for (Planned* planned : passes) {
    ScheduleChoice& choice = planned->choice;
    if (choice.schedule.epsilon == decided.epsilon) continue;
    if (choice.origin == ScheduleOrigin::kGiven) {
      return invalid_argument(fmt::format(
          "schedules: {}, and {}: allowed is one source of epsilon for a plan's forward-train and "
          "backward, because the backward reads what the forward saves",
          pass_text(decides, decided), pass_text(planned->problem, choice.schedule)));
    }
    const Target& target = engine_->device().info().target;
    LSSAR_RETURN_IF_ERROR(share_epsilon(&choice, decided.epsilon,
                                        fmt::format("the plan's {}'s", pass_name(decides.pass)),
                                        planned->problem, target));
  }
  return {};
}

Status Plan::add_pass(Pass pass, int alignment, const PlanOptions& options) {
  auto planned = std::make_unique<Planned>();
  planned->problem = problem_;
  planned->problem.pass = pass;
  planned->problem.alignment = alignment;
  LSSAR_RETURN_IF_ERROR(validate(planned->problem));
  LSSAR_ASSIGN_OR_RETURN(planned->choice,
                         pick_schedule(planned->problem, engine_->device().info().target, options));
  planned_[static_cast<int>(pass)][slot(alignment)] = std::move(planned);
  return {};
}

Status Plan::prepare() {
  const std::lock_guard lock(prepare_mutex_);
  if (is_prepared()) return {};
  std::vector<Planned*> missing;
  for (auto& of_pass : planned_) {
    for (auto& planned : of_pass) {
      // Kernels of an earlier attempt are kept; only the missing ones are prepared.
      if (planned != nullptr && planned->kernel == nullptr) missing.push_back(planned.get());
    }
  }
  std::vector<Status> statuses(missing.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < missing.size(); i = next++) {
      statuses[i] = prepare_one(missing[i]);
    }
  };
  {
    std::vector<std::jthread> helpers;
    const size_t cores = std::max(1u, std::thread::hardware_concurrency());
    const size_t num_helpers = std::min(missing.size(), cores);
    for (size_t i = 1; i < num_helpers; ++i) {
      try {
        helpers.emplace_back(work);
      } catch (const std::system_error&) {
        break;  // no more threads available: this one does the rest
      }
    }
    work();
  }
  for (Status& status : statuses) LSSAR_RETURN_IF_ERROR(std::move(status));
  is_prepared_.store(true, std::memory_order_release);
  return {};
}

// Also runs on helper threads, so it must not throw.
Status Plan::prepare_one(Planned* planned) const {
  try {
    LSSAR_ASSIGN_OR_RETURN(planned->kernel,
                           engine_->prepare(planned->problem, planned->choice.schedule));
    if (log_enabled(LogLevel::kInfo)) {
      log(LogLevel::kInfo,
          "prepare: " + prepare_line(*planned->kernel, *engine_, planned->choice.reason));
    }
    return {};
  } catch (const std::bad_alloc&) {
    return out_of_memory("host memory while a plan was prepared");
  } catch (const std::exception& error) {
    return internal_error(error.what());
  }
}

Result<size_t> Plan::workspace_bytes(const Sizes& sizes) const {
  LSSAR_RETURN_IF_ERROR(check_sizes(problem_, sizes));
  size_t most = 0;
  for (const auto& of_pass : planned_) {
    for (const auto& planned : of_pass) {
      if (planned == nullptr) continue;
      LSSAR_ASSIGN_OR_RETURN(const WorkspaceLayout layout,
                             workspace_layout(planned->problem, planned->choice.schedule, sizes));
      most = std::max(most, layout.total_bytes);
    }
  }
  return most;
}

Result<SavedBytes> Plan::saved(const Sizes& sizes) const {
  LSSAR_RETURN_IF_ERROR(check_sizes(problem_, sizes));
  const std::vector<Planned*> passes = training_passes();
  const Schedule schedule = passes.empty() ? Schedule{} : passes[0]->choice.schedule;
  return saved_bytes(problem_, schedule, sizes);
}

Result<const Plan::Planned*> Plan::planned_for(Pass pass, bool varlen, const Sizes& sizes,
                                               const TensorShapes& shapes,
                                               const Tensors& tensors) const {
  const Planned* fast = find(pass, kFast);
  const Planned* plain = find(pass, kPlain);
  if (fast == nullptr && plain == nullptr) {
    return Status(StatusCode::kNotPrepared,
                  fmt::format("passes: this plan was not made for {}", pass_name(pass)));
  }
  if (!is_prepared())
    return Status(StatusCode::kNotPrepared, "the plan is not prepared: call prepare first");
  if (varlen != problem_.varlen) {
    return invalid_argument(
        problem_.varlen
            ? "cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k = NULL: a plan with varlen "
              "needs at least one of them"
            : "cu_seqlens_q, cu_seqlens_k, seqused_q or seqused_k: must be NULL, because the plan "
              "was made without varlen");
  }
  if (fast == nullptr) return plain;
  if (plain == nullptr) return fast;
  LSSAR_RETURN_IF_ERROR(check_sizes(fast->problem, sizes));
  return common_alignment(fast->problem, shapes, tensors) < kFastAlignment ? plain : fast;
}

Result<size_t> Plan::sequences_workspace_bytes(const Sizes& sizes, int64_t total_q,
                                               int64_t total_k) const {
  LSSAR_RETURN_IF_ERROR(check_sizes(problem_, sizes));
  LSSAR_RETURN_IF_ERROR(check_total("q", total_q));
  LSSAR_RETURN_IF_ERROR(check_total("k", total_k));
  size_t most = 0;
  for (const auto& of_pass : planned_) {
    for (const auto& planned : of_pass) {
      if (planned == nullptr) continue;
      LSSAR_ASSIGN_OR_RETURN(const size_t bytes, lssar::sequences_workspace_bytes(
                                                     planned->problem, planned->choice.schedule,
                                                     sizes, total_q, total_k));
      most = std::max(most, bytes);
    }
  }
  return most;
}

Result<SavedBytes> Plan::sequences_saved(const Sizes& sizes, int64_t total_q) const {
  LSSAR_RETURN_IF_ERROR(check_sizes(problem_, sizes));
  LSSAR_RETURN_IF_ERROR(check_total("q", total_q));
  const std::vector<Planned*> passes = training_passes();
  const Schedule schedule = passes.empty() ? Schedule{} : passes[0]->choice.schedule;
  return sequences_saved_bytes(problem_, schedule, sizes, total_q);
}

Status Plan::execute_sequences(Pass pass, const Sizes& sizes, const Sequences& sequences,
                               const Tensors& tensors, const Workspace& workspace,
                               Stream stream) const {
  LSSAR_ASSIGN_OR_RETURN(const Planned* const chosen,
                         planned_for(pass, true, sizes, shapes_of(sizes, sequences), tensors));
  if (log_enabled(LogLevel::kTrace)) {
    log(LogLevel::kTrace,
        fmt::format("execute: {}, {} sequences of at most {} queries and {} keys",
                    chosen->kernel->source.name, sizes.batch, sizes.seq_q, sizes.seq_k));
  }
  return engine_->execute_sequences(*chosen->kernel, sizes, sequences, tensors, workspace, stream);
}

Status Plan::execute(Pass pass, const Sizes& sizes, const Tensors& tensors,
                     const Workspace& workspace, Stream stream) const {
  LSSAR_ASSIGN_OR_RETURN(const Planned* const chosen,
                         planned_for(pass, false, sizes, shapes_of(sizes), tensors));
  if (log_enabled(LogLevel::kTrace)) log_execute(*chosen->kernel, *engine_, sizes);
  if (capture_ != nullptr) {
    const Planned* const forward = pass == Pass::kBackward
                                       ? find(Pass::kForwardTrain, slot(chosen->problem.alignment))
                                       : nullptr;
    const CallKernels kernels = {*chosen->kernel, forward ? forward->kernel.get() : nullptr};
    return capture_->execute(*engine_, kernels, sizes, tensors, workspace, stream);
  }
  return engine_->execute(*chosen->kernel, sizes, tensors, workspace, stream);
}

const ScheduleChoice* Plan::choice(Pass pass, bool is_fast) const {
  const Planned* planned = find(pass, is_fast ? kFast : kPlain);
  return planned == nullptr ? nullptr : &planned->choice;
}

std::shared_ptr<const PreparedKernel> Plan::kernel(Pass pass, bool is_fast) const {
  const Planned* planned = find(pass, is_fast ? kFast : kPlain);
  if (planned == nullptr || !is_prepared()) return nullptr;
  return planned->kernel;
}

}  // namespace lssar
