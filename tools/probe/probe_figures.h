// The figures of a probe that has run, as JSON (docs/measurements/gpu_probes.md has the fields).
// Threads: pure functions.
#pragma once

#include <vector>

#include <nlohmann/json.hpp>

#include "autotune/model/gpu_model.h"
#include "tools/probe/probe_trial.h"

namespace lssar::probe {

// REQUIRES: `gpu` is the model of the runner's device.
nlohmann::json probe_figures(const Probe& probe, const CandidateRunner& runner, const GpuModel& gpu,
                             const std::vector<Trial>& trials);

}  // namespace lssar::probe
