// Candidates in this process, on a virtual device: good ones pass, planted wrong ones get their
// verdict, with the reason.
#include <limits>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "autotune/measure/candidate_check.h"
#include "autotune/measure/candidate_host.h"
#include "tests/autotune/candidate_fixture.h"
#include "tests/cache/temporary_folder.h"

namespace lssar::test {
namespace {

std::unique_ptr<CandidateRunner> open_host(const RunnerTask& task) {
  Result<std::unique_ptr<CandidateRunner>> host = open_candidate_host(task);
  EXPECT_TRUE(host.ok()) << host.status().to_string();
  return host.ok() ? std::move(*host) : nullptr;
}

CheckReport check(CandidateRunner& host, const CandidateSpec& candidate,
                  CheckDepth depth = CheckDepth::kQuick) {
  const Result<CheckReport> report = host.check(candidate, depth);
  EXPECT_TRUE(report.ok()) << report.status().to_string();
  return report.ok() ? *report : CheckReport{};
}

void expect_verdict(const CandidateSpec& candidate, Verdict verdict, const std::string& part,
                    CheckDepth depth = CheckDepth::kQuick) {
  const std::unique_ptr<CandidateRunner> host = open_host(small_task());
  ASSERT_NE(host, nullptr);
  const CheckReport report = check(*host, candidate, depth);
  EXPECT_EQ(report.verdict, verdict) << report.reason;
  expect_reason(report.reason, part);
}

void expect_good(const RunnerTask& task, const CandidateSpec& candidate, CheckDepth depth) {
  const std::unique_ptr<CandidateRunner> host = open_host(task);
  ASSERT_NE(host, nullptr);
  const CheckReport report = check(*host, candidate, depth);
  EXPECT_EQ(report.verdict, Verdict::kOk) << report.reason;
  EXPECT_GT(report.error, 0);
  EXPECT_GT(report.baseline_error, 0);
}

// Only NVRTC's assembler reports registers, spills and warnings.
bool has_assembler() { return open_compiler(CompilerChoice::kNvrtc).ok(); }

// --- Compile ---

TEST(CandidateCompile, TellsRegistersSpillsAndSharedMemory) {
  if (!has_assembler()) GTEST_SKIP() << "NVRTC is not installed";
  const RunnerTask task = small_task();
  const auto host = open_host(task);
  ASSERT_NE(host, nullptr);
  const Result<CompileReport> report = host->compile(good_candidate(task));
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->verdict, Verdict::kOk) << report->reason;
  EXPECT_GT(report->registers, 32);
  EXPECT_EQ(report->spill_bytes, 0);
  EXPECT_GT(report->shared_bytes, 8 << 10);
}

TEST(CandidateCompile, FindsWhatItMadeBeforeInTheCache) {
  if (!has_assembler()) GTEST_SKIP() << "NVRTC is not installed";
  const RunnerTask task = small_task();
  const auto host = open_host(task);
  ASSERT_NE(host, nullptr);
  ASSERT_TRUE(host->compile(good_candidate(task)).ok());
  const Result<CompileReport> again = host->compile(good_candidate(task));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->ms, 0);
  EXPECT_GT(again->registers, 32);
}

TEST(CandidateCompile, ASpillIsAVerdict) {
  if (!has_assembler()) GTEST_SKIP() << "NVRTC is not installed";
  const RunnerTask task = small_task();
  CandidateSpec candidate = good_candidate(task);
  candidate.schedule.forward.min_blocks = 8;
  const auto host = open_host(task);
  ASSERT_NE(host, nullptr);
  const Result<CompileReport> report = host->compile(candidate);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->verdict, Verdict::kSpills);
  EXPECT_GT(report->spill_bytes, 0);
  expect_reason(report->reason, "bytes of spill stores");
}

// A GPU times it, and few spills may be worth their tiles.
TEST(CandidateCompile, AGpuRulesOutManySpillsOnly) {
  if (!has_assembler()) GTEST_SKIP() << "NVRTC is not installed";
  RunnerTask task = small_task(Pass::kForwardTrain, "sm_90a");
  task.problem.causal = true;
  task.problem.head_dim = task.problem.head_dim_v = 128;
  DeviceFacts gpu;
  gpu.info.kind = "cuda";
  gpu.info.target = target_of(task);
  gpu.image = ImageKind::kCubin;
  const auto host = CandidateHost::open_for(task, gpu);
  ASSERT_TRUE(host.ok()) << host.status().to_string();
  for (const auto& [cols, verdict] :
       {std::pair{64, Verdict::kOk}, std::pair{128, Verdict::kSpills}}) {
    CandidateSpec candidate = good_candidate(task, Variant::kHopper);
    candidate.schedule.forward.block_cols = cols;
    candidate.schedule.forward.stages = 2;
    const Result<CompileReport> report = (*host)->compile(candidate);
    ASSERT_TRUE(report.ok()) << report.status().to_string();
    EXPECT_EQ(report->verdict, verdict) << cols << ": " << report->reason;
    EXPECT_GT(report->spill_bytes, 0) << cols;
  }
}

TEST(CandidateCompile, AnAssemblerWarningIsAVerdict) {
  if (!has_assembler()) GTEST_SKIP() << "NVRTC is not installed";
  const RunnerTask task = small_task(Pass::kForward, "sm_90a");
  // A call while matrix products are in flight.
  const CandidateSpec candidate =
      edited(task, good_candidate(task, Variant::kHopper),
             {{"LSSAR_DEVICE void add(const Fragment<kTiles>& s) {",
               "__device__ __noinline__ void add(const Fragment<kTiles>& s) {"}});
  const auto host = open_host(task);
  ASSERT_NE(host, nullptr);
  const Result<CompileReport> report = host->compile(candidate);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->verdict, Verdict::kAssemblerWarning) << report->reason;
  expect_reason(report->reason, "(C75");
}

// A check of fixed lengths also runs the kernel for any length. This candidate is the plain kernel,
// so the check needs no other one.
TEST(CandidateCompile, CompilesAllThatTheCheckRuns) {
  const TemporaryFolder cache;
  RunnerTask task = small_task();
  task.problem.seq_q = task.problem.seq_k = 256;
  task.cache_directory = cache.path();
  const auto host = open_host(task);
  ASSERT_NE(host, nullptr);
  const CandidateSpec candidate = good_candidate(task);
  ASSERT_TRUE(host->compile(candidate).ok());
  const size_t compiled = names_in(cache / "entries").size();
  EXPECT_GT(compiled, 0u);
  EXPECT_EQ(check(*host, candidate).verdict, Verdict::kOk);
  EXPECT_EQ(names_in(cache / "entries").size(), compiled);
}

// Its blocks divide the keys. The open form keeps the number of queries, and walks over several
// chunks.
TEST(GoodCandidate, OfFewQueriesPasses) {
  RunnerTask task = small_task();
  task.problem.seq_q = task.sizes.seq_q = 2;
  task.problem.seq_k = task.sizes.seq_k = 700;
  const CandidateSpec candidate = good_candidate(task);
  ASSERT_NE(candidate.schedule.split_keys, 0);
  expect_good(task, candidate, CheckDepth::kQuick);
}

// So do those of sequences. The check has sequences with more queries than the problem says.
TEST(GoodCandidate, OfFewQueriesOfSequencesPasses) {
  RunnerTask task = small_task();
  task.problem.varlen = true;
  task.problem.seq_q = 2;
  task.lengths = {{1, 2, 2}, {700, 90, 0}};
  task.sizes = sizes_of_call(task.lengths, task.sizes.heads, task.sizes.kv_heads);
  const CandidateSpec candidate = good_candidate(task);
  ASSERT_NE(candidate.schedule.split_keys, 0);
  expect_good(task, candidate, CheckDepth::kQuick);
}

TEST(CandidateCompile, WithoutAnAssemblerRegistersAreNotKnown) {
  const auto llvm = open_compiler(CompilerChoice::kLlvm);
  if (!llvm.ok()) GTEST_SKIP() << llvm.status().message();
  RunnerTask task = small_task();
  task.compiler = CompilerChoice::kLlvm;
  const auto host = open_host(task);
  ASSERT_NE(host, nullptr);
  const Result<CompileReport> report = host->compile(good_candidate(task));
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->verdict, Verdict::kOk) << report->reason;
  EXPECT_EQ(report->registers, -1);
  EXPECT_EQ(report->spill_bytes, -1);
  EXPECT_GT(report->shared_bytes, 8 << 10);
}

TEST(CandidateCompile, ASourceThatDoesNotCompileIsAVerdict) {
  const RunnerTask task = small_task();
  const auto host = open_host(task);
  ASSERT_NE(host, nullptr);
  const Result<CompileReport> report = host->compile(does_not_compile(task));
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->verdict, Verdict::kCompileError);
  expect_reason(report->reason, "nonsense");
}

TEST(CandidateCompile, AScheduleThatIsNotLegalIsAVerdict) {
  const RunnerTask task = small_task();
  CandidateSpec candidate = good_candidate(task);
  candidate.schedule.forward.block_rows = 17;
  const auto host = open_host(task);
  ASSERT_NE(host, nullptr);
  const Result<CompileReport> report = host->compile(candidate);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->verdict, Verdict::kCompileError);
  expect_reason(report->reason, "block_rows");
}

// --- Check: what is right ---

class GoodCandidate : public testing::TestWithParam<Pass> {};

TEST_P(GoodCandidate, PassesTheFullCheck) {
  const RunnerTask task = small_task(GetParam());
  expect_good(task, good_candidate(task), CheckDepth::kFull);
}

TEST_P(GoodCandidate, PassesOnHopper) {
  const RunnerTask task = small_task(GetParam(), "sm_90a");
  expect_good(task, good_candidate(task, Variant::kHopper), CheckDepth::kFull);
}

INSTANTIATE_TEST_SUITE_P(All, GoodCandidate,
                         testing::Values(Pass::kForward, Pass::kForwardTrain, Pass::kBackward),
                         [](const auto& p) {
                           std::string name = pass_name(p.param);
                           std::erase(name, '-');
                           return name;
                         });

// Packed sequences, rotary positions, and bits that are the default's: with the kernels of both
// variants where the problem has both.
class GoodFeature : public testing::TestWithParam<std::tuple<Pass, const char*, const char*>> {
 protected:
  static RunnerTask task() {
    const auto& [pass, target, feature] = GetParam();
    RunnerTask task = small_task(pass, target);
    const std::string name = feature;
    task.problem.varlen = name != "rotary";
    if (name != "varlen") task.problem.rotary_dim = 32;
    task.problem.invariant = name == "all";
    return task;
  }
};

TEST_P(GoodFeature, PassesTheQuickCheck) {
  const RunnerTask task = this->task();
  CandidateSpec candidate;
  candidate.id = "default";
  candidate.schedule = default_schedule(task.problem, target_of(task));
  expect_good(task, candidate, CheckDepth::kQuick);
}

INSTANTIATE_TEST_SUITE_P(All, GoodFeature,
                         testing::Combine(testing::Values(Pass::kForward, Pass::kForwardTrain,
                                                          Pass::kBackward),
                                          testing::Values("sm_80", "sm_90a"),
                                          testing::Values("varlen", "rotary", "all")),
                         [](const auto& p) {
                           std::string name = std::string(pass_name(std::get<0>(p.param))) + "_" +
                                              std::get<1>(p.param) + "_" + std::get<2>(p.param);
                           std::erase(name, '-');
                           return name;
                         });

// Lengths that a problem states choose its schedule. The cases have others.
TEST(CandidateCheck, KernelsOfFewQueriesPassWithSequences) {
  RunnerTask task = small_task();
  task.problem.varlen = true;
  task.problem.seq_q = task.sizes.seq_q = 1;
  task.problem.seq_k = task.sizes.seq_k = 600;
  CandidateSpec candidate;
  candidate.id = "default";
  candidate.schedule = default_schedule(task.problem, target_of(task));
  ASSERT_NE(candidate.schedule.split_keys, 0);
  expect_good(task, candidate, CheckDepth::kQuick);
}

// A wrong edge is found in calls of sequences, too. The reason names the lengths.
TEST(CandidateCheck, ASequencesErrorIsFound) {
  RunnerTask task = small_task();
  task.problem.varlen = true;
  const std::unique_ptr<CandidateRunner> host = open_host(task);
  ASSERT_NE(host, nullptr);
  const CheckReport report = check(*host, off_by_one_at_the_causal_edge(task));
  EXPECT_EQ(report.verdict, Verdict::kWrong) << report.reason;
  expect_reason(report.reason, "lengths ");
}

// The numbers are right, and other bits than the default's.
TEST(CandidateCheck, OtherBitsThanTheDefaultsAreRuledOutWithInvariant) {
  RunnerTask task = small_task();
  const CandidateSpec changed =
      edited(task, good_candidate(task),
             {{"store_pair<Config::kIsAligned, Element>(out + col, o0, o1);",
               "store_pair<Config::kIsAligned, Element>(out + col, o0 * 1.001f, o1);"}});
  ASSERT_EQ(check(*open_host(task), changed).verdict, Verdict::kOk);
  task.problem.invariant = true;
  const CandidateSpec of_invariant =
      edited(task, good_candidate(task),
             {{"store_pair<Config::kIsAligned, Element>(out + col, o0, o1);",
               "store_pair<Config::kIsAligned, Element>(out + col, o0 * 1.001f, o1);"}});
  const CheckReport report = check(*open_host(task), of_invariant);
  EXPECT_EQ(report.verdict, Verdict::kNotRepeatable) << report.reason;
  expect_reason(report.reason, "o: other bits than the default schedule's");
}

TEST(CandidateCheck, AFixedLengthIsCheckedAsItIs) {
  RunnerTask task = small_task();
  task.problem.seq_q = task.problem.seq_k = 200;
  task.sizes.seq_q = task.sizes.seq_k = 200;
  expect_good(task, good_candidate(task), CheckDepth::kQuick);
}

TEST(CandidateCheck, ALongFixedLengthIsCheckedAtOtherLengths) {
  RunnerTask task = small_task();
  task.problem.seq_q = task.problem.seq_k = 1 << 16;
  task.sizes.seq_q = task.sizes.seq_k = 1 << 16;
  expect_good(task, good_candidate(task), CheckDepth::kQuick);
}

TEST(CandidateCheck, TensorsOfLessAlignmentAreJustThatAligned) {
  RunnerTask task = small_task();
  task.problem.alignment = 2;
  CandidateSpec candidate = good_candidate(task);
  expect_good(task, candidate, CheckDepth::kQuick);
}

// --- Check: planted bugs ---

TEST(PlantedBug, AnOffByOneAtTheCausalEdgeIsWrong) {
  expect_verdict(off_by_one_at_the_causal_edge(small_task()), Verdict::kWrong, "relative error");
}

TEST(PlantedBug, AnOffByOneAtTheCausalEdgeIsWrongOnHopperToo) {
  const RunnerTask task = small_task(Pass::kForward, "sm_90a");
  const auto host = open_host(task);
  ASSERT_NE(host, nullptr);
  const CandidateSpec candidate = edited(task, good_candidate(task, Variant::kHopper),
                                         {{"row + 1 + shift", "row + 2 + shift"}});
  EXPECT_EQ(check(*host, candidate).verdict, Verdict::kWrong);
}

TEST(PlantedBug, ARowTooManyIsOutOfBounds) {
  expect_verdict(writes_a_row_too_many(small_task()), Verdict::kOutOfBounds,
                 "o: 128 bytes past its end");
}

TEST(PlantedBug, ARowTooFewIsUnwritten) {
  expect_verdict(never_writes_the_last_row(small_task()), Verdict::kOutOfBounds, "o: unwritten");
}

TEST(PlantedBug, ARaceIsSeenInTheFullCheck) {
  expect_verdict(races(small_task()), Verdict::kRace, "race: kernel", CheckDepth::kFull);
}

TEST(PlantedBug, AnEndlessLoopIsStopped) {
  expect_verdict(never_ends(small_task()), Verdict::kTimeout, "warp instructions");
}

TEST(PlantedBug, ATrapIsADeviceError) {
  expect_verdict(traps(small_task()), Verdict::kDeviceError, "trap");
}

TEST(PlantedBug, OtherBitsInAnotherRunAreNotRepeatable) {
  expect_verdict(follows_the_clock(small_task()), Verdict::kNotRepeatable, "o: other bits");
}

TEST(PlantedBug, OtherBitsAreNoBugWhereTheyAreWelcome) {
  RunnerTask task = small_task();
  task.determinism = Determinism::kAny;
  expect_good(task, follows_the_clock(task), CheckDepth::kQuick);
}

TEST(CandidateCheck, AtomicsPassWhereAnyOrderIsWelcome) {
  RunnerTask task = small_task(Pass::kBackward);
  task.determinism = Determinism::kAny;
  CandidateSpec candidate = good_candidate(task);
  candidate.schedule.dq_mode = DqMode::kAtomic;
  expect_good(task, candidate, CheckDepth::kFull);
}

TEST(PlantedBug, TheHostGoesOnAfterEachOfThem) {
  const RunnerTask task = small_task();
  const auto host = open_host(task);
  ASSERT_NE(host, nullptr);
  EXPECT_NE(check(*host, traps(task)).verdict, Verdict::kOk);
  EXPECT_NE(check(*host, writes_a_row_too_many(task)).verdict, Verdict::kOk);
  EXPECT_EQ(check(*host, good_candidate(task)).verdict, Verdict::kOk);
}

// --- Bounds ---

TEST(ErrorBound, IsNoMoreThanTheToleranceAndTwiceThePlainKernels) {
  EXPECT_EQ(error_bound(1e-3, 2e-3), 1e-3);
  EXPECT_EQ(error_bound(1e-3, 4e-4), 8e-4);
  EXPECT_EQ(error_bound(1e-3, 1e-5), 5e-4);
}

TEST(ErrorBeyondFloor, IsWhatTheFloorDoesNotCover) {
  TensorError error;
  error.relative_l2 = 0.25;
  error.error_l2 = 4;
  EXPECT_EQ(error_beyond_floor(error), 0.25);
  error.floor = 1;
  EXPECT_EQ(error_beyond_floor(error), 0.1875);
  error.floor = 5;
  EXPECT_EQ(error_beyond_floor(error), 0);
  error.relative_l2 = std::numeric_limits<double>::infinity();  // for a reference that is 0
  EXPECT_EQ(error_beyond_floor(error), 0);
  error.error_l2 = std::numeric_limits<double>::quiet_NaN();
  error.relative_l2 = error.error_l2;
  EXPECT_EQ(error_beyond_floor(error), std::numeric_limits<double>::max());
}

// --- Time ---

TEST(CandidateTime, IsCountedAndTheSameEveryTime) {
  const RunnerTask task = small_task();
  TimeRequest request;
  request.rounds = 3;
  std::vector<std::vector<TimeReport>> reports;
  for (int i = 0; i < 2; ++i) {
    const auto host = open_host(task);
    ASSERT_NE(host, nullptr);
    EXPECT_EQ(host->evidence(), Evidence::kPredicted);
    EXPECT_EQ(host->machine().device, "virtual");
    EXPECT_EQ(host->machine().target, "sm_80");
    auto timed = host->time({good_candidate(task), good_candidate(task)}, request);
    ASSERT_TRUE(timed.ok()) << timed.status().to_string();
    ASSERT_EQ(timed->size(), 2u);
    reports.push_back(*timed);
  }
  ASSERT_EQ(reports[0][0].samples_ms.size(), 3u);
  EXPECT_GT(reports[0][0].samples_ms[0], 0);
  EXPECT_EQ(reports[0][0].samples_ms, reports[1][1].samples_ms);
}

TEST(CandidateTime, GrowsWithTheScores) {
  RunnerTask task = small_task();
  const CandidateSpec candidate = good_candidate(task);
  double last = 0;
  for (const int64_t length : {256, 1024, 4096, 16384}) {
    task.sizes.seq_q = task.sizes.seq_k = length;
    const auto host = open_host(task);
    ASSERT_NE(host, nullptr);
    const auto timed = host->time({candidate}, {});
    ASSERT_TRUE(timed.ok()) << timed.status().to_string();
    EXPECT_GT((*timed)[0].samples_ms[0], last);
    last = (*timed)[0].samples_ms[0];
  }
}

TEST(CandidateTime, OneThatFailsIsReportedAndTheOthersGoOn) {
  const RunnerTask task = small_task();
  const auto host = open_host(task);
  ASSERT_NE(host, nullptr);
  const auto timed = host->time({traps(task), good_candidate(task)}, {});
  ASSERT_TRUE(timed.ok()) << timed.status().to_string();
  EXPECT_EQ((*timed)[0].verdict, Verdict::kDeviceError);
  EXPECT_TRUE((*timed)[0].samples_ms.empty());
  EXPECT_EQ((*timed)[1].verdict, Verdict::kOk);
  EXPECT_EQ((*timed)[1].samples_ms.size(), 1u);
}

TEST(CandidateTime, ZerosAreRefused) {
  const RunnerTask task = small_task();
  const auto host = open_host(task);
  ASSERT_NE(host, nullptr);
  TimeRequest request;
  request.data = InputKind::kZeros;
  EXPECT_EQ(host->time({good_candidate(task)}, request).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lssar::test
