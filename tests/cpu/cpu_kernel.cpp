#include "tests/cpu/cpu_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "cache/store.h"
#include "codegen/pass_needs.h"
#include "compile/compiler.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/cpu_features.h"
#include "reference/numerics.h"
#include "templates/kernels/params.cuh"
#include "tests/cpu/cpu_launches.h"

namespace lssar {
namespace {

// A tensor in memory, with `gap` elements after each row that hold NaN.
class Memory {
 public:
  Memory(DType dtype, int64_t batch, int64_t heads, int64_t length, int64_t dim, int gap)
      : dtype_(dtype), batch_(batch), heads_(heads), length_(length), dim_(dim) {
    const int64_t pitch = dim + gap;
    // With a gap: [batch, length, heads, dim].
    row_ = gap == 0 ? dim : heads * pitch;
    head_ = gap == 0 ? length * dim : pitch;
    values_.assign(static_cast<size_t>(batch * heads * length * pitch),
                   std::numeric_limits<float>::quiet_NaN());
    bytes_ = pack(dtype_, values_);
  }

  void set(const std::vector<float>& contiguous) {
    size_t i = 0;
    for_each([&](size_t at) { values_[at] = contiguous[i++]; });
    bytes_ = pack(dtype_, values_);
  }
  std::vector<float> get() const {
    const std::vector<float> all = unpack(dtype_, bytes_);
    std::vector<float> contiguous;
    for_each([&](size_t at) { contiguous.push_back(all[at]); });
    return contiguous;
  }
  // Elements between rows that were changed.
  bool gaps_are_untouched() const {
    std::vector<float> all = unpack(dtype_, bytes_);
    for_each([&](size_t at) { all[at] = std::numeric_limits<float>::quiet_NaN(); });
    return std::all_of(all.begin(), all.end(), [](float x) { return x != x; });
  }
  CpuLaunches::Memory all() { return {bytes_.data(), bytes_.size()}; }
  lssar_device::TensorRef ref() {
    return {bytes_.data(), length_ * heads_ * (row_ == dim_ ? dim_ : head_), head_, row_};
  }

 private:
  template <typename Do>
  void for_each(const Do& act) const {
    const int64_t batch_stride = length_ * heads_ * (row_ == dim_ ? dim_ : head_);
    for (int64_t b = 0; b < batch_; ++b)
      for (int64_t h = 0; h < heads_; ++h)
        for (int64_t i = 0; i < length_; ++i)
          for (int64_t d = 0; d < dim_; ++d)
            act(static_cast<size_t>(b * batch_stride + h * head_ + i * row_ + d));
  }

  DType dtype_;
  int64_t batch_, heads_, length_, dim_, row_ = 0, head_ = 0;
  std::vector<float> values_;
  std::vector<std::byte> bytes_;
};

Device& device_with(int threads) {
  static auto& devices = *new std::map<int, std::shared_ptr<Device>>;
  std::shared_ptr<Device>& device = devices[threads];
  if (device == nullptr)
    device = make_cpu_device(*cpu_target_for("", cpu_features()), {.num_threads = threads});
  return *device;
}

// The object code, from the tests' cache: each test is a process of its own.
Result<std::string> compile_once(const Compiler& compiler, const CompileRequest& request) {
  static Store& store = *Store::open({}).release();
  const std::string key = CacheKeyBuilder()
                              .add("test", "cpu_kernel")
                              .add("source", request.source)
                              .add("options", compiler.options(request))
                              .add("compiler_version", compiler.version())
                              .add("target", request.target.name())
                              .hex();
  const auto compile = [&]() -> Result<CacheEntry> {
    LSSAR_ASSIGN_OR_RETURN(Image image, compiler.compile(request));
    return CacheEntry{"{}", std::move(image.bytes)};
  };
  LSSAR_ASSIGN_OR_RETURN(const auto entry, store.get_or_compute(key, compile, nullptr));
  return entry->payload;
}

// One compile per source and target.
Result<const DeviceModule*> load(const KernelSource& source, const std::string& compile_for) {
  static auto& kept =
      *new std::map<std::pair<std::string, std::string>, std::unique_ptr<DeviceModule>>;
  const std::pair key = {source.source, compile_for};
  const auto found = kept.find(key);
  if (found != kept.end()) return found->second.get();
  LSSAR_ASSIGN_OR_RETURN(const auto compiler, open_compiler(CompilerChoice::kLlvm));
  CompileRequest request;
  request.name = source.name;
  request.source = source.source;
  request.kind = ImageKind::kObject;
  LSSAR_ASSIGN_OR_RETURN(request.target, cpu_target_for(compile_for, cpu_features()));
  Image image;
  image.kind = request.kind;
  image.target = request.target.name();
  LSSAR_ASSIGN_OR_RETURN(image.bytes, compile_once(*compiler, request));
  LSSAR_ASSIGN_OR_RETURN(std::unique_ptr<DeviceModule> module, device_with(1).load(image));
  return kept.emplace(key, std::move(module)).first->second.get();
}

// The source that was emitted last is kept, because tests often repeat a kernel with other lengths.
Result<KernelSource> emit_once(const Problem& problem, const Schedule& schedule,
                               const Target& target) {
  static auto& kept = *new std::pair<std::string, KernelSource>;
  const std::string key =
      to_json(problem).dump() + to_json(schedule).dump() + target.name();
  if (kept.first != key) {
    LSSAR_ASSIGN_OR_RETURN(KernelSource source, emit_kernel(problem, schedule, target));
    kept = {key, std::move(source)};
  }
  return kept.second;
}

struct FreeBytes {
  void operator()(std::byte* memory) const { std::free(memory); }
};

// Blocks of one (batch, kv head).
int64_t blocks_of_slice(const LaunchStep& step, const Sizes& sizes) {
  if (!is_launched(step, sizes.seq_q * (sizes.heads / sizes.kv_heads))) return 0;
  const bool is_keys = step.grid_rows == GridRows::kKeys;
  const int64_t rows = is_keys ? sizes.seq_k : sizes.seq_q;
  const int64_t blocks = (rows + step.rows_per_block - 1) / step.rows_per_block;
  return blocks * (is_keys ? 1 : sizes.heads / sizes.kv_heads);
}

// The slices take turns for the panels of the workspace.
std::vector<CpuLaunches::Launch> launches_of(const KernelSource& kernel, const Sizes& sizes,
                                             int64_t panel_slices) {
  std::vector<CpuLaunches::Launch> launches;
  const int64_t slices = sizes.batch * sizes.kv_heads;
  for (int64_t first = 0; first < slices; first += panel_slices)
    for (const LaunchStep& step : kernel.steps) {
      const int64_t blocks = blocks_of_slice(step, sizes);
      const int64_t count = std::min(panel_slices, slices - first);
      launches.push_back(
          {step, static_cast<uint32_t>(blocks * first), static_cast<uint32_t>(blocks * count)});
    }
  return launches;
}

Status launch_on_device(const CpuLaunches& launches, int threads, const std::string& compile_for) {
  LSSAR_ASSIGN_OR_RETURN(const DeviceModule* const loaded, load(launches.kernel, compile_for));
  for (const CpuLaunches::Launch& launch : launches.launches) {
    LaunchConfig config;
    config.grid[0] = launch.num_blocks;
    config.first_block = launch.first_block;
    config.shared_bytes = static_cast<uint32_t>(launch.step.shared_bytes);
    if (config.grid[0] == 0) continue;
    LSSAR_ASSIGN_OR_RETURN(const DeviceFunction* const function,
                           loaded->function(launch.step.entry));
    LSSAR_RETURN_IF_ERROR(device_with(threads).launch(*function, config, &launches.params,
                                                      sizeof(launches.params), nullptr));
  }
  return {};
}

// The tensors of a call, and the launches of its passes.
class Call {
 public:
  Call(const Problem& problem, const Sizes& sizes, const CpuInputs& inputs, const CpuRun& run)
      : problem_(problem), sizes_(sizes), run_(run) {
    q_.set(inputs.q);
    k_.set(inputs.k);
    v_.set(inputs.v);
    if (!inputs.grad_o.empty()) grad_o_.set(inputs.grad_o);
    const auto rows = static_cast<size_t>(sizes.batch * sizes.heads * sizes.seq_q);
    stats_ = inputs.stats;
    stats_.resize(4 * rows, -1.0f);
    sink_ = inputs.sink;
    slopes_ = inputs.alibi_slopes;
    const size_t columns = rows * static_cast<size_t>(problem.head_dim_v);
    if (saves_o(problem)) saved_o_ = pack(DType::kBf16, std::vector<float>(columns, -1.0f));
    partial_o_.assign(columns, -1.0f);
  }

  Status launch(const std::string& target_name, const Problem& problem) {
    LSSAR_ASSIGN_OR_RETURN(const Target target, target_from_name(target_name));
    const Schedule schedule = run_.schedule ? *run_.schedule : default_schedule(problem, target);
    LSSAR_ASSIGN_OR_RETURN(const KernelSource source, emit_once(problem, schedule, target));
    LSSAR_ASSIGN_OR_RETURN(const WorkspaceLayout layout,
                           workspace_layout(problem, schedule, sizes_));
    LSSAR_ASSIGN_OR_RETURN(const SavedBytes saved, saved_bytes(problem, schedule, sizes_));
    saved_x_.resize(saved.x);
    const size_t bytes = std::max<size_t>(layout.total_bytes, 256);
    const std::unique_ptr<std::byte, FreeBytes> workspace(
        static_cast<std::byte*>(std::aligned_alloc(256, bytes)));
    std::memset(workspace.get(), 0xff, bytes);  // NaN
    const lssar_device::AttentionParams params = make_params(workspace.get(), layout);
    const CpuLaunches launches = {source, launches_of(source, sizes_, layout.panel_slices), params,
                                  memory(workspace.get(), layout)};
    return run_.launch ? run_.launch(launches)
                       : launch_on_device(launches, run_.threads, run_.compile_for);
  }

  Result<CpuOutputs> outputs() const {
    for (const Memory* written : {&o_, &grad_q_, &grad_k_, &grad_v_})
      if (!written->gaps_are_untouched())
        return device_error("the kernel wrote between the rows of a tensor");
    CpuOutputs all;
    all.o = o_.get();
    all.stats = stats_;
    all.unrounded_o = all.o;
    const std::vector<float> rounding = unpack(DType::kBf16, saved_o_);
    for (size_t i = 0; i < rounding.size(); ++i) all.unrounded_o[i] += rounding[i];
    all.partial_o = partial_o_;
    all.saved_x = unpack(problem_.dtype == DType::kFp32 ? DType::kFp32 : DType::kBf16, saved_x_);
    all.dq = grad_q_.get();
    all.dk = grad_k_.get();
    all.dv = grad_v_.get();
    return all;
  }

 private:
  Memory of_queries(int dim) const {
    return Memory(problem_.dtype, sizes_.batch, sizes_.heads, sizes_.seq_q, dim, run_.gap);
  }
  Memory of_keys(int dim) const {
    return Memory(problem_.dtype, sizes_.batch, sizes_.kv_heads, sizes_.seq_k, dim, run_.gap);
  }

  // The parts of the workspace are apart, so that none can be taken for the end of another.
  std::vector<CpuLaunches::Memory> memory(std::byte* workspace, const WorkspaceLayout& layout) {
    std::vector<CpuLaunches::Memory> all;
    for (Memory* tensor : {&q_, &k_, &v_, &o_, &grad_o_, &grad_q_, &grad_k_, &grad_v_})
      all.push_back(tensor->all());
    all.push_back({saved_o_.data(), saved_o_.size()});
    all.push_back({partial_o_.data(), partial_o_.size() * sizeof(float)});
    all.push_back({stats_.data(), stats_.size() * sizeof(float)});
    all.push_back({saved_x_.data(), saved_x_.size()});
    all.push_back({workspace + layout.k_inv_norm, layout.row_constants - layout.k_inv_norm});
    all.push_back({workspace + layout.row_constants, layout.grad_q_sum - layout.row_constants});
    all.push_back({workspace + layout.grad_q_sum, layout.dq_turns - layout.grad_q_sum});
    all.push_back({workspace + layout.dq_turns, layout.total_bytes - layout.dq_turns});
    return all;
  }

  lssar_device::AttentionParams make_params(std::byte* workspace, const WorkspaceLayout& layout) {
    lssar_device::AttentionParams params{};
    params.q = q_.ref();
    params.k = k_.ref();
    params.v = v_.ref();
    params.o = o_.ref();
    params.grad_o = grad_o_.ref();
    params.grad_q = grad_q_.ref();
    params.grad_k = grad_k_.ref();
    params.grad_v = grad_v_.ref();
    params.saved_o = saved_o_.data();
    params.partial_o = partial_o_.data();
    params.saved_stats = stats_.data();
    params.saved_x = saved_x_.data();
    params.k_inv_norm = reinterpret_cast<float*>(workspace + layout.k_inv_norm);
    params.row_constants = reinterpret_cast<float*>(workspace + layout.row_constants);
    params.grad_q_sum = reinterpret_cast<float*>(workspace + layout.grad_q_sum);
    params.dq_turns = reinterpret_cast<unsigned*>(workspace + layout.dq_turns);
    params.panel_slices = static_cast<int>(layout.panel_slices);
    params.sink = sink_.data();
    if (reads_alibi(problem_)) params.saved_x = slopes_.data();
    params.first_key = sizes_.range.first_key;
    params.num_keys = sizes_.range.num_keys;
    params.query_shift =
        sizes_.range.first_query + sizes_.range.num_keys - sizes_.range.num_queries;
    params.seq_q = sizes_.seq_q;
    params.seq_k = sizes_.seq_k;
    params.batch = static_cast<int>(sizes_.batch);
    params.heads = static_cast<int>(sizes_.heads);
    params.kv_heads = static_cast<int>(sizes_.kv_heads);
    return params;
  }

  const Problem problem_;
  const Sizes sizes_;
  const CpuRun run_;
  // All but the inputs have NaN until they are written.
  Memory q_ = of_queries(problem_.head_dim), k_ = of_keys(problem_.head_dim),
         v_ = of_keys(problem_.head_dim_v), o_ = of_queries(problem_.head_dim_v),
         grad_o_ = of_queries(problem_.head_dim_v), grad_q_ = of_queries(problem_.head_dim),
         grad_k_ = of_keys(problem_.head_dim), grad_v_ = of_keys(problem_.head_dim_v);
  std::vector<float> stats_, partial_o_, sink_, slopes_;
  std::vector<std::byte> saved_o_, saved_x_;
};

}  // namespace

bool can_run_cpu_kernels(std::string* why) {
  const auto target = cpu_target_for("", cpu_features());
  const auto compiler = open_compiler(CompilerChoice::kLlvm);
  *why = !target.ok()    ? target.status().message()
         : compiler.ok() ? ""
                         : compiler.status().message();
  return why->empty();
}

std::vector<std::string> cpu_target_names() {
  std::vector<std::string> names;
  for (const CpuLevel& level : cpu_levels())
    if (!level.has_bf16_pairs) names.push_back(level.name);
  return names;
}

Result<CpuOutputs> run_cpu_kernel(const std::string& target_name, const Problem& problem,
                                  const Sizes& sizes, const CpuInputs& inputs, const CpuRun& run) {
  Call call(problem, sizes, inputs, run);
  LSSAR_RETURN_IF_ERROR(call.launch(target_name, problem));
  return call.outputs();
}

Result<CpuOutputs> run_cpu_training(const std::string& target_name, const Problem& problem,
                                    const Sizes& sizes, const CpuInputs& inputs,
                                    const CpuRun& run) {
  Call call(problem, sizes, inputs, run);
  for (const Pass pass : {Pass::kForwardTrain, Pass::kBackward}) {
    Problem of_pass = problem;
    of_pass.pass = pass;
    LSSAR_RETURN_IF_ERROR(call.launch(target_name, of_pass));
  }
  return call.outputs();
}

bool has_nan(const std::vector<float>& values, int64_t first, int64_t count) {
  return std::any_of(values.begin() + first, values.begin() + first + count,
                     [](float x) { return std::isnan(x); });
}

bool all_nan(const std::vector<float>& values, int64_t first, int64_t count) {
  return std::all_of(values.begin() + first, values.begin() + first + count,
                     [](float x) { return std::isnan(x); });
}

}  // namespace lssar
