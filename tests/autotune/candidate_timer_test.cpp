// Timing on a GPU, tested on a driver without one: what is enqueued in which order, what observers
// are told, and that nothing is left behind. No times are measured here.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "autotune/measure/candidate_timer.h"
#include "device/cuda_device.h"
#include "tests/autotune/candidate_fixture.h"
#include "tests/device/fake_driver.h"

namespace lssar::test {
namespace {

// Makes an image of nothing, at once.
class NoCompiler final : public Compiler {
 public:
  std::string name() const override { return "none"; }
  std::string version() const override { return "1"; }
  std::string path() const override { return ""; }
  bool can_make(ImageKind) const override { return true; }
  std::vector<std::string> options(const CompileRequest&) const override { return {}; }
  Result<Image> compile(const CompileRequest& request) const override {
    Image image;
    image.kind = request.kind;
    image.target = request.target.name();
    image.bytes = "image";
    return image;
  }
};

struct Told final : TimeObserver {
  void on_prepare(const std::vector<size_t>& candidates) override { prepared = candidates; }
  void on_run(const std::vector<size_t>& candidates) override { runs.push_back(candidates); }
  void on_sample(size_t candidate, double ms) override { samples.emplace_back(candidate, ms); }
  void on_failed(size_t candidate, Verdict, const std::string& reason) override {
    failed.emplace_back(candidate, reason);
  }
  size_t samples_of(size_t candidate) const {
    return static_cast<size_t>(std::count_if(samples.begin(), samples.end(), [&](const auto& s) {
      return s.first == candidate;
    }));
  }

  std::vector<size_t> prepared;
  std::vector<std::vector<size_t>> runs;
  std::vector<std::pair<size_t, double>> samples;
  std::vector<std::pair<size_t, std::string>> failed;
};

class CandidateTimerTest : public testing::TestWithParam<Pass> {
 protected:
  static constexpr int kL2Bytes = 1 << 16;

  void SetUp() override {
    task_ = small_task(GetParam(), "sm_90a");
    driver_.gpus[0].attributes[kCuAttributeL2Bytes] = kL2Bytes;
    driver_.elapsed_ms = 1.5f;
    driver_.params_bytes = std::nullopt;  // those of our kernels differ
    const auto device = make_cuda_device(driver_.table(), 0, "");
    ASSERT_TRUE(device.ok()) << device.status().to_string();
    EngineOptions options;
    options.cache.directory = "none";
    engine_ = Engine::create(options, *device, std::make_shared<NoCompiler>());
  }

  // As many as asked for, each with a source of its own.
  std::vector<TimedCandidate> candidates(size_t count) {
    std::vector<TimedCandidate> all;
    for (size_t i = 0; i < count; ++i) {
      TimedCandidate one;
      one.spec = edited(task_, good_candidate(task_), {});
      one.source = *one.spec.source;
      one.source.source += "// " + std::to_string(i) + "\n";
      for (const LaunchStep& step : one.source.steps) driver_.entries.insert(step.entry);
      // A call without new keys leaves out the launch that writes them.
      num_steps_ = static_cast<size_t>(std::count_if(
          one.source.steps.begin(), one.source.steps.end(),
          [](const LaunchStep& step) { return step.grid_rows != GridRows::kNewKeys; }));
      all.push_back(std::move(one));
    }
    // The second pass is the forward that comes before a backward.
    for (const Pass pass : {Pass::kForward, Pass::kForwardTrain}) {
      RunnerTask task = task_;
      task.problem.pass = pass;
      const CandidateSpec spec = edited(task, good_candidate(task), {});
      for (const LaunchStep& step : spec.source->steps) driver_.entries.insert(step.entry);
    }
    return all;
  }

  Status time(const std::vector<TimedCandidate>& all, int rounds, size_t chunk,
              bool cold_l2 = true) {
    TimeRequest request;
    request.rounds = rounds;
    request.cold_l2 = cold_l2;
    return CandidateTimer(*engine_, task_).time(all, request, chunk, told_);
  }

  // What is enqueued for one sample.
  std::string sample() const { return "FE" + std::string(num_steps_, 'L') + "E"; }

  FakeDriver driver_;
  RunnerTask task_;
  std::unique_ptr<Engine> engine_;
  size_t num_steps_ = 0;
  Told told_;
};

TEST_P(CandidateTimerTest, SamplesAreQueuedWithoutWaitingInBetween) {
  const Status status = time(candidates(3), 1, 8);
  ASSERT_TRUE(status.ok()) << status.to_string();
  // Fills to be busy with, then every sample behind a fill, then the waits.
  const std::string wanted = "FFFF" + sample() + sample() + sample() + "SSS";
  const std::string& order = driver_.order;
  ASSERT_GE(order.size(), wanted.size());
  EXPECT_EQ(order.substr(order.size() - wanted.size()), wanted);
}

TEST_P(CandidateTimerTest, AChunkOfOneIsWaitedForByItself) {
  ASSERT_TRUE(time(candidates(2), 1, 1).ok());
  const std::string wanted = "FFFF" + sample() + "S" + "FFFF" + sample() + "S";
  const std::string& order = driver_.order;
  ASSERT_GE(order.size(), wanted.size());
  EXPECT_EQ(order.substr(order.size() - wanted.size()), wanted);
  ASSERT_GE(told_.runs.size(), 2u);
  EXPECT_EQ(told_.runs.back().size(), 1u);
}

TEST_P(CandidateTimerTest, AWarmL2IsNotEmptiedBetweenSamples) {
  ASSERT_TRUE(time(candidates(3), 1, 8, /*cold_l2=*/false).ok());
  const std::string launches(num_steps_, 'L'), warm = "E" + launches + "E";
  const std::string wanted = "FFFF" + launches + warm + warm + warm + "SSS";
  const std::string& order = driver_.order;
  ASSERT_GE(order.size(), wanted.size());
  EXPECT_EQ(order.substr(order.size() - wanted.size()), wanted);
}

TEST_P(CandidateTimerTest, EveryCandidateHasASampleInEveryRound) {
  ASSERT_TRUE(time(candidates(5), 7, 3).ok());
  ASSERT_EQ(told_.samples.size(), 35u);
  for (size_t round = 0; round < 7; ++round) {
    std::set<size_t> of_round;
    for (size_t i = 0; i < 5; ++i) of_round.insert(told_.samples[5 * round + i].first);
    EXPECT_EQ(of_round.size(), 5u);
  }
  for (const auto& [candidate, ms] : told_.samples) EXPECT_EQ(ms, 1.5);
}

TEST_P(CandidateTimerTest, TheOrderChangesFromRoundToRoundAndIsTheSameEveryTime) {
  const std::vector<TimedCandidate> all = candidates(6);
  ASSERT_TRUE(time(all, 4, 8).ok());
  std::vector<std::vector<size_t>> orders(told_.runs.end() - 4, told_.runs.end());
  EXPECT_GT(std::set(orders.begin(), orders.end()).size(), 1u);
  ASSERT_TRUE(time(all, 4, 8).ok());
  EXPECT_EQ(std::vector(told_.runs.end() - 4, told_.runs.end()), orders);
}

TEST_P(CandidateTimerTest, RoundsThatAreDoneAreNotRepeated) {
  std::vector<TimedCandidate> all = candidates(3);
  all[0].rounds_done = 2;
  all[2].rounds_done = 3;
  ASSERT_TRUE(time(all, 3, 8).ok());
  EXPECT_EQ(told_.samples_of(0), 1u);
  EXPECT_EQ(told_.samples_of(1), 3u);
  EXPECT_EQ(told_.samples_of(2), 0u);
}

TEST_P(CandidateTimerTest, AnIllegalAccessIsBlamedOnTheOneThatRan) {
  const std::vector<TimedCandidate> all = candidates(2);
  driver_.fail("cuEventSynchronize", kCuIllegalAddress);
  const Status status = time(all, 1, 1);
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
  ASSERT_EQ(told_.failed.size(), 1u);
  EXPECT_EQ(std::vector<size_t>{told_.failed[0].first}, told_.runs.back());
  expect_reason(told_.failed[0].second, "CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST_P(CandidateTimerTest, AnIllegalAccessAmongSeveralBlamesNoCandidate) {
  const std::vector<TimedCandidate> all = candidates(2);
  driver_.fail("cuEventSynchronize", kCuIllegalAddress);
  EXPECT_EQ(time(all, 1, 8).code(), StatusCode::kDeviceError);
  EXPECT_TRUE(told_.failed.empty());
  EXPECT_EQ(told_.runs.back().size(), 2u);
}

TEST_P(CandidateTimerTest, OneThatDoesNotLoadIsReportedAndTheOthersGoOn) {
  std::vector<TimedCandidate> all = candidates(2);
  all[0].source.steps[0].entry = "not_there";
  ASSERT_TRUE(time(all, 2, 8).ok());
  ASSERT_EQ(told_.failed.size(), 1u);
  EXPECT_EQ(told_.failed[0].first, 0u);
  EXPECT_EQ(told_.samples_of(0), 0u);
  EXPECT_EQ(told_.samples_of(1), 2u);
}

// One launch more orders the sequences, and one or two turn q and k.
TEST_P(CandidateTimerTest, SequencesAreTimedInOneCall) {
  task_.problem.varlen = true;
  task_.problem.rotary_dim = 32;
  task_.lengths = {{5, 0, 256}, {7, 3, 256}};
  task_.sizes = sizes_of_call(task_.lengths, task_.sizes.heads, task_.sizes.kv_heads);
  const std::vector<TimedCandidate> all = candidates(2);
  ASSERT_TRUE(driver_.entries.count("lssar_order_sequences"));
  const Status status = time(all, 3, 8);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(told_.failed.empty());
  EXPECT_EQ(told_.samples.size(), 6u);
  EXPECT_NE(driver_.order.find(sample()), std::string::npos);
  EXPECT_EQ(driver_.open().allocations, 0);
}

TEST_P(CandidateTimerTest, NothingIsLeftOnTheDevice) {
  ASSERT_TRUE(time(candidates(2), 1, 8).ok());
  EXPECT_EQ(driver_.open().allocations, 0);
  EXPECT_EQ(driver_.open().events, 0);
}

INSTANTIATE_TEST_SUITE_P(All, CandidateTimerTest,
                         testing::Values(Pass::kForward, Pass::kForwardTrain, Pass::kBackward),
                         [](const auto& p) {
                           std::string name = pass_name(p.param);
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace lssar::test
