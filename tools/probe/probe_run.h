// Runs a probe: compiles its settings, checks their results, times them in turns, and adds what the
// cost model expects.
//
// Threads: one probe at a time, because others would disturb its times.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "autotune/measure/candidate_runner.h"
#include "base/status.h"
#include "tools/probe/probe_list.h"

namespace lssar::probe {

struct RunOptions {
  DeviceChoice device = DeviceChoice::kCuda;
  std::string target;  // "": the device's own
  std::string cache_directory;
  // Opens what compiles and runs kernels; tests pass one that makes times up.
  std::function<Result<std::unique_ptr<CandidateRunner>>(const RunnerTask&)> open =
      open_candidate_host;
};

// The figures, as docs/measurements/gpu_probes.md describes them. A setting that cannot be
// compiled, is wrong or fails has a verdict, and no times. Errors: those of the device and the
// compiler; a schedule that cannot be read or breaks a rule; an edit whose text is not in the
// source.
Result<nlohmann::json> run_probe(const Probe& probe, const RunOptions& options);

}  // namespace lssar::probe
