// A rule that a schedule of Variant::kHopper can break: for the tests of all of them.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "codegen/schedule.h"

namespace lssar {

Target hopper();
Problem make_problem(Pass pass, DType dtype = DType::kBf16, int dim = 64);

struct Rule {
  const char* name;
  Pass pass;
  void (*break_it)(Problem&, Schedule&, Target&);
  std::vector<const char*> message;  // field and value, reason
  DqMode mode = DqMode::kSplit;
};

void PrintTo(const Rule& rule, std::ostream* out);
std::string rule_name(const testing::TestParamInfo<Rule>& param_info);

// The default schedule is legal; broken, it is refused with each part of the message, by validate
// and by emission.
void check_rule(const Rule& rule);

}  // namespace lssar
