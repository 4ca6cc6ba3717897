// Kernels over CuTe and CUTLASS, which were not written for this device, run on it. Their results
// are exact, and the strict mode reports only their own bugs, with every schedule.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/witness/witness_program.h"

namespace lssar::test {
namespace {

constexpr uint64_t kSeeds = 6;  // each moment of asynchronous operations twice

// Bugs of the kernels: every line of a case's reports has one of these texts.
struct KnownBugs {
  const char* name;  // of the case
  std::vector<std::string> texts;
};
const KnownBugs kKnownBugs[] = {
    // Lanes wait for their own cp.async. Then wgmma reads what all of them copied, with neither a
    // barrier nor a proxy fence in between.
    {"wgmma_sm90 nt", {"cp.async", "an operation in flight is to write"}},
    // Only the cluster's barrier follows the initialisation of its barriers. Nothing waits for the
    // last copies, beyond k.
    {"wgmma_tma_sm90 tn",
     {"was not followed by fence.mbarrier_init or fence.proxy.async",
      "the block ends, but its shared address"}},
    // Lanes read A and return the stage to TMA without a proxy fence, and TMA overwrites it. By the
    // letter of the PTX ISA this is an error.
    {"pingpong tf32 NT", {"missing fence.proxy.async"}},
};

const KnownBugs* known_bugs(const witness::Case& one) {
  for (const KnownBugs& bugs : kKnownBugs) {
    if (std::string(one.name) == bugs.name) return &bugs;
  }
  return nullptr;
}

std::string text_of(const witness::Case& one, uint64_t seed, const WitnessOutcome& outcome) {
  return std::string(one.name) + ", seed " + std::to_string(seed) + "\n" + outcome.difference +
         "\n" + outcome.report;
}

void check_clean(const witness::Case& one, const WitnessRun& run) {
  const WitnessOutcome outcome = run_witness(one, run);
  EXPECT_TRUE(outcome.is_clean()) << text_of(one, run.seed, outcome);
  EXPECT_EQ(outcome.launched.size(), 1u) << one.name;
}

// Reports stop a launch, so its numbers are checked in a run without reports.
void check_reported(const witness::Case& one, uint64_t seed, const KnownBugs& bugs) {
  check_clean(one, {seed, false});
  const WitnessOutcome outcome = run_witness(one, {seed});
  EXPECT_NE(outcome.report, "") << one.name << ", seed " << seed;
  std::istringstream lines(outcome.report);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(
        std::any_of(bugs.texts.begin(), bugs.texts.end(),
                    [&](const std::string& text) { return line.find(text) != std::string::npos; }))
        << one.name << ", seed " << seed << ": " << line;
  }
}

class WitnessTest : public testing::TestWithParam<const char*> {};

TEST_P(WitnessTest, EveryCaseIsExactAndOnlyItsBugsAreReported) {
  const auto cases = open_witness_program(GetParam());
  ASSERT_TRUE(cases.ok()) << cases.status().to_string();
  ASSERT_FALSE(cases->empty());
  for (const witness::Case& one : *cases) {
    const KnownBugs* const bugs = known_bugs(one);
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      if (bugs != nullptr) {
        check_reported(one, seed, *bugs);
      } else {
        check_clean(one, {seed});
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, WitnessTest,
                         testing::Values("atoms", "gemms", "multistage", "pipelines", "tutorials"),
                         [](const auto& p) { return std::string(p.param); });

}  // namespace
}  // namespace lssar::test
