// Wrong gradients, which the error rule must reject: the plain kernels' gradients after something
// that the forward saved was changed.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "autotune/measure/check_truth.h"
#include "reference/error_rule.h"
#include "reference/numerics.h"
#include "tests/golden/attention_check.h"

namespace lssar {
namespace {

constexpr int64_t kLength = 130;

class Mutants : public testing::Test {
 protected:
  void SetUp() override {
    EngineOptions options;
    options.device = DeviceChoice::kVirtual;
    options.target = "sm_80";
    Result<std::unique_ptr<Engine>> engine = Engine::open(options);
    ASSERT_TRUE(engine.ok()) << engine.status().to_string();
    engine_ = std::move(*engine);
    truths_ = std::make_unique<TruthSource>(*engine_);
  }

  void draw(DType dtype, int p, InputKind kind) {
    problem_ = {};
    problem_.pass = Pass::kBackward;
    problem_.head_dim = problem_.head_dim_v = 64;
    problem_.dtype = dtype;
    problem_.causal = true;
    problem_.p = p;
    sizes_ = make_sizes(1, 1, 1, kLength, kLength);
    inputs_ = random_inputs(problem_, sizes_, kind, 1);
    const auto widen = [](const std::vector<float>& x) {
      return std::vector<double>(x.begin(), x.end());
    };
    const auto reference = reference_attention(
        problem_, sizes_,
        {widen(inputs_.q), widen(inputs_.k), widen(inputs_.v), widen(inputs_.grad_o)});
    ASSERT_TRUE(reference.ok()) << reference.status().to_string();
    reference_ = *reference;
    const Result<SavedTensors> saved = truths_->saved(problem_, sizes_, inputs_);
    ASSERT_TRUE(saved.ok()) << saved.status().to_string();
    saved_ = *saved;
  }

  // Which of dq, dk and dv break the error rule.
  std::string failed() {
    const auto gradients = truths_->gradients(problem_, sizes_, inputs_, saved_);
    EXPECT_TRUE(gradients.ok()) << gradients.status().to_string();
    std::string names;
    for (const OutputTensor tensor : {OutputTensor::kDq, OutputTensor::kDk, OutputTensor::kDv}) {
      const size_t at = tensor == OutputTensor::kDq ? 0 : tensor == OutputTensor::kDk ? 1 : 2;
      const TensorError error = compare(reference_values(reference_, tensor), (*gradients)[at],
                                        allowed_error(problem_, tensor, reference_));
      if (!error.passed) names += std::string(tensor_name(tensor)) + " ";
    }
    return names;
  }

  template <typename Change>
  static void change_floats(std::vector<std::byte>& bytes, const Change& change) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    for (size_t i = 0; i < values.size(); ++i) values[i] = change(i, values[i]);
    std::memcpy(bytes.data(), values.data(), bytes.size());
  }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<TruthSource> truths_;
  Problem problem_;
  Sizes sizes_;
  RandomInputs inputs_;
  ReferenceOutputs reference_;
  SavedTensors saved_;
};

TEST_F(Mutants, DeltaFromARoundedOutputFails) {
  for (const InputKind kind : {InputKind::kPeaky, InputKind::kOpposed}) {
    SCOPED_TRACE(input_kind_name(kind));
    draw(DType::kBf16, 15, kind);
    EXPECT_EQ(failed(), "");
    change_floats(saved_.o, [](size_t, float x) { return round_to(DType::kBf16, x); });
    EXPECT_NE(failed(), "");
  }
}

// A sum of activations that is off by 16 roundings of float32, where N P - b cancels.
TEST_F(Mutants, AnImpreciseSumOfActivationsFailsInFloat32) {
  draw(DType::kFp32, 15, InputKind::kShifted);
  EXPECT_EQ(failed(), "");
  change_floats(saved_.stats, [](size_t i, float x) { return i < kLength ? x * 1.00005f : x; });
  EXPECT_NE(failed(), "");
}

TEST_F(Mutants, XOfFewerBitsFails) {
  draw(DType::kBf16, 15, InputKind::kShifted);
  EXPECT_EQ(failed(), "");
  for (size_t i = 0; i < saved_.x.size(); i += 2) saved_.x[i] &= std::byte{0x80};
  EXPECT_NE(failed(), "");
}

// Where the ideal kernel decides, three times its error is too much in 16 bits.
TEST_F(Mutants, ThreeTimesTheErrorFailsWhereTermsCancel) {
  for (const auto& [p, kind] : {std::pair{15, InputKind::kShifted}, {0, InputKind::kTies}}) {
    SCOPED_TRACE(input_kind_name(kind));
    draw(DType::kBf16, p, kind);
    const auto gradients = truths_->gradients(problem_, sizes_, inputs_, saved_);
    ASSERT_TRUE(gradients.ok()) << gradients.status().to_string();
    std::vector<float> dq = (*gradients)[0];
    const AllowedError allowed = allowed_error(problem_, OutputTensor::kDq, reference_);
    EXPECT_TRUE(compare(reference_.dq, dq, allowed).passed);
    for (size_t i = 0; i < dq.size(); ++i)
      dq[i] = static_cast<float>(reference_.dq[i] + 3 * (dq[i] - reference_.dq[i]));
    EXPECT_FALSE(compare(reference_.dq, dq, allowed).passed);
  }
}

}  // namespace
}  // namespace lssar
