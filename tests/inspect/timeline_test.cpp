// Timelines of small traces, whose clocks are known, and of the kernels themselves.
#include "inspect/timeline.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "inspect/traced_run.h"
#include "tests/autotune/sample_records.h"

namespace lssar {
namespace {

TraceEvent event(TraceKind kind, uint16_t warp, uint32_t amount, uint32_t barrier = 0,
                 uint32_t phase = 0) {
  TraceEvent one;
  one.kind = kind;
  one.warp = warp;
  one.amount = amount;
  one.barrier = barrier;
  one.phase = phase;
  one.lanes = ~0u;
  return one;
}

GpuModel plain_gpu() {
  GpuModel gpu;
  gpu.num_sms = 1;
  gpu.clock_ghz = 1;
  gpu.tensor_flop = 4096;
  gpu.l2_gbps = 32;  // bytes per clock
  return gpu;
}

KernelTrace two_warps() {
  KernelTrace trace;
  trace.kernel = "k";
  trace.warps_per_block = 2;
  trace.num_blocks = 1;
  trace.shared_bytes = 1024;
  trace.instructions.resize(1000);
  return trace;
}

// Warp 1 polls a barrier that warp 0 arrives at after 100 instructions: it waits that long, and its
// polls take no time.
TEST(Timeline, AWaitEndsWhenTheSignalComes) {
  KernelTrace trace = two_warps();
  trace.events = {event(TraceKind::kRun, 1, 10),         event(TraceKind::kPolled, 1, 0, 8, 0),
                  event(TraceKind::kRun, 1, 50),         event(TraceKind::kRun, 0, 100),
                  event(TraceKind::kArrive, 0, 0, 8, 0), event(TraceKind::kRun, 1, 5),
                  event(TraceKind::kPassed, 1, 0, 8, 0), event(TraceKind::kRun, 1, 20)};
  const Timeline timeline = make_timeline({trace, plain_gpu(), {}, {}, ""});
  ASSERT_EQ(timeline.lanes.size(), 2u);
  ASSERT_EQ(timeline.spans.size(), 4u);
  EXPECT_EQ(timeline.spans[0].lane, 0);
  EXPECT_EQ(timeline.spans[0].end, 100);
  const TimelineSpan& wait = timeline.spans[2];
  EXPECT_EQ(wait.kind, SpanKind::kWaitData);
  EXPECT_EQ(wait.begin, 10);
  EXPECT_GT(wait.end, 100);
  EXPECT_EQ(timeline.spans[3].instructions, 20u);
  EXPECT_EQ(timeline.clocks, wait.end + 20);
  EXPECT_FALSE(timeline.is_cut);
}

TEST(Timeline, ALoadTakesLatencyAndBandwidth) {
  KernelTrace trace = two_warps();
  trace.events = {event(TraceKind::kRun, 0, 10), event(TraceKind::kLoad, 0, 3200, 8, 0),
                  event(TraceKind::kPassed, 0, 0, 8, 0)};
  const Timeline timeline =
      make_timeline({trace,
                     plain_gpu(),
                     {{"tile", "", 0, 1008, 0}, {"ring barriers", "", 1008, 16, -1}},
                     {},
                     ""});
  ASSERT_EQ(timeline.lanes.size(), 2u);
  EXPECT_EQ(timeline.lanes[1].name, "stage 0");
  const TimelineSpan& load = timeline.spans.back();
  EXPECT_EQ(load.kind, SpanKind::kLoad);
  EXPECT_EQ(load.begin, 10);
  EXPECT_EQ(load.end, 10 + 3200 / 32 + 800);
}

// Warps that wait for a signal that never comes, as in a trace that was cut.
TEST(Timeline, EndsWhereTheTraceDoes) {
  KernelTrace trace = two_warps();
  trace.events = {event(TraceKind::kRun, 0, 10), event(TraceKind::kPassed, 0, 0, 8, 0),
                  event(TraceKind::kArrive, 0, 0, 8, 0)};  // warp 0 waits for itself
  const Timeline timeline = make_timeline({trace, plain_gpu(), {}, {}, ""});
  EXPECT_TRUE(timeline.is_cut);
}

TEST(Timeline, FunctionsAreThoseOfTheSource) {
  const auto functions = functions_by_line(
      "LSSAR_DEVICE float half(float x) {\n  return x / 2;\n}\n"
      "extern \"C\" __global__ void __launch_bounds__(128, 1)\n"
      "    kernel(int n) {\n  half(n);\n}\n"
      "__global__ void plain(int n) {\n}\n");
  ASSERT_EQ(functions.size(), 10u);
  EXPECT_EQ(functions[2], "half");
  EXPECT_EQ(functions[5], "kernel");
  EXPECT_EQ(functions[6], "kernel");
  EXPECT_EQ(functions[9], "plain");
}

struct Case {
  const char* name;
  Pass pass;
  const char* target;
  std::set<std::string> lanes;  // at least
};

class TimelineOf : public testing::TestWithParam<Case> {};

TEST_P(TimelineOf, HasEveryRoleInOrder) {
  const Case& c = GetParam();
  const Problem problem = sample_problem(c.pass);
  EngineOptions options;
  options.device = DeviceChoice::kVirtual;
  options.target = c.target;
  auto engine = Engine::open(options);
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  const auto traced =
      trace_kernels(**engine, problem, default_schedule(problem, *target_from_name(c.target)),
                    *gpu_model(c.target));
  ASSERT_TRUE(traced.ok()) << traced.status().message();
  ASSERT_FALSE(traced->timelines.empty());
  EXPECT_GT(traced->machine_instructions, 0);
  for (const Timeline& timeline : traced->timelines) {
    EXPECT_FALSE(timeline.is_cut) << timeline.kernel;
    EXPECT_GT(timeline.clocks, 0);
    std::set<std::string> names;
    for (const TimelineLane& lane : timeline.lanes) names.insert(lane.name);
    for (const std::string& lane : c.lanes) EXPECT_EQ(names.count(lane), 1u) << lane;
    // The map of shared memory is where the kernel put its barriers.
    for (const std::string& label : timeline.labels)
      EXPECT_EQ(label.find("mbarrier at"), label.npos) << label;
    uint64_t flop = 0, counted = 0;
    for (const TimelineSpan& span : timeline.spans)
      if (span.kind == SpanKind::kProduct) flop += uint64_t{span.instructions} << 10;
    for (const KernelCounters& kernel : traced->counters) {
      if (kernel.kernel != timeline.kernel) continue;
      for (const uint64_t one : kernel.counters.tensor_flop) counted += one;
    }
    // A persistent kernel is one block on the device that counts; its few mma are not wgmma.
    if (std::string(c.target) == "sm_90a") {
      EXPECT_LE(flop, counted);
      EXPECT_GE(double(flop), 0.9 * double(counted));
    }
    std::map<int, double> end;  // by lane: spans of a lane do not overlap
    std::set<int> used;
    uint64_t special = 0;
    for (const TimelineSpan& span : timeline.spans) {
      EXPECT_LT(span.begin, span.end);
      EXPECT_GE(span.begin, end[span.lane] - 1e-6) << timeline.lanes[size_t(span.lane)].name;
      EXPECT_LE(span.end, timeline.clocks + 1e-6);
      end[span.lane] = span.end;
      used.insert(span.lane);
      special += span.special;
    }
    EXPECT_EQ(used.size(), timeline.lanes.size());
    EXPECT_GT(special, 0u);
    EXPECT_GT(
        std::count_if(timeline.labels.begin(), timeline.labels.end(),
                      [](const std::string& label) { return label.find("load") != label.npos; }),
        0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, TimelineOf,
    testing::Values(Case{"hopper_forward",
                         Pass::kForward,
                         "sm_90a",
                         {"producer", "consumer 0", "consumer 1", "tensor cores", "queries",
                          "stage 0", "stage 1"}},
                    Case{"hopper_backward",
                         Pass::kBackward,
                         "sm_90a",
                         {"producer", "consumer 0", "tensor cores", "stage 0"}},
                    Case{"portable_forward", Pass::kForward, "sm_80", {"warp 0", "warp 3"}}),
    [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace lssar
