#include "autotune/measure/candidate_host.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "autotune/measure/counted_time.h"
#include "autotune/measure/fault_verdict.h"
#include "autotune/model/schedule_choice.h"
#include "device/cpu/cpu_device.h"
#include "device/record_device.h"
#include "virtual/run/virtual_device.h"

namespace lssar {
namespace {

// A block of a check needs a small part of this. One that needs more is an endless loop.
constexpr uint64_t kMaxBlockInstructions = uint64_t{1} << 26;
// With seed 1 asynchronous operations take effect as early as allowed, with seed 0 as late.
constexpr uint64_t kSecondSeed = 1;
constexpr uint64_t kStrictSeeds[] = {0, 1, 2};

EngineOptions engine_options(const RunnerTask& task) {
  EngineOptions options;
  options.device = task.device;
  options.ordinal = task.ordinal;
  options.target = task.target;
  options.compiler = task.compiler;
  options.cache.directory = task.cache_directory;
  options.uses_overrides = false;  // what is tuned is what is generated
  return options;
}

// Collects events into reports.
class ReportObserver final : public TimeObserver {
 public:
  explicit ReportObserver(size_t count) : reports_(count) {}
  void on_prepare(const std::vector<size_t>&) override {}
  void on_run(const std::vector<size_t>&) override {}
  void on_sample(size_t candidate, double ms) override {
    reports_[candidate].samples_ms.push_back(ms);
  }
  void on_failed(size_t candidate, Verdict verdict, const std::string& reason) override {
    reports_[candidate].verdict = verdict;
    reports_[candidate].reason = reason;
  }
  std::vector<TimeReport> take() { return std::move(reports_); }

 private:
  std::vector<TimeReport> reports_;
};

int known(int bytes) { return std::max(bytes, 0); }

// Bytes of spill stores and loads of a kernel that do not rule a candidate out.
//
// Where candidates are timed, times decide: on an H100 the forward for training at d 128 took 10 %
// less time with tiles of 64 keys, which spill, than with 48, which do not. Up to 380 bytes were
// seen to pay. 1024 leaves room; nothing was measured beyond.
int allowed_spill_bytes(const DeviceInfo& device) { return device.kind == "cuda" ? 1024 : 0; }

// Adds the most registers, the sum of spills and the most shared memory of the launched kernels.
void add_resources(const KernelSource& source, const Image& image, int allowed_spills,
                   CompileReport* report) {
  for (const LaunchStep& step : source.steps) {
    int shared_bytes = step.shared_bytes;
    for (const KernelResources& kernel : image.resources) {
      if (kernel.entry != step.entry) continue;
      shared_bytes += known(kernel.shared_bytes);
      report->registers = std::max(report->registers, kernel.registers);
      if (kernel.spill_store_bytes < 0 && kernel.spill_load_bytes < 0) continue;
      const int spilled = known(kernel.spill_store_bytes) + known(kernel.spill_load_bytes);
      report->spill_bytes = known(report->spill_bytes) + spilled;
      if (spilled <= allowed_spills || report->verdict != Verdict::kOk) continue;
      report->verdict = Verdict::kSpills;
      report->reason = fmt::format("{}: {} bytes of spill stores and {} of loads at {} registers",
                                   step.entry, known(kernel.spill_store_bytes),
                                   known(kernel.spill_load_bytes), kernel.registers);
    }
    report->shared_bytes = std::max(report->shared_bytes, shared_bytes);
  }
  if (report->verdict != Verdict::kOk || image.assembler_warnings.empty()) return;
  report->verdict = Verdict::kAssemblerWarning;
  report->reason = image.assembler_warnings[0];
}

RunnerTask with_lengths(RunnerTask task) {
  if (task.lengths.empty()) task.lengths = even_lengths(task.problem, task.sizes);
  return task;
}

}  // namespace

Result<std::unique_ptr<CandidateHost>> CandidateHost::open(const RunnerTask& task) {
  LSSAR_RETURN_IF_ERROR(validate(task.problem));
  LSSAR_ASSIGN_OR_RETURN(std::shared_ptr<Device> device,
                         open_device(task.device, task.target, task.ordinal));
  if (device->info().kind == "virtual") {
    VirtualOptions options;
    options.target = device->info().target;
    options.max_block_instructions = kMaxBlockInstructions;
    device = make_virtual_device(options);
  }
  std::unique_ptr<CandidateHost> host(new CandidateHost(task));
  host->facts_.info = device->info();
  LSSAR_RETURN_IF_ERROR(host->set_up(std::move(device)));
  LSSAR_ASSIGN_OR_RETURN(host->facts_.image, host->engine_->image_kind());
  if (host->facts_.info.kind == "virtual") host->add_virtual_engines();
  CheckEngines engines;
  engines.first = host->engine_.get();
  engines.second = host->second_ ? host->second_.get() : host->engine_.get();
  for (const auto& engine : host->strict_) engines.strict.push_back(engine.get());
  host->checker_ = std::make_unique<CandidateChecker>(host->task_, engines);
  return host;
}

Result<std::unique_ptr<CandidateHost>> CandidateHost::open_for(const RunnerTask& task,
                                                               const DeviceFacts& device) {
  LSSAR_RETURN_IF_ERROR(validate(task.problem));
  std::unique_ptr<CandidateHost> host(new CandidateHost(task));
  host->facts_ = device;
  // The device stands for the target and runs nothing. Its kind says which compiler is needed.
  const Target& target = device.info.target;
  LSSAR_RETURN_IF_ERROR(host->set_up(target.is_cpu() ? make_cpu_device(target)
                                                     : std::make_shared<RecordDevice>(target)));
  return host;
}

CandidateHost::CandidateHost(const RunnerTask& task) : task_(with_lengths(task)) {}

Status CandidateHost::set_up(std::shared_ptr<Device> device) {
  engine_ = Engine::create(engine_options(task_), std::move(device), nullptr);
  LSSAR_ASSIGN_OR_RETURN(const std::shared_ptr<const Compiler> compiler, engine_->compiler());
  machine_ = machine_of(facts_.info, compiler->name() + " " + compiler->version());
  return {};
}

void CandidateHost::add_virtual_engines() {
  const auto make = [&](bool strict, uint64_t seed) {
    VirtualOptions options;
    options.target = facts_.info.target;
    options.max_block_instructions = kMaxBlockInstructions;
    options.strict = options.letter = strict;
    options.schedule_seed = seed;
    options.elected_lane = ElectedLane::kDrawn;  // our kernels rely on no lane
    const auto compiler = engine_->compiler();   // open already
    return Engine::create(engine_options(task_), make_virtual_device(options), *compiler,
                          engine_->shared_store());
  };
  second_ = make(false, kSecondSeed);
  for (const uint64_t seed : kStrictSeeds) strict_.push_back(make(true, seed));
}

Result<KernelSource> CandidateHost::source_of(const CandidateSpec& candidate) const {
  if (candidate.source) return *candidate.source;
  return emit_kernel(task_.problem, candidate.schedule, facts_.info.target);
}

Result<CompileReport> CandidateHost::compile(const CandidateSpec& candidate) {
  CompileReport report;
  const auto fail = [&](const Status& status) -> Result<CompileReport> {
    const std::optional<Verdict> verdict = verdict_of_prepare(status);
    if (!verdict) return status;
    report.verdict = *verdict;
    report.reason = status.message();
    return report;
  };
  const Result<KernelSource> source = source_of(candidate);
  if (!source.ok()) return fail(source.status());

  LSSAR_ASSIGN_OR_RETURN(const std::shared_ptr<const Compiler> compiler, engine_->compiler());
  std::vector<ImageKind> kinds;
  if (compiler->can_make(ImageKind::kCubin)) kinds.push_back(ImageKind::kCubin);
  if (kinds.empty() || facts_.image != kinds[0]) kinds.push_back(facts_.image);
  for (const ImageKind kind : kinds) {
    const Result<CompiledImage> compiled =
        engine_->compile(task_.problem, candidate.schedule, *source, kind);
    if (!compiled.ok()) return fail(compiled.status());
    report.ms += compiled->timings.compile_ms;
    add_resources(*source, compiled->image, allowed_spill_bytes(facts_.info), &report);
    if (report.verdict != Verdict::kOk) break;
  }
  if (report.verdict == Verdict::kOk) compile_open_form(candidate);
  return report;
}

void CandidateHost::compile_open_form(const CandidateSpec& candidate) {
  if (candidate.source || !has_fixed_length(task_.problem)) return;
  const Problem problem = with_open_lengths(task_.problem, candidate.schedule);
  const Result<KernelSource> source = emit_kernel(problem, candidate.schedule, facts_.info.target);
  if (source.ok()) (void)engine_->compile(problem, candidate.schedule, *source, facts_.image);
}

Status CandidateHost::check_usable() const {
  if (checker_ == nullptr) return internal_error("a host that only compiles has no device");
  if (!is_spent_) return {};
  return device_error(fmt::format(
      "{}: a candidate stopped it, and this process cannot use it any more", facts_.info.name));
}

void CandidateHost::note_failure() {
  if (!engine_->device().synchronize(nullptr).ok()) is_spent_ = true;
}

Status CandidateHost::prepare_check(const CandidateSpec& candidate, CheckDepth depth) {
  LSSAR_RETURN_IF_ERROR(check_usable());
  const Result<KernelSource> source = source_of(candidate);
  if (!source.ok()) return {};  // check() reports it
  return checker_->prepare(candidate, *source, depth);
}

Result<CheckReport> CandidateHost::check(const CandidateSpec& candidate, CheckDepth depth) {
  LSSAR_RETURN_IF_ERROR(check_usable());
  const Result<KernelSource> source = source_of(candidate);
  CheckReport report;
  if (!source.ok()) {
    const std::optional<Verdict> verdict = verdict_of_prepare(source.status());
    if (!verdict) return source.status();
    report.verdict = *verdict;
    report.reason = source.status().message();
    return report;
  }
  Result<CheckReport> checked = checker_->check(candidate, *source, depth);
  if (!checked.ok() || checked->verdict != Verdict::kOk) note_failure();
  return checked;
}

Result<std::vector<TimeReport>> CandidateHost::time(const std::vector<CandidateSpec>& candidates,
                                                    const TimeRequest& request) {
  std::vector<TimedCandidate> timed;
  for (const CandidateSpec& candidate : candidates) timed.push_back({candidate, {}, 0});
  ReportObserver observer(candidates.size());
  LSSAR_RETURN_IF_ERROR(time_observed(std::move(timed), request, kSamplesPerQueue, observer));
  return observer.take();
}

Status CandidateHost::time_observed(std::vector<TimedCandidate> candidates,
                                    const TimeRequest& request, size_t chunk,
                                    TimeObserver& observer) {
  LSSAR_RETURN_IF_ERROR(check_usable());
  if (request.data == InputKind::kZeros) {
    return invalid_argument("time: data = zeros: timing needs numbers that switch bits");
  }
  for (TimedCandidate& candidate : candidates) {
    LSSAR_ASSIGN_OR_RETURN(candidate.source, source_of(candidate.spec));
  }
  if (evidence() == Evidence::kPredicted) return count_all(candidates, request, observer);
  Status status = CandidateTimer(*engine_, task_).time(candidates, request, chunk, observer);
  if (!status.ok()) note_failure();
  return status;
}

Status CandidateHost::count_all(const std::vector<TimedCandidate>& candidates,
                                const TimeRequest& request, TimeObserver& observer) {
  LSSAR_ASSIGN_OR_RETURN(const GpuModel gpu, gpu_model(machine_.target));
  TruthSource truths(*engine_);
  for (size_t i = 0; i < candidates.size(); ++i) {
    observer.on_prepare({i});
    CountedRun counted(task_, candidates[i].spec, candidates[i].source, *engine_);
    Status status = counted.prepare(request.data, truths);
    if (!status.ok()) {
      const std::optional<Verdict> verdict = verdict_of_prepare(status);
      if (!verdict) return status;
      observer.on_failed(i, *verdict, status.message());
      continue;
    }
    observer.on_run({i});
    const Result<double> ms = counted.ms(gpu);
    if (!ms.ok()) {
      const std::optional<Verdict> verdict = verdict_of_run(ms.status());
      if (!verdict) return ms.status();
      observer.on_failed(i, *verdict, ms.status().message());
      continue;
    }
    for (int round = candidates[i].rounds_done; round < request.rounds; ++round)
      observer.on_sample(i, *ms);
  }
  return {};
}

Result<std::unique_ptr<CandidateRunner>> open_candidate_host(const RunnerTask& task) {
  LSSAR_ASSIGN_OR_RETURN(std::unique_ptr<CandidateHost> host, CandidateHost::open(task));
  return std::unique_ptr<CandidateRunner>(std::move(host));
}

}  // namespace lssar
