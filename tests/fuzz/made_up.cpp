#include "tests/fuzz/made_up.h"

#include <iterator>

#include "runtime/engine.h"
#include "runtime/image_metadata.h"
#include "tests/capi/fakes.h"
#include "tests/fuzz/complain.h"

namespace lssar::test {
namespace {

PreparedPlan prepare(const char* target, DType dtype, int dim, int64_t length, bool any_alignment) {
  PreparedPlan made;
  made.device = std::make_shared<RecordDevice>(*target_from_name(target));
  EngineOptions engine_options;
  engine_options.cache.directory = "none";
  std::shared_ptr<Engine> engine =
      Engine::create(engine_options, made.device, std::make_shared<FakeCompiler>());
  Problem problem;
  problem.causal = true;
  problem.dtype = dtype;
  problem.head_dim = problem.head_dim_v = dim;
  problem.seq_q = problem.seq_k = length;
  PlanOptions options;
  options.passes.assign(std::begin(kAllPasses), std::end(kAllPasses));
  options.any_alignment = any_alignment;
  Result<std::unique_ptr<Plan>> plan = Plan::create(std::move(engine), problem, options);
  if (!plan.ok()) complain("a plan for calls", plan.status());
  made.plan = std::move(*plan);
  if (const Status status = made.plan->prepare(); !status.ok()) complain("prepare", status);
  return made;
}

}  // namespace

const PreparedPlan& prepared_plan(uint8_t which) {
  static const PreparedPlan plans[] = {
      prepare("sm_80", DType::kBf16, kPreparedDims[0], 0, true),
      prepare("sm_90a", DType::kBf16, kPreparedDims[1], 0, true),
      prepare("sm_90a", DType::kFp16, kPreparedDims[2], 256, false),
      prepare("sm_80", DType::kFp32, kPreparedDims[3], 0, true)};
  static_assert(std::size(plans) == std::size(kPreparedDims));
  return plans[which % std::size(plans)];
}

std::string sample_metadata() {
  const Problem problem;
  const Target target = *target_from_name("sm_80");
  const Schedule schedule = default_schedule(problem, target);
  const KernelSource source = *emit_kernel(problem, schedule, target);
  const FakeCompiler compiler;
  CompileRequest request;
  request.kind = ImageKind::kCubin;
  request.target = target;
  request.name = source.name;
  return encode_image_metadata({problem, schedule, source, compiler, request},
                               *compiler.compile(request));
}

}  // namespace lssar::test
