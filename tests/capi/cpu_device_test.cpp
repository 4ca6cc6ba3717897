// The cpu device through the C API: results, the caller's threads, forks, the cache, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <thread>

#include "score/score_text.h"
#include "tests/cache/temporary_folder.h"
#include "tests/capi/run_capi.h"
#include "tests/cpu/cpu_check.h"

namespace lssar {
namespace {

using testing::HasSubstr;

Problem problem_of(DType dtype) {
  Problem problem = forward_problem(dtype, 64, 64, 15, true);
  problem.heads = 4;
  problem.kv_heads = 2;
  return problem;
}

// Enough work for several threads, and lengths that no block size divides.
Sizes sizes() { return sizes_with(2, 4, 2, 131, 293); }

CapiInputs inputs_of(const Problem& problem, const Sizes& sizes) {
  const RandomInputs random = random_inputs(problem, sizes, InputKind::kGauss, 11);
  return {random.q, random.k, random.v, {}};
}

Result<CapiOutputs> run_forward(lssar_context* context, const Problem& problem,
                                Layout layout = Layout::kContiguous) {
  CapiOptions options;
  options.passes = LSSAR_PASS_FORWARD;
  options.layout = layout;
  options.wants_row_stats = true;
  return run_capi(context, problem, sizes(), inputs_of(problem, sizes()), options);
}

class CapiCpu : public testing::Test {
 protected:
  void SetUp() override { LSSAR_NEEDS_CPU_KERNELS(); }
};

TEST_F(CapiCpu, ForwardIsRightInEveryTypeAndLayout) {
  const auto context = open_context(LSSAR_DEVICE_CPU);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    const Problem problem = problem_of(dtype);
    const CapiInputs in = inputs_of(problem, sizes());
    const auto expected =
        reference_attention(problem, sizes(), {widened(in.q), widened(in.k), widened(in.v), {}});
    ASSERT_TRUE(expected.ok());
    for (const Layout layout :
         {Layout::kContiguous, Layout::kLengthMajor, Layout::kPadded, Layout::kUnaligned}) {
      const auto outputs = run_forward(context->get(), problem, layout);
      ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
      const TensorError error =
          compare(expected->o, outputs->o, allowed_error(problem, OutputTensor::kO, *expected));
      EXPECT_TRUE(error.is_right()) << to_string(problem) << ": " << error.to_string();
    }
  }
}

TEST_F(CapiCpu, GradientsAreRightInEveryLayout) {
  const auto context = open_context(LSSAR_DEVICE_CPU);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  const Problem problem = problem_of(DType::kFp32);
  const RandomInputs in = random_inputs(problem, sizes(), InputKind::kGauss, 12);
  const auto expected = reference_attention(
      problem, sizes(), {widened(in.q), widened(in.k), widened(in.v), widened(in.grad_o)});
  ASSERT_TRUE(expected.ok());
  for (const Layout layout :
       {Layout::kContiguous, Layout::kLengthMajor, Layout::kPadded, Layout::kUnaligned}) {
    CapiOptions options;  // the forward for training and the backward
    options.layout = layout;
    const auto outputs =
        run_capi(context->get(), problem, sizes(), {in.q, in.k, in.v, in.grad_o}, options);
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    const auto expect = [&](OutputTensor tensor, const std::vector<float>& actual) {
      const TensorError error = compare(reference_values(*expected, tensor), actual,
                                        allowed_error(problem, tensor, *expected));
      EXPECT_TRUE(error.is_right()) << tensor_name(tensor) << ": " << error.to_string();
    };
    expect(OutputTensor::kO, outputs->o_train);
    expect(OutputTensor::kDq, outputs->grad_q);
    expect(OutputTensor::kDk, outputs->grad_k);
    expect(OutputTensor::kDv, outputs->grad_v);
  }
}

TEST_F(CapiCpu, TheSecondContextFindsTheObjectOnDisk) {
  const TemporaryFolder folder;
  for (const bool is_first : {true, false}) {
    const auto context = open_context(LSSAR_DEVICE_CPU, LSSAR_COMPILER_AUTO, "", folder.path());
    ASSERT_TRUE(context.ok()) << context.status().to_string();
    ASSERT_TRUE(run_forward(context->get(), problem_of(DType::kFp32)).ok());
    lssar_context_info info = {};
    info.struct_size = sizeof(info);
    ASSERT_EQ(lssar_context_get_info(context->get(), &info), LSSAR_STATUS_OK);
    EXPECT_EQ(info.device, LSSAR_DEVICE_CPU);
    EXPECT_GE(info.num_sms, 1);
    EXPECT_THAT(info.target, HasSubstr("x86-64-v"));
    EXPECT_EQ(info.cache_misses > 0, is_first);
    EXPECT_EQ(info.cache_disk_hits > 0, !is_first);
  }
}

// ---- The caller's threads

// A caller's parallel_for of `threads` threads, what it was asked for, and what it does wrong.
struct Callers {
  int threads = 1;
  bool is_backwards = false;
  std::function<void(int64_t n, lssar_task task, void* work)> instead;
  std::atomic<int> calls = 0;
  std::atomic<int64_t> most = 0;

  static void run(void* user, int64_t n, lssar_task task, void* work) {
    Callers& self = *static_cast<Callers*>(user);
    ++self.calls;
    self.most = std::max<int64_t>(self.most, n);
    if (self.instead) return self.instead(n, task, work);
    std::atomic<int64_t> next = 0;
    const auto loop = [&] {
      for (int64_t i = next++; i < n; i = next++) task(work, self.is_backwards ? n - 1 - i : i);
    };
    std::vector<std::jthread> others;
    for (int i = 1; i < self.threads; ++i) others.emplace_back(loop);
    loop();
  }
};

Result<ContextPtr> context_with(Callers& callers) {
  lssar_context_options options = {};
  options.struct_size = sizeof(options);
  options.device = LSSAR_DEVICE_CPU;
  options.parallel_for = Callers::run;
  options.parallel_for_user = &callers;
  lssar_context* context = nullptr;
  LSSAR_RETURN_IF_ERROR(to_status(lssar_context_create(&options, &context)));
  return ContextPtr(context);
}

// One forward of `sizes`, with its own memory, which may be called with any number of threads.
class Forward {
 public:
  Forward(lssar_context* context, const Sizes& sizes) : problem_(problem_of(DType::kFp32)) {
    const lssar_problem problem = to_c(problem_, LSSAR_PASS_FORWARD);
    lssar_plan* plan = nullptr;
    EXPECT_EQ(lssar_plan_create(context, &problem, nullptr, &plan), LSSAR_STATUS_OK)
        << lssar_last_error_detail();
    plan_.reset(plan);
    EXPECT_EQ(lssar_plan_prepare(plan), LSSAR_STATUS_OK) << lssar_last_error_detail();
    inputs_ = inputs_of(problem_, sizes);
    call_.struct_size = sizeof(call_);
    call_.sizes = to_c(sizes);
    call_.q = tensor(inputs_.q, sizes.heads, sizes.seq_q);
    call_.k = tensor(inputs_.k, sizes.kv_heads, sizes.seq_k);
    call_.v = tensor(inputs_.v, sizes.kv_heads, sizes.seq_k);
    EXPECT_EQ(lssar_plan_workspace_size(plan, &call_.sizes, &call_.workspace_bytes),
              LSSAR_STATUS_OK);
  }

  lssar_status run(int64_t num_threads, std::vector<float>* o) const {
    lssar_call call = call_;
    o->assign(inputs_.q.size(), -1.0f);
    call.o = {o->data(), {call.q.strides[0], call.q.strides[1], call.q.strides[2]}};
    std::vector<std::max_align_t> workspace(call.workspace_bytes / sizeof(std::max_align_t) + 1);
    call.workspace = workspace.data();
    call.num_threads = num_threads;
    return lssar_execute_forward(plan_.get(), &call);
  }
  std::vector<float> o(int64_t num_threads) const {
    std::vector<float> o;
    EXPECT_EQ(run(num_threads, &o), LSSAR_STATUS_OK) << lssar_last_error_detail();
    return o;
  }

 private:
  static lssar_tensor tensor(std::vector<float>& values, int64_t heads, int64_t length) {
    return {values.data(), {heads * length * 64, length * 64, 64}};
  }

  const Problem problem_;
  CapiInputs inputs_;
  PlanPtr plan_;
  lssar_call call_ = {};
};

TEST_F(CapiCpu, AnyThreadsGiveTheSameBits) {
  const auto own = open_context(LSSAR_DEVICE_CPU);
  ASSERT_TRUE(own.ok()) << own.status().to_string();
  const Forward with_pool(own->get(), sizes());
  const std::vector<float> expected = with_pool.o(1);
  for (const int64_t threads : {0, 2, 3, 8}) EXPECT_EQ(with_pool.o(threads), expected);
  for (const bool is_backwards : {false, true})
    for (const int threads : {1, 2, 3, 8}) {
      Callers callers{threads, is_backwards, {}};
      const auto context = context_with(callers);
      ASSERT_TRUE(context.ok()) << context.status().to_string();
      const Forward forward(context->get(), sizes());
      EXPECT_EQ(forward.o(8), expected) << threads << " threads";
      EXPECT_GE(callers.calls, 1);
      EXPECT_EQ(callers.most, 8);
    }
}

TEST_F(CapiCpu, CallersThatRunAtOnceEachUseTheirThreads) {
  Callers callers{2, false, {}};
  const auto context = context_with(callers);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  const Forward forward(context->get(), sizes());
  const std::vector<float> expected = forward.o(1);
  EXPECT_EQ(callers.calls, 0);
  std::atomic<int> equal = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { equal += forward.o(4) == expected; });
  }
  EXPECT_EQ(equal, 4);
  EXPECT_EQ(callers.most, 4);
}

TEST_F(CapiCpu, LittleWorkIsNotShared) {
  Callers callers{4, false, {}};
  const auto context = context_with(callers);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  const Forward forward(context->get(), sizes_with(1, 4, 2, 16, 16));
  forward.o(4);
  EXPECT_EQ(callers.calls, 0);
}

TEST_F(CapiCpu, AParallelForThatBreaksItsContractFailsTheCall) {
  using Instead = std::function<void(int64_t, lssar_task, void*)>;
  const auto call_all = [](int64_t n, lssar_task task, void* work) {
    for (int64_t i = 0; i < n; ++i) task(work, i);
  };
  const std::pair<Instead, const char*> wrong[] = {
      {[](int64_t, lssar_task, void*) {}, "with n = 4 it called 0 indices, and made 0 calls"},
      {[&](int64_t n, lssar_task task, void* work) { call_all(n - 1, task, work); },
       "with n = 4 it called 3 indices, and made 0 calls"},
      {[&](int64_t n, lssar_task task, void* work) { call_all(n + 1, task, work); },
       "with n = 4 it called 4 indices, and made 1 calls"},
      {[&](int64_t n, lssar_task task, void* work) {
         call_all(n, task, work);
         task(work, 2);
         task(work, -1);
       },
       "with n = 4 it called 4 indices, and made 2 calls"},
  };
  for (const auto& [instead, text] : wrong) {
    Callers callers{1, false, instead};
    const auto context = context_with(callers);
    ASSERT_TRUE(context.ok()) << context.status().to_string();
    const Forward forward(context->get(), sizes());
    std::vector<float> o;
    EXPECT_EQ(forward.run(4, &o), LSSAR_STATUS_DEVICE_ERROR);
    EXPECT_THAT(lssar_last_error_detail(), HasSubstr(text));
    EXPECT_THAT(lssar_last_error_detail(), HasSubstr("must call each index from 0 to 3 once"));
  }
}

TEST_F(CapiCpu, AChildComputesAfterAFork) {
  const auto context = open_context(LSSAR_DEVICE_CPU);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  const std::vector<float> expected = Forward(context->get(), sizes()).o(4);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto fresh = open_context(LSSAR_DEVICE_CPU);
    _exit(fresh.ok() && Forward(fresh->get(), sizes()).o(4) == expected ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// ---- Errors

TEST_F(CapiCpu, ACallersOlderOptionsHaveNoParallelFor) {
  Callers callers{1, false, {}};
  lssar_context_options options = {};
  options.device = LSSAR_DEVICE_CPU;
  options.parallel_for = Callers::run;
  options.parallel_for_user = &callers;
  for (const size_t size : {offsetof(lssar_context_options, tuning_table),
                            offsetof(lssar_context_options, parallel_for)}) {
    options.struct_size = size;
    lssar_context* context = nullptr;
    ASSERT_EQ(lssar_context_create(&options, &context), LSSAR_STATUS_OK)
        << lssar_last_error_detail();
    const ContextPtr owner(context);
    Forward(context, sizes()).o(2);
    EXPECT_EQ(callers.calls, 0);
  }
}

TEST_F(CapiCpu, EveryScoreFunctionHasAPlan) {
  const auto context = open_context(LSSAR_DEVICE_CPU);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  const auto expect_plan = [&](const Problem& problem) {
    const lssar_problem c_problem =
        to_c(problem, LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD);
    lssar_plan* plan = nullptr;
    EXPECT_EQ(lssar_plan_create(context->get(), &c_problem, nullptr, &plan), LSSAR_STATUS_OK)
        << lssar_last_error_detail();
    lssar_plan_destroy(plan);
  };
  Problem problem = problem_of(DType::kFp32);
  problem.p = 1024;
  expect_plan(problem);
  problem.p = 0;
  for (const char* score : {"softmax,sink=per_head", "phi=x^3,normalizer=none,psi=max(x, b)"}) {
    problem.score = *parse_score(score);
    expect_plan(problem);
  }
}

// A search on the cpu device begins, and the callback ends it.
TEST_F(CapiCpu, IsTunedUntilTheCallbackEndsIt) {
  const auto context = open_context(LSSAR_DEVICE_CPU);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  const lssar_problem problem = to_c(problem_of(DType::kFp32), LSSAR_PASS_FORWARD);
  const lssar_problem* list[] = {&problem};
  int calls = 0;
  lssar_tune_options options = {};
  options.struct_size = sizeof(options);
  options.user = &calls;
  options.callback = [](const lssar_tune_progress*, void* user) {
    ++*static_cast<int*>(user);
    return 1;
  };
  EXPECT_EQ(lssar_tune(context->get(), list, 1, &options), LSSAR_STATUS_CANCELLED)
      << lssar_last_error_detail();
  EXPECT_GE(calls, 1);
}

TEST_F(CapiCpu, OptionsThatDoNotFit) {
  const Status nvrtc = open_context(LSSAR_DEVICE_CPU, LSSAR_COMPILER_NVRTC).status();
  EXPECT_EQ(nvrtc.code(), StatusCode::kUnsupported);
  EXPECT_THAT(nvrtc.message(), HasSubstr("the kernels of a CPU target need llvm"));
  const Status gpu = open_context(LSSAR_DEVICE_CPU, LSSAR_COMPILER_AUTO, "sm_80").status();
  EXPECT_EQ(gpu.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(gpu.message(), HasSubstr("with device = cpu allowed are x86-64-v3"));
}

// The death test runs in a process of its own, which has opened no compiler yet.
TEST_F(CapiCpu, WithoutACompilerTheContextSaysSo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("LSSAR_LLVM_PATH", "none", 1);
        const Status status = open_context(LSSAR_DEVICE_CPU).status();
        std::fprintf(stderr, "%s\n", status.message().c_str());
        std::_Exit(static_cast<int>(status.code()));
      },
      testing::ExitedWithCode(LSSAR_STATUS_MISSING), "LSSAR_LLVM_PATH=none");
}

}  // namespace
}  // namespace lssar
