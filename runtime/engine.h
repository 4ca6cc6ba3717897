// Engine: the driver of a request, from a problem to results on a device.
//
// engine.cpp reads as the table of contents: validate -> pick schedule -> emit source -> look up or
// compile -> load -> launch. Used by the C API, the command, the tuner and the tests.
//
// Threads: an Engine may be used from any number of threads at once. One compile per key, one
// loaded module per key.
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
#include "device/device.h"
#include "runtime/call.h"
#include "runtime/open_device.h"
#include "runtime/override.h"
#include "runtime/step_function.h"
#include "runtime/wait_limit.h"

namespace lssar {

struct EngineOptions {
  DeviceChoice device = DeviceChoice::kAuto;
  int ordinal = 0;     // which GPU
  std::string target;  // "": the device's own
  CompilerChoice compiler = CompilerChoice::kAuto;
  CacheOptions cache;
  std::vector<std::string> compile_options;  // extra ones, e.g. "-lineinfo"; part of the key
  // false: LSSAR_OVERRIDE_DIR does not hold for what prepare() generates.
  bool uses_overrides = true;
};

// Milliseconds of wall time; compile_cpu_ms is the CPU time the whole process spent meanwhile,
// which is the compile's where nothing else runs.
struct PrepareTimings {
  double emit_ms = 0;
  double lookup_ms = 0;  // key, memory and disk, without the compile
  double compile_ms = 0;
  double compile_cpu_ms = 0;
  double load_ms = 0;
};

// An image and the module it was loaded as; shared by every kernel with the same key.
struct LoadedImage {
  std::shared_ptr<Device> device;  // outlives the module: declared first
  Image image;
  std::unique_ptr<DeviceModule> module;
  std::unique_ptr<const WaitMonitor> waits;  // LSSAR_DEBUG_WAITS; else null
};

// A kernel that is ready to launch. Immutable.
struct PreparedKernel {
  Problem problem;
  Schedule schedule;
  KernelSource source;
  uint64_t wait_spins = 0;    // LSSAR_DEBUG_WAITS: the limit of its waits; 0: none
  std::string override_path;  // the file that is used instead of what was generated; "": none
  std::string override_missed;  // why none is, where LSSAR_OVERRIDE_DIR is set; see Override
  std::string key;            // of the binary cache
  std::shared_ptr<const LoadedImage> loaded;
  std::vector<StepFunction> functions;     // one per source.steps
  std::vector<KernelResources> resources;  // one per source.steps
  CacheSource cache_source = CacheSource::kComputed;
  PrepareTimings timings;
};

// An image that is not loaded.
struct CompiledImage {
  Image image;
  std::string key;  // of the binary cache
  CacheSource cache_source = CacheSource::kComputed;
  PrepareTimings timings;
};

class Engine {
 public:
  // Opens the device and the cache; the compiler is opened by the first prepare. Errors: those of
  // open_device.
  static Result<std::unique_ptr<Engine>> open(const EngineOptions& options);
  // As above with a device and a compiler that are open already, for tests with fakes and for
  // several devices side by side; and, where it is not null, with the store of another engine.
  static std::unique_ptr<Engine> create(const EngineOptions& options,
                                        std::shared_ptr<Device> device,
                                        std::shared_ptr<const Compiler> compiler,
                                        std::shared_ptr<Store> store = nullptr);

  Device& device() const { return *device_; }
  std::shared_ptr<Device> shared_device() const { return device_; }
  Store& store() const { return *store_; }
  std::shared_ptr<Store> shared_store() const { return store_; }
  // Opens it where it is not open yet. Its name and version are part of every key, so that even a
  // cache hit asks for it.
  Result<std::shared_ptr<const Compiler>> compiler();

  // Without a schedule: default_schedule(problem, target), which no tuning
  // table changes. Errors: kInvalidArgument and
  // kUnsupported of validate(); kMissing without a compiler; kCompileError; kDeviceError.
  Result<std::shared_ptr<const PreparedKernel>> prepare(
      const Problem& problem, const std::optional<Schedule>& schedule = std::nullopt);

  // The same for a source that is at hand already (one edited by hand, say).
  Result<std::shared_ptr<const PreparedKernel>> prepare_source(const Problem& problem,
                                                               const Schedule& schedule,
                                                               KernelSource source);

  // The same for an image that is at hand too: nothing is compiled, no compiler is asked for.
  // `key` is what it goes by.
  Result<std::shared_ptr<const PreparedKernel>> prepare_image(const Problem& problem,
                                                              const Schedule& schedule,
                                                              KernelSource source, Image image,
                                                              const std::string& key);

  // Finds or compiles the image without loading it: what a later prepare_source finds, where `kind`
  // is what that would ask for; else for what only the other kind tells (spills, of a cubin).
  // Errors: as prepare, and kUnsupported where the compiler cannot make this kind.
  Result<CompiledImage> compile(const Problem& problem, const Schedule& schedule,
                                const KernelSource& source, ImageKind kind);
  // What a compile of this source asks for.
  CompileRequest compile_request(const KernelSource& source, ImageKind kind) const;
  // The kind that prepare asks for.
  Result<ImageKind> image_kind();

  // Checks the call and enqueues its launches on `stream`; allocates nothing, takes no lock of the
  // engine's. On the virtual device every pointer may be ordinary host memory. After an error of
  // a check nothing was launched; after a device error the outputs are undefined.
  Status execute(const PreparedKernel& kernel, const Sizes& sizes, const Tensors& tensors,
                 const Workspace& workspace, Stream stream) const;

 private:
  Engine(const EngineOptions& options, std::shared_ptr<Device> device,
         std::shared_ptr<const Compiler> compiler, std::shared_ptr<Store> store);

  // What only kernels have that the engine generates itself.
  struct Generated {
    double emit_ms = 0;
    Override override_ = {};
    uint64_t wait_spins = 0;  // LSSAR_DEBUG_WAITS
  };

  // One per key; its mutex makes threads that want the same image wait for one load.
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

  std::mutex mutex_;  // guards what follows
  std::shared_ptr<const Compiler> compiler_;
  std::unordered_map<std::string, std::shared_ptr<LoadSlot>> slots_;
};

}  // namespace lssar
