// Engine: carries a request from a problem to results on a device.
//
// engine.cpp reads as the table of contents: validate -> pick schedule -> emit source -> look up or
// compile -> load -> launch. Used by the C API, the command, the tuner and the tests.
//
// Threads: an Engine may be used from any number of threads at once. A key is compiled once and
// loaded as one module.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "cache/store.h"
#include "codegen/emit.h"
#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "codegen/sizes.h"
#include "compile/compiler.h"
#include "device/cpu/parallel_for.h"
#include "device/device.h"
#include "runtime/call.h"
#include "runtime/debug/override.h"
#include "runtime/debug/wait_limit.h"
#include "runtime/open_device.h"
#include "runtime/sequences.h"
#include "runtime/step_function.h"

namespace lssar {

struct EngineOptions {
  DeviceChoice device = DeviceChoice::kAuto;
  int ordinal = 0;     // which GPU
  std::string target;  // "": the device's own
  CompilerChoice compiler = CompilerChoice::kAuto;
  CacheOptions cache;
  std::vector<std::string> compile_options;  // extra ones, e.g. "-lineinfo"; part of the key
  // If false, LSSAR_OVERRIDE_DIR does not apply to what prepare() generates.
  bool uses_overrides = true;
  ParallelFor parallel_for;  // of the cpu device
};

// Wall time in milliseconds. compile_cpu_ms is the CPU time of the whole process during the
// compile; it is the compile's own only if no other thread works.
struct PrepareTimings {
  double emit_ms = 0;
  double lookup_ms = 0;  // key, memory and disk, without the compile
  double compile_ms = 0;
  double compile_cpu_ms = 0;
  double load_ms = 0;
};

// An image and its loaded module. All kernels with the same key share it.
struct LoadedImage {
  std::shared_ptr<Device> device;  // must outlive the module: declared first
  Image image;
  std::unique_ptr<DeviceModule> module;
  std::unique_ptr<const WaitMonitor> waits;  // set by LSSAR_DEBUG_WAITS; else null
};

// A kernel that is ready to launch. Immutable.
struct PreparedKernel {
  Problem problem;
  Schedule schedule;
  KernelSource source;
  uint64_t wait_spins = 0;  // LSSAR_DEBUG_WAITS: the limit of its waits; 0 = no limit
  std::string override_path;  // the file used instead of the generated source, or ""
  std::string override_missed;  // set if LSSAR_OVERRIDE_DIR lacks it; see Override
  std::string key;  // in the binary cache
  std::shared_ptr<const LoadedImage> loaded;
  std::vector<StepFunction> functions;     // one per source.steps
  std::vector<KernelResources> resources;  // one per source.steps
  CacheSource cache_source = CacheSource::kComputed;
  PrepareTimings timings;
};

// An image that is not loaded.
struct CompiledImage {
  Image image;
  std::string key;  // in the binary cache
  CacheSource cache_source = CacheSource::kComputed;
  PrepareTimings timings;
};

class Engine {
 public:
  // Opens the device and the cache. The first prepare opens the compiler, but the cpu device's is
  // opened here: without it there are no kernels at all. Errors: open_device's, that compiler's.
  static Result<std::unique_ptr<Engine>> open(const EngineOptions& options);
  // As above, but with a device and a compiler that are open already. Tests pass fakes; others use
  // several devices side by side. If `store` is not null, the engine shares it with another engine.
  static std::unique_ptr<Engine> create(const EngineOptions& options,
                                        std::shared_ptr<Device> device,
                                        std::shared_ptr<const Compiler> compiler,
                                        std::shared_ptr<Store> store = nullptr);

  Device& device() const { return *device_; }
  std::shared_ptr<Device> shared_device() const { return device_; }
  Store& store() const { return *store_; }
  std::shared_ptr<Store> shared_store() const { return store_; }
  // Opens the compiler if it is not open yet. Its name and version are part of every key, so even a
  // cache hit needs it.
  Result<std::shared_ptr<const Compiler>> compiler();

  // Without a schedule it takes default_schedule(problem, target), which ignores tuning tables.
  // Errors: kInvalidArgument and kUnsupported of validate(); kMissing without a compiler;
  // kCompileError; kDeviceError.
  Result<std::shared_ptr<const PreparedKernel>> prepare(
      const Problem& problem, const std::optional<Schedule>& schedule = std::nullopt);

  // The same for a given source (for example, one edited by hand).
  Result<std::shared_ptr<const PreparedKernel>> prepare_source(const Problem& problem,
                                                               const Schedule& schedule,
                                                               KernelSource source);

  // The same for a given image. Nothing is compiled, and no compiler is needed. `key` names the
  // image.
  Result<std::shared_ptr<const PreparedKernel>> prepare_image(const Problem& problem,
                                                              const Schedule& schedule,
                                                              KernelSource source, Image image,
                                                              const std::string& key);

  // Finds or compiles the image without loading it. With prepare's `kind` a later prepare_source
  // finds it. The other kind gives facts that only it has (a cubin has spills). Errors: prepare's,
  // and kUnsupported if the compiler cannot make this kind.
  Result<CompiledImage> compile(const Problem& problem, const Schedule& schedule,
                                const KernelSource& source, ImageKind kind);
  // The request that compiles this source.
  CompileRequest compile_request(const Problem& problem, const KernelSource& source,
                                 ImageKind kind) const;
  // The kind that prepare asks for.
  Result<ImageKind> image_kind();

  // Checks the call and enqueues its launches on `stream`. Allocates nothing and takes no lock of
  // the engine. On the virtual device every pointer may be ordinary host memory. If a check fails,
  // nothing was launched. After a device error the outputs are undefined.
  Status execute(const PreparedKernel& kernel, const Sizes& sizes, const Tensors& tensors,
                 const Workspace& workspace, Stream stream) const;
  // The same for sequences. kUnsupported on a cuda device.
  Status execute_sequences(const PreparedKernel& kernel, const Sizes& sizes,
                           const Sequences& sequences, const Tensors& tensors,
                           const Workspace& workspace, Stream stream) const;

 private:
  Engine(const EngineOptions& options, std::shared_ptr<Device> device,
         std::shared_ptr<const Compiler> compiler, std::shared_ptr<Store> store);

  // What only generated kernels have.
  struct Generated {
    double emit_ms = 0;
    Override override_ = {};
    uint64_t wait_spins = 0;  // LSSAR_DEBUG_WAITS
  };

  // One per key. Its mutex makes threads that want the same image wait for one load.
  struct LoadSlot {
    std::mutex mutex;
    std::weak_ptr<const LoadedImage> loaded;
  };

  Result<std::shared_ptr<const PreparedKernel>> prepare_emitted(const Problem& problem,
                                                                const Schedule& schedule,
                                                                KernelSource source,
                                                                const Generated& generated);
  Result<Image> find_or_compile(const Compiler& compiler, const CompileRequest& request,
                                PreparedKernel* kernel);
  Result<std::shared_ptr<const LoadedImage>> find_or_load(const std::string& key, Image image,
                                                          PreparedKernel* kernel);
  Status resolve_functions(PreparedKernel* kernel);

  const EngineOptions options_;
  const std::shared_ptr<Device> device_;
  const std::shared_ptr<Store> store_;

  std::mutex mutex_;  // guards the members below
  std::shared_ptr<const Compiler> compiler_;
  std::unordered_map<std::string, std::shared_ptr<LoadSlot>> slots_;
};

}  // namespace lssar
