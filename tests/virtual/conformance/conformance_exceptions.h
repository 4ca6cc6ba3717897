// What conformance_main.cpp needs to be told.
#pragma once

namespace lssar::test {

// Suites of tests that compare results with values found without the device, and StrictPatterns,
// whose reports are all that shows of a fence.
inline constexpr const char* kSuites[] = {
    "ApproxModeTest",
    "ApproxTest",
    "AssertTest",
    "BarrierTest",
    "BlocksTest",
    "BoxCopyTest",
    "BulkCopyTest",
    "BulkReduceTest",
    "ByteMmaTest",
    "CachePolicyTest",
    "CallTest",
    "ConformanceAccessTest",
    "ConformanceApproxTest",
    "ConformanceAtomicTest",
    "ConformanceAtomicVectorTest",
    "ConformanceBarrierTest",
    "ConformanceBulkReduceTest",
    "ConformanceClusterTest",
    "ConformanceCompareTest",
    "ConformanceConvertTest",
    "ConformanceFloatTest",
    "ConformanceHintTest",
    "ConformanceIntegerTest",
    "ConformanceMatchTest",
    "ConformanceMbarrierTest",
    "ConformanceMmaTest",
    "ConformanceMoveTest",
    "ConformanceNarrowConvertTest",
    "ConformanceTrapTest",
    "ConformanceVoteTest",
    "ConformanceWarpBarrierTest",
    "ConformanceWideConvertTest",
    "ControlTest",
    "ConvertRoundingTest",
    "ConvertTest",
    "CopyArrivalTest",
    "CounterTest",
    "ElectTest",
    "FloatCompareTest",
    "FloatTest",
    "FloatZeroTest",
    "GemmTest",
    "GenericAddressTest",
    "HalfPairTest",
    "HalfSignTest",
    "HalfTest",
    "IntegerCompareTest",
    "IntegerTest",
    "LdmatrixTest",
    "MatchTest",
    "MemoryAtomicTest",
    "MemoryTest",
    "MmaTest",
    "MovmatrixTest",
    "PrintfTest",
    "ReduxTest",
    "RemoteStoreTest",
    "SetTest",
    "SetpTest",
    "ShuffleTest",
    "StmatrixTest",
    "StrictPatterns",
    "VoteTest",
    "WgmmaProduct",
    "WgmmaTest",
};

// Rows, by the beginning of their name, that no value depends on. A test of kSuites runs them.
struct Exception {
  const char* begin;
  const char* reason;
};
inline constexpr Exception kExceptions[] = {
    {"prefetch", "nothing here has a cache"},
    {"cp.async.bulk.prefetch.", "nothing here has a cache"},
    {"createpolicy.", "nothing here has a cache that would follow the policy"},
    {"fence.proxy.alias", "no two addresses name one place"},
    {"fence.proxy.tensormap",
     "maps are read when a copy is issued; adversary_test wants the report"},
    {"setmaxnreg.inc", "the count of registers is checked, see adversary_test, and holds no value"},
    {"nanosleep.", "the schedule is free"},
    {"griddepcontrol.", "one launch runs at a time"},
};

}  // namespace lssar::test
