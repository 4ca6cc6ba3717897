// The kernels that the adversary tests make bugs of give no report as they are: a false alarm is as
// bad as a miss.
#include <gtest/gtest.h>

#include "tests/virtual/strict/adversary.h"

namespace lssar::test {
namespace {

class CorrectKernel : public testing::TestWithParam<AdversaryKernel> {};

TEST_P(CorrectKernel, GivesNoReportInTenSeeds) { check_correct(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, CorrectKernel, testing::ValuesIn(adversary_kernels()),
                         [](const auto& p) { return std::string(p.param.entry); });

}  // namespace
}  // namespace lssar::test
