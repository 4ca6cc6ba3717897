// The C API from many threads: one compile per kernel, one plan executed by all.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "reference/numerics.h"
#include "reference/random_inputs.h"
#include "tests/cache/temporary_folder.h"
#include "tests/capi/run_capi.h"

namespace lssar {
namespace {

constexpr int kNumThreads = 8;

Problem small_problem() {
  Problem problem;
  problem.causal = true;
  problem.head_dim = problem.head_dim_v = 32;
  problem.heads = problem.kv_heads = 1;
  return problem;
}

lssar_context_info info_of(lssar_context* context) {
  lssar_context_info info = {};
  info.struct_size = sizeof(info);
  EXPECT_EQ(lssar_context_get_info(context, &info), LSSAR_STATUS_OK);
  return info;
}

template <typename Function>
void in_threads(const Function& function) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < kNumThreads; ++i) threads.emplace_back([&function, i] { function(i); });
}

TEST(CapiThreads, EightThreadsThatPrepareOneProblemCompileItOnce) {
  auto context = open_context(LSSAR_DEVICE_RECORD, LSSAR_COMPILER_AUTO, "", "none");
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  const lssar_problem problem = to_c(small_problem(), LSSAR_PASS_FORWARD, 16);
  std::atomic<int> num_prepared{0};
  in_threads([&](int) {
    lssar_plan* plan = nullptr;
    if (lssar_plan_create(context->get(), &problem, nullptr, &plan) != LSSAR_STATUS_OK) return;
    num_prepared += lssar_plan_prepare(plan) == LSSAR_STATUS_OK;
    lssar_plan_destroy(plan);
  });
  EXPECT_EQ(num_prepared, kNumThreads);
  EXPECT_EQ(info_of(context->get()).cache_misses, 1u);
  EXPECT_EQ(info_of(context->get()).cache_memory_hits, kNumThreads - 1u);
}

TEST(CapiThreads, EightThreadsMayPrepareOnePlan) {
  auto context = open_context(LSSAR_DEVICE_RECORD, LSSAR_COMPILER_AUTO, "", "none");
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  const lssar_problem problem = to_c(small_problem(), LSSAR_PASS_FORWARD);
  lssar_plan* raw = nullptr;
  ASSERT_EQ(lssar_plan_create(context->get(), &problem, nullptr, &raw), LSSAR_STATUS_OK);
  const PlanPtr plan(raw);
  std::atomic<int> num_prepared{0};
  in_threads([&](int) { num_prepared += lssar_plan_prepare(raw) == LSSAR_STATUS_OK; });
  EXPECT_EQ(num_prepared, kNumThreads);
  EXPECT_EQ(info_of(context->get()).cache_misses, 2u);  // 16-byte copies, and plain loads
}

TEST(CapiThreads, ASecondContextFindsTheKernelsOnDisk) {
  const TemporaryFolder folder;
  const lssar_problem problem = to_c(small_problem(), LSSAR_PASS_FORWARD, 16);
  for (const bool is_first : {true, false}) {
    auto context = open_context(LSSAR_DEVICE_RECORD, LSSAR_COMPILER_AUTO, "", folder.path());
    ASSERT_TRUE(context.ok()) << context.status().to_string();
    lssar_plan* raw = nullptr;
    ASSERT_EQ(lssar_plan_create(context->get(), &problem, nullptr, &raw), LSSAR_STATUS_OK);
    const PlanPtr plan(raw);
    ASSERT_EQ(lssar_plan_prepare(raw), LSSAR_STATUS_OK) << lssar_last_error_detail();
    EXPECT_EQ(info_of(context->get()).cache_misses, is_first ? 1u : 0u);
    EXPECT_EQ(info_of(context->get()).cache_disk_hits, is_first ? 0u : 1u);
  }
}

TEST(CapiThreads, EightThreadsExecuteAtOnceAndGetTheSameBits) {
  auto context = open_context(LSSAR_DEVICE_VIRTUAL);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  const Problem problem = small_problem();
  const Sizes sizes{1, 1, 1, 70, 70};
  const RandomInputs random = random_inputs(problem, sizes, InputKind::kGauss, 5);
  const CapiInputs inputs{random.q, random.k, random.v, random.grad_o};
  const auto alone = run_capi(context->get(), problem, sizes, inputs);
  ASSERT_TRUE(alone.ok()) << alone.status().to_string();
  std::atomic<int> num_equal{0};
  in_threads([&](int) {
    const auto together = run_capi(context->get(), problem, sizes, inputs);
    num_equal += together.ok() && together->o == alone->o && together->grad_q == alone->grad_q &&
                 together->grad_k == alone->grad_k && together->grad_v == alone->grad_v;
  });
  EXPECT_EQ(num_equal, kNumThreads);
}

TEST(CapiThreads, EightThreadsMayExecuteOnePlan) {
  auto context = open_context(LSSAR_DEVICE_VIRTUAL);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  const Problem problem = small_problem();
  const Sizes sizes{1, 1, 1, 40, 40};
  const RandomInputs random = random_inputs(problem, sizes, InputKind::kGauss, 6);
  CapiOptions options;
  options.passes = LSSAR_PASS_FORWARD;
  const auto alone =
      run_capi(context->get(), problem, sizes, {random.q, random.k, random.v, {}}, options);
  ASSERT_TRUE(alone.ok()) << alone.status().to_string();

  const lssar_problem c_problem = to_c(problem, LSSAR_PASS_FORWARD);
  lssar_plan* raw = nullptr;
  ASSERT_EQ(lssar_plan_create(context->get(), &c_problem, nullptr, &raw), LSSAR_STATUS_OK);
  const PlanPtr plan(raw);
  ASSERT_EQ(lssar_plan_prepare(raw), LSSAR_STATUS_OK) << lssar_last_error_detail();
  std::vector<std::byte> q = pack(problem.dtype, random.q), k = pack(problem.dtype, random.k),
                         v = pack(problem.dtype, random.v);
  std::atomic<int> num_equal{0};
  in_threads([&](int) {
    std::vector<std::byte> o(q.size(), std::byte{0xFF});
    lssar_call call = {};
    call.struct_size = sizeof(call);
    call.sizes = to_c(sizes);
    const auto tensor = [](std::vector<std::byte>& bytes) {
      return lssar_tensor{bytes.data(), {40 * 32, 40 * 32, 32}};
    };
    call.q = tensor(q), call.k = tensor(k), call.v = tensor(v), call.o = tensor(o);
    if (lssar_plan_workspace_size(raw, &call.sizes, &call.workspace_bytes) != LSSAR_STATUS_OK)
      return;
    std::vector<double> workspace(call.workspace_bytes / sizeof(double) + 2);
    call.workspace = workspace.data();
    num_equal += lssar_execute_forward(raw, &call) == LSSAR_STATUS_OK &&
                 unpack(problem.dtype, o) == alone->o;
  });
  EXPECT_EQ(num_equal, kNumThreads);
}

TEST(CapiThreads, TheDetailTextIsPerThread) {
  lssar_context* context = nullptr;
  lssar_context_options options = {};
  EXPECT_EQ(lssar_context_create(&options, &context), LSSAR_STATUS_INVALID_ARGUMENT);
  std::string of_other_thread = "not read";
  std::jthread([&] { of_other_thread = lssar_last_error_detail(); }).join();
  EXPECT_EQ(of_other_thread, "");
  EXPECT_STRNE(lssar_last_error_detail(), "");
}

struct LogLines {
  std::mutex mutex;
  std::vector<std::string> lines;
};

TEST(CapiLog, OneLinePerCompileReachesTheCallback) {
  LogLines log;
  const auto callback = [](int level, const char* message, void* user) {
    auto* to = static_cast<LogLines*>(user);
    const std::lock_guard lock(to->mutex);
    if (level == LSSAR_LOG_INFO) to->lines.push_back(message);
  };
  ASSERT_EQ(lssar_set_log_callback(callback, &log, LSSAR_LOG_INFO), LSSAR_STATUS_OK);
  auto context = open_context(LSSAR_DEVICE_RECORD, LSSAR_COMPILER_AUTO, "", "none");
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  const lssar_problem problem = to_c(small_problem(), LSSAR_PASS_FORWARD, 16);
  lssar_plan* raw = nullptr;
  ASSERT_EQ(lssar_plan_create(context->get(), &problem, nullptr, &raw), LSSAR_STATUS_OK);
  const PlanPtr plan(raw);
  ASSERT_EQ(lssar_plan_prepare(raw), LSSAR_STATUS_OK) << lssar_last_error_detail();
  ASSERT_EQ(lssar_set_log_callback(nullptr, nullptr, LSSAR_LOG_ERROR), LSSAR_STATUS_OK);
  int num_compiles = 0;
  for (const std::string& line : log.lines) {
    num_compiles += line.rfind("compiled lssar_forward", 0) == 0;
  }
  EXPECT_EQ(num_compiles, 1);
}

TEST(CapiLifetime, AContextMayBeDestroyedBeforeItsPlans) {
  auto context = open_context(LSSAR_DEVICE_RECORD, LSSAR_COMPILER_AUTO, "", "none");
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  const lssar_problem problem = to_c(small_problem(), LSSAR_PASS_FORWARD, 16);
  lssar_plan* raw = nullptr;
  ASSERT_EQ(lssar_plan_create(context->get(), &problem, nullptr, &raw), LSSAR_STATUS_OK);
  const PlanPtr plan(raw);
  context->reset();
  EXPECT_EQ(lssar_plan_prepare(raw), LSSAR_STATUS_OK) << lssar_last_error_detail();
}

}  // namespace
}  // namespace lssar
