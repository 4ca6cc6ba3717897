// A problem and its search space: what tests of the space share.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "autotune/space/search_space.h"
#include "codegen/emit.h"

namespace lssar {

struct Case {
  Problem problem;
  Target target;
  Determinism determinism = Determinism::kAny;

  SearchSpace space() const { return search_space(problem, target, determinism); }
};

inline Case make_case(Pass pass, int dim, const std::string& target, DType dtype = DType::kBf16) {
  Case result;
  result.problem.causal = true;
  result.problem.pass = pass;
  result.problem.dtype = dtype;
  result.problem.head_dim = result.problem.head_dim_v = dim;
  result.target = *target_from_name(target);
  return result;
}

inline std::string source_of(const Case& c, const Schedule& schedule) {
  const Result<KernelSource> kernel = emit_kernel(c.problem, schedule, c.target);
  EXPECT_TRUE(kernel.ok()) << kernel.status().message();
  return kernel.ok() ? source_without_header(kernel->source) : "";
}

inline Enumeration blocks_of(const Case& c, const Algorithm& algorithm) {
  Enumeration found;
  enumerate_blocks(c.problem, c.target, algorithm, &found);
  return found;
}

}  // namespace lssar
