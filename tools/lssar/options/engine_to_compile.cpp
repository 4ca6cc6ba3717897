#include "tools/lssar/options/engine_to_compile.h"

#include <utility>

#include "device/cpu/cpu_device.h"

namespace lssar::command {

Result<std::unique_ptr<Engine>> open_engine_to_compile(EngineOptions options) {
  const bool may_be_cpu =
      options.device == DeviceChoice::kAuto || options.device == DeviceChoice::kCpu;
  if (options.target.empty() || !may_be_cpu) return Engine::open(options);
  LSSAR_ASSIGN_OR_RETURN(const Target target, target_from_name(options.target));
  if (!target.is_cpu()) return Engine::open(options);
  options.device = DeviceChoice::kCpu;
  std::unique_ptr<Engine> engine = Engine::create(options, make_cpu_device(target), nullptr);
  LSSAR_RETURN_IF_ERROR(engine->compiler().status());
  return engine;
}

}  // namespace lssar::command
