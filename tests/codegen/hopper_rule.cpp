#include "tests/codegen/hopper_rule.h"

#include "codegen/emit.h"

namespace lssar {

Target hopper() { return target_from_name("sm_90a").value(); }

Problem make_problem(Pass pass, DType dtype, int dim) {
  Problem problem;
  problem.causal = true;
  problem.pass = pass;
  problem.dtype = dtype;
  problem.head_dim = problem.head_dim_v = dim;
  return problem;
}

void PrintTo(const Rule& rule, std::ostream* out) { *out << rule.name; }

std::string rule_name(const testing::TestParamInfo<Rule>& param_info) {
  return param_info.param.name;
}

void check_rule(const Rule& rule) {
  Problem problem = make_problem(rule.pass);
  Target target = hopper();
  Schedule schedule = default_schedule(problem, target, rule.mode);
  ASSERT_EQ(schedule.variant, Variant::kHopper);
  ASSERT_TRUE(validate(schedule, problem, target).ok());
  rule.break_it(problem, schedule, target);
  const Status status = validate(schedule, problem, target);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  for (const char* part : rule.message)
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  // Emission refuses it just so.
  const auto kernel = emit_kernel(problem, schedule, target);
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.status().message(), status.message());
}

}  // namespace lssar
