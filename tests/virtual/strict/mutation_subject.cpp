#include "tests/virtual/strict/mutation_subject.h"

#include <cmath>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reference/random_inputs.h"
#include "runtime/engine.h"
#include "runtime/executor.h"
#include "tests/virtual/ptx_fixture.h"
#include "tests/virtual/strict/data_ptx.h"
#include "tests/virtual/strict/mutate.h"
#include "tests/virtual/strict/ptx_edit.h"
#include "tests/virtual/strict/replica.h"

namespace lssar::test {
namespace {

constexpr int64_t kDim = 64;

struct Lengths {
  int64_t q, k;
  int64_t heads = 1;  // of queries; they share one head of keys
};
// The lengths that a kernel runs on, one after the other.
constexpr Lengths kPortableLengths[] = {
    {160, 160},  // three tiles of 32 or 64 rows: every stage of a pipeline is used again
    {160, 32},   // the first queries see no key: their blocks walk over no tile
    {0, 64},     // no query: the same for blocks that own keys
};
// Hopper tiles have up to 128 rows; the last tiles of a length have fewer. A run has one SM, so a
// persistent kernel is one block with several work tiles.
constexpr Lengths kHopperForwardLengths[] = {
    // With these lengths a ring of four slots wraps around at every place of the kernel where a
    // tile is waited for, loaded or released.
    {200, 530}, {420, 350},  {60, 1000},  {300, 40},  // two work tiles in a row walk over nothing
    {0, 64},    {256, 1100}, {128, 1300}, {384, 1000, 2},  // many tiles that no mask touches
};
// The same for work tiles of two blocks.
constexpr Lengths kHopperClusterLengths[] = {
    {400, 530},  {840, 350},  {700, 400, 2},  // work tiles of two key tiles in a row
    {120, 1000}, {600, 40},   {0, 64},
    {512, 1100}, {256, 1300},  // many tiles that no mask touches
};
// The same for chains of two query tiles, with 96 keys to a tile.
constexpr Lengths kHopperStaggeredLengths[] = {
    {520, 430},     {400, 250, 3}, {200, 350},  // pass 1 alone of an even number of tiles: its last
                                                // slot is of keys again
    {300, 40},      {0, 64},       {512, 700}, {256, 1000},
    {512, 1000, 2},  // many tiles that no mask touches
};
constexpr Lengths kHopperBackwardLengths[] = {
    // Every slot is used more often than warps release it. So one release too many or too few per
    // use adds up to a phase.
    {200, 200, 5},
    {300, 40},
    {0, 64},
};
// Three key tiles add to the same queries, the first of which see few keys: two parts of sums.
constexpr Lengths kHopperOrderedLengths[] = {{300, 300}, {0, 64}};
std::span<const Lengths> lengths_of(const OwnKernel& own, Variant variant) {
  if (variant == Variant::kPortable) return kPortableLengths;
  if (std::string_view(own.name) == "hopper_backward_ordered") return kHopperOrderedLengths;
  if (own.pass == Pass::kBackward) return kHopperBackwardLengths;
  if (std::string_view(own.name) == "hopper_forward_cluster") return kHopperClusterLengths;
  if (std::string_view(own.name) == "hopper_forward_staggered") return kHopperStaggeredLengths;
  return kHopperForwardLengths;
}

std::vector<uint16_t> round_to(DType dtype, const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  bits.reserve(values.size());
  for (const float v : values)
    bits.push_back(dtype == DType::kFp16 ? half_bits(v) : bfloat_bits(v));
  return bits;
}

Problem small_problem(Pass pass, DType dtype) {
  Problem problem;
  problem.causal = true;
  problem.pass = pass;
  problem.dtype = dtype;
  problem.head_dim = problem.head_dim_v = kDim;
  return problem;
}

// What every run on one pair of lengths starts from: inputs and, for a backward, what the forward
// saved.
struct Inputs {
  Problem problem;
  Sizes sizes;
  std::vector<uint16_t> q, k, v, grad_o, o;
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
    LSSAR_ASSIGN_OR_RETURN(const SavedBytes saved, saved_bytes(problem, Schedule{}, inputs_.sizes));
    const Rows queries = {inputs_.sizes.heads, inputs_.sizes.seq_q};
    const Rows keys = {inputs_.sizes.kv_heads, inputs_.sizes.seq_k};
    LSSAR_RETURN_IF_ERROR(input(tensors_.q, inputs_.q, queries));
    LSSAR_RETURN_IF_ERROR(input(tensors_.k, inputs_.k, keys));
    LSSAR_RETURN_IF_ERROR(input(tensors_.v, inputs_.v, keys));
    const bool is_backward = problem.pass == Pass::kBackward;
    LSSAR_RETURN_IF_ERROR(saved_tensor(tensors_.saved_o, saved.o, inputs_.saved_o));
    LSSAR_RETURN_IF_ERROR(saved_tensor(tensors_.saved_stats, saved.stats, inputs_.saved_stats));
    LSSAR_RETURN_IF_ERROR(saved_tensor(tensors_.saved_x, saved.x, inputs_.saved_x));
    if (is_backward) {
      LSSAR_RETURN_IF_ERROR(input(tensors_.o, inputs_.o, queries));
      LSSAR_RETURN_IF_ERROR(input(tensors_.grad_o, inputs_.grad_o, queries));
      LSSAR_RETURN_IF_ERROR(output(tensors_.grad_q, queries));
      LSSAR_RETURN_IF_ERROR(output(tensors_.grad_k, keys));
      LSSAR_RETURN_IF_ERROR(output(tensors_.grad_v, keys));
    } else {
      LSSAR_RETURN_IF_ERROR(output(tensors_.o, queries));
    }
    LSSAR_ASSIGN_OR_RETURN(workspace_, device_.allocate(layout.total_bytes));
    return {};
  }

  Status launch(const DeviceModule& module, const std::vector<LaunchStep>& steps,
                const WorkspaceLayout& layout) {
    std::vector<StepFunction> functions;
    for (const LaunchStep& step : steps) {
      LSSAR_ASSIGN_OR_RETURN(const DeviceFunction* function, module.function(step.entry));
      LSSAR_ASSIGN_OR_RETURN(const StepFunction prepared, prepare_step(device_, step, function));
      functions.push_back(prepared);
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
      const bool is_half = inputs_.problem.dtype == DType::kFp16;
      for (const uint16_t b : bits)
        all.push_back(static_cast<float>(is_half ? half_value(b) : bfloat_value(b)));
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
  struct Rows {
    int64_t heads, length;
  };

  Status input(Tensor& tensor, const std::vector<uint16_t>& bits, const Rows& rows) {
    LSSAR_ASSIGN_OR_RETURN(const DevicePtr data, device_.allocate(bits.size() * 2));
    tensor = contiguous_tensor(data, rows.heads, rows.length, kDim);
    return device_.copy_to_device(data, bits.data(), bits.size() * 2);
  }
  Status output(Tensor& tensor, const Rows& rows) {
    const size_t count = static_cast<size_t>(rows.heads * rows.length * kDim);
    LSSAR_ASSIGN_OR_RETURN(const DevicePtr data, device_.allocate(count * 2));
    tensor = contiguous_tensor(data, rows.heads, rows.length, kDim);
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

Result<std::unique_ptr<DeviceModule>> load(Device& device, const std::string& text) {
  Image image;
  image.bytes = text;
  return device.load(image);
}

std::string compare(const std::vector<float>& got, const std::vector<float>& expected) {
  float largest = 0;
  for (const float v : expected) largest = std::max(largest, std::fabs(v));
  // Atomics add in any order. A lost or stale tile changes far more than this.
  const float tolerance = largest / 128;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (i >= got.size() || !(std::fabs(got[i] - expected[i]) <= tolerance)) {
      return fmt::format("[{}] is {}, not {}", i, i < got.size() ? got[i] : NAN, expected[i]);
    }
  }
  return {};
}

Result<std::unique_ptr<Engine>> open_engine(const char* target) {
  EngineOptions options;
  options.device = DeviceChoice::kVirtual;
  options.target = target;
  return Engine::open(options);
}

Inputs make_inputs(Pass pass, DType dtype, const Lengths& lengths) {
  Inputs inputs;
  inputs.problem = small_problem(pass, dtype);
  inputs.sizes = sizes_of(inputs.problem);
  inputs.sizes.heads = lengths.heads;
  inputs.sizes.seq_q = lengths.q;
  inputs.sizes.seq_k = lengths.k;
  const RandomInputs random = random_inputs(inputs.problem, inputs.sizes, InputKind::kGauss, 1);
  inputs.q = round_to(dtype, random.q);
  inputs.k = round_to(dtype, random.k);
  inputs.v = round_to(dtype, random.v);
  inputs.grad_o = round_to(dtype, random.grad_o);
  return inputs;
}

// Runs the forward that the backward needs.
Status save_forward(Engine& engine, const Lengths& lengths, Inputs& backward) {
  const Inputs forward = make_inputs(Pass::kForwardTrain, backward.problem.dtype, lengths);
  LSSAR_ASSIGN_OR_RETURN(const auto kernel, engine.prepare(forward.problem));
  LSSAR_ASSIGN_OR_RETURN(const WorkspaceLayout layout,
                         workspace_layout(forward.problem, kernel->schedule, forward.sizes));
  Runner runner(engine.device(), forward);
  LSSAR_RETURN_IF_ERROR(runner.set_up(layout));
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceModule> module,
                         load(engine.device(), kernel->loaded->image.bytes));
  LSSAR_RETURN_IF_ERROR(runner.launch(*module, kernel->source.steps, layout));
  LSSAR_ASSIGN_OR_RETURN(const SavedBytes saved,
                         saved_bytes(forward.problem, kernel->schedule, forward.sizes));
  backward.o.resize(static_cast<size_t>(forward.sizes.heads * forward.sizes.seq_q * kDim));
  LSSAR_RETURN_IF_ERROR(engine.device().copy_to_host(backward.o.data(), runner.tensors().o.data,
                                                     backward.o.size() * sizeof(backward.o[0])));
  LSSAR_ASSIGN_OR_RETURN(backward.saved_o, runner.bytes_of(runner.tensors().saved_o, saved.o));
  LSSAR_ASSIGN_OR_RETURN(backward.saved_stats,
                         runner.bytes_of(runner.tensors().saved_stats, saved.stats));
  LSSAR_ASSIGN_OR_RETURN(backward.saved_x, runner.bytes_of(runner.tensors().saved_x, saved.x));
  return {};
}

// One pair of lengths: how to run a text on it, and the outputs of the unchanged text.
struct Case {
  Inputs inputs;
  WorkspaceLayout layout;
  std::vector<LaunchStep> steps;
  std::vector<float> expected;

  Result<std::vector<float>> run(Device& device, const DeviceModule& module) const {
    Runner runner(device, inputs);
    LSSAR_RETURN_IF_ERROR(runner.set_up(layout));
    LSSAR_RETURN_IF_ERROR(runner.launch(module, steps, layout));
    return runner.outputs();
  }
};

Result<Case> make_case(Engine& engine, const PreparedKernel& kernel, const Lengths& lengths) {
  Case made{
      make_inputs(kernel.problem.pass, kernel.problem.dtype, lengths), {}, kernel.source.steps, {}};
  if (kernel.problem.pass == Pass::kBackward) {
    LSSAR_RETURN_IF_ERROR(save_forward(engine, lengths, made.inputs));
  }
  LSSAR_ASSIGN_OR_RETURN(made.layout,
                         workspace_layout(kernel.problem, kernel.schedule, made.inputs.sizes));
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceModule> module,
                         load(engine.device(), kernel.loaded->image.bytes));
  LSSAR_ASSIGN_OR_RETURN(made.expected, made.run(engine.device(), *module));
  return made;
}

}  // namespace

const std::vector<OwnKernel>& own_kernels() {
  // For a block that draws its work tile by a ticket and adds in turns.
  static const std::vector<std::string> kTurns = {"ld.", "red.", "atom.", "bar."};
  // For a scale that is found ahead by a warp that consumers wait for.
  static const std::vector<std::string> kBarriers = {"mbarrier.", "fence.", "bar."};
  // Backwards with one evaluator. With several the same code only appears again.
  static const std::vector<OwnKernel> kernels = {
      {"forward", "sm_80", Pass::kForwardTrain, "{}"},
      {"backward", "sm_80", Pass::kBackward, R"({"dq_mode": "split"})"},
      {"backward_atomic", "sm_80", Pass::kBackward, R"({"dq_mode": "atomic"})"},
      {"hopper_forward", "sm_90a", Pass::kForward,
       R"({"forward": {"block_rows": 128, "block_cols": 128, "stages": 4},
           "hopper": {"score_cols": 128}})"},
      {"hopper_forward_in_turn", "sm_90a", Pass::kForward,
       R"({"forward": {"block_rows": 128, "block_cols": 128, "stages": 4},
           "hopper": {"score_cols": 128, "overlap": false, "ping_pong": false,
                      "tickets": false}})"},
      {"hopper_forward_staggered", "sm_90a", Pass::kForward,
       R"({"forward": {"block_rows": 128, "block_cols": 96, "stages": 4},
           "hopper": {"stagger": 2}})"},
      {"hopper_forward_train", "sm_90a", Pass::kForwardTrain,
       R"({"forward": {"block_rows": 128, "block_cols": 96, "stages": 4},
           "hopper": {"score_cols": 128}})"},
      {"hopper_forward_cluster", "sm_90a", Pass::kForward,
       R"({"forward": {"block_rows": 128, "block_cols": 128, "stages": 4},
           "hopper": {"score_cols": 128, "cluster": 2, "weights_from": "shared"}})"},
      {"hopper_backward", "sm_90a", Pass::kBackward,
       R"({"dkdv": {"block_rows": 128, "block_cols": 32, "stages": 4},
           "dq": {"block_rows": 128, "block_cols": 32, "stages": 4},
           "hopper": {"evaluator": "full"}})"},
      {"hopper_backward_fp16", "sm_90a", Pass::kBackward,
       R"({"dkdv": {"block_rows": 128, "block_cols": 32, "stages": 2},
           "dq": {"block_rows": 128, "block_cols": 32, "stages": 4},
           "hopper": {"evaluator": "full"}})",
       "lssar_backward_dkdv", kBarriers, false, DType::kFp16},
      {"backward_epsilon", "sm_80", Pass::kBackward, R"({"epsilon": "pass", "dq_mode": "atomic"})",
       "lssar_backward_epsilon"},
      {"hopper_backward_epsilon", "sm_90a", Pass::kBackward,
       R"({"epsilon": "pass", "dkdv": {"block_rows": 128, "block_cols": 32, "stages": 4},
           "dq": {"block_rows": 128, "block_cols": 32, "stages": 4}})",
       "lssar_backward_epsilon"},
      {"hopper_backward_atomic", "sm_90a", Pass::kBackward,
       R"({"dq_mode": "atomic", "dkdv": {"block_rows": 128, "stages": 2},
           "hopper": {"evaluator": "full"}})"},
      {"hopper_backward_ordered", "sm_90a", Pass::kBackward,
       R"({"dq_mode": "ordered", "dkdv": {"block_rows": 128, "stages": 2},
           "hopper": {"evaluator": "full"}})",
       "lssar_backward_dkdv", kTurns, true},
  };
  return kernels;
}

Result<Subject> own_subject(const OwnKernel& own) {
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, open_engine(own.target));
  const Target target = engine->device().info().target;
  const Problem problem = small_problem(own.pass, own.dtype);
  LSSAR_ASSIGN_OR_RETURN(const Schedule schedule,
                         schedule_for(problem, target, nlohmann::json::parse(own.schedule)));
  LSSAR_ASSIGN_OR_RETURN(const std::shared_ptr<const PreparedKernel> kernel,
                         engine->prepare(problem, schedule));
  std::string text = kernel->loaded->image.bytes;
  if (own.has_plain_sums) {
    const std::string atomic = std::exchange(text, with_plain_sums(text));
    if (text == atomic) return internal_error("no sums of pairs of float32 in the PTX");
  }
  auto cases = std::make_shared<std::vector<Case>>();
  for (const Lengths& lengths : lengths_of(own, schedule.variant)) {
    LSSAR_ASSIGN_OR_RETURN(Case made, make_case(*engine, *kernel, lengths));
    cases->push_back(std::move(made));
  }
  return Subject{own.name, text, own.only, own.opcodes,
                 [cases](Device& device, const std::string& mutant) -> Result<std::string> {
                   LSSAR_ASSIGN_OR_RETURN(const auto module, load(device, mutant));
                   for (const Case& one : *cases) {
                     LSSAR_ASSIGN_OR_RETURN(const auto got, one.run(device, *module));
                     const std::string difference = compare(got, one.expected);
                     if (!difference.empty()) return difference;
                   }
                   return std::string();
                 }};
}

Subject replica_subject(const std::string& entry) {
  for (const Replica& replica : replicas()) {
    if (replica.entry != entry) continue;
    return {entry,
            extract_entry(data_ptx(replica.file), entry),
            "",
            {},
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
  options.strict = options.letter = true;
  options.schedule_seed = seed;
  options.elected_lane = ElectedLane::kDrawn;
  options.max_block_instructions = 4'000'000;
  return make_virtual_device(options);
}

}  // namespace lssar::test
