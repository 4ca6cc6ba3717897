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

constexpr int64_t kDim = 64;

struct Lengths {
  int64_t q, k;
};
// What every portable subject runs on, one after the other.
constexpr Lengths kLengths[] = {
    {160, 160},  // three tiles of 32 or 64 rows: every stage of a pipeline is used again
    {160, 32},   // the first queries see no key: their blocks walk over nothing
    {0, 64},     // no query at all: the same for blocks that own keys
};

std::vector<uint16_t> round_to_bf16(const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  bits.reserve(values.size());
  for (const float v : values) bits.push_back(bfloat_bits(v));
  return bits;
}

Problem small_problem(Pass pass) {
  Problem problem;
  problem.pass = pass;
  problem.head_dim = problem.head_dim_v = kDim;
  return problem;
}

// What every run on one pair of lengths starts from: inputs and, of a backward, what the forward
// saved.
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
    const int64_t seq_q = inputs_.sizes.seq_q;
    const int64_t seq_k = inputs_.sizes.seq_k;
    LSSAR_RETURN_IF_ERROR(input(tensors_.q, inputs_.random.q, seq_q));
    LSSAR_RETURN_IF_ERROR(input(tensors_.k, inputs_.random.k, seq_k));
    LSSAR_RETURN_IF_ERROR(input(tensors_.v, inputs_.random.v, seq_k));
    const bool is_backward = problem.pass == Pass::kBackward;
    LSSAR_RETURN_IF_ERROR(saved_tensor(tensors_.saved_o, saved.o, inputs_.saved_o));
    LSSAR_RETURN_IF_ERROR(saved_tensor(tensors_.saved_stats, saved.stats, inputs_.saved_stats));
    LSSAR_RETURN_IF_ERROR(saved_tensor(tensors_.saved_x, saved.x, inputs_.saved_x));
    if (is_backward) {
      LSSAR_RETURN_IF_ERROR(input(tensors_.grad_o, inputs_.random.grad_o, seq_q));
      LSSAR_RETURN_IF_ERROR(output(tensors_.grad_q, seq_q));
      LSSAR_RETURN_IF_ERROR(output(tensors_.grad_k, seq_k));
      LSSAR_RETURN_IF_ERROR(output(tensors_.grad_v, seq_k));
    } else {
      LSSAR_RETURN_IF_ERROR(output(tensors_.o, seq_q));
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
    LSSAR_RETURN_IF_ERROR(
        launch_steps(device_, steps, functions,
                     {inputs_.problem, inputs_.sizes, tensors_, workspace_, layout}, nullptr));
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
  Status input(Tensor& tensor, const std::vector<float>& values, int64_t length) {
    const std::vector<uint16_t> bits = round_to_bf16(values);
    LSSAR_ASSIGN_OR_RETURN(const DevicePtr data, device_.allocate(bits.size() * 2));
    tensor = contiguous_tensor(data, 1, length, kDim);
    return device_.copy_to_device(data, bits.data(), bits.size() * 2);
  }
  Status output(Tensor& tensor, int64_t length) {
    const size_t count = static_cast<size_t>(length * kDim);
    LSSAR_ASSIGN_OR_RETURN(const DevicePtr data, device_.allocate(count * 2));
    tensor = contiguous_tensor(data, 1, length, kDim);
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

Inputs make_inputs(Pass pass, const Lengths& lengths) {
  Inputs inputs;
  inputs.problem = small_problem(pass);
  inputs.sizes = sizes_of(inputs.problem);
  inputs.sizes.seq_q = lengths.q;
  inputs.sizes.seq_k = lengths.k;
  inputs.random = random_inputs(inputs.problem, inputs.sizes, InputKind::kGauss, 1);
  return inputs;
}

// Runs the forward for what the backward starts from.
Status save_forward(Engine& engine, const Lengths& lengths, Inputs& backward) {
  const Inputs forward = make_inputs(Pass::kForwardTrain, lengths);
  LSSAR_ASSIGN_OR_RETURN(const auto kernel, engine.prepare(forward.problem));
  LSSAR_ASSIGN_OR_RETURN(const WorkspaceLayout layout,
                         workspace_layout(forward.problem, kernel->schedule, forward.sizes));
  Runner runner(engine.device(), forward);
  LSSAR_RETURN_IF_ERROR(runner.set_up(layout));
  LSSAR_RETURN_IF_ERROR(runner.launch(kernel->loaded->image.bytes, kernel->source.steps, layout));
  LSSAR_ASSIGN_OR_RETURN(const SavedBytes saved, saved_bytes(forward.problem, forward.sizes));
  LSSAR_ASSIGN_OR_RETURN(backward.saved_o, runner.bytes_of(runner.tensors().saved_o, saved.o));
  LSSAR_ASSIGN_OR_RETURN(backward.saved_stats,
                         runner.bytes_of(runner.tensors().saved_stats, saved.stats));
  LSSAR_ASSIGN_OR_RETURN(backward.saved_x, runner.bytes_of(runner.tensors().saved_x, saved.x));
  return {};
}

// One pair of lengths: how to run a text on it, and what comes out where nothing is changed.
struct Case {
  Inputs inputs;
  WorkspaceLayout layout;
  std::vector<LaunchStep> steps;
  std::vector<float> expected;

  Result<std::vector<float>> run(Device& device, const std::string& text) const {
    Runner runner(device, inputs);
    LSSAR_RETURN_IF_ERROR(runner.set_up(layout));
    LSSAR_RETURN_IF_ERROR(runner.launch(text, steps, layout));
    return runner.outputs();
  }
};

Result<Case> make_case(Engine& engine, const PreparedKernel& kernel, const Lengths& lengths) {
  Case made{make_inputs(kernel.problem.pass, lengths), {}, kernel.source.steps, {}};
  if (kernel.problem.pass == Pass::kBackward) {
    LSSAR_RETURN_IF_ERROR(save_forward(engine, lengths, made.inputs));
  }
  LSSAR_ASSIGN_OR_RETURN(made.layout,
                         workspace_layout(kernel.problem, kernel.schedule, made.inputs.sizes));
  LSSAR_ASSIGN_OR_RETURN(made.expected, made.run(engine.device(), kernel.loaded->image.bytes));
  return made;
}

Result<Subject> portable_subject(const std::string& name, Pass pass, DqMode dq_mode) {
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, open_engine());
  const Target target = engine->device().info().target;
  const Problem problem = small_problem(pass);
  LSSAR_ASSIGN_OR_RETURN(const std::shared_ptr<const PreparedKernel> kernel,
                         engine->prepare(problem, default_schedule(problem, target, dq_mode)));
  auto cases = std::make_shared<std::vector<Case>>();
  for (const Lengths& lengths : kLengths) {
    LSSAR_ASSIGN_OR_RETURN(Case made, make_case(*engine, *kernel, lengths));
    cases->push_back(std::move(made));
  }
  return Subject{name, kernel->loaded->image.bytes,
                 [cases](Device& device, const std::string& text) -> Result<std::string> {
                   for (const Case& one : *cases) {
                     LSSAR_ASSIGN_OR_RETURN(const auto got, one.run(device, text));
                     const std::string difference = compare(got, one.expected);
                     if (!difference.empty()) return difference;
                   }
                   return std::string();
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
