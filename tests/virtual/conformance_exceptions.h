// What conformance_main.cpp needs to be told.
#pragma once

namespace lssar::test {

// Suites of tests that compare results with values found without the device.
inline constexpr const char* kSuites[] = {
    "ApproxTest",
    "ApproxModeTest",
    "BulkCopyTest",
    "BulkReduceTest",
    "BulkOperandsTest",
    "PrintfTest",
    "AssertTest",
    "CallTest",
    "SetTest",
    "SetpTest",
    "ControlTest",
    "BarrierTest",
    "BlocksTest",
    "ConvertRoundingTest",
    "FloatZeroTest",
    "HalfSignTest",
    "MmaTest",
    "ByteMmaTest",
    "MovmatrixTest",
    "MemoryAtomicTest",
    "GenericAddressTest",
    "BoxCopyTest",
    "ShuffleTest",
    "VoteTest",
    "ReduxTest",
    "MatchTest",
    "ElectTest",
    "WgmmaTest",
    "FloatCompareTest",
    "IntegerCompareTest",
    "ConvertTest",
    "CopyArrivalTest",
    "FloatTest",
    "GemmTest",
    "HalfTest",
    "HalfPairTest",
    "IntegerTest",
    "LdmatrixTest",
    "StmatrixTest",
    "MemoryTest",
    "RemoteStoreTest",
    "CachePolicyTest",
    "CounterTest",
    "WgmmaProduct",
    "ConformanceFloatTest",
    "ConformanceMmaTest",
    "ConformanceVoteTest",
    "ConformanceMatchTest",
    "ConformanceWarpBarrierTest",
    "ConformanceBarrierTest",
    "ConformanceMbarrierTest",
    "ConformanceClusterTest",
    "ConformanceBulkReduceTest",
    "ConformanceTrapTest",
    "ConformanceApproxTest",
    "ConformanceIntegerTest",
    "ConformanceMoveTest",
    "ConformanceAccessTest",
    "ConformanceAtomicTest",
    "ConformanceAtomicVectorTest",
    "ConformanceConvertTest",
    "ConformanceWideConvertTest",
    "ConformanceNarrowConvertTest",
    "ConformanceCompareTest",
};

// Rows, by the form of their name, whose instructions no result can depend on.
struct Exception {
  const char* rows;
  const char* reason;
};
inline constexpr Exception kExceptions[] = {
    {"nanosleep.u32", "the schedule is free"},
};

}  // namespace lssar::test
