// How much the strict mode finds in kernels that it was not written for: if one of their
// synchronisations is taken away, a report or wrong numbers show it, on one of a few schedules.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <ostream>

#include "tests/virtual/strict/mutate.h"
#include "tests/virtual/strict/ptx_edit.h"
#include "tests/witness/cuda_stand_in.h"
#include "tests/witness/witness_program.h"
#include "tests/witness/witness_survivors.h"

namespace lssar::test {
namespace {

constexpr uint64_t kSeeds = 3;  // one for each moment of asynchronous operations

struct Subject {
  const char* program;
  const char* name;  // of the case
  // How many of a hundred mutants of executed lines must be found.
  size_t required_percent;
};
inline void PrintTo(const Subject& subject, std::ostream* out) { *out << subject.name; }

class WitnessMutationTest : public testing::TestWithParam<Subject> {};

bool is_found_out(const witness::Case& one) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    if (!run_witness(one, {seed}).is_clean()) return true;
  }
  return false;
}

// The kernel that the case launches, as a module of its own.
struct Kernel {
  std::string entry, text;
};
Kernel kernel_of(const witness::Case& one) {
  const WitnessOutcome outcome = run_witness(one, {});
  EXPECT_TRUE(outcome.is_clean()) << outcome.difference << "\n" << outcome.report;
  if (!outcome.is_clean() || outcome.launched.size() != 1) return {};
  const std::string& entry = outcome.launched.front();
  return {entry, extract_entry(CudaStandIn::instance().module_of(entry), entry)};
}

// A wait that is taken for true is taken away, too.
bool is_removal(const Mutant& mutant) {
  return mutant.name.ends_with(": taken away") || mutant.name.ends_with(": taken for true");
}

// The text with a trap in place of the mutant's line: nothing finds out one that no warp executes.
std::string with_trap(const std::string& text, int line) {
  size_t begin = 0;
  for (int i = 1; i < line; ++i) begin = text.find('\n', begin) + 1;
  const size_t end = text.find('\n', begin);
  const size_t first = text.find_first_not_of(" \t", begin);
  const size_t guard_end = text[first] == '@' ? text.find_first_of(" \t", first) : begin;
  return text.substr(0, guard_end) + " trap;" + text.substr(end);
}

bool is_reached(const witness::Case& one, const Kernel& kernel, const Mutant& mutant) {
  CudaStandIn::instance().replace(kernel.entry, with_trap(kernel.text, mutant.line));
  return !run_witness(one, {}).is_clean();
}

std::string reason_of(const std::string& subject, const std::string& mutant) {
  for (const WitnessSurvivor& survivor : kWitnessSurvivors) {
    if (subject == survivor.subject && mutant == survivor.mutant) return survivor.reason;
  }
  return {};
}

TEST_P(WitnessMutationTest, RemovedSynchronisationIsFoundOut) {
  const std::string name = GetParam().name;
  const auto cases = open_witness_program(GetParam().program);
  ASSERT_TRUE(cases.ok()) << cases.status().to_string();
  const auto one = std::find_if(cases->begin(), cases->end(),
                                [&](const witness::Case& c) { return c.name == name; });
  ASSERT_NE(one, cases->end());
  const Kernel kernel = kernel_of(*one);
  ASSERT_FALSE(kernel.text.empty());
  size_t num_mutants = 0, num_reached = 0, num_found = 0;
  for (const Mutant& mutant : make_mutants(kernel.text)) {
    if (!is_removal(mutant)) continue;
    ++num_mutants;
    if (!is_reached(*one, kernel, mutant)) continue;
    ++num_reached;
    CudaStandIn::instance().replace(kernel.entry, mutant.text);
    if (is_found_out(*one)) {
      ++num_found;
      continue;
    }
    // Without the entry's name: it is as long as a page.
    const std::string what = mutant.name.substr(kernel.entry.size() + 2);
    EXPECT_NE(reason_of(name, what), "") << name << ": not found out: " << what;
  }
  CudaStandIn::instance().replace(kernel.entry, "");
  std::printf("%s: %zu mutants, %zu executed, %zu found out\n", name.c_str(), num_mutants,
              num_reached, num_found);
  EXPECT_GT(num_reached, 10u);
  EXPECT_GE(100 * num_found, GetParam().required_percent * num_reached);
}

INSTANTIATE_TEST_SUITE_P(All, WitnessMutationTest,
                         testing::Values(Subject{"gemms", "cooperative fp16 MN-major, cluster 1x2",
                                                 75},
                                         Subject{"multistage", "multistage fp16", 75},
                                         Subject{"gemms", "pingpong bf16, cluster 2x1", 70}),
                         [](const auto& p) {
                           const std::string name = p.param.name;
                           return name.substr(0, name.find(' '));
                         });

}  // namespace
}  // namespace lssar::test
