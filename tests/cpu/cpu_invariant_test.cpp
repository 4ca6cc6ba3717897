// Problem::invariant: a row has the same bits whatever the batch, its neighbours, the number of
// queries of the call, the lengths of other entries and the threads. A kernel takes any lengths, so
// each problem has one kernel.
#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "score/score_text.h"
#include "tests/cpu/cpu_check.h"

namespace lssar {
namespace {

Problem invariant_problem(DType dtype, int dim, int dim_v, int p, bool causal) {
  Problem problem = forward_problem(dtype, dim, dim_v, p, causal);
  problem.invariant = true;
  return problem;
}

Problem scored(Problem problem, const char* score) {
  const auto parsed = parse_score(score);
  EXPECT_TRUE(parsed.ok()) << parsed.status().to_string();
  if (parsed.ok()) problem.score = *parsed;
  return problem;
}

// Heads of a call, and rows [first, first + count) of each of them.
struct Rows {
  int64_t heads, length, first, count;
  size_t dim;
};
std::vector<float> rows_of(const std::vector<float>& all, const Rows& rows) {
  std::vector<float> part;
  for (int64_t head = 0; head < rows.heads; ++head) {
    const auto from =
        all.begin() + (head * rows.length + rows.first) * static_cast<int64_t>(rows.dim);
    part.insert(part.end(), from, from + rows.count * static_cast<int64_t>(rows.dim));
  }
  return part;
}

struct Case {
  Problem problem;
  std::string target;
  int64_t heads, kv_heads;
};

// What a call computes of one entry.
struct Entry {
  std::vector<float> o, stats, unrounded_o, saved_x;
};
using lssar::num_different;
size_t num_different(const Entry& a, const Entry& b) {
  return num_different(a.o, b.o) + num_different(a.stats, b.stats) +
         num_different(a.unrounded_o, b.unrounded_o) + num_different(a.saved_x, b.saved_x);
}

// Queries [first, first + count) of the `whole.seq_q` queries of an entry, against the keys that the
// last of them sees if the problem is causal, or against all keys.
Entry computed(const Case& of, const Sizes& whole, const RandomInputs& in, int64_t first,
               int64_t count, const CpuRun& run = {}) {
  const Problem& problem = of.problem;
  const auto d = static_cast<size_t>(problem.head_dim), dv = static_cast<size_t>(problem.head_dim_v);
  const int64_t left = whole.seq_q - first - count;
  const int64_t keys = problem.causal ? std::max<int64_t>(whole.seq_k - left, 0) : whole.seq_k;
  const Sizes sizes = sizes_with(1, of.heads, of.kv_heads, count, keys);
  const auto out = run_cpu_kernel(of.target, problem, sizes,
                                  {rows_of(in.q, {of.heads, whole.seq_q, first, count, d}),
                                   rows_of(in.k, {of.kv_heads, whole.seq_k, 0, keys, d}),
                                   rows_of(in.v, {of.kv_heads, whole.seq_k, 0, keys, dv})},
                                  run);
  EXPECT_TRUE(out.ok()) << out.status().to_string();
  if (!out.ok()) return {};
  return {out->o, problem.pass == Pass::kForward ? std::vector<float>{} : out->stats,
          problem.pass == Pass::kForward ? std::vector<float>{} : out->unrounded_o, out->saved_x};
}

// The same queries of a call that has all of them.
Entry part_of(const Case& of, const Sizes& whole, const Entry& all, int64_t first, int64_t count) {
  const auto dv = static_cast<size_t>(of.problem.head_dim_v);
  const auto part = [&](const std::vector<float>& x, int64_t planes, size_t dim) {
    if (x.empty()) return x;
    return rows_of(x, {planes * of.heads, whole.seq_q, first, count, dim});
  };
  return {part(all.o, 1, dv), part(all.stats, 4, 1), part(all.unrounded_o, 1, dv),
          part(all.saved_x, 1, dv)};
}

// How many numbers of the queries differ if they are computed `at_once` at a time.
size_t num_different_in_chunks(const Case& of, const Sizes& whole, const RandomInputs& in,
                               int64_t at_once, int64_t begin = 0) {
  const Entry all = computed(of, whole, in, 0, whole.seq_q);
  size_t count = 0;
  for (int64_t first = begin; first < whole.seq_q; first += at_once) {
    const int64_t queries = std::min(at_once, whole.seq_q - first);
    count += num_different(computed(of, whole, in, first, queries),
                           part_of(of, whole, all, first, queries));
  }
  return count;
}

// A prefill in one call, in chunks, and the last queries one by one.
void expect_the_same_in_chunks(const Case& of, const std::vector<std::pair<int64_t, int64_t>>& all,
                               InputKind kind = InputKind::kGauss) {
  for (const auto& [queries, keys] : all) {
    const Sizes whole = sizes_with(1, of.heads, of.kv_heads, queries, keys);
    const RandomInputs in = random_inputs(of.problem, whole, kind, 17);
    SCOPED_TRACE(of.target + " " + to_string(of.problem) + " " + input_kind_name(kind) + " " +
                 std::to_string(queries) + "x" + std::to_string(keys));
    EXPECT_EQ(num_different_in_chunks(of, whole, in, 7), 0u);
    EXPECT_EQ(num_different_in_chunks(of, whole, in, 64), 0u);
    EXPECT_EQ(num_different_in_chunks(of, whole, in, 1, std::max<int64_t>(queries - 18, 0)), 0u);
  }
}

// An entry alone and in a batch, whose other entries have other numbers; with several threads; the
// error rule.
void expect_the_same_in_a_batch(const Case& of,
                                const std::vector<std::pair<int64_t, int64_t>>& lengths) {
  for (const auto& [queries, keys] : lengths)
    for (const int64_t batch : {2, 5}) {
      const Sizes sizes = sizes_with(batch, of.heads, of.kv_heads, queries, keys);
      const Sizes one = sizes_with(1, of.heads, of.kv_heads, queries, keys);
      const RandomInputs in = random_inputs(of.problem, sizes, InputKind::kGauss, 18);
      SCOPED_TRACE(of.target + " " + to_string(of.problem) + " batch " + std::to_string(batch) +
                   " " + std::to_string(queries) + "x" + std::to_string(keys));
      CpuRun run;
      run.threads = static_cast<int>(batch);
      const auto all = run_cpu_kernel(of.target, of.problem, sizes, {in.q, in.k, in.v}, run);
      ASSERT_TRUE(all.ok()) << all.status().to_string();
      const auto expected = reference_attention(
          of.problem, sizes, {widened(in.q), widened(in.k), widened(in.v), {}});
      ASSERT_TRUE(expected.ok());
      expect_o(of.problem, *expected, all);
      const auto entry = [&](const std::vector<float>& x, int64_t b) {
        const auto size = static_cast<int64_t>(x.size()) / batch;
        return std::vector<float>(x.begin() + b * size, x.begin() + (b + 1) * size);
      };
      for (int64_t b = 0; b < batch; ++b) {
        RandomInputs alone;
        alone.q = entry(in.q, b);
        alone.k = entry(in.k, b);
        alone.v = entry(in.v, b);
        EXPECT_EQ(num_different(computed(of, one, alone, 0, queries).o, entry(all->o, b)), 0u);
      }
    }
}

// Queries of a call, and keys: chunks of 512 keys, panels of 16 and 64, and their neighbours.
const std::vector<std::pair<int64_t, int64_t>> kLengths = {
    {1, 1}, {1, 63}, {17, 64}, {3, 65}, {64, 511}, {16, 513}, {300, 300}, {130, 1200}};

TEST(CpuInvariant, CausalFp32) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Case of = {invariant_problem(DType::kFp32, 24, 40, 15, true), "x86-64-v3", 4, 2};
  expect_the_same_in_chunks(of, kLengths);
  for (const InputKind kind : kSpecialKinds) expect_the_same_in_chunks(of, {{70, 600}}, kind);
  expect_the_same_in_a_batch(of, {{1, 1200}, {16, 513}, {31, 65}});
}

TEST(CpuInvariant, CausalBf16WithTheLanesOfAvx512) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Case of = {invariant_problem(DType::kBf16, 24, 40, 15, true), "x86-64-v4", 4, 1};
  expect_the_same_in_chunks(of, kLengths);
  for (const InputKind kind : kSpecialKinds) expect_the_same_in_chunks(of, {{70, 600}}, kind);
  expect_the_same_in_a_batch(of, {{1, 1200}, {4, 513}, {31, 65}});
}

// Without a mask, queries of a call see the same keys.
TEST(CpuInvariant, WithoutAMask) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Case of = {invariant_problem(DType::kBf16, 16, 16, 3, false), "x86-64-v3", 2, 1};
  expect_the_same_in_chunks(of, {{17, 63}, {40, 513}, {70, 1200}});
  expect_the_same_in_a_batch(of, {{1, 511}, {20, 700}});
}

// Which blocks of keys a row's block visits depends on its other rows; the sums do not.
TEST(CpuInvariant, Windows) {
  LSSAR_NEEDS_CPU_KERNELS();
  Problem problem = invariant_problem(DType::kFp32, 16, 24, 15, true);
  problem.window_left = 70;
  problem.window_sinks = 5;
  const Case of = {problem, "x86-64-v3", 2, 1};
  expect_the_same_in_chunks(of, {{17, 65}, {130, 1200}, {300, 1300}});
  expect_the_same_in_a_batch(of, {{3, 1200}, {100, 700}});
}

// What the forward for training saves; its o is that of the other forward.
TEST(CpuInvariant, ForwardForTraining) {
  LSSAR_NEEDS_CPU_KERNELS();
  Case of = {invariant_problem(DType::kBf16, 16, 16, 15, true), "x86-64-v3", 2, 1};
  const Sizes whole = sizes_with(1, 2, 1, 130, 700);
  const RandomInputs in = random_inputs(of.problem, whole, InputKind::kGauss, 19);
  const Entry plain = computed(of, whole, in, 0, 130);
  of.problem.pass = Pass::kForwardTrain;
  EXPECT_EQ(num_different(computed(of, whole, in, 0, 130).o, plain.o), 0u);
  expect_the_same_in_chunks(of, {{130, 700}, {17, 65}});
}

// Both forwards compute u^p alike. Other roundings of it rarely show after o is rounded to 16 bits,
// so there are many rows.
TEST(CpuInvariant, WeightsOfBothForwards) {
  LSSAR_NEEDS_CPU_KERNELS();
  for (const DType dtype : {DType::kFp16, DType::kBf16}) {
    Case of = {invariant_problem(dtype, 16, 32, 15, true), "x86-64-v3", 2, 1};
    const Sizes sizes = sizes_with(1, 2, 1, 700, 700);
    const RandomInputs in = random_inputs(of.problem, sizes, InputKind::kGauss, 21);
    const Entry plain = computed(of, sizes, in, 0, 700);
    of.problem.pass = Pass::kForwardTrain;
    EXPECT_EQ(num_different(computed(of, sizes, in, 0, 700).o, plain.o), 0u) << dtype_name(dtype);
  }
}

// An exponential whose largest score so far is taken out, and a power over a sum.
TEST(CpuInvariant, ScoreFunctions) {
  LSSAR_NEEDS_CPU_KERNELS();
  Problem problem = invariant_problem(DType::kFp32, 16, 16, 0, true);
  expect_the_same_in_chunks({scored(problem, "softmax"), "x86-64-v3", 2, 1},
                            {{1, 1}, {70, 700}, {130, 1200}});
  problem.p = 3;
  problem.window_left = 90;
  const Case of = {scored(problem, "phi=relu,normalizer=sum_abs"), "x86-64-v4", 2, 1};
  expect_the_same_in_chunks(of, {{17, 65}, {130, 1200}});
  expect_the_same_in_a_batch(of, {{20, 700}});
}

// rows and kept_keys are the fields of a schedule that a tuning table may choose.
TEST(CpuInvariant, SchedulesThatAreLegalHaveTheSameBits) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Case of = {invariant_problem(DType::kFp32, 24, 40, 15, true), "x86-64-v3", 2, 1};
  const Sizes whole = sizes_with(1, 2, 1, 100, 1200);
  const RandomInputs in = random_inputs(of.problem, whole, InputKind::kGauss, 20);
  const Target target = *target_from_name(of.target);
  CpuRun run;
  run.schedule = default_schedule(of.problem, target);
  run.schedule->cpu.rows = 4;
  run.schedule->cpu.kept_keys = 512;
  EXPECT_TRUE(validate(*run.schedule, of.problem, target).ok());
  EXPECT_EQ(num_different(computed(of, whole, in, 0, 100, run), computed(of, whole, in, 0, 100)),
            0u);
  const auto refusal = [&](const auto& change) {
    Schedule schedule = default_schedule(of.problem, target);
    change(schedule);
    return validate(schedule, of.problem, target).message();
  };
  EXPECT_EQ(refusal([](Schedule& s) { s.cpu.block_keys = 256; }),
            "schedule.cpu.block_keys = 256: allowed is 512 with problem.invariant, because the bits "
            "of results depend on it");
  EXPECT_NE(refusal([](Schedule& s) { s.cpu.panel_keys = 8; }), "");
  EXPECT_NE(refusal([](Schedule& s) { s.softplus_degree = 5; }), "");
}

TEST(CpuInvariant, ABackwardHasOneOrderOfSums) {
  Problem problem = invariant_problem(DType::kFp32, 24, 40, 15, true);
  problem.pass = Pass::kBackward;
  const Target target = *target_from_name("x86-64-v3");
  const Schedule schedule = default_schedule(problem, target);
  EXPECT_TRUE(validate(schedule, problem, target).ok());
  Schedule other = schedule;
  other.cpu.rows = 4;
  EXPECT_EQ(validate(other, problem, target).message(),
            "schedule.cpu.rows = 4: allowed is 6 with problem.invariant, because the bits of "
            "results depend on it");
  other = schedule;
  other.dq_mode = DqMode::kSplit;
  EXPECT_NE(validate(other, problem, target).message().find("schedule.dq_mode = split: allowed is"),
            std::string::npos)
      << validate(other, problem, target).message();
}

// Values that a row has no weight for may be no numbers, whoever else reads them: those of hidden
// keys, and those below its cut.
TEST(CpuInvariant, ValuesOfOtherRowsMayBeNan) {
  LSSAR_NEEDS_CPU_KERNELS();
  for (const Case& of :
       {Case{invariant_problem(DType::kFp32, 24, 40, 15, true), "x86-64-v3", 4, 2},
        Case{invariant_problem(DType::kBf16, 24, 40, 15, true), "x86-64-v4", 4, 1}}) {
    const Sizes whole = sizes_with(1, of.heads, of.kv_heads, 90, 700);
    RandomInputs in = random_inputs(of.problem, whole, InputKind::kGauss, 21);
    for (size_t key = 3; key < in.v.size() / 40; key += 41) in.v[key * 40 + key % 40] = kNan;
    const Entry all = computed(of, whole, in, 0, 90);
    EXPECT_TRUE(has_nan(all.o, 0, static_cast<int64_t>(all.o.size())));
    EXPECT_FALSE(all_nan(all.o, 0, static_cast<int64_t>(all.o.size())));
    EXPECT_EQ(num_different_in_chunks(of, whole, in, 1, 60), 0u);
    EXPECT_EQ(num_different_in_chunks(of, whole, in, 7), 0u);
  }
}

// A NaN in a key and an infinity in a value, which some rows see and others do not.
TEST(CpuInvariant, KeysOfOtherRowsMayBeNan) {
  LSSAR_NEEDS_CPU_KERNELS();
  Problem windowed = invariant_problem(DType::kFp32, 16, 24, 15, true);
  windowed.window_left = 70;
  windowed.window_sinks = 5;
  for (const Case& of :
       {Case{invariant_problem(DType::kFp32, 24, 40, 15, true), "x86-64-v3", 4, 2},
        Case{windowed, "x86-64-v3", 2, 1}}) {
    const auto d = static_cast<size_t>(of.problem.head_dim);
    const auto dv = static_cast<size_t>(of.problem.head_dim_v);
    const Sizes whole = sizes_with(1, of.heads, of.kv_heads, 90, 700);
    RandomInputs in = random_inputs(of.problem, whole, InputKind::kGauss, 25);
    in.k[650 * d + 3] = kNan;
    in.v[655 * dv + 1] = std::numeric_limits<float>::infinity();
    in.v[20 * dv + 2] = kNan;  // before every window
    const Entry all = computed(of, whole, in, 0, 90);
    EXPECT_TRUE(has_nan(all.o, 0, static_cast<int64_t>(all.o.size())));
    EXPECT_FALSE(all_nan(all.o, 0, static_cast<int64_t>(all.o.size())));
    EXPECT_EQ(num_different_in_chunks(of, whole, in, 1), 0u);
    EXPECT_EQ(num_different_in_chunks(of, whole, in, 7), 0u);
  }
}

// Heads 0 and 2 of four that share two heads of keys, without the other two.
TEST(CpuInvariant, AnotherNumberOfHeadsThatShareKeys) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = invariant_problem(DType::kFp32, 24, 40, 15, true);
  const Case shared = {problem, "x86-64-v3", 4, 2}, alone = {problem, "x86-64-v3", 2, 2};
  for (const int64_t queries : {1, 90}) {
    const Sizes four = sizes_with(1, 4, 2, queries, 700), two = sizes_with(1, 2, 2, queries, 700);
    RandomInputs in = random_inputs(problem, four, InputKind::kGauss, 26);
    const auto first_and_third = [&](const std::vector<float>& x) {
      const auto head = static_cast<int64_t>(x.size()) / 4;
      std::vector<float> part(x.begin(), x.begin() + head);
      part.insert(part.end(), x.begin() + 2 * head, x.begin() + 3 * head);
      return part;
    };
    const std::vector<float> wanted = first_and_third(computed(shared, four, in, 0, queries).o);
    in.q = first_and_third(in.q);
    EXPECT_EQ(num_different(computed(alone, two, in, 0, queries).o, wanted), 0u) << queries;
  }
}

// A plan for decoding may have a kernel for one query and a fixed number of keys.
TEST(CpuInvariant, FixedLengthsHaveTheBitsOfAnyLength) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Case any = {invariant_problem(DType::kFp32, 24, 40, 15, true), "x86-64-v3", 4, 2};
  Case fixed = any;
  fixed.problem.seq_q = 1;
  fixed.problem.seq_k = 700;
  const Sizes whole = sizes_with(1, 4, 2, 90, 700);
  const RandomInputs in = random_inputs(any.problem, whole, InputKind::kGauss, 27);
  const Entry all = computed(any, whole, in, 0, 90);
  EXPECT_EQ(num_different(computed(fixed, whole, in, 89, 1), part_of(any, whole, all, 89, 1)), 0u);
}

TEST(CpuInvariant, PrefixesAndChunksInFp16) {
  LSSAR_NEEDS_CPU_KERNELS();
  Problem problem = invariant_problem(DType::kFp16, 16, 16, 15, true);
  problem.prefix = 9;
  problem.chunk = 100;
  const Case of = {problem, "x86-64-v3", 2, 1};
  expect_the_same_in_chunks(of, {{17, 65}, {130, 1200}});
}

// Pairs of bf16 are off, so the targets agree.
TEST(CpuInvariant, TheTargetWithPairsComputesAsTheOneWithout) {
  LSSAR_NEEDS_CPU_KERNELS();
  Case of = {invariant_problem(DType::kBf16, 24, 40, 15, true), "x86-64-v4", 4, 1};
  const Sizes whole = sizes_with(1, 4, 1, 70, 600);
  const RandomInputs in = random_inputs(of.problem, whole, InputKind::kGauss, 28);
  const Entry plain = computed(of, whole, in, 0, 70);
  of.target = "x86-64-v4-bf16";
  EXPECT_EQ(num_different(computed(of, whole, in, 0, 70), plain), 0u);
}

// So these tests can fail: without `invariant`, one query has other bits than among many.
TEST(CpuInvariant, OtherCallsDiffer) {
  LSSAR_NEEDS_CPU_KERNELS();
  Case of = {forward_problem(DType::kFp32, 24, 40, 15, true), "x86-64-v3", 4, 2};
  const Sizes whole = sizes_with(1, 4, 2, 100, 1200);
  const RandomInputs in = random_inputs(of.problem, whole, InputKind::kGauss, 22);
  EXPECT_GT(num_different_in_chunks(of, whole, in, 1, 90), 1000u);
  of.problem.invariant = true;
  EXPECT_EQ(num_different_in_chunks(of, whole, in, 1, 90), 0u);
}

// Gradients do not depend on the batch, the other entries and the threads.
TEST(CpuInvariant, GradientsInABatch) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = invariant_problem(DType::kFp32, 24, 16, 15, true);
  const Sizes sizes = sizes_with(3, 2, 1, 150, 301), one = sizes_with(1, 2, 1, 150, 301);
  const RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 23);
  CpuRun run;
  run.threads = 3;
  const auto all =
      run_cpu_training("x86-64-v3", problem, sizes, {in.q, in.k, in.v, in.grad_o}, run);
  const auto last = [&](const std::vector<float>& x) {
    return std::vector<float>(x.end() - static_cast<int64_t>(x.size()) / 3, x.end());
  };
  const auto alone = run_cpu_training("x86-64-v3", problem, one,
                                      {last(in.q), last(in.k), last(in.v), last(in.grad_o)});
  ASSERT_TRUE(all.ok() && alone.ok()) << all.status().to_string();
  EXPECT_EQ(num_different(alone->dq, last(all->dq)), 0u);
  EXPECT_EQ(num_different(alone->dk, last(all->dk)), 0u);
  EXPECT_EQ(num_different(alone->dv, last(all->dv)), 0u);
  check_training(problem, one, InputKind::kGauss, {}, 24, {"x86-64-v3"});
}

}  // namespace
}  // namespace lssar
