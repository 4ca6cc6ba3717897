#include "tests/golden/attention_check.h"

#include <cstdlib>
#include <map>
#include <tuple>

#include <gtest/gtest.h>

#include "reference/error_rule.h"

namespace lssar {
void expect_close(const Problem& problem, OutputTensor tensor, const ReferenceOutputs& expected,
                  const std::vector<float>& actual) {
  const TensorError error =
      compare(reference_values(expected, tensor), actual, allowed_error(problem, tensor, expected));
  EXPECT_TRUE(error.is_right()) << tensor_name(tensor) << " of " << to_string(problem) << ": "
                                << error.to_string();
}

namespace {

std::vector<double> widen(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

void expect_outputs(const Problem& problem, const ReferenceOutputs& expected,
                    const CapiOptions& options, const CapiOutputs& actual) {
  if (options.passes & LSSAR_PASS_FORWARD)
    expect_close(problem, OutputTensor::kO, expected, actual.o);
  if (options.passes & LSSAR_PASS_FORWARD_TRAIN)
    expect_close(problem, OutputTensor::kO, expected, actual.o_train);
  if ((options.passes & LSSAR_PASS_BACKWARD) == 0) return;
  expect_close(problem, OutputTensor::kDq, expected, actual.grad_q);
  expect_close(problem, OutputTensor::kDk, expected, actual.grad_k);
  expect_close(problem, OutputTensor::kDv, expected, actual.grad_v);
  expect_close(problem, OutputTensor::kDsink, expected, actual.grad_sink);
}

void run_and_expect(const Problem& problem, const Sizes& sizes, CapiInputs inputs,
                    const ReferenceOutputs& expected, const CapiOptions& options,
                    const CheckDevice& device) {
  lssar_context* context = shared_context(device);
  ASSERT_NE(context, nullptr);
  const Result<CapiOutputs> outputs = run_capi(context, problem, sizes, inputs, options);
  ASSERT_TRUE(outputs.ok()) << to_string(problem) << ": " << outputs.status().to_string();
  expect_outputs(problem, expected, options, *outputs);
}

// The schedule seed of this check if LSSAR_TEST_SEED_TURN is set; a test's checks take the seeds in
// turn. -1 if it is not set.
int next_seed() {
  constexpr uint32_t kNumSeeds = 10;
  static std::string last_test;
  static uint32_t seed = 0;
  const char* turn = std::getenv("LSSAR_TEST_SEED_TURN");
  if (turn == nullptr || *turn == '\0') return -1;
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  if (test == nullptr) return -1;
  const std::string name = std::string(test->test_suite_name()) + "." + test->name();
  if (name != last_test) {
    last_test = name;
    // Tests of one check take all of them, too.
    uint32_t hash = 0;
    for (const char c : name) hash = hash * 31 + static_cast<unsigned char>(c);
    seed = hash % kNumSeeds + static_cast<uint32_t>(std::strtoul(turn, nullptr, 10));
  }
  return static_cast<int>(seed++ % kNumSeeds);
}

}  // namespace

std::string test_target() {
  const char* wanted = std::getenv("LSSAR_TEST_TARGET");
  return wanted == nullptr || *wanted == '\0' ? "sm_80" : wanted;
}

std::string small_tiles(const std::string& target) {
  if (target != "sm_90a") return "";
  return R"({"forward": {"block_cols": 32}, "dkdv": {"block_cols": 16}, "dq": {"block_cols": 16},
             "hopper": {"score_cols": 32}})";
}

lssar_device device_kind(const CheckDevice& device) {
  const char* wanted = std::getenv("LSSAR_TEST_DEVICE");
  const std::string name = wanted == nullptr ? "" : wanted;
  return device.is_cpu || name == "cpu" ? LSSAR_DEVICE_CPU
         : name == "cuda"               ? LSSAR_DEVICE_CUDA
                                        : LSSAR_DEVICE_VIRTUAL;
}

lssar_context* shared_context(const CheckDevice& device) {
  static auto& contexts = *new std::map<std::tuple<int, std::string, int, int>, ContextPtr>;
  const lssar_device kind = device_kind(device);
  const int seed = next_seed();
  ContextPtr& context = contexts[{device.compiler, device.target, seed, kind}];
  if (context != nullptr) return context.get();
  if (seed >= 0) setenv("LSSAR_VIRTUAL_SEED", std::to_string(seed).c_str(), 1);
  Result<ContextPtr> opened =
      kind == LSSAR_DEVICE_VIRTUAL
          ? open_context(kind, device.compiler, device.target)
          : open_context(kind, kind == LSSAR_DEVICE_CPU ? LSSAR_COMPILER_AUTO : device.compiler);
  if (!opened.ok()) {
    ADD_FAILURE() << opened.status().to_string();
    return nullptr;
  }
  context = std::move(opened).value();
  return context.get();
}

Sizes make_sizes(int64_t batch, int64_t heads, int64_t kv_heads, int64_t seq_q, int64_t seq_k) {
  Sizes sizes;
  sizes.batch = batch;
  sizes.heads = heads;
  sizes.kv_heads = kv_heads;
  sizes.seq_q = seq_q;
  sizes.seq_k = seq_k;
  return sizes;
}

void check_against_reference(const Problem& problem, const Sizes& sizes, InputKind kind,
                             const CapiOptions& options, const CheckDevice& device, uint64_t seed) {
  SCOPED_TRACE(std::string(input_kind_name(kind)) + " " + std::to_string(sizes.seq_q) + "x" +
               std::to_string(sizes.seq_k) + " seed " + std::to_string(seed));
  const RandomInputs inputs = random_inputs(problem, sizes, kind, seed);
  const auto reference = reference_attention(
      problem, sizes,
      {widen(inputs.q), widen(inputs.k), widen(inputs.v), widen(inputs.grad_o), widen(inputs.sink),
       widen(inputs.rotary_cos), widen(inputs.rotary_sin), widen(inputs.alibi_slopes)});
  ASSERT_TRUE(reference.ok()) << reference.status().to_string();
  ReferenceOutputs expected = *reference;
  // Without queries grad_o is empty, which the reference takes for a forward: gradients are 0.
  if (sizes.seq_q == 0) {
    expected.dk.assign(inputs.k.size(), 0.0);
    expected.dv.assign(inputs.v.size(), 0.0);
    expected.dsink.assign(inputs.sink.size(), 0.0);
  }
  run_and_expect(problem, sizes,
                 {inputs.q, inputs.k, inputs.v, inputs.grad_o, inputs.sink, inputs.rotary_cos,
                  inputs.rotary_sin, inputs.alibi_slopes},
                 expected, options, device);
}

void check_golden_case(const GoldenCase& golden, const CapiOptions& options,
                       const CheckDevice& device) {
  const Result<ReferenceOutputs> expected = golden_reference(golden);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  run_and_expect(golden.problem, golden.sizes, {golden.q, golden.k, golden.v, golden.grad_o},
                 *expected, options, device);
}

}  // namespace lssar
