// Correct kernels in the manner of Hopper's give right numbers and no report in the strict mode.
#include <gtest/gtest.h>

#include "codegen/target.h"
#include "tests/virtual/strict/data_ptx.h"
#include "tests/virtual/strict/ptx_edit.h"
#include "tests/virtual/strict/replica.h"
#include "virtual/run/virtual_device.h"

namespace lssar::test {
namespace {

class ReplicaTest : public testing::TestWithParam<Replica> {
 protected:
  void check(bool strict, uint64_t seed, int threads) {
    VirtualOptions options;
    options.target = *target_from_name("sm_90a");
    options.strict = strict;
    options.schedule_seed = seed;
    options.num_threads = threads;
    const auto device = make_virtual_device(options);
    const std::string text = extract_entry(data_ptx(GetParam().file), GetParam().entry);
    const Result<std::string> difference = run_replica(GetParam(), *device, text);
    ASSERT_TRUE(difference.ok()) << "seed " << seed << ": " << difference.status().to_string();
    ASSERT_EQ(*difference, "") << "seed " << seed;
  }
};

TEST_P(ReplicaTest, IsRightWithoutChecks) { check(false, 0, 2); }

TEST_P(ReplicaTest, GivesNoReportInTenSeeds) {
  for (uint64_t seed = 0; seed < 10; ++seed) check(true, seed, 1 + seed % 2);
}

INSTANTIATE_TEST_SUITE_P(All, ReplicaTest, testing::ValuesIn(replicas()),
                         [](const auto& p) { return std::string(p.param.entry); });

}  // namespace
}  // namespace lssar::test
