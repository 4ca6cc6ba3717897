#include "tools/lssar/call/open_engine.h"

#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "tools/lssar/terminal/standard_streams.h"

namespace lssar::command {
namespace {

bool is_set(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

// Without LLVM there are only the kernels that were shipped. Whether this is one shows when it is
// prepared, which takes no time then. A backward's call begins with the forward for training.
Status check_shipped(Problem problem, Engine& engine) {
  LSSAR_ASSIGN_OR_RETURN(const std::shared_ptr<const Compiler> compiler, engine.compiler());
  if (compiler->name() != "shipped") return {};
  LSSAR_RETURN_IF_ERROR(engine.prepare(problem).status());
  if (problem.pass != Pass::kBackward) return {};
  problem.pass = Pass::kForwardTrain;
  return engine.prepare(problem).status();
}

// With the store of the engine that was opened first, because each store that is opened warns of
// what is wrong with the cache.
Result<std::unique_ptr<Engine>> open_cpu_engine(const Problem& problem, EngineOptions options,
                                                std::shared_ptr<Store> store) {
  options.device = DeviceChoice::kCpu;
  LSSAR_ASSIGN_OR_RETURN(std::shared_ptr<Device> device,
                         open_device(options.device, "", options.ordinal, options.parallel_for));
  std::unique_ptr<Engine> engine =
      Engine::create(options, std::move(device), nullptr, std::move(store));
  LSSAR_RETURN_IF_ERROR(check_shipped(problem, *engine));
  return engine;
}

}  // namespace

Result<std::unique_ptr<Engine>> open_engine_for(const Problem& problem, EngineOptions options,
                                                bool has_schedule) {
  if (options.device != DeviceChoice::kAuto) return Engine::open(options);
  if (!options.target.empty()) {
    LSSAR_ASSIGN_OR_RETURN(const Target target, target_from_name(options.target));
    if (target.is_cpu()) options.device = DeviceChoice::kCpu;
    return Engine::open(options);
  }
  LSSAR_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, Engine::open(options));
  if (engine->device().info().kind != "virtual") return engine;
  if (has_schedule || is_set("LSSAR_OVERRIDE_DIR") || is_set("LSSAR_DEBUG_WAITS")) return engine;
  Result<std::unique_ptr<Engine>> on_cpu =
      open_cpu_engine(problem, std::move(options), engine->shared_store());
  const StatusCode code = on_cpu.status().code();
  if (code != StatusCode::kUnsupported && code != StatusCode::kMissing) return on_cpu;
  tell("lssar: --device auto takes the virtual device, which is slow: {}\n",
       on_cpu.status().message());
  return engine;
}

}  // namespace lssar::command
