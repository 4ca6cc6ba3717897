// A problem, its sizes and a GPU, for tests of the cost model.
#pragma once

#include <cstdint>
#include <string>

#include "autotune/model/cost_model.h"
#include "autotune/model/kernel_work.h"
#include "autotune/model/problem_figures.h"

namespace lssar {

struct CostCase {
  Problem problem;
  Sizes sizes;
  Target target;
  GpuModel gpu;

  Schedule standard() const { return default_schedule(problem, target); }
  CostEstimate cost(const Schedule& schedule) const {
    return estimate_cost(problem, sizes, schedule, target, gpu);
  }
  CostEstimate cost() const { return cost(standard()); }
  PassWork work(const Schedule& schedule) const {
    ProblemFigures figures(problem, sizes);
    return work_of(problem, sizes, schedule, target, gpu, figures);
  }
};

inline CostCase make_cost_case(Pass pass, int dim, int64_t length,
                               const std::string& target = "sm_90a", bool causal = true) {
  CostCase c;
  c.problem.pass = pass;
  c.problem.head_dim = c.problem.head_dim_v = dim;
  c.problem.causal = causal;
  c.sizes = {4, 16, 16, length, length};
  c.target = *target_from_name(target);
  c.gpu = *gpu_model(target);
  return c;
}

inline double cost_term(const CostEstimate& estimate, Resource resource) {
  return estimate.terms_ms[static_cast<size_t>(resource)];
}

}  // namespace lssar
