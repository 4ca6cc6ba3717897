#include "tests/witness/witness_program.h"

#include <dlfcn.h>

#include "codegen/target.h"
#include "tests/witness/cuda_stand_in.h"
#include "virtual/run/virtual_device.h"

namespace lssar::test {

Result<std::vector<witness::Case>> open_witness_program(const std::string& name) {
  const std::string path = std::string(LSSAR_WITNESS_PROGRAMS) + "/lib" + name + ".so";
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return missing(dlerror());
  void* const symbol = dlsym(library, "witness_cases");
  if (symbol == nullptr) return missing(path + ": no witness_cases");
  const witness::CaseList list = reinterpret_cast<decltype(&witness_cases)>(symbol)();
  const std::string failure = CudaStandIn::instance().take_failure();
  if (!failure.empty()) return device_error(path + ": " + failure);
  return std::vector<witness::Case>(list.cases, list.cases + list.count);
}

WitnessOutcome run_witness(const witness::Case& one, const WitnessRun& run) {
  VirtualOptions options;
  options.target = *target_from_name("sm_90a");
  options.num_threads = 1;
  options.strict = run.strict;
  options.schedule_seed = run.seed;
  options.max_block_instructions = 4'000'000;
  CudaStandIn& stand_in = CudaStandIn::instance();
  stand_in.use(make_virtual_device(options));
  WitnessOutcome outcome;
  outcome.difference = one.run();
  outcome.report = stand_in.take_failure();
  outcome.launched = stand_in.launched();
  stand_in.use(nullptr);
  return outcome;
}

}  // namespace lssar::test
