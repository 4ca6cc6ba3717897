// Windows on CPU targets against the reference: every kind of window, causal and not, types, score
// functions, passes, lengths around rows, panels, tiles and blocks. A window is built into a
// kernel, lengths are not: so each window has few kernels and many lengths. key_walk_test has the
// walks alone.
#include <algorithm>
#include <string>

#include "score/score_text.h"
#include "tests/cpu/cpu_check.h"

namespace lssar {
namespace {

struct Window {
  int64_t left = -1, right = -1, sinks = 0, prefix = 0, chunk = 0;
};

Problem with_window(Problem problem, const Window& window) {
  problem.window_left = window.left;
  problem.window_right = window.right;
  problem.window_sinks = window.sinks;
  problem.prefix = window.prefix;
  problem.chunk = window.chunk;
  return problem;
}

Problem scored(Problem problem, const char* score) {
  const auto parsed = parse_score(score);
  EXPECT_TRUE(parsed.ok()) << parsed.status().to_string();
  if (parsed.ok()) problem.score = *parsed;
  return problem;
}

struct Lengths {
  int64_t q, k;
};
// Few queries against many keys; more queries than keys; none of either; a prime.
constexpr Lengths kLengths[] = {{1, 1},   {5, 0},     {1, 1201}, {8, 700}, {17, 513},
                                {97, 97}, {191, 193}, {60, 31},  {13, 402}};

void check_lengths(const Problem& problem, bool trains, size_t turn, const CpuRun& run = {}) {
  for (const Lengths lengths : kLengths) {
    const Sizes sizes = sizes_with(1, 2, 1, lengths.q, lengths.k);
    if (trains) {
      check_training(problem, sizes, InputKind::kGauss, run, 20261126, target_in_turn(turn));
    } else {
      check_forward(problem, sizes, InputKind::kGauss, run, 20261126, target_in_turn(turn));
    }
  }
}

TEST(CpuWindows, Forward) {
  LSSAR_NEEDS_CPU_KERNELS();
  check_lengths(with_window(forward_problem(DType::kFp32, 24, 40, 15, true), {.left = 37}), false,
                0);
  check_lengths(with_window(forward_problem(DType::kBf16, 16, 16, 15, false),
                            {.left = 50, .right = 20, .sinks = 5}),
                false, 1);
  check_lengths(with_window(forward_problem(DType::kFp16, 16, 24, 0, false), {.chunk = 48}), false,
                0);
  check_lengths(with_window(forward_problem(DType::kFp32, 16, 16, 3, true),
                            {.left = 300, .sinks = 2, .prefix = 33}),
                false, 1);
}

TEST(CpuWindows, Training) {
  LSSAR_NEEDS_CPU_KERNELS();
  check_lengths(
      with_window(forward_problem(DType::kFp32, 24, 16, 15, true), {.left = 100, .sinks = 4}), true,
      1);
  check_lengths(with_window(forward_problem(DType::kFp32, 16, 16, 3, false),
                            {.left = 30, .right = 11, .sinks = 20, .prefix = 7, .chunk = 100}),
                true, 0);
  check_lengths(
      with_window(forward_problem(DType::kBf16, 16, 16, 15, true), {.sinks = 3, .chunk = 64}), true,
      0);
}

// dq by a kernel of its own; activations of the first blocks only are kept.
TEST(CpuWindows, OtherSchedules) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = with_window(forward_problem(DType::kFp32, 16, 16, 15, true),
                                      {.left = 150, .sinks = 9, .prefix = 40});
  CpuRun run;
  run.schedule = default_schedule(problem, *target_from_name(cpu_target_names()[0]));
  run.schedule->dq_mode = DqMode::kSplit;
  run.schedule->epsilon = EpsilonFrom::kX;
  run.schedule->cpu.block_keys = 32;
  run.schedule->cpu.kept_keys = 64;
  check_lengths(problem, true, 0, run);
}

// One pass, two passes, epsilon as a sum, sums of magnitudes, a sink beside the first keys.
TEST(CpuWindows, ScoreFunctions) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem causal = forward_problem(DType::kFp32, 16, 16, 0, true);
  check_lengths(scored(with_window(causal, {.left = 64, .sinks = 4}), "softmax"), true, 0);
  Problem full = forward_problem(DType::kFp32, 16, 24, 3, false);
  check_lengths(scored(with_window(full, {.left = 40, .right = 5, .prefix = 3}),
                       "phi=relu,normalizer=sum_abs"),
                true, 1);
  full.p = 0;
  check_lengths(
      scored(with_window(full, {.right = 9, .chunk = 70}),
             "phi=softplus(x) + 1,normalizer=sum_abs,psi=x*b + N + x^2,psi_normalizer=sum_abs"),
      true, 0);
}

// A few queries of heads that share keys (other kernels), and many, at the end of keys that nobody
// sees: those from the sinks to `unseen`. NaN there reaches no result, even within a panel or a
// tile that has keys that are seen. Gradients there are 0.
void check_unseen(const Problem& problem, const Sizes& sizes, int64_t unseen, bool trains,
                  const std::string& target = cpu_target_names()[0]) {
  const RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 5);
  CpuInputs inputs{in.q, in.k, in.v, in.grad_o};
  const auto run = [&] {
    return trains ? run_cpu_training(target, problem, sizes, inputs)
                  : run_cpu_kernel(target, problem, sizes, inputs);
  };
  const auto usual = run();
  const int64_t d = problem.head_dim;
  for (int64_t head = 0; head < sizes.kv_heads; ++head)
    for (std::vector<float>* x : {&inputs.k, &inputs.v})
      std::fill_n(x->begin() + (head * sizes.seq_k + problem.window_sinks) * d,
                  (unseen - problem.window_sinks) * d, kNan);
  const auto poisoned = run();
  ASSERT_TRUE(usual.ok() && poisoned.ok()) << usual.status().to_string();
  EXPECT_EQ(usual->o, poisoned->o);
  EXPECT_FALSE(has_nan(usual->o, 0, static_cast<int64_t>(usual->o.size())));
  if (!trains) return;
  EXPECT_EQ(usual->dq, poisoned->dq);
  EXPECT_EQ(usual->dk, poisoned->dk);
  EXPECT_EQ(usual->dv, poisoned->dv);
}

TEST(CpuWindows, KeysOutsideAreNotMultiplied) {
  LSSAR_NEEDS_CPU_KERNELS();
  Problem problem =
      with_window(forward_problem(DType::kFp32, 16, 16, 15, true), {.left = 99, .sinks = 1});
  check_unseen(problem, sizes_with(1, 2, 2, 61, 2000), 2000 - 61 - 99, false);
  check_unseen(problem, sizes_with(1, 4, 2, 3, 2000), 2000 - 3 - 99, false);
  problem.window_sinks = 81;
  const Sizes sizes = sizes_with(1, 2, 2, 61, 2000);
  check_unseen(problem, sizes, 2000 - 61 - 99, true);
  problem.p = 0;
  check_unseen(scored(problem, "softmax"), sizes, 2000 - 61 - 99, true);
}

// Products of pairs, with their instructions in software. Sinks and window end and begin within
// pairs.
TEST(CpuWindows, Pairs) {
  LSSAR_NEEDS_CPU_KERNELS();
  Problem problem =
      with_window(forward_problem(DType::kBf16, 16, 16, 15, true), {.left = 70, .sinks = 3});
  CpuRun run;
  for (const Lengths lengths : {Lengths{97, 131}, Lengths{191, 193}})
    check_training(problem, sizes_with(1, 2, 1, lengths.q, lengths.k), InputKind::kGauss, run,
                   20261126, {kPairsTarget});
  const Sizes sizes = sizes_with(1, 2, 2, 60, 201);
  check_unseen(problem, sizes, 201 - 60 - 70, true, kPairsTarget);
  for (const char* score : {"", "softmax"}) {  // both multiply all values
    problem.p = *score == 0 ? 3 : 0;
    const Problem dense = *score == 0 ? problem : scored(problem, score);
    check_forward(dense, sizes_with(1, 2, 1, 97, 97), InputKind::kGauss, run, 20261126,
                  {kPairsTarget});
    check_unseen(dense, sizes, 201 - 60 - 70, false, kPairsTarget);
  }
}

TEST(CpuWindows, BitsDoNotDependOnThreads) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem =
      with_window(forward_problem(DType::kFp32, 24, 16, 15, true), {.left = 100, .sinks = 4});
  const Sizes sizes = sizes_with(1, 2, 1, 700, 731);
  const RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 6);
  const auto run = [&](int threads) {
    CpuRun with;
    with.threads = threads;
    return run_cpu_training("x86-64-v4", problem, sizes, {in.q, in.k, in.v, in.grad_o}, with);
  };
  const auto one = run(1), three = run(3);
  ASSERT_TRUE(one.ok() && three.ok()) << one.status().to_string();
  EXPECT_EQ(one->o, three->o);
  EXPECT_EQ(one->dq, three->dq);
  EXPECT_EQ(one->dk, three->dk);
  EXPECT_EQ(one->dv, three->dv);
}

}  // namespace
}  // namespace lssar
