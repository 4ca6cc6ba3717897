#include "runtime/engine.h"

#include <ctime>

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/log.h"
#include "codegen/source_header.h"
#include "runtime/debug/dump.h"
#include "runtime/debug/override.h"
#include "runtime/executor.h"
#include "runtime/image_metadata.h"
#include "runtime/operands.h"

namespace lssar {
namespace {

class Stopwatch {
 public:
  double ms() const {
    const auto elapsed = std::chrono::steady_clock::now() - start_;
    return std::chrono::duration<double, std::milli>(elapsed).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// CPU time of the whole process, because a compiler may work in a thread of its own.
double process_cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

// Hashes what decides the image's bytes and nothing else: no path, time or name of a GPU.
std::string cache_key(const Compiler& compiler, const CompileRequest& request,
                      const KernelSource& source) {
  CacheKeyBuilder key;
  key.add("source", source_without_header(source.source));
  key.add("options", compiler.options(request));
  key.add("compiler", compiler.name());
  key.add("compiler_version", compiler.version());
  key.add("target", request.target.name());
  key.add("image", image_kind_name(request.kind));
  std::vector<std::string> entries;
  for (const LaunchStep& step : source.steps) entries.push_back(step.entry);
  key.add("entries", entries);
  return key.hex();
}

// Registers a call's memory with the device while its launches run.
class ImportedRanges {
 public:
  ImportedRanges(Device& device, const Operands& operands) : device_(device), ranges_(operands) {}
  ~ImportedRanges() {
    for (int i = 0; i < count_; ++i) {
      if (bytes_[i] != 0) device_.release_range(ranges_.items[i].data, bytes_[i]);
    }
  }
  ImportedRanges(const ImportedRanges&) = delete;
  ImportedRanges& operator=(const ImportedRanges&) = delete;

  Status import() {
    for (; count_ < ranges_.count; ++count_) {
      const Operand& operand = ranges_.items[count_];
      LSSAR_ASSIGN_OR_RETURN(const int64_t bytes, extent_bytes(operand));
      bytes_[count_] = operand.data == 0 ? 0 : static_cast<size_t>(bytes);
      if (bytes_[count_] == 0) continue;
      LSSAR_RETURN_IF_ERROR(device_.import_range(operand.data, bytes_[count_]));
    }
    return {};
  }

 private:
  Device& device_;
  const Operands& ranges_;
  std::array<size_t, Operands::kCapacity> bytes_{};
  int count_ = 0;
};

}  // namespace

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions& options) {
  LSSAR_ASSIGN_OR_RETURN(
      std::shared_ptr<Device> device,
      open_device(options.device, options.target, options.ordinal, options.parallel_for));
  std::unique_ptr<Engine> engine = create(options, std::move(device), nullptr);
  if (options.device == DeviceChoice::kCpu) LSSAR_RETURN_IF_ERROR(engine->compiler().status());
  return engine;
}

std::unique_ptr<Engine> Engine::create(const EngineOptions& options, std::shared_ptr<Device> device,
                                       std::shared_ptr<const Compiler> compiler,
                                       std::shared_ptr<Store> store) {
  if (store == nullptr) store = Store::open(options.cache);
  return std::unique_ptr<Engine>(
      new Engine(options, std::move(device), std::move(compiler), std::move(store)));
}

Engine::Engine(const EngineOptions& options, std::shared_ptr<Device> device,
               std::shared_ptr<const Compiler> compiler, std::shared_ptr<Store> store)
    : options_(options),
      device_(std::move(device)),
      store_(std::move(store)),
      compiler_(std::move(compiler)) {}

Result<std::shared_ptr<const Compiler>> Engine::compiler() {
  const std::lock_guard lock(mutex_);
  if (compiler_ == nullptr) {
    LSSAR_ASSIGN_OR_RETURN(compiler_,
                           open_compiler_for(options_.compiler, device_->preferred_image()));
  }
  return compiler_;
}

Result<std::shared_ptr<const PreparedKernel>> Engine::prepare(
    const Problem& problem, const std::optional<Schedule>& schedule) {
  LSSAR_RETURN_IF_ERROR(validate(problem));
  const Target& target = device_->info().target;
  const Schedule chosen = schedule ? *schedule : default_schedule(problem, target);
  const Stopwatch watch;
  LSSAR_ASSIGN_OR_RETURN(KernelSource source, emit_kernel(problem, chosen, target));
  Generated generated;
  if (options_.uses_overrides) {
    LSSAR_ASSIGN_OR_RETURN(generated.override_, apply_override(target, &source));
  }
  // Kernels of a CPU wait for nothing.
  if (!target.is_cpu()) {
    LSSAR_ASSIGN_OR_RETURN(generated.wait_spins, wait_spins_from_environment());
  }
  if (generated.wait_spins != 0) LSSAR_RETURN_IF_ERROR(add_cluster_watch(target, &source));
  generated.emit_ms = watch.ms();
  auto prepared = prepare_emitted(problem, chosen, std::move(source), generated);
  const std::string& file = generated.override_.path;
  if (prepared.ok() || file.empty()) return prepared;
  return prepared.status().with_context(fmt::format("'{}' (LSSAR_OVERRIDE_DIR)", file));
}

Result<std::shared_ptr<const PreparedKernel>> Engine::prepare_source(const Problem& problem,
                                                                     const Schedule& schedule,
                                                                     KernelSource source) {
  LSSAR_RETURN_IF_ERROR(validate(problem));
  return prepare_emitted(problem, schedule, std::move(source), {});
}

Result<std::shared_ptr<const PreparedKernel>> Engine::prepare_image(const Problem& problem,
                                                                    const Schedule& schedule,
                                                                    KernelSource source,
                                                                    Image image,
                                                                    const std::string& key) {
  LSSAR_RETURN_IF_ERROR(validate(problem));
  auto kernel = std::make_shared<PreparedKernel>();
  kernel->problem = problem;
  kernel->schedule = schedule;
  kernel->source = std::move(source);
  kernel->key = key;
  kernel->cache_source = CacheSource::kMemory;
  LSSAR_ASSIGN_OR_RETURN(kernel->loaded, find_or_load(key, std::move(image), kernel.get()));
  LSSAR_RETURN_IF_ERROR(resolve_functions(kernel.get()));
  return std::shared_ptr<const PreparedKernel>(std::move(kernel));
}

Result<std::shared_ptr<const PreparedKernel>> Engine::prepare_emitted(const Problem& problem,
                                                                      const Schedule& schedule,
                                                                      KernelSource source,
                                                                      const Generated& generated) {
  LSSAR_ASSIGN_OR_RETURN(const std::shared_ptr<const Compiler> opened, compiler());
  LSSAR_ASSIGN_OR_RETURN(const ImageKind kind, image_kind());
  CompileRequest request = compile_request(problem, source, kind);
  if (generated.wait_spins != 0) {
    request.extra_options.push_back(wait_spins_option(generated.wait_spins));
    request.source = with_wait_limit(request.source);
  }

  auto kernel = std::make_shared<PreparedKernel>();
  kernel->problem = problem;
  kernel->schedule = schedule;
  kernel->source = std::move(source);
  kernel->timings.emit_ms = generated.emit_ms;
  kernel->override_path = generated.override_.path;
  kernel->override_missed = generated.override_.missed;
  kernel->wait_spins = generated.wait_spins;

  LSSAR_ASSIGN_OR_RETURN(Image image, find_or_compile(*opened, request, kernel.get()));
  LSSAR_ASSIGN_OR_RETURN(kernel->loaded, find_or_load(kernel->key, std::move(image), kernel.get()));
  LSSAR_RETURN_IF_ERROR(resolve_functions(kernel.get()));
  return std::shared_ptr<const PreparedKernel>(std::move(kernel));
}

Result<ImageKind> Engine::image_kind() {
  LSSAR_ASSIGN_OR_RETURN(const std::shared_ptr<const Compiler> opened, compiler());
  const ImageKind preferred = device_->preferred_image();
  return opened->can_make(preferred) ? preferred : ImageKind::kPtx;
}

CompileRequest Engine::compile_request(const Problem& problem, const KernelSource& source,
                                       ImageKind kind) const {
  CompileRequest request;
  request.name = source.name;
  request.source = source.source;
  request.target = device_->info().target;
  request.kind = kind;
  request.extra_options = options_.compile_options;
  if (problem.invariant && !request.target.is_cpu())
    request.extra_options.push_back(kNoContraction);
  return request;
}

Result<CompiledImage> Engine::compile(const Problem& problem, const Schedule& schedule,
                                      const KernelSource& source, ImageKind kind) {
  LSSAR_RETURN_IF_ERROR(validate(problem));
  LSSAR_ASSIGN_OR_RETURN(const std::shared_ptr<const Compiler> opened, compiler());
  if (!opened->can_make(kind)) {
    return unsupported(
        fmt::format("{} {} makes no {}", opened->name(), opened->version(), image_kind_name(kind)));
  }
  PreparedKernel kernel;
  kernel.problem = problem;
  kernel.schedule = schedule;
  kernel.source = source;
  CompiledImage compiled;
  LSSAR_ASSIGN_OR_RETURN(compiled.image,
                         find_or_compile(*opened, compile_request(problem, source, kind), &kernel));
  compiled.key = std::move(kernel.key);
  compiled.cache_source = kernel.cache_source;
  compiled.timings = kernel.timings;
  return compiled;
}

Result<Image> Engine::find_or_compile(const Compiler& compiler, const CompileRequest& request,
                                      PreparedKernel* kernel) {
  PrepareTimings& timings = kernel->timings;
  const auto compile = [&]() -> Result<CacheEntry> {
    const Stopwatch watch;
    const double cpu_start_ms = process_cpu_ms();
    Result<Image> result = compiler.compile(request);
    timings.compile_cpu_ms = process_cpu_ms() - cpu_start_ms;
    timings.compile_ms = watch.ms();
    dump_compile(compiler, request, kernel->key, result);
    LSSAR_ASSIGN_OR_RETURN(Image made, std::move(result));
    log(LogLevel::kInfo, fmt::format("compiled {} for {} with {} {} in {:.0f} ms", request.name,
                                     request.target.name(), compiler.name(), compiler.version(),
                                     timings.compile_ms));
    for (const std::string& warning : made.assembler_warnings)
      log(LogLevel::kWarning, fmt::format("{}: {}", request.name, warning));
    CacheEntry entry;
    entry.metadata = encode_image_metadata(
        {kernel->problem, kernel->schedule, kernel->source, compiler, request}, made);
    entry.payload = std::move(made.bytes);
    return entry;
  };

  const Stopwatch watch;
  kernel->key = cache_key(compiler, request, kernel->source);
  LSSAR_ASSIGN_OR_RETURN(std::shared_ptr<const CacheEntry> entry,
                         store_->get_or_compute(kernel->key, compile, &kernel->cache_source));
  Result<Image> image = decode_image_metadata(entry->metadata);
  if (!image.ok()) {
    // The checksum matches, so another version wrote it: recompile and replace.
    log(LogLevel::kWarning, image.status().message());
    LSSAR_ASSIGN_OR_RETURN(CacheEntry fresh, compile());
    store_->insert(kernel->key, fresh);
    kernel->cache_source = CacheSource::kComputed;
    entry = std::make_shared<const CacheEntry>(std::move(fresh));
    image = decode_image_metadata(entry->metadata);
    LSSAR_RETURN_IF_ERROR(image.status());
  }
  image->bytes = entry->payload;
  timings.lookup_ms = watch.ms() - timings.compile_ms;
  return image;
}

Result<std::shared_ptr<const LoadedImage>> Engine::find_or_load(const std::string& key, Image image,
                                                                PreparedKernel* kernel) {
  std::shared_ptr<LoadSlot> slot;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<LoadSlot>& entry = slots_[key];
    if (entry == nullptr) entry = std::make_shared<LoadSlot>();
    slot = entry;
  }
  const std::lock_guard lock(slot->mutex);
  if (std::shared_ptr<const LoadedImage> loaded = slot->loaded.lock()) return loaded;

  const Stopwatch watch;
  auto loaded = std::make_shared<LoadedImage>();
  loaded->device = device_;
  Result<std::unique_ptr<DeviceModule>> module = device_->load(image);
  if (!module.ok()) return module.status().with_context("loading " + kernel->source.name);
  loaded->module = std::move(*module);
  if (kernel->wait_spins != 0) {
    LSSAR_ASSIGN_OR_RETURN(loaded->waits, WaitMonitor::create(*device_, *loaded->module));
  }
  loaded->image = std::move(image);
  kernel->timings.load_ms = watch.ms();
  slot->loaded = loaded;
  return std::shared_ptr<const LoadedImage>(std::move(loaded));
}

Status Engine::resolve_functions(PreparedKernel* kernel) {
  for (const LaunchStep& step : kernel->source.steps) {
    LSSAR_ASSIGN_OR_RETURN(const DeviceFunction* function,
                           kernel->loaded->module->function(step.entry));
    const Result<StepFunction> prepared = prepare_step(*device_, step, function);
    if (!prepared.ok()) {
      return prepared.status().with_context(fmt::format("{}, {}", kernel->source.name, step.entry));
    }
    KernelResources resources = function->resources();
    for (const KernelResources& reported : kernel->loaded->image.resources) {
      // Only the assembler's report has the spills; a driver does not tell them.
      if (reported.entry == step.entry && reported.registers >= 0) resources = reported;
    }
    resources.entry = step.entry;
    kernel->functions.push_back(*prepared);
    kernel->resources.push_back(std::move(resources));
  }
  return {};
}

Status Engine::execute(const PreparedKernel& kernel, const Sizes& sizes, const Tensors& tensors,
                       const Workspace& workspace, Stream stream) const {
  const Problem& problem = kernel.problem;
  if (problem.varlen)
    return invalid_argument("problem.varlen = true: such a kernel takes only calls with lengths");
  LSSAR_RETURN_IF_ERROR(check_sizes(problem, sizes));
  LSSAR_ASSIGN_OR_RETURN(const WorkspaceLayout layout,
                         workspace_layout(problem, kernel.schedule, sizes));
  LSSAR_RETURN_IF_ERROR(
      check_tensors(problem, kernel.schedule, sizes, tensors, workspace, layout.total_bytes));

  LSSAR_ASSIGN_OR_RETURN(const SavedBytes saved, saved_bytes(problem, kernel.schedule, sizes));
  const Operands operands =
      list_operands(problem, shapes_of(sizes), saved, tensors, workspace.data, layout.total_bytes);
  ImportedRanges ranges(*device_, operands);
  LSSAR_RETURN_IF_ERROR(ranges.import());
  const WaitMonitor* const waits = kernel.loaded->waits.get();
  if (waits != nullptr) LSSAR_RETURN_IF_ERROR(waits->begin(stream));
  Status status = launch_steps(*device_, kernel.source.steps, kernel.functions,
                               {problem, sizes, tensors, workspace.data, layout}, stream);
  if (waits == nullptr) return status;
  return waits->end(std::move(status), kernel.source, stream);
}

Status Engine::execute_sequences(const PreparedKernel& kernel, const Sizes& sizes,
                                 const Sequences& sequences, const Tensors& tensors,
                                 const Workspace& workspace, Stream stream) const {
  const Problem& problem = kernel.problem;
  if (!problem.varlen)
    return invalid_argument("problem.varlen = false: such a kernel takes no calls with lengths");
  LSSAR_RETURN_IF_ERROR(check_sizes(problem, sizes));
  LSSAR_RETURN_IF_ERROR(check_totals(sequences));
  LSSAR_RETURN_IF_ERROR(check_new_keys(problem, sequences));
  LSSAR_RETURN_IF_ERROR(check_key_norms(problem, tensors));
  LSSAR_RETURN_IF_ERROR(check_rotary_positions(problem, sizes, tensors));
  const TensorShapes shapes = shapes_of(sizes, sequences);
  LSSAR_ASSIGN_OR_RETURN(
      const SavedBytes saved,
      sequences_saved_bytes(problem, kernel.schedule, sizes, shapes.batch_q * shapes.rows_q));
  Operands operands =
      list_operands(problem, shapes, saved, tensors, workspace.data, workspace.bytes);
  add_lengths(sizes, sequences, operands);
  LSSAR_RETURN_IF_ERROR(check_operands(operands, workspace));
  // After the check of their arrays, which may be misaligned.
  if (host_reads_lengths(*device_))
    LSSAR_RETURN_IF_ERROR(check_sequences(problem, sizes, sequences));
  ImportedRanges ranges(*device_, operands);
  LSSAR_RETURN_IF_ERROR(ranges.import());
  const WaitMonitor* const waits = kernel.loaded->waits.get();
  if (waits != nullptr) LSSAR_RETURN_IF_ERROR(waits->begin(stream));
  Status status =
      launch_sequences(*device_, kernel.source.steps, kernel.functions,
                       {problem, kernel.schedule, sizes, sequences, tensors, workspace}, stream);
  if (waits == nullptr) return status;
  return waits->end(std::move(status), kernel.source, stream);
}

}  // namespace lssar
