#include "tools/probe/probe_figures.h"

#include <string>

#include "autotune/measure/samples.h"
#include "autotune/table/record_time.h"
#include "autotune/table/table_lines.h"
#include "codegen/sizes.h"
#include "tools/probe/model_constants.h"

namespace lssar::probe {
namespace {

using nlohmann::json;

constexpr int kConstantSteps = 32;

TuningRecord record_of(const Probe& probe, const CandidateRunner& runner, const Trial& trial) {
  const Schedule& schedule = trial.spec.schedule;
  TuningRecord record;
  record.problem = probe.problem;
  record.sizes = probe.sizes;
  record.schedule = schedule;
  record.bucket = bucket_of(
      probe.problem, probe.sizes,
      is_repeatable(probe.problem, schedule) ? Determinism::kRepeatable : Determinism::kAny);
  record.machine = runner.machine();
  record.evidence = runner.evidence();
  record.chosen = true;
  record.complete = false;
  record.ms = median(trial.timed.samples_ms);
  record.spread_ms = half_quartile_range(trial.timed.samples_ms);
  record.samples = static_cast<int>(trial.timed.samples_ms.size());
  record.estimate_ms = trial.estimate->ms;
  for (int i = 0; i < kNumResources; ++i) {
    record.terms[resource_name(static_cast<Resource>(i))] = trial.estimate->terms_ms[size_t(i)];
  }
  record.error = trial.checked.error;
  record.baseline_error = trial.checked.baseline_error;
  record.registers = trial.compiled.registers;
  record.spill_bytes = trial.compiled.spill_bytes;
  record.shared_bytes = trial.compiled.shared_bytes;
  record.time = utc_now();
  record.search = "probe-" + probe.name;
  return record;
}

// The line of a tuning table that would make plans take this schedule; "" if it is no candidate.
// The search that it stands for tried a few schedules and is not complete.
std::string table_line(const Probe& probe, const CandidateRunner& runner, const Trial& trial) {
  const bool is_candidate = runner.evidence() == Evidence::kMeasured &&
                            verdict_of(trial) == Verdict::kOk && trial.setting->edits.empty() &&
                            trial.setting->cold_l2 && !trial.timed.samples_ms.empty();
  if (!is_candidate) return "";
  TuningRecord record = record_of(probe, runner, trial);
  Result<std::string> hash =
      schedule_source_hash(probe.problem, record.schedule, runner.device_info().target);
  if (!hash.ok()) return "";
  record.source_hash = *hash;
  std::string line = record_line(record);
  line.pop_back();  // the newline
  return line;
}

json setting_json(const Probe& probe, const CandidateRunner& runner, const Trial& trial) {
  json setting = {{"name", trial.setting->name},
                  {"schedule", to_json(trial.spec.schedule)},
                  {"edited", !trial.setting->edits.empty()},
                  {"cold_l2", trial.setting->cold_l2},
                  {"repeatable", is_repeatable(probe.problem, trial.spec.schedule)},
                  {"verdict", verdict_name(verdict_of(trial))},
                  {"reason", reason_of(trial)},
                  {"registers", trial.compiled.registers},
                  {"spill_bytes", trial.compiled.spill_bytes},
                  {"error", trial.checked.error},
                  {"table_line", table_line(probe, runner, trial)}};
  setting["estimate_ms"] = trial.estimate ? json(trial.estimate->ms) : json(nullptr);
  const std::vector<double>& samples = trial.timed.samples_ms;
  setting["median_ms"] = samples.empty() ? json(nullptr) : json(median(samples));
  setting["half_quartile_range_ms"] = half_quartile_range(samples);
  setting["launches"] = samples.size();
  // A long run has thousands.
  if (trial.window_ms.empty()) {
    setting["samples_ms"] = samples;
  } else {
    setting["median_ms_of_half_seconds"] = trial.window_ms;
  }
  return setting;
}

// The estimates of all settings for values of one constant, so that the value at which the model
// agrees with the times can be found without the model.
json constant_json(const ConstantRange& range, const Probe& probe, const CandidateRunner& runner,
                   const GpuModel& gpu, const std::vector<Trial>& trials) {
  const ModelConstant& constant = *find_constant(range.name);
  json values = json::array(), estimates = json::object();
  for (int step = 0; step <= kConstantSteps; ++step) {
    const double value = range.low + (range.high - range.low) * step / kConstantSteps;
    GpuModel varied = gpu;
    constant.set(varied, value);
    values.push_back(value);
    for (const Trial& trial : trials) {
      if (!trial.estimate) continue;
      const CostEstimate cost = estimate_cost(probe.problem, probe.sizes, trial.spec.schedule,
                                              runner.device_info().target, varied);
      estimates[trial.setting->name].push_back(cost.ms);
    }
  }
  return {{"name", range.name},
          {"today", constant.get(gpu)},
          {"values", values},
          {"estimates_ms", estimates}};
}

}  // namespace

json probe_figures(const Probe& probe, const CandidateRunner& runner, const GpuModel& gpu,
                   const std::vector<Trial>& trials) {
  const Machine& machine = runner.machine();
  json figures = {{"definition", probe.definition},
                  {"device", machine.device},
                  {"target", machine.target},
                  {"num_sms", machine.num_sms},
                  {"compiler", machine.compiler},
                  {"evidence", evidence_name(runner.evidence())},
                  {"problem", to_json(probe.problem)},
                  {"sizes", to_json(probe.sizes)},
                  {"model", gpu.name},
                  {"model_clock_ghz", gpu.clock_ghz},
                  {"sustained", gpu.sustained},
                  {"settings", json::array()},
                  {"constants", json::array()}};
  for (const Trial& trial : trials)
    figures["settings"].push_back(setting_json(probe, runner, trial));
  for (const ConstantRange& range : probe.constants)
    figures["constants"].push_back(constant_json(range, probe, runner, gpu, trials));
  return figures;
}

}  // namespace lssar::probe
