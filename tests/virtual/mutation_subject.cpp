#include "tests/virtual/mutation_subject.h"

#include <cmath>

#include <fmt/format.h>

#include "codegen/random_inputs.h"
#include "runtime/engine.h"
#include "runtime/executor.h"
#include "tests/virtual/data_ptx.h"
#include "tests/virtual/ptx_edit.h"
#include "tests/virtual/ptx_fixture.h"
#include "tests/virtual/replica.h"

namespace lssar::test {
namespace {

// Three tiles of 32 or 64 rows: every stage of a pipeline is used again.
constexpr int64_t kLength = 160;

std::vector<uint16_t> round_to_bf16(const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  bits.reserve(values.size());
  for (const float v : values) bits.push_back(bfloat_bits(v));
  return bits;
}

Problem small_problem(Pass pass) {
  Problem problem;
  problem.pass = pass;
  problem.head_dim = problem.head_dim_v = 64;
  problem.seq_q = problem.seq_k = kLength;
  return problem;
}

// What every run of a subject starts from: inputs and, of a backward, what the forward saved.
struct Inputs {
  Problem problem;
  Sizes sizes;
  RandomInputs random;
  std::vector<uint8_t> saved_o, saved_stats, saved_x;
};

struct Output {
  DevicePtr data;
  size_t count;
};

class Runner {
 public:
  Runner(Device& device, const Inputs& inputs) : device_(device), inputs_(inputs) {}

  Status set_up(const WorkspaceLayout& layout) {
    const auto& problem = inputs_.problem;
    LSSAR_ASSIGN_OR_RETURN(const SavedBytes saved, saved_bytes(problem, inputs_.sizes));
    LSSAR_RETURN_IF_ERROR(input(tensors_.q, inputs_.random.q));
    LSSAR_RETURN_IF_ERROR(input(tensors_.k, inputs_.random.k));
    LSSAR_RETURN_IF_ERROR(input(tensors_.v, inputs_.random.v));
    const bool is_backward = problem.pass == Pass::kBackward;
    LSSAR_RETURN_IF_ERROR(saved_tensor(tensors_.saved_o, saved.o, inputs_.saved_o));
    LSSAR_RETURN_IF_ERROR(saved_tensor(tensors_.saved_stats, saved.stats, inputs_.saved_stats));
    LSSAR_RETURN_IF_ERROR(saved_tensor(tensors_.saved_x, saved.x, inputs_.saved_x));
    if (is_backward) {
      LSSAR_RETURN_IF_ERROR(input(tensors_.grad_o, inputs_.random.grad_o));
      for (Tensor* t : {&tensors_.grad_q, &tensors_.grad_k, &tensors_.grad_v}) {
        LSSAR_RETURN_IF_ERROR(output(*t));
      }
    } else {
      LSSAR_RETURN_IF_ERROR(output(tensors_.o));
    }
    LSSAR_ASSIGN_OR_RETURN(workspace_, device_.allocate(layout.total_bytes));
    return {};
  }

  Status launch(const std::string& text, const std::vector<LaunchStep>& steps,
                const WorkspaceLayout& layout) {
    Image image;
    image.bytes = text;
    LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceModule> module, device_.load(image));
    std::vector<const DeviceFunction*> functions;
    for (const LaunchStep& step : steps) {
      LSSAR_ASSIGN_OR_RETURN(const DeviceFunction* function, module->function(step.entry));
      LSSAR_RETURN_IF_ERROR(device_.prepare(*function, static_cast<uint32_t>(step.shared_bytes)));
      functions.push_back(function);
    }
    const auto params =
        attention_params(inputs_.problem, inputs_.sizes, tensors_, workspace_, layout);
    LSSAR_RETURN_IF_ERROR(launch_steps(device_, steps, functions, inputs_.sizes, params, nullptr));
    return device_.synchronize(nullptr);
  }

  Result<std::vector<float>> outputs() {
    std::vector<float> all;
    for (const Output& out : outputs_) {
      std::vector<uint16_t> bits(out.count);
      LSSAR_RETURN_IF_ERROR(device_.copy_to_host(bits.data(), out.data, out.count * 2));
      for (const uint16_t b : bits) all.push_back(static_cast<float>(bfloat_value(b)));
    }
    return all;
  }
  Result<std::vector<uint8_t>> bytes_of(DevicePtr data, size_t bytes) {
    std::vector<uint8_t> values(bytes);
    LSSAR_RETURN_IF_ERROR(device_.copy_to_host(values.data(), data, bytes));
    return values;
  }
  const Tensors& tensors() const { return tensors_; }

 private:
  Status input(Tensor& tensor, const std::vector<float>& values) {
    const std::vector<uint16_t> bits = round_to_bf16(values);
    LSSAR_ASSIGN_OR_RETURN(const DevicePtr data, device_.allocate(bits.size() * 2));
    tensor = contiguous_tensor(data, 1, kLength, 64);
    return device_.copy_to_device(data, bits.data(), bits.size() * 2);
  }
  Status output(Tensor& tensor) {
    const size_t count = kLength * 64;
    LSSAR_ASSIGN_OR_RETURN(const DevicePtr data, device_.allocate(count * 2));
    tensor = contiguous_tensor(data, 1, kLength, 64);
    outputs_.push_back({data, count});
    return {};
  }
  Status saved_tensor(DevicePtr& data, size_t bytes, const std::vector<uint8_t>& values) {
    LSSAR_ASSIGN_OR_RETURN(data, device_.allocate(bytes));
    return values.empty() ? Status() : device_.copy_to_device(data, values.data(), values.size());
  }

  Device& device_;
  const Inputs& inputs_;
  Tensors tensors_;
  DevicePtr workspace_ = 0;
  std::vector<Output> outputs_;
};

std::string compare(const std::vector<float>& got, const std::vector<float>& expected) {
  float largest = 0;
  for (const float v : expected) largest = std::max(largest, std::fabs(v));
  // Atomics add in any order; a lost or stale tile changes far more.
  const float tolerance = largest / 128;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (i >= got.size() || !(std::fabs(got[i] - expected[i]) <= tolerance)) {
      return fmt::format("[{}] is {}, not {}", i, i < got.size() ? got[i] : NAN, expected[i]);
    }
  }
  return {};
}

Result<std::unique_ptr<Engine>> open_engine() {
  EngineOptions options;
  options.device = DeviceChoice::kVirtual;
  options.target = "sm_80";
  return Engine::open(options);
}

Result<Subject> portable_subject(const std::string& name, Pass pass, DqMode dq_mode) {
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, open_engine());
  auto inputs = std::make_shared<Inputs>();
  inputs->problem = small_problem(pass);
  inputs->sizes = sizes_of(inputs->problem);
  inputs->random = random_inputs(inputs->problem, inputs->sizes, InputKind::kGauss, 1);
  const Target target = engine->device().info().target;
  if (pass == Pass::kBackward) {
    const Problem forward = small_problem(Pass::kForwardTrain);
    LSSAR_ASSIGN_OR_RETURN(const auto kernel, engine->prepare(forward));
    Inputs forward_inputs = *inputs;
    forward_inputs.problem = forward;
    LSSAR_ASSIGN_OR_RETURN(const WorkspaceLayout layout,
                           workspace_layout(forward, kernel->schedule, forward_inputs.sizes));
    Runner runner(engine->device(), forward_inputs);
    LSSAR_RETURN_IF_ERROR(runner.set_up(layout));
    LSSAR_RETURN_IF_ERROR(runner.launch(kernel->loaded->image.bytes, kernel->source.steps, layout));
    LSSAR_ASSIGN_OR_RETURN(const SavedBytes saved, saved_bytes(forward, inputs->sizes));
    LSSAR_ASSIGN_OR_RETURN(inputs->saved_o, runner.bytes_of(runner.tensors().saved_o, saved.o));
    LSSAR_ASSIGN_OR_RETURN(inputs->saved_stats,
                           runner.bytes_of(runner.tensors().saved_stats, saved.stats));
    LSSAR_ASSIGN_OR_RETURN(inputs->saved_x, runner.bytes_of(runner.tensors().saved_x, saved.x));
  }
  LSSAR_ASSIGN_OR_RETURN(
      const std::shared_ptr<const PreparedKernel> kernel,
      engine->prepare(inputs->problem, default_schedule(inputs->problem, target, dq_mode)));
  LSSAR_ASSIGN_OR_RETURN(const WorkspaceLayout layout,
                         workspace_layout(inputs->problem, kernel->schedule, inputs->sizes));
  const auto run = [inputs, layout, steps = kernel->source.steps](
                       Device& device, const std::string& text) -> Result<std::vector<float>> {
    Runner runner(device, *inputs);
    LSSAR_RETURN_IF_ERROR(runner.set_up(layout));
    LSSAR_RETURN_IF_ERROR(runner.launch(text, steps, layout));
    return runner.outputs();
  };
  LSSAR_ASSIGN_OR_RETURN(const std::vector<float> expected,
                         run(engine->device(), kernel->loaded->image.bytes));
  return Subject{name, kernel->loaded->image.bytes,
                 [run, expected](Device& device, const std::string& text) -> Result<std::string> {
                   LSSAR_ASSIGN_OR_RETURN(const std::vector<float> got, run(device, text));
                   return compare(got, expected);
                 }};
}

}  // namespace

Result<Subject> portable_forward() {
  return portable_subject("forward", Pass::kForwardTrain, DqMode::kSplit);
}
Result<Subject> portable_backward() {
  return portable_subject("backward", Pass::kBackward, DqMode::kSplit);
}
Result<Subject> portable_backward_atomic() {
  return portable_subject("backward_atomic", Pass::kBackward, DqMode::kAtomic);
}

Subject replica_subject(const std::string& entry) {
  for (const Replica& replica : replicas()) {
    if (replica.entry != entry) continue;
    return {entry, extract_entry(data_ptx(replica.file), entry),
            [&replica](Device& device, const std::string& text) {
              return run_replica(replica, device, text);
            }};
  }
  return {};
}

std::shared_ptr<Device> open_strict_device(const std::string& target, uint64_t seed) {
  VirtualOptions options;
  options.target = *target_from_name(target);
  options.num_threads = 1;
  options.strict = true;
  options.schedule_seed = seed;
  options.max_block_instructions = 4'000'000;
  return make_virtual_device(options);
}

}  // namespace lssar::test
