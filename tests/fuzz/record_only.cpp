// The fuzzers of the readers have the recording device only, and no tuner: what these would do is
// fuzzed elsewhere (ptx_fuzzer.cpp) or starts processes.
#include "autotune/search/tuner.h"
#include "device/device.h"
#include "device/record_device.h"
#include "runtime/call.h"
#include "runtime/open_device.h"

namespace lssar {

Result<DeviceChoice> parse_device_choice(const std::string& name) {
  if (name == "record") return DeviceChoice::kRecord;
  return invalid_argument("device = " + name + ": a fuzzer has the recording device only");
}

Result<std::shared_ptr<Device>> open_device(DeviceChoice choice, const std::string& target, int) {
  if (choice != DeviceChoice::kRecord) return missing("a fuzzer has the recording device only");
  LSSAR_ASSIGN_OR_RETURN(const Target known, target_from_name(target.empty() ? "sm_80" : target));
  return std::shared_ptr<Device>(std::make_shared<RecordDevice>(known));
}

Result<Budget> budget_named(const std::string&) { return Budget{}; }
const char* stage_name(Stage) { return ""; }
Sizes typical_sizes(const Problem& problem) { return sizes_of(problem); }
Status check_task(const TuneProblem&) { return {}; }
Result<SearchOutcome> tune(const TuneProblem&, const TuneOptions&) {
  return unsupported("a fuzzer does not tune");
}

}  // namespace lssar
