#include "tools/probe/probe_run.h"

#include <algorithm>
#include <future>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "autotune/measure/samples.h"
#include "codegen/emit.h"
#include "tools/probe/probe_figures.h"
#include "tools/probe/probe_trial.h"

namespace lssar::probe {
namespace {

constexpr int kFirstRounds = 3;         // of a long run, to know how often it fits in its time
constexpr int kMostLaunches = 200'000;  // of a long run
constexpr double kWindowMs = 500;

Status apply_edits(const Setting& setting, std::string* source) {
  for (const SourceEdit& edit : setting.edits) {
    size_t at = source->find(edit.from);
    if (at == std::string::npos) {
      return invalid_argument(
          fmt::format("setting {}: edits: from = {}: the generated source does not have this text",
                      setting.name, edit.from));
    }
    for (; at != std::string::npos; at = source->find(edit.from, at + edit.to.size()))
      source->replace(at, edit.from.size(), edit.to);
  }
  return {};
}

std::vector<double> window_medians(const std::vector<double>& samples_ms) {
  std::vector<double> medians, window;
  double spent_ms = 0;
  for (const double ms : samples_ms) {
    window.push_back(ms);
    spent_ms += ms;
    if (spent_ms < kWindowMs) continue;
    medians.push_back(median(window));
    window.clear();
    spent_ms = 0;
  }
  return medians;
}

class ProbeRun {
 public:
  ProbeRun(const Probe& probe, const RunOptions& options) : probe_(probe), options_(options) {}

  Result<nlohmann::json> run() {
    LSSAR_RETURN_IF_ERROR(open());
    for (const Setting& setting : probe_.settings) LSSAR_RETURN_IF_ERROR(add_trial(setting));
    LSSAR_RETURN_IF_ERROR(compile_all());
    LSSAR_RETURN_IF_ERROR(check_all());
    if (probe_.seconds > 0) {
      LSSAR_RETURN_IF_ERROR(time_long(trials_[0]));
    } else {
      for (const bool cold_l2 : {true, false}) LSSAR_RETURN_IF_ERROR(time_in_turns(cold_l2));
    }
    return probe_figures(probe_, *runner_, gpu_, trials_);
  }

 private:
  Status open();
  Status add_trial(const Setting& setting);
  Status compile_all();
  Status check_all();
  Status time_in_turns(bool cold_l2);
  Status time_long(Trial& trial);
  TimeRequest request(int rounds, bool cold_l2) const {
    return {.rounds = rounds, .warmup = 1, .data = probe_.data, .cold_l2 = cold_l2};
  }

  const Probe& probe_;
  const RunOptions& options_;
  // The second one checks that results have the same bits in every run.
  std::unique_ptr<CandidateRunner> runner_, repeatable_;
  GpuModel gpu_;
  std::vector<Trial> trials_;
};

Status ProbeRun::open() {
  RunnerTask task;
  task.problem = probe_.problem;
  task.sizes = probe_.sizes;
  task.device = options_.device;
  task.target = options_.target;
  task.cache_directory = options_.cache_directory;
  task.determinism = Determinism::kAny;
  LSSAR_ASSIGN_OR_RETURN(runner_, options_.open(task));
  task.determinism = Determinism::kRepeatable;
  LSSAR_ASSIGN_OR_RETURN(repeatable_, options_.open(task));
  const Machine& machine = runner_->machine();
  LSSAR_ASSIGN_OR_RETURN(gpu_, gpu_model(machine.target, machine.device, machine.num_sms));
  return {};
}

Status ProbeRun::add_trial(const Setting& setting) {
  const Target& target = runner_->device_info().target;
  const Result<Schedule> schedule = schedule_for(probe_.problem, target, setting.schedule);
  if (!schedule.ok()) return schedule.status().with_context("setting " + setting.name);
  const Status valid = validate(*schedule, probe_.problem, target);
  if (!valid.ok()) return valid.with_context("setting " + setting.name);
  Trial trial;
  trial.setting = &setting;
  trial.spec.id = setting.name;
  trial.spec.schedule = *schedule;
  if (setting.edits.empty()) {
    trial.estimate = estimate_cost(probe_.problem, probe_.sizes, *schedule, target, gpu_);
  } else {
    LSSAR_ASSIGN_OR_RETURN(trial.spec.source, emit_kernel(probe_.problem, *schedule, target));
    LSSAR_RETURN_IF_ERROR(apply_edits(setting, &trial.spec.source->source));
  }
  trials_.push_back(std::move(trial));
  return {};
}

Status ProbeRun::compile_all() {
  std::vector<std::future<Result<CompileReport>>> reports;
  for (const Trial& trial : trials_) {
    reports.push_back(
        std::async(std::launch::async, [this, &trial] { return runner_->compile(trial.spec); }));
  }
  Status first_error;
  for (size_t i = 0; i < trials_.size(); ++i) {
    Result<CompileReport> report = reports[i].get();  // of all: they read the trials
    if (report.ok()) trials_[i].compiled = *std::move(report);
    if (!report.ok() && first_error.ok()) first_error = report.status();
  }
  return first_error;
}

Status ProbeRun::check_all() {
  for (Trial& trial : trials_) {
    if (verdict_of(trial) != Verdict::kOk || !trial.setting->edits.empty()) continue;
    CandidateRunner& runner =
        is_repeatable(probe_.problem, trial.spec.schedule) ? *repeatable_ : *runner_;
    LSSAR_ASSIGN_OR_RETURN(trial.checked, runner.check(trial.spec, CheckDepth::kQuick));
  }
  return {};
}

Status ProbeRun::time_in_turns(bool cold_l2) {
  std::vector<Trial*> group;
  std::vector<CandidateSpec> specs;
  for (Trial& trial : trials_) {
    if (verdict_of(trial) != Verdict::kOk || trial.setting->cold_l2 != cold_l2) continue;
    group.push_back(&trial);
    specs.push_back(trial.spec);
  }
  if (group.empty()) return {};
  LSSAR_ASSIGN_OR_RETURN(const std::vector<TimeReport> reports,
                         runner_->time(specs, request(probe_.rounds, cold_l2)));
  for (size_t i = 0; i < group.size(); ++i) group[i]->timed = reports[i];
  return {};
}

// One launch after the other, as in a program that keeps the GPU busy. The seconds of a count mean
// nothing.
Status ProbeRun::time_long(Trial& trial) {
  if (verdict_of(trial) != Verdict::kOk) return {};
  LSSAR_ASSIGN_OR_RETURN(const std::vector<TimeReport> first,
                         runner_->time({trial.spec}, request(kFirstRounds, false)));
  trial.timed = first[0];
  if (trial.timed.verdict != Verdict::kOk || runner_->evidence() != Evidence::kMeasured) return {};
  const double launches = probe_.seconds * 1e3 / median(trial.timed.samples_ms);
  const int rounds = static_cast<int>(std::clamp(launches, 1.0, double(kMostLaunches)));
  LSSAR_ASSIGN_OR_RETURN(const std::vector<TimeReport> reports,
                         runner_->time({trial.spec}, request(rounds, false)));
  trial.timed = reports[0];
  trial.window_ms = window_medians(trial.timed.samples_ms);
  return {};
}

}  // namespace

Result<nlohmann::json> run_probe(const Probe& probe, const RunOptions& options) {
  return ProbeRun(probe, options).run();
}

}  // namespace lssar::probe
