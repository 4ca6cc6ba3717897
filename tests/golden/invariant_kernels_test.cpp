// Problem::invariant on GPU targets: a row has the same bits in calls of other rows, batches and
// sequences. tests/cpu/cpu_invariant_test.cpp has the CPU device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "compile/compiler.h"
#include "tests/capi/varlen_call.h"
#include "tests/golden/attention_check.h"

namespace lssar {
namespace {

constexpr uint32_t kForwards = LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN;

struct Case {
  const char* name;
  const char* score;  // "": the default one
  DType dtype;
  int dim, dim_v, p;
  bool causal;
  int window_left, window_sinks;
};

// Every kind of row sums: factors, Kahan's sums, a running maximum, two products of the weights of
// few keys, psi; with and without a window.
constexpr Case kCases[] = {
    {"lssar_bf16", "", DType::kBf16, 64, 64, 15, true, -1, 0},
    {"lssar_fp32", "", DType::kFp32, 40, 24, 3, true, -1, 0},
    {"lssar_window", "", DType::kFp16, 64, 64, 15, true, 70, 3},
    {"softmax_bf16", "softmax", DType::kBf16, 64, 64, 0, true, -1, 0},
    {"softmax_fp16_window", "softmax", DType::kFp16, 64, 64, 3, true, 50, 2},
    {"relu_l1_fp16", "phi=relu(x),normalizer=sum_abs", DType::kFp16, 32, 32, 15, true, -1, 0},
    {"sigmoid_bf16", "sigmoid", DType::kBf16, 32, 32, 0, true, -1, 0},
    {"psi_fp32", "phi=exp(x),normalizer=sum,psi=x-b,psi_normalizer=sum_abs", DType::kFp32, 32,
     32, 0, true, -1, 0},
};
std::string name_of(const testing::TestParamInfo<Case>& info) { return info.param.name; }

Problem problem_of(const Case& c) {
  Problem problem;
  problem.dtype = c.dtype;
  problem.head_dim = c.dim;
  problem.head_dim_v = c.dim_v;
  problem.p = c.p;
  problem.causal = c.causal;
  problem.window_left = c.window_left;
  problem.window_sinks = c.window_sinks;
  problem.heads = 4;
  problem.kv_heads = 2;
  problem.invariant = true;
  if (c.score[0] == '\0') return problem;
  const Result<ScoreFunction> score = parse_score(c.score);
  EXPECT_TRUE(score.ok()) << score.status().to_string();
  if (score.ok()) problem.score = *score;
  return problem;
}

// What a forward and a forward for training compute of one entry.
struct Entry {
  std::vector<float> o, o_train, stats;
};

// Planes [plane][length][dim] -> rows [first, first + count) of each.
std::vector<float> rows_of(const std::vector<float>& all, int64_t length, int64_t first,
                           int64_t count, int64_t dim) {
  std::vector<float> part;
  for (size_t plane = 0; plane < all.size(); plane += static_cast<size_t>(length * dim)) {
    const auto from = all.begin() + static_cast<int64_t>(plane) + first * dim;
    part.insert(part.end(), from, from + count * dim);
  }
  return part;
}

using lssar::num_different;
size_t num_different(const Entry& a, const Entry& b) {
  return num_different(a.o, b.o) + num_different(a.o_train, b.o_train) +
         num_different(a.stats, b.stats);
}

Entry computed(const Problem& problem, const Sizes& sizes, const RandomInputs& in,
               const CapiOptions& options, const CheckDevice& device = {}) {
  const Result<CapiOutputs> out =
      run_capi(shared_context(device), problem, sizes, {in.q, in.k, in.v, {}}, options);
  EXPECT_TRUE(out.ok()) << out.status().to_string();
  if (!out.ok()) return {};
  return {out->o, out->o_train, out->saved_stats};
}

// An entry of `whole`, in calls of some of its queries. Causal calls end at the last of them.
class Prefill {
 public:
  Prefill(const Problem& problem, const Sizes& whole, CapiOptions options = {},
          const CheckDevice& device = {})
      : problem_(problem), whole_(whole), options_(std::move(options)), device_(device) {
    options_.passes = kForwards;
    inputs_ = random_inputs(problem, whole, InputKind::kGauss, 17);
    all_ = computed(problem_, whole_, inputs_, options_, device_);
  }

  // How many numbers of the last queries differ if they are computed `at_once` at a time.
  size_t num_different_in_chunks(int64_t at_once, int64_t queries) const {
    size_t count = 0;
    for (int64_t first = whole_.seq_q - queries; first < whole_.seq_q; first += at_once) {
      const int64_t rows = std::min(at_once, whole_.seq_q - first);
      count += num_different(chunk(first, rows), part(first, rows));
    }
    return count;
  }
  const Entry& all() const { return all_; }

 private:
  Entry chunk(int64_t first, int64_t rows) const {
    const int64_t keys = whole_.seq_k - (whole_.seq_q - first - rows);
    RandomInputs in;
    in.q = rows_of(inputs_.q, whole_.seq_q, first, rows, problem_.head_dim);
    in.k = rows_of(inputs_.k, whole_.seq_k, 0, keys, problem_.head_dim);
    in.v = rows_of(inputs_.v, whole_.seq_k, 0, keys, problem_.head_dim_v);
    return computed(problem_, make_sizes(1, whole_.heads, whole_.kv_heads, rows, keys), in,
                    options_, device_);
  }
  Entry part(int64_t first, int64_t rows) const {
    return {rows_of(all_.o, whole_.seq_q, first, rows, problem_.head_dim_v),
            rows_of(all_.o_train, whole_.seq_q, first, rows, problem_.head_dim_v),
            rows_of(all_.stats, whole_.seq_q, first, rows, 1)};
  }

  Problem problem_;
  Sizes whole_;
  CapiOptions options_;
  CheckDevice device_;
  RandomInputs inputs_;
  Entry all_;
};

class InvariantKernels : public testing::TestWithParam<Case> {
 protected:
  Problem problem_ = problem_of(GetParam());
};

TEST_P(InvariantKernels, ChunksHaveTheBitsOfThePrefill) {
  const Prefill first_rows(problem_, make_sizes(1, 4, 2, 30, 30));
  EXPECT_EQ(first_rows.num_different_in_chunks(7, 30), 0u);
  const Prefill prefill(problem_, make_sizes(1, 4, 2, 70, 211));
  EXPECT_EQ(prefill.num_different_in_chunks(64, 70), 0u);
  EXPECT_EQ(prefill.num_different_in_chunks(1, 2), 0u);
  EXPECT_EQ(num_different(prefill.all().o, prefill.all().o_train), 0u) << "the two forwards";
}

TEST_P(InvariantKernels, EntriesOfABatchHaveTheBitsOfTheirOwnCall) {
  const Sizes sizes = make_sizes(3, 4, 2, 33, 90);
  const RandomInputs in = random_inputs(problem_, sizes, InputKind::kGauss, 18);
  CapiOptions options;
  options.passes = kForwards;
  const Entry all = computed(problem_, sizes, in, options);
  const auto entry_of = [](const std::vector<float>& x, int64_t entry) {
    const auto size = static_cast<int64_t>(x.size()) / 3;
    return std::vector<float>(x.begin() + entry * size, x.begin() + (entry + 1) * size);
  };
  for (const int64_t entry : {0, 2}) {
    RandomInputs own;
    own.q = entry_of(in.q, entry);
    own.k = entry_of(in.k, entry);
    own.v = entry_of(in.v, entry);
    const Entry alone = computed(problem_, make_sizes(1, 4, 2, 33, 90), own, options);
    EXPECT_EQ(num_different(alone.o, entry_of(all.o, entry)), 0u) << "entry " << entry;
    EXPECT_EQ(num_different(alone.o_train, entry_of(all.o_train, entry)), 0u) << "entry " << entry;
  }
}

TEST_P(InvariantKernels, SequencesHaveTheBitsOfTheirOwnCall) {
  if (device_kind() == LSSAR_DEVICE_CUDA)
    GTEST_SKIP() << "VarlenCall has its tensors in host memory, which a GPU cannot read";
  VarlenCase packed;
  packed.problem = problem_;
  packed.q.lengths = {5, 0, 70, 33, 1};
  packed.k.lengths = {7, 4, 130, 33, 97};
  const std::string score = GetParam().score;
  lssar_problem problem = varlen_problem(packed);
  problem.passes = LSSAR_PASS_FORWARD;
  if (!score.empty()) problem.score = score.c_str();
  lssar_plan* made = nullptr;
  ASSERT_EQ(lssar_plan_create(shared_context(), &problem, nullptr, &made), LSSAR_STATUS_OK)
      << lssar_last_error_detail();
  const PlanPtr plan(made);
  ASSERT_EQ(lssar_plan_prepare(made), LSSAR_STATUS_OK) << lssar_last_error_detail();
  VarlenCall memory(packed);
  const lssar_call call = memory.make(plan.get());
  ASSERT_EQ(lssar_execute_forward(plan.get(), &call), LSSAR_STATUS_OK)
      << lssar_last_error_detail();
  CapiOptions options;
  options.passes = LSSAR_PASS_FORWARD;
  for (int64_t b = 0; b < packed.q.count(); ++b) {
    if (packed.q.lengths[b] == 0) continue;
    const Sizes sizes = make_sizes(1, 4, 2, packed.q.lengths[b], packed.k.lengths[b]);
    const Entry alone = computed(problem_, sizes, memory.inputs[b], options);
    EXPECT_EQ(num_different(alone.o, memory.o.take(b)), 0u) << "sequence " << b;
  }
}

INSTANTIATE_TEST_SUITE_P(All, InvariantKernels, testing::ValuesIn(kCases), name_of);

// Fixed lengths of few queries pack the heads that share keys into one tile.
TEST(InvariantLayouts, PackedHeadsFixedLengthsAndPlainLoadsChangeNoBit) {
  const Problem problem = problem_of(kCases[0]);
  const Sizes whole = make_sizes(1, 4, 2, 40, 140);
  const Prefill usual(problem, whole);
  CapiOptions options;
  options.fixes_lengths = true;
  options.layout = Layout::kPadded;
  options.schedule_json = R"({"forward": {"block_rows": 32, "stages": 2}, "pack_gqa": true})";
  const Prefill other(problem, whole, options);
  EXPECT_EQ(num_different(usual.all(), other.all()), 0u);
  EXPECT_EQ(other.num_different_in_chunks(1, 1), 0u);
  options.fixes_lengths = false;
  options.schedule_json.clear();
  options.layout = Layout::kUnaligned;
  EXPECT_EQ(num_different(usual.all(), Prefill(problem, whole, options).all()), 0u);
}

TEST(InvariantLayouts, KernelsOfLlvmHaveTheSameBitsInChunks) {
  if (const auto llvm = open_compiler(CompilerChoice::kLlvm); !llvm.ok())
    GTEST_SKIP() << llvm.status().to_string();
  const CheckDevice device = {LSSAR_COMPILER_LLVM, "sm_80"};
  const Prefill prefill(problem_of(kCases[4]), make_sizes(1, 4, 2, 70, 211), {}, device);
  EXPECT_EQ(prefill.num_different_in_chunks(64, 70), 0u);
  EXPECT_EQ(prefill.num_different_in_chunks(1, 2), 0u);
}

// The tests above would find nothing if kernels had these bits without `invariant`.
TEST(InvariantLayouts, WithoutItBitsDependOnTheCall) {
  const auto named = std::find_if(std::begin(kCases), std::end(kCases), [](const Case& c) {
    return std::string(c.name) == "sigmoid_bf16";
  });
  // Seven rows leave a warp's others without keys, and rows of few keys have a second product.
  Problem problem = problem_of(*named);
  problem.invariant = false;
  const Prefill prefill(problem, make_sizes(1, 4, 2, 64, 140));
  EXPECT_NE(prefill.num_different_in_chunks(7, 14), 0u);
}

// Rows of queries repeat their bits whatever else the batch holds; dk and dv are sums over queries.
TEST(InvariantGradients, DoNotDependOnTheBatch) {
  const Problem problem = problem_of(kCases[0]);
  const RandomInputs in = random_inputs(problem, make_sizes(2, 4, 2, 70, 90), InputKind::kGauss, 3);
  const auto first_half = [](const std::vector<float>& x) {
    return std::vector<float>(x.begin(), x.begin() + static_cast<int64_t>(x.size() / 2));
  };
  const Sizes sizes = make_sizes(2, 4, 2, 70, 90);
  const Result<CapiOutputs> both =
      run_capi(shared_context(), problem, sizes, {in.q, in.k, in.v, in.grad_o});
  const Result<CapiOutputs> alone =
      run_capi(shared_context(), problem, make_sizes(1, 4, 2, 70, 90),
               {first_half(in.q), first_half(in.k), first_half(in.v), first_half(in.grad_o)});
  ASSERT_TRUE(both.ok() && alone.ok());
  EXPECT_EQ(num_different(first_half(both->grad_q), alone->grad_q), 0u);
  EXPECT_EQ(num_different(first_half(both->grad_k), alone->grad_k), 0u);
  EXPECT_EQ(num_different(first_half(both->grad_v), alone->grad_v), 0u);
}

}  // namespace
}  // namespace lssar
