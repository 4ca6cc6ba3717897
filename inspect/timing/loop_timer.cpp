#include "inspect/timing/loop_timer.h"

#include <utility>

#include "device/record_device.h"
#include "inspect/disassembler.h"
#include "inspect/kernel_facts.h"
#include "inspect/timing/kernel_timing.h"

namespace lssar {
namespace {

// Nothing is compiled for a machine that cannot read the result.
Status check_tools(Engine& engine) {
  LSSAR_RETURN_IF_ERROR(find_disassembler().status());
  LSSAR_ASSIGN_OR_RETURN(const std::shared_ptr<const Compiler> compiler, engine.compiler());
  if (compiler->can_make(ImageKind::kCubin)) return {};
  return unsupported(compiler->name() + " makes no machine code to read");
}

}  // namespace

LoopTimer::LoopTimer(EngineOptions options) : options_(std::move(options)) {
  options_.uses_overrides = false;  // as the tuner's
}

Result<Engine*> LoopTimer::engine(const Target& target) {
  const std::lock_guard lock(mutex_);
  if (!state_) {
    engine_ = Engine::create(options_, std::make_shared<RecordDevice>(target), nullptr);
    state_ = check_tools(*engine_);
  }
  LSSAR_RETURN_IF_ERROR(*state_);
  return engine_.get();
}

Result<std::vector<double>> LoopTimer::clocks(const Problem& problem, const Target& target,
                                              const CandidateSpec& candidate) {
  LSSAR_ASSIGN_OR_RETURN(Engine* const engine, this->engine(target));
  LSSAR_ASSIGN_OR_RETURN(const KernelFacts facts,
                         candidate.source
                             ? kernel_facts(*engine, problem, candidate.schedule, *candidate.source)
                             : kernel_facts(*engine, problem, candidate.schedule));
  LSSAR_ASSIGN_OR_RETURN(const std::vector<KernelTiming> timing,
                         facts_timing(facts, problem.pass, target));
  return clocks_per_score(timing);
}

}  // namespace lssar
