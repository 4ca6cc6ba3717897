// Bugs with wgmma and setmaxnreg: each is reported in at least one of ten seeds, with the
// instructions that are at fault. An empty expectation: no bug, no report.
#include <gtest/gtest.h>

#include "tests/virtual/strict/adversary.h"

namespace lssar::test {
namespace {

const Adversary kBugs[] = {
    {"MissingWait", "product", {take_away("wait")}, {"wgmma.mma_async"}},
    {"WaitTooLax", "product", {change("wait", "0", "1")}, {"wgmma.mma_async"}},
    {"MissingCommit", "product", {take_away("commit")}, {"wgmma.mma_async"}},
    {"MissingRegisterFence", "product", {take_away("fence_registers")}, {"wgmma.fence"}},
    {"MissingProxyFence", "product", {take_away("fence")}, {"@write_unit", "wgmma.mma_async"}},
    {"FenceAfterTheBarrier", "product", {take_away("fence"), put_in("fence_late")}, {}},
    {"MissingBarrier", "product", {take_away("barrier")}, {"@write_unit", "wgmma.mma_async"}},
    {"AccumulatorWrittenInFlight", "product", {put_in("touch")}, {"@touch", "wgmma.mma_async"}},
    {"AccumulatorReadInFlight", "product", {put_in("peek")}, {"@peek", "wgmma.mma_async"}},
    {"OperandOverwritten", "product", {put_in("clobber")}, {"@clobber", "wgmma.mma_async"}},
    {"MissingLoadWait",
     "product",
     {take_away("wait_load"), take_away("wait_load_again")},
     {"@load", "wgmma.mma_async"}},
    {"StageOverwrittenByCopy",
     "product_phases",
     {take_away("wait"), put_in("late")},
     {"@second_load", "wgmma.mma_async"}},
    {"FirstOfTwoNotWaitedFor",
     "products_in_flight",
     {change("wait", "1", "2")},
     {"wgmma.mma_async"}},
    {"SecondOfTwoNotWaitedFor",
     "products_in_flight",
     {change("second_wait", "0", "1")},
     {"wgmma.mma_async"}},
    {"OneGroupInsteadOfTwo", "products_in_flight", {take_away("commit")}, {"wgmma.mma_async"}},
    {"ARegisterWrittenInFlight",
     "product_of_registers",
     {put_in("touch")},
     {"@touch", "wgmma.mma_async"}},
    {"ARegisterReadInFlight",
     "product_of_registers",
     {put_in("peek")},
     {"@peek", "wgmma.mma_async"}},
    {"ARegistersWithoutFence",
     "product_of_registers",
     {take_away("fence_registers")},
     {"wgmma.fence"}},
    {"StoredRowsWithoutFence",
     "product_of_stored",
     {take_away("fence_rows")},
     {"@write", "wgmma.mma_async"}},
    {"StoredRowsWithoutWarpBarrier",
     "product_of_stored",
     {take_away("barrier_rows")},
     {"@write", "wgmma.mma_async"}},
    {"RegistersBelowTheRange", "registers", {change("fewer", "24", "16")}, {"@fewer"}},
    {"RegistersAboveTheRange", "registers", {change("more", "240", "264")}, {"@more"}},
    {"RegistersNotAMultipleOfEight", "registers", {change("more", "240", "236")}, {"@more"}},
    {"RegistersThatNobodyGaveUp", "registers", {take_away("fewer")}, {"deadlock", "@more"}},
    {"RegistersOfAPartOfAWarpGroup",
     "registers",
     {change("more", "setmaxnreg", "@some setmaxnreg")},
     {"@more"}},
};

class WgmmaAdversary : public testing::TestWithParam<Adversary> {};

TEST_P(WgmmaAdversary, IsReported) { check_adversary(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, WgmmaAdversary, testing::ValuesIn(kBugs),
                         [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace lssar::test
