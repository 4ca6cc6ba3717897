// Rules without tolerance: NaN and infinity, dead rows, repeatability, and offsets beyond 2^31
// elements.
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "reference/numerics.h"
#include "tests/golden/attention_check.h"

namespace lssar {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr uint32_t kTraining = LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;
constexpr const char* kDqModes[] = {R"({"dq_mode": "split"})", R"({"dq_mode": "atomic"})",
                                    R"({"dq_mode": "ordered"})"};

CapiOptions options_for(uint32_t passes, int alignment = 16) {
  CapiOptions options;
  options.passes = passes;
  options.alignment = alignment;
  return options;
}

struct Fixture {
  Problem problem;
  Sizes sizes;
  RandomInputs inputs;

  Fixture(DType dtype, int64_t heads, int64_t kv_heads, int64_t length, bool causal = true) {
    problem.dtype = dtype;
    problem.causal = causal;
    sizes = make_sizes(2, heads, kv_heads, length, length);
    inputs = random_inputs(problem, sizes, InputKind::kGauss, 7);
  }

  CapiOutputs run(uint32_t passes, const std::string& schedule = "") const {
    CapiOptions options = options_for(passes);
    options.schedule_json = schedule;
    const auto outputs = run_capi(shared_context(), problem, sizes,
                                  {inputs.q, inputs.k, inputs.v, inputs.grad_o}, options);
    EXPECT_TRUE(outputs.ok()) << outputs.status().to_string();
    return outputs.ok() ? *outputs : CapiOutputs{};
  }

  // First element of a row of a contiguous tensor with `num_heads` heads.
  size_t at(int64_t num_heads, int64_t b, int64_t h, int64_t row) const {
    return static_cast<size_t>(((b * num_heads + h) * sizes.seq_q + row) * problem.head_dim);
  }
};

bool row_is_nan(const std::vector<float>& x, size_t first, int count) {
  for (int i = 0; i < count; ++i)
    if (!std::isnan(x[first + i])) return false;
  return true;
}

bool row_is_finite(const std::vector<float>& x, size_t first, int count) {
  for (int i = 0; i < count; ++i)
    if (!std::isfinite(x[first + i])) return false;
  return true;
}

bool row_is_zero(const std::vector<float>& x, size_t first, int count) {
  for (int i = 0; i < count; ++i)
    if (x[first + i] != 0.0f) return false;
  return true;
}

class NanRules : public testing::TestWithParam<DType> {};

TEST_P(NanRules, AQueryPoisonsItsRowAlone) {
  for (float bad : {kNan, kInf, -kInf}) {
    Fixture f(GetParam(), 2, 1, 150);
    f.inputs.q[f.at(2, 1, 0, 77) + 5] = bad;
    const CapiOutputs out = f.run(LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN);
    for (const auto* o : {&out.o, &out.o_train})
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t h = 0; h < 2; ++h)
          for (int64_t row = 0; row < 150; ++row) {
            const bool sees = b == 1 && h == 0 && row == 77;
            const size_t first = f.at(2, b, h, row);
            ASSERT_TRUE(sees ? row_is_nan(*o, first, 64) : row_is_finite(*o, first, 64))
                << bad << " b " << b << " h " << h << " row " << row;
          }
  }
}

TEST_P(NanRules, AKeyPoisonsExactlyTheRowsThatSeeIt) {
  for (float bad : {kNan, kInf, -kInf}) {
    Fixture f(GetParam(), 2, 1, 150);
    f.inputs.k[f.at(1, 0, 0, 70) + 63] = bad;
    const CapiOutputs out = f.run(LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN);
    for (const auto* o : {&out.o, &out.o_train})
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t h = 0; h < 2; ++h)
          for (int64_t row = 0; row < 150; ++row) {
            const bool sees = b == 0 && row >= 70;
            const size_t first = f.at(2, b, h, row);
            ASSERT_TRUE(sees ? row_is_nan(*o, first, 64) : row_is_finite(*o, first, 64))
                << bad << " b " << b << " h " << h << " row " << row;
          }
  }
}

TEST_P(NanRules, AValueStaysWithinItsBatchAndKvHead) {
  Fixture f(GetParam(), 4, 2, 100, false);
  f.inputs.v[f.at(2, 1, 0, 30) + 3] = kNan;
  const CapiOutputs out = f.run(kTraining);
  bool any_nan = false;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 4; ++h)
      for (int64_t row = 0; row < 100; ++row) {
        const size_t first = f.at(4, b, h, row);
        if (b == 1 && h < 2) {
          any_nan = any_nan || !row_is_finite(out.o_train, first, 64);
          continue;
        }
        ASSERT_TRUE(row_is_finite(out.o_train, first, 64)) << b << " " << h << " " << row;
        ASSERT_TRUE(row_is_finite(out.grad_q, first, 64)) << b << " " << h << " " << row;
      }
  EXPECT_TRUE(any_nan);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t g = 0; g < 2; ++g)
      for (int64_t row = 0; row < 100; ++row) {
        if (b == 1 && g == 0) continue;
        ASSERT_TRUE(row_is_finite(out.grad_k, f.at(2, b, g, row), 64)) << b << g << row;
        ASSERT_TRUE(row_is_finite(out.grad_v, f.at(2, b, g, row), 64)) << b << g << row;
      }
}

TEST_P(NanRules, TheBackwardNeverHidesIt) {
  // With a NaN in a query its own gradient is NaN, and so are those of the keys that it gives
  // weight to.
  Fixture f(GetParam(), 1, 1, 80, false);
  f.inputs.q[f.at(1, 0, 0, 40) + 1] = kNan;
  for (const char* schedule : kDqModes) {
    SCOPED_TRACE(schedule);
    const CapiOutputs out = f.run(kTraining, schedule);
    EXPECT_TRUE(row_is_nan(out.grad_q, f.at(1, 0, 0, 40), 64));
    for (int64_t row = 0; row < 80; ++row) {
      EXPECT_TRUE(row_is_nan(out.grad_k, f.at(1, 0, 0, row), 64)) << row;
      EXPECT_TRUE(row_is_nan(out.grad_v, f.at(1, 0, 0, row), 64)) << row;
      EXPECT_TRUE(row_is_finite(out.grad_k, f.at(1, 1, 0, row), 64)) << row;
    }
  }
}

TEST_P(NanRules, EpsilonNeverHidesIt) {
  // Every query is near one half of the keys and far from the other, whose value has the NaN. So no
  // row gives it weight, and the forward skips it. The epsilon pass does not.
  constexpr int64_t kLength = 480;  // whole tiles of queries
  Fixture f(GetParam(), 1, 1, kLength, false);
  for (int64_t row = 0; row < kLength; ++row) {
    const size_t first = f.at(1, 0, 0, row);
    f.inputs.q[first] = 16.0f;
    f.inputs.k[first] = row < kLength / 2 ? 16.0f : -16.0f;
  }
  f.inputs.v[f.at(1, 0, 0, 420) + 1] = kNan;
  const CapiOutputs out = f.run(kTraining, R"({"skip_tiles": true, "epsilon": "pass"})");
  for (int64_t row = 0; row < kLength; ++row) {
    EXPECT_TRUE(row_is_finite(out.o_train, f.at(1, 0, 0, row), 64)) << row;
    EXPECT_TRUE(row_is_nan(out.grad_q, f.at(1, 0, 0, row), 64)) << row;
    EXPECT_TRUE(row_is_nan(out.grad_k, f.at(1, 0, 0, row), 64)) << row;
    EXPECT_TRUE(row_is_finite(out.grad_k, f.at(1, 1, 0, row), 64)) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(All, NanRules, testing::Values(DType::kBf16, DType::kFp16, DType::kFp32),
                         [](const testing::TestParamInfo<DType>& param_info) {
                           return std::string(dtype_name(param_info.param));
                         });

TEST(DeadRows, GiveZeroAndNoGradient) {
  Problem problem;
  problem.causal = true;
  const Sizes sizes = make_sizes(1, 1, 1, 90, 90);
  const RandomInputs inputs = random_inputs(problem, sizes, InputKind::kTies, 3);
  const auto out = run_capi(shared_context(), problem, sizes,
                            {inputs.q, inputs.k, inputs.v, inputs.grad_o}, options_for(kTraining));
  ASSERT_TRUE(out.ok()) << out.status().to_string();
  for (size_t row = 3; row < 90; ++row) {  // rows of up to three keys have no offset: alive
    EXPECT_TRUE(row_is_zero(out->o_train, row * 64, 64)) << row;
    EXPECT_TRUE(row_is_zero(out->grad_q, row * 64, 64)) << row;
    EXPECT_TRUE(row_is_zero(out->grad_v, row * 64, 64)) << row;
  }
  EXPECT_FALSE(row_is_zero(out->o_train, 2 * 64, 64));
}

TEST(RowsWithoutKeys, GiveZeroAndStatisticsOfZero) {
  Problem problem;
  problem.causal = true;
  const Sizes sizes = make_sizes(1, 1, 1, 40, 10);
  const RandomInputs inputs = random_inputs(problem, sizes, InputKind::kGauss, 3);
  const auto out = run_capi(shared_context(), problem, sizes,
                            {inputs.q, inputs.k, inputs.v, inputs.grad_o}, options_for(kTraining));
  ASSERT_TRUE(out.ok()) << out.status().to_string();
  for (size_t row = 0; row < 30; ++row) {
    EXPECT_TRUE(row_is_zero(out->o_train, row * 64, 64)) << row;
    EXPECT_TRUE(row_is_zero(out->grad_q, row * 64, 64)) << row;
    for (size_t stat = 0; stat < 4; ++stat) EXPECT_EQ(out->saved_stats[stat * 40 + row], 0.0f);
  }
}

TEST(Repeatability, TheDefaultBackwardIsBitwiseTheSame) {
  for (DType dtype : {DType::kBf16, DType::kFp16, DType::kFp32}) {
    const Fixture f(dtype, 4, 2, 200);
    const CapiOutputs a = f.run(kTraining);
    const CapiOutputs b = f.run(kTraining);
    const auto same = [](const std::vector<float>& x, const std::vector<float>& y) {
      return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * 4) == 0;
    };
    EXPECT_TRUE(same(a.o_train, b.o_train));
    EXPECT_TRUE(same(a.grad_q, b.grad_q));
    EXPECT_TRUE(same(a.grad_k, b.grad_k));
    EXPECT_TRUE(same(a.grad_v, b.grad_v));
  }
}

// A separate GPU, whose schedule of blocks and warps is drawn from `seed`.
ContextPtr context_with_seed(const char* seed) {
  const char* before = std::getenv("LSSAR_VIRTUAL_SEED");
  const std::string kept = before == nullptr ? "" : before;
  setenv("LSSAR_VIRTUAL_SEED", seed, 1);
  auto context = open_context(LSSAR_DEVICE_VIRTUAL, LSSAR_COMPILER_AUTO, test_target());
  if (before == nullptr) {
    unsetenv("LSSAR_VIRTUAL_SEED");
  } else {
    setenv("LSSAR_VIRTUAL_SEED", kept.c_str(), 1);
  }
  EXPECT_TRUE(context.ok()) << context.status().to_string();
  return context.ok() ? std::move(*context) : nullptr;
}

// Key tiles take turns, so dq is summed in one order whatever runs first. In fp16, whose tiles also
// have a scale.
TEST(Repeatability, OrderedDqIsBitwiseTheSameOnEverySchedule) {
  const Fixture f(DType::kFp16, 4, 2, 300, false);
  CapiOptions options = options_for(kTraining);
  options.schedule_json = R"({"dq_mode": "ordered"})";
  std::vector<float> first;
  for (const char* seed : {"0", "1", "2", "7", "11"}) {
    const ContextPtr context = context_with_seed(seed);
    ASSERT_NE(context, nullptr);
    const auto out = run_capi(context.get(), f.problem, f.sizes,
                              {f.inputs.q, f.inputs.k, f.inputs.v, f.inputs.grad_o}, options);
    ASSERT_TRUE(out.ok()) << out.status().to_string();
    if (first.empty()) first = out->grad_q;
    ASSERT_EQ(out->grad_q.size(), first.size());
    EXPECT_EQ(std::memcmp(out->grad_q.data(), first.data(), first.size() * 4), 0) << seed;
  }
}

// |a - b| / |b|; NaN is far from everything.
double relative_distance(const std::vector<float>& a, const std::vector<float>& b,
                         float a_scale = 1) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    error += std::pow(a[i] * a_scale - b[i], 2);
    norm += std::pow(b[i], 2);
  }
  return std::sqrt(error / norm);
}

// fp16 gradients far outside fp16's own range of dS.
TEST(LossScaling, Fp16GradientsScaleWithTheOutputGradient) {
  Fixture f(DType::kFp16, 1, 1, 100);
  const CapiOutputs plain = f.run(kTraining);
  for (const float scale : {1.0f / 1024, 256.0f}) {
    Fixture scaled = f;
    for (float& g : scaled.inputs.grad_o) g *= scale;
    const CapiOutputs out = scaled.run(kTraining);
    EXPECT_LT(relative_distance(out.grad_q, plain.grad_q, 1 / scale), 2e-3) << scale;
  }
}

// Norms of keys are part of the scale of fp16 gradients. Here 1 / |k| is large, and the first tiles
// of queries leave the scale at its initial value.
TEST(LossScaling, Fp16KeysMayBeShortAndTilesWithoutGradient) {
  constexpr float kKeyScale = 1.0f / 256;
  Fixture f(DType::kFp16, 1, 1, 200, false);
  const auto begin = f.inputs.grad_o.begin();
  std::fill(begin, begin + f.at(1, 0, 0, 130), 0.0f);
  Fixture with_short_keys = f;
  for (float& k : with_short_keys.inputs.k) k *= kKeyScale;
  Fixture without_gradient = with_short_keys;
  for (float& g : without_gradient.inputs.grad_o) g = 0.0f;
  for (const char* schedule : kDqModes) {
    SCOPED_TRACE(schedule);
    const CapiOutputs plain = f.run(kTraining, schedule);
    const CapiOutputs got = with_short_keys.run(kTraining, schedule);
    ASSERT_EQ(got.grad_k.size(), plain.grad_k.size());
    EXPECT_LT(relative_distance(got.grad_q, plain.grad_q), 2e-3);
    EXPECT_LT(relative_distance(got.grad_k, plain.grad_k, kKeyScale), 2e-3);
    EXPECT_LT(relative_distance(got.grad_v, plain.grad_v), 2e-3);

    const CapiOutputs none = without_gradient.run(kTraining, schedule);
    for (const std::vector<float>& grad : {none.grad_q, none.grad_k, none.grad_v})
      EXPECT_TRUE(row_is_zero(grad, 0, static_cast<int>(grad.size())));
  }
}

// A sparse mapping: only touched pages take memory.
class SparseTensor {
 public:
  explicit SparseTensor(size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  ~SparseTensor() {
    if (ok()) munmap(data_, bytes_);
  }
  SparseTensor(const SparseTensor&) = delete;
  SparseTensor& operator=(const SparseTensor&) = delete;
  bool ok() const { return data_ != MAP_FAILED; }
  uint16_t* at(size_t element) const { return static_cast<uint16_t*>(data_) + element; }

 private:
  void* data_;
  size_t bytes_;
};

TEST(LargeOffsets, BeyondTwoToThe31Elements) {
  constexpr int64_t kLength = 70, kDim = 64;
  constexpr int64_t kBatchStride = (int64_t{1} << 31) + 128;
  constexpr int64_t kRowStride = 72;
  Problem problem;
  problem.causal = true;
  const Sizes sizes = make_sizes(2, 1, 1, kLength, kLength);
  const RandomInputs inputs = random_inputs(problem, sizes, InputKind::kGauss, 11);

  lssar_context* context = shared_context();
  ASSERT_NE(context, nullptr);
  lssar_problem c_problem = to_c(problem, kTraining, 16);
  lssar_plan* raw_plan = nullptr;
  ASSERT_EQ(lssar_plan_create(context, &c_problem, nullptr, &raw_plan), LSSAR_STATUS_OK)
      << lssar_last_error_detail();
  const PlanPtr plan(raw_plan);
  ASSERT_EQ(lssar_plan_prepare(plan.get()), LSSAR_STATUS_OK) << lssar_last_error_detail();

  const size_t bytes = (kBatchStride + kLength * kRowStride) * 2;
  SparseTensor q(bytes), k(bytes), v(bytes), o(bytes), go(bytes), dq(bytes), dk(bytes), dv(bytes);
  for (const SparseTensor* t : {&q, &k, &v, &o, &go, &dq, &dk, &dv}) ASSERT_TRUE(t->ok());
  const auto scatter = [&](const SparseTensor& to, const std::vector<float>& from) {
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t row = 0; row < kLength; ++row)
        for (int64_t c = 0; c < kDim; ++c)
          *to.at(b * kBatchStride + row * kRowStride + c) =
              encode_bf16(from[(b * kLength + row) * kDim + c]);
  };
  const auto gather = [&](const SparseTensor& from) {
    std::vector<float> to(2 * kLength * kDim);
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t row = 0; row < kLength; ++row)
        for (int64_t c = 0; c < kDim; ++c)
          to[(b * kLength + row) * kDim + c] =
              decode_bf16(*from.at(b * kBatchStride + row * kRowStride + c));
    return to;
  };
  scatter(q, inputs.q);
  scatter(k, inputs.k);
  scatter(v, inputs.v);
  scatter(go, inputs.grad_o);

  const lssar_sizes c_sizes = to_c(sizes);
  size_t workspace_bytes = 0;
  lssar_saved_sizes saved{};
  ASSERT_EQ(lssar_plan_workspace_size(plan.get(), &c_sizes, &workspace_bytes), LSSAR_STATUS_OK);
  ASSERT_EQ(lssar_plan_saved_sizes(plan.get(), &c_sizes, &saved), LSSAR_STATUS_OK);
  struct alignas(256) Block {
    std::byte bytes[256];
  };
  const auto blocks = [](size_t n) { return std::vector<Block>(n / sizeof(Block) + 1); };
  std::vector<Block> workspace = blocks(workspace_bytes), saved_o = blocks(saved.o),
                     saved_stats = blocks(saved.stats), saved_x = blocks(saved.x);
  const auto tensor = [&](const SparseTensor& t) {
    return lssar_tensor{t.at(0), {kBatchStride, kLength * kRowStride, kRowStride}};
  };
  lssar_call call{};
  call.struct_size = sizeof call;
  call.sizes = c_sizes;
  call.q = tensor(q);
  call.k = tensor(k);
  call.v = tensor(v);
  call.o = tensor(o);
  call.grad_o = tensor(go);
  call.grad_q = tensor(dq);
  call.grad_k = tensor(dk);
  call.grad_v = tensor(dv);
  call.saved_o = saved_o.data();
  call.saved_stats = reinterpret_cast<float*>(saved_stats.data());
  call.saved_x = saved_x.data();
  call.workspace = workspace.data();
  call.workspace_bytes = workspace_bytes;
  ASSERT_EQ(lssar_execute_forward_train(plan.get(), &call), LSSAR_STATUS_OK)
      << lssar_last_error_detail();
  ASSERT_EQ(lssar_execute_backward(plan.get(), &call), LSSAR_STATUS_OK)
      << lssar_last_error_detail();

  const auto contiguous =
      run_capi(context, problem, sizes, {inputs.q, inputs.k, inputs.v, inputs.grad_o},
               options_for(kTraining));
  ASSERT_TRUE(contiguous.ok()) << contiguous.status().to_string();
  EXPECT_EQ(gather(o), contiguous->o_train);
  EXPECT_EQ(gather(dq), contiguous->grad_q);
  EXPECT_EQ(gather(dk), contiguous->grad_k);
  EXPECT_EQ(gather(dv), contiguous->grad_v);
}

}  // namespace
}  // namespace lssar
