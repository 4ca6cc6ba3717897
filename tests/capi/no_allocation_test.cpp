// A call that is executed allocates nothing on the host: operator new is counted in this program.
#include <gtest/gtest.h>

#include "device/record_device.h"
#include "runtime/executor.h"
#include "runtime/plan.h"
#include "tests/capi/counting_new.h"
#include "tests/capi/fakes.h"

namespace lssar {
namespace {

// Counts launches, and what a call that is captured in a graph must not do.
class SilentDevice : public FakeDevice {
 public:
  Status launch(const DeviceFunction&, const LaunchConfig&, const void*, size_t, Stream) override {
    ++num_launches_;
    return {};
  }
  Result<DevicePtr> allocate(size_t) override { return ++num_others_, DevicePtr{1 << 20}; }
  Status copy_to_device(DevicePtr, const void*, size_t) override { return ++num_others_, Status(); }
  Status copy_to_host(void*, DevicePtr, size_t) override { return ++num_others_, Status(); }
  Status fill(DevicePtr, uint8_t, size_t) override { return ++num_others_, Status(); }
  Status synchronize(Stream) override { return ++num_others_, Status(); }
  int num_launches_ = 0, num_others_ = 0;
};

Tensor next_tensor(DevicePtr* next, int64_t dim) {
  *next += 1 << 20;
  return contiguous_tensor(*next, 2, 40, dim);
}

// A prepared plan, whose launches the device counts.
std::unique_ptr<Plan> prepared_plan(std::shared_ptr<SilentDevice> device, Problem problem,
                                    Pass pass) {
  EngineOptions options;
  options.cache.directory = "none";
  const std::shared_ptr<Engine> engine =
      Engine::create(options, std::move(device), std::make_shared<FakeCompiler>());
  problem.causal = true;
  problem.heads = problem.kv_heads = 2;
  PlanOptions plan_options;
  plan_options.passes = {pass};
  auto plan = Plan::create(engine, problem, plan_options);
  EXPECT_TRUE(plan.ok()) << plan.status().to_string();
  if (!plan.ok()) return nullptr;
  EXPECT_TRUE((*plan)->prepare().ok());
  return std::move(*plan);
}

class PassNoAllocation : public testing::TestWithParam<Pass> {};

TEST_P(PassNoAllocation, InExecute) {
  auto device = std::make_shared<SilentDevice>();
  const auto plan = prepared_plan(device, Problem(), GetParam());
  ASSERT_NE(plan, nullptr);

  const Sizes sizes{1, 2, 2, 40, 40};
  DevicePtr next = 1 << 20;
  Tensors tensors;
  for (Tensor* t : {&tensors.q, &tensors.k, &tensors.v, &tensors.o, &tensors.grad_o,
                    &tensors.grad_q, &tensors.grad_k, &tensors.grad_v}) {
    *t = next_tensor(&next, 64);
  }
  tensors.saved_o = next += 1 << 20;
  tensors.saved_stats = next += 1 << 20;
  tensors.saved_x = next += 1 << 20;
  const Workspace workspace{next += 1 << 20, 1 << 20};

  for (const int misalignment : {0, 2}) {  // either kernel of the plan
    tensors.q.data += misalignment;
    const int before = num_allocations();
    const Status status = plan->execute(GetParam(), sizes, tensors, workspace, nullptr);
    const int made = num_allocations() - before;
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(made, 0);
  }
  EXPECT_GE(device->num_launches_, 4);
  EXPECT_EQ(device->num_others_, 0);
}

// One query against a cache, and a batch of caches that have lengths of their own. A problem that
// states few queries has kernels whose blocks divide the keys: three launches, and with lengths one
// before them that reads the lengths and one that copies the new key.
void check_decoding(bool varlen, int64_t stated_queries, int launches) {
  auto device = std::make_shared<SilentDevice>();
  Problem problem;
  problem.varlen = varlen;
  problem.seq_q = stated_queries;
  const auto plan = prepared_plan(device, problem, Pass::kForward);
  ASSERT_NE(plan, nullptr);
  DevicePtr next = 1 << 20;
  Tensors tensors;
  tensors.q = contiguous_tensor(next, 2, 1, 64);
  tensors.o = contiguous_tensor(next += 1 << 20, 2, 1, 64);
  tensors.k = contiguous_tensor(next += 1 << 20, 2, 40, 64);
  tensors.v = contiguous_tensor(next += 1 << 20, 2, 40, 64);
  const Workspace workspace{next += 1 << 20, 1 << 20};
  const Sizes sizes{3, 2, 2, 1, 40};
  const int32_t used[3] = {40, 7, 0};
  Sequences sequences;
  sequences.seqused_k = used;
  if (varlen) {  // with a new key
    sequences.seq_new = 1;
    tensors.k_new = contiguous_tensor(next += 1 << 20, 2, 1, 64);
    tensors.v_new = contiguous_tensor(next += 1 << 20, 2, 1, 64);
    tensors.key_norms = next += 1 << 20;
  }
  const int before = num_allocations();
  const Status status = varlen ? plan->execute_sequences(Pass::kForward, sizes, sequences, tensors,
                                                         workspace, nullptr)
                               : plan->execute(Pass::kForward, sizes, tensors, workspace, nullptr);
  const int made = num_allocations() - before;
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(made, 0);
  EXPECT_EQ(device->num_launches_, launches);
  EXPECT_EQ(device->num_others_, 0);
}

TEST(NoAllocation, InDecoding) {
  check_decoding(false, 0, 2);
  check_decoding(true, 0, 4);
  check_decoding(false, 1, 3);
  check_decoding(true, 1, 5);
}

TEST(NoAllocation, InEncodingTensorMaps) {
  RecordDevice device(*target_from_name("sm_90a"));
  const std::unique_ptr<DeviceModule> module = std::move(device.load({})).value();
  const std::vector<StepFunction> functions = {module->function("k").value()};
  LaunchStep step;
  step.rows_per_block = 64;
  step.maps = {{MapTensor::kQ, 64, 64},
               {MapTensor::kK, 64, 64},
               {MapTensor::kKeyNorms, 1, 64},
               {MapTensor::kRowConstants, 64, 8}};
  const std::vector<LaunchStep> steps = {step};
  DevicePtr next = 0;
  Tensors tensors;
  for (Tensor* t : {&tensors.q, &tensors.k}) *t = next_tensor(&next, 64);
  const Problem problem;
  const Sizes sizes{1, 2, 2, 40, 40};
  const WorkspaceLayout layout;
  const int before = num_allocations();
  const Status status =
      launch_steps(device, steps, functions, {problem, sizes, tensors, 64 << 20, layout}, nullptr);
  const int made = num_allocations() - before;
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(device.num_tensor_maps(), 4u);
  EXPECT_EQ(made, 0);
}

INSTANTIATE_TEST_SUITE_P(Passes, PassNoAllocation,
                         testing::Values(Pass::kForward, Pass::kForwardTrain, Pass::kBackward),
                         [](const auto& instance) {
                           return std::string(instance.param == Pass::kForward        ? "Forward"
                                              : instance.param == Pass::kForwardTrain ? "Train"
                                                                                      : "Backward");
                         });

}  // namespace
}  // namespace lssar
