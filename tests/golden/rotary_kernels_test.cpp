// Rotary positions against the float64 reference, in every pass: pairs of halves and of neighbours,
// a part of the columns, pairs that fill no 16 bytes, fewer queries than keys. And calls that are
// refused.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "score/score_text.h"
#include "tests/cpu/cpu_check.h"
#include "tests/golden/attention_check.h"

namespace lssar {
namespace {

struct Rotary {
  int dim;
  bool interleaved = false;
};

Problem make_problem(DType dtype, int head_dim, Rotary rotary) {
  Problem problem;
  problem.dtype = dtype;
  problem.head_dim = problem.head_dim_v = head_dim;
  problem.rotary_dim = rotary.dim;
  problem.rotary_interleaved = rotary.interleaved;
  problem.heads = 4;
  problem.kv_heads = 2;
  return problem;
}

CapiOptions all_passes(Layout layout = Layout::kContiguous) {
  CapiOptions options;
  options.passes = LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;
  options.layout = layout;
  options.alignment = layout == Layout::kUnaligned ? 0 : 16;
  return options;
}

// For 16-bit problems, whose Hopper kernels read rotated q and k by tensor maps.
CapiOptions small(Layout layout) {
  CapiOptions options = all_passes(layout);
  options.schedule_json = small_tiles();
  return options;
}

// Four query heads on two of k and v, fewer queries than keys, as many, one, and none.
void check(const Problem& problem, const CapiOptions& options, const CheckDevice& device = {}) {
  for (const auto& [q, k] : {std::pair<int64_t, int64_t>{33, 70}, {40, 40}, {1, 17}, {0, 5}})
    check_against_reference(problem, make_sizes(2, 4, 2, q, k), InputKind::kGauss, options, device);
}

TEST(RotaryKernels, HalvesByBothCompilers) {
  Problem problem = make_problem(DType::kBf16, 32, {32});
  problem.causal = true;
  for (const lssar_compiler compiler : {LSSAR_COMPILER_NVRTC, LSSAR_COMPILER_LLVM})
    check(problem, small(Layout::kLengthMajor), {.compiler = compiler});
}

TEST(RotaryKernels, NeighboursInAPartOfTheColumns) {
  Problem problem = make_problem(DType::kFp16, 40, {16, true});
  problem.head_dim_v = 24;
  check(problem, small(Layout::kPadded));
}

TEST(RotaryKernels, HalvesInAPartOfTheColumns) {
  check(make_problem(DType::kFp32, 40, {16}), all_passes());
}

// Six pairs: neither 8 elements nor 16 bytes.
TEST(RotaryKernels, PairsThatFillNoChunks) {
  check(make_problem(DType::kBf16, 16, {12}), all_passes());
}

TEST(RotaryKernels, NeighboursThatFillNoChunks) {
  check(make_problem(DType::kFp32, 24, {12, true}), all_passes(Layout::kUnaligned));
}

TEST(RotaryKernels, UnalignedTensors) {
  check(make_problem(DType::kFp16, 16, {16}), all_passes(Layout::kUnaligned));
}

TEST(RotaryKernels, SoftmaxInAWindow) {
  Problem problem = make_problem(DType::kFp32, 16, {16});
  const auto score = parse_score("softmax");
  ASSERT_TRUE(score.ok());
  problem.score = *score;
  problem.p = 0;
  problem.causal = true;
  problem.window_left = 20;
  check(problem, all_passes());
}

// Lengths that are constants of the kernel, and a power without kernels of its own.
TEST(RotaryKernels, FixedLengthsOfALargePower) {
  Problem problem = make_problem(DType::kFp32, 16, {4});
  problem.p = 65;
  CapiOptions options = all_passes();
  options.fixes_lengths = true;
  check_against_reference(problem, make_sizes(1, 4, 2, 20, 37), InputKind::kGauss, options);
}

// What rotation does is far above what the error rule allows.
TEST(RotaryKernels, OtherAnglesAreFound) {
  const Problem problem = make_problem(DType::kFp32, 16, {16});
  const Sizes sizes = make_sizes(1, 4, 2, 20, 37);
  const RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 3);
  const auto expected = reference_attention(problem, sizes,
                                            {widened(in.q),
                                             widened(in.k),
                                             widened(in.v),
                                             widened(in.grad_o),
                                             {},
                                             widened(in.rotary_sin),
                                             widened(in.rotary_cos)});
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  const auto actual = run_capi(shared_context(), problem, sizes,
                               {in.q, in.k, in.v, in.grad_o, {}, in.rotary_cos, in.rotary_sin});
  ASSERT_TRUE(actual.ok()) << actual.status().to_string();
  const TensorError error =
      compare(expected->o, actual->o_train, allowed_error(problem, OutputTensor::kO, *expected));
  EXPECT_GT(error.relative_l2, 0.1);
  EXPECT_FALSE(error.passed);
}

// With `invariant` a query alone has the bits that it has among others.
TEST(RotaryInvariant, OneQueryIsTheLastOfMany) {
  LSSAR_NEEDS_CPU_KERNELS();
  Problem problem = make_problem(DType::kFp32, 16, {16});
  problem.causal = problem.invariant = true;
  const Sizes all = make_sizes(1, 1, 1, 60, 60), one = make_sizes(1, 1, 1, 1, 60);
  RandomInputs in = random_inputs(problem, all, InputKind::kGauss, 3);
  CheckDevice device;
  device.is_cpu = true;
  CapiOptions options;
  options.passes = LSSAR_PASS_FORWARD;
  const auto run = [&](const Sizes& sizes) {
    return run_capi(shared_context(device), problem, sizes,
                    {in.q, in.k, in.v, {}, {}, in.rotary_cos, in.rotary_sin}, options);
  };
  const auto of_all = run(all);
  ASSERT_TRUE(of_all.ok()) << of_all.status().to_string();
  in.q.erase(in.q.begin(), in.q.end() - problem.head_dim);
  const auto of_one = run(one);
  ASSERT_TRUE(of_one.ok()) << of_one.status().to_string();
  EXPECT_EQ(std::memcmp(of_one->o.data(), of_all->o.data() + of_all->o.size() - of_one->o.size(),
                        of_one->o.size() * sizeof(float)),
            0);
}

// The detail of a forward's status. `change` may spoil the call.
template <class Change>
std::string refusal(const Sizes& sizes, const Change& change) {
  static const auto context = open_context(LSSAR_DEVICE_RECORD);
  if (!context.ok()) return context.status().to_string();
  const lssar_problem problem = to_c(make_problem(DType::kFp32, 16, {16}), LSSAR_PASS_FORWARD, 16);
  lssar_plan* raw_plan = nullptr;
  if (lssar_plan_create(context->get(), &problem, nullptr, &raw_plan) != LSSAR_STATUS_OK)
    return lssar_last_error_detail();
  const PlanPtr plan(raw_plan);
  if (lssar_plan_prepare(raw_plan) != LSSAR_STATUS_OK) return lssar_last_error_detail();
  alignas(256) static float numbers[6][1 << 15];  // nothing is read of them
  lssar_call call = {};
  call.struct_size = sizeof(call);
  call.sizes = to_c(sizes);
  lssar_tensor* const tensors[] = {&call.q, &call.k, &call.v, &call.o};
  for (int i = 0; i < 4; ++i) {
    const bool is_of_queries = i == 0 || i == 3;
    const int64_t rows = is_of_queries ? sizes.seq_q : sizes.seq_k;
    *tensors[i] = {numbers[i], {(is_of_queries ? 4 : 2) * rows * 16, rows * 16, 16}};
  }
  call.rotary_cos = call.rotary_sin = numbers[4];
  call.rotary_positions = sizes.seq_k;
  call.workspace = numbers[5];
  call.workspace_bytes = sizeof(numbers[5]);
  change(call);
  return lssar_execute_forward(raw_plan, &call) == LSSAR_STATUS_OK ? "accepted"
                                                                   : lssar_last_error_detail();
}

TEST(RotaryCalls, AreRefusedThatWouldReadOtherMemory) {
  const auto as_it_is = [](lssar_call&) {};
  EXPECT_EQ(refusal(make_sizes(1, 4, 2, 9, 9), as_it_is), "accepted");
  EXPECT_EQ(refusal(make_sizes(1, 4, 2, 9, 8), as_it_is),
            "sizes.seq_q = 9: allowed with rotary_dim are 0 to seq_k = 8, because query i stands "
            "at position i + seq_k - seq_q");
  const Sizes sizes = make_sizes(1, 4, 2, 5, 9);
  EXPECT_EQ(refusal(sizes, [](lssar_call& call) { call.rotary_positions = 8; }),
            "rotary_positions = 8: allowed are seq_k = 9 to 2147483647");
  EXPECT_EQ(refusal(sizes, [](lssar_call& call) { call.rotary_positions = -1; }),
            "rotary_positions = -1: allowed are seq_k = 9 to 2147483647");
  EXPECT_EQ(refusal(sizes, [](lssar_call& call) { call.rotary_positions = 100; }), "accepted");
  EXPECT_EQ(refusal(sizes, [](lssar_call& call) { call.rotary_sin = nullptr; }),
            "rotary_sin = NULL: it has 1 x 1 x 9 x 8 elements");
  EXPECT_NE(refusal(sizes, [](lssar_call& call) { call.rotary_cos = (const float*)call.o.data; })
                .find("o overlaps rotary_cos"),
            std::string::npos);
}

}  // namespace
}  // namespace lssar
