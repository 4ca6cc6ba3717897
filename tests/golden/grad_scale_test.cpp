// fp16 output gradients of very different sizes in one call: dS' carries a scale
// (templates/tile/grad_scale.cuh). Compared with the float64 reference.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "reference/numerics.h"
#include "tests/golden/attention_check.h"

namespace lssar {
namespace {

constexpr const char* kSchedules[] = {R"({"dq_mode": "split"})",
                                      R"({"dq_mode": "split", "split_dkdv": true})",
                                      R"({"dq_mode": "atomic"})"};

// Whether sizes alternate within a tile, or rise or fall from tile to tile.
enum class Order { kMixed, kRising, kFalling };

// The output gradient's rows have sizes from about 2^lowest to 2^highest. `holds_rows`: every row
// of dk and dv is compared relative to its own size; otherwise each tensor as a whole, as dq always
// is, because its first rows cancel.
struct Spread {
  int lowest;
  int highest;
  bool holds_rows;
};

void scale_rows(std::vector<float>& x, size_t dim, const Spread& spread, Order order) {
  const size_t rows = x.size() / dim;
  const size_t range = static_cast<size_t>(spread.highest - spread.lowest + 1);
  for (size_t row = 0; row < rows; ++row) {
    size_t place = order == Order::kMixed ? row * 7 % range : row * range / rows;
    if (order == Order::kFalling) place = range - 1 - place;
    const float factor = std::ldexp(1.0f, spread.lowest + static_cast<int>(place));
    for (size_t i = 0; i < dim; ++i) x[row * dim + i] *= factor;
  }
  round_all(DType::kFp16, x);
}

// Adds a failure if a row of `dim` is wrong. NOTE: a few rows cancel, more than the limit for a
// whole tensor allows; a wrong scale would be wrong by a factor of two.
void expect_rows(const char* name, const std::vector<float>& got, const std::vector<double>& want,
                 size_t dim) {
  const double tolerance = dim == want.size() ? 3e-3 : 3e-2;
  ASSERT_EQ(got.size(), want.size()) << name;
  // Gradients may be 0 but for rounding.
  const double rounding = std::ldexp(std::sqrt(static_cast<double>(dim)), -21);
  for (size_t first = 0; first < want.size(); first += dim) {
    double error = 0, norm = 0;
    for (size_t i = first; i < first + dim; ++i) {
      error += std::pow(got[i] - want[i], 2);
      norm += std::pow(want[i], 2);
    }
    ASSERT_LE(std::sqrt(error), tolerance * std::sqrt(norm) + rounding)
        << name << " from element " << first << ", norm " << std::sqrt(norm);
  }
}

std::vector<double> widen(const std::vector<float>& x) { return {x.begin(), x.end()}; }

void check_spread(const Spread& spread, Order order, bool causal, float key_scale) {
  Problem problem;
  problem.dtype = DType::kFp16;
  problem.causal = causal;
  const Sizes sizes = make_sizes(1, 2, 1, 300, 300);
  const size_t dim = static_cast<size_t>(problem.head_dim);
  RandomInputs inputs = random_inputs(problem, sizes, InputKind::kGauss, 7);
  scale_rows(inputs.grad_o, dim, spread, order);
  for (float& k : inputs.k) k *= key_scale;
  const auto reference = reference_attention(
      problem, sizes, {widen(inputs.q), widen(inputs.k), widen(inputs.v), widen(inputs.grad_o)});
  ASSERT_TRUE(reference.ok()) << reference.status().to_string();
  for (const char* schedule : kSchedules) {
    SCOPED_TRACE(std::string(causal ? "causal " : "full ") + schedule);
    CapiOptions options;
    options.passes = LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;
    options.alignment = 16;
    options.schedule_json = schedule;
    const auto out = run_capi(shared_context(), problem, sizes,
                              {inputs.q, inputs.k, inputs.v, inputs.grad_o}, options);
    ASSERT_TRUE(out.ok()) << out.status().to_string();
    const auto row = [&](const std::vector<double>& x) {
      return spread.holds_rows ? dim : x.size();
    };
    expect_rows("dq", out->grad_q, reference->dq, reference->dq.size());
    expect_rows("dk", out->grad_k, reference->dk, row(reference->dk));
    expect_rows("dv", out->grad_v, reference->dv, row(reference->dv));
  }
}

class GradScale : public testing::TestWithParam<Order> {};

TEST_P(GradScale, SuitsRowsOfEverySize) {
  // Each spread with one of the masks, in turn from order to order.
  const bool causal = GetParam() == Order::kRising;
  check_spread({-20, 10, false}, GetParam(), causal, 1.0f);
  check_spread({-6, 8, true}, GetParam(), !causal, 1.0f);
  check_spread({-20, -6, false}, GetParam(), causal, 1.0f / 1024);
}

std::string order_name(const testing::TestParamInfo<Order>& param_info) {
  constexpr const char* kNames[] = {"Mixed", "Rising", "Falling"};
  return kNames[static_cast<int>(param_info.param)];
}

INSTANTIATE_TEST_SUITE_P(All, GradScale,
                         testing::Values(Order::kMixed, Order::kRising, Order::kFalling),
                         order_name);

}  // namespace
}  // namespace lssar
