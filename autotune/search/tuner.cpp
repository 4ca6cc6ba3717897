#include "autotune/search/tuner.h"

#include <algorithm>
#include <functional>
#include <thread>

#include <fmt/format.h>

#include "autotune/search/gpu_lock.h"
#include "autotune/search/search_report.h"
#include "autotune/table/bucket.h"
#include "autotune/table/record_time.h"
#include "base/log.h"
#include "runtime/call.h"

namespace lssar {
namespace {

constexpr int kMostCompilers = 16;
constexpr int64_t kTypicalTokens = 16384;

// searched_problem(task). Errors: those of tune() about its arguments.
Result<TuneProblem> checked_task(TuneProblem task) {
  LSSAR_RETURN_IF_ERROR(validate(task.problem));
  if (is_of_range(task.problem.pass)) {
    return invalid_argument(
        fmt::format("pass = {}: only forward, forward-train and backward are searched; this one "
                    "takes the default",
                    pass_name(task.problem.pass)));
  }
  LSSAR_RETURN_IF_ERROR(check_sizes(task.problem, task.sizes));
  const std::pair<const char*, int64_t> all[] = {{"batch", task.sizes.batch},
                                                 {"heads", task.sizes.heads},
                                                 {"seq_q", task.sizes.seq_q},
                                                 {"seq_k", task.sizes.seq_k}};
  for (const auto& [name, value] : all) {
    if (value > 0) continue;
    return invalid_argument(
        fmt::format("{} = {}: tuning needs work to time: at least 1", name, value));
  }
  if (task.problem.varlen && task.sizes.batch > kMostSequences) {
    return invalid_argument(fmt::format("batch = {}: allowed with varlen are 1 to {} sequences",
                                        task.sizes.batch, kMostSequences));
  }
  task = searched_problem(task);
  LSSAR_RETURN_IF_ERROR(check_lengths(task.problem, task.sizes, task.lengths));
  if (!task.problem.varlen) return task;
  for (size_t b = 0; b < task.lengths.q.size(); ++b) {
    if (task.lengths.q[b] > 0 && task.lengths.k[b] > 0) return task;
  }
  return invalid_argument(fmt::format(
      "lengths = {}: tuning needs work to time: a sequence with at least 1 query and 1 key",
      to_string(task.lengths)));
}

Result<TuningTable> load_table(const std::string& path) {
  if (path.empty()) return TuningTable();
  LSSAR_ASSIGN_OR_RETURN(TuningTable table, TuningTable::load(path));
  if (table.defects().malformed_lines > 0) {
    log(LogLevel::kWarning, fmt::format("{}: {} lines are no records and are passed over: {}", path,
                                        table.defects().malformed_lines, table.defects().first));
  }
  return table;
}

// Records that a calibration may use: timed on this GPU.
std::vector<TuningRecord> timed_on(const TuningTable& table, const Machine& machine) {
  std::vector<TuningRecord> timed;
  for (const TuningRecord& record : table.records()) {
    if (record.machine == machine && record.evidence == Evidence::kMeasured && record.ms > 0) {
      timed.push_back(record);
    }
  }
  return timed;
}

// Later than every winner of the bucket.
std::string time_after_winners(const TuningTable& table, const Bucket& bucket) {
  std::string latest;
  for (const TuningRecord& record : table.records()) {
    if (record.chosen && record.bucket == bucket) latest = std::max(latest, record.time);
  }
  return latest.empty() ? latest : second_after(latest);
}

RunnerTask runner_task(const TuneProblem& problem, const TuneOptions& options) {
  RunnerTask task;
  task.problem = problem.problem;
  task.sizes = problem.sizes;
  task.lengths = problem.lengths;
  task.determinism = problem.determinism;
  task.device = options.device;
  task.ordinal = options.ordinal;
  task.target = options.target;
  task.compiler = options.compiler;
  task.cache_directory = options.cache_directory;
  return task;
}

int num_compilers(const TuneOptions& options) {
  if (options.parallel_compiles > 0) return options.parallel_compiles;
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return std::min(cores, kMostCompilers);
}

// Counts seconds of the tuner's own work for the budget, and leaves out waiting for others.
class Stopwatch {
 public:
  explicit Stopwatch(const std::function<double()>& now_s) : now_s_(now_s) {}
  void start() { start_s_ = now(); }
  void stop() { spent_s_ += now() - start_s_; }
  double spent_s() const { return spent_s_; }

 private:
  double now() const { return now_s_ ? now_s_() : steady_seconds(); }

  const std::function<double()>& now_s_;
  double start_s_ = 0;
  double spent_s_ = 0;
};

Result<SearchOutcome> tune_timed(CandidateRunner& runner, const TuneProblem& problem,
                                 const TuneOptions& options, Stopwatch& watch) {
  const DeviceInfo& device = runner.device_info();
  const Machine& machine = runner.machine();
  if (options.opened) options.opened(device);
  LSSAR_ASSIGN_OR_RETURN(const GpuLock lock,
                         GpuLock::take(device.id, options.lock_timeout_s, options.cancelled));
  watch.start();
  if (!options.table_path.empty()) LSSAR_RETURN_IF_ERROR(check_can_append(options.table_path));
  // Read under the lock, so that what another process found meanwhile is not searched again.
  LSSAR_ASSIGN_OR_RETURN(const TuningTable known, load_table(options.table_path));

  SearchRequest request;
  request.problem = problem.problem;
  request.sizes = problem.sizes;
  request.lengths = problem.lengths;
  request.determinism = problem.determinism;
  request.target = device.target;
  LSSAR_ASSIGN_OR_RETURN(request.model, device_model(machine));
  request.calibration = calibrate(timed_on(known, machine), request.model);
  request.budget = options.budget;
  request.parallel_compiles = num_compilers(options);
  request.earliest_time =
      time_after_winners(known, bucket_of(request.problem, request.sizes, request.determinism));
  request.known = options.search_again ? nullptr : &known;
  request.extra = options.extra;
  if (options.loop_clocks && device.target.name() == "sm_90a") {
    request.loop_clocks = [&](const CandidateSpec& candidate) {
      return options.loop_clocks(problem.problem, device.target, candidate);
    };
  }
  request.progress = options.progress;
  request.cancelled = options.cancelled;
  request.now_s = options.now_s;
  if (!options.table_path.empty()) {
    request.keep_record = [&](const TuningRecord& record) {
      return append_records(options.table_path, {record});
    };
  }
  watch.stop();
  request.spent_s = watch.spent_s();
  LSSAR_ASSIGN_OR_RETURN(SearchOutcome outcome, search(runner, request));
  const std::string order = outcome.cancelled ? "" : order_text(outcome);
  if (!order.empty()) log(LogLevel::kInfo, order);
  return outcome;
}

}  // namespace

TuneProblem searched_problem(const TuneProblem& problem) {
  TuneProblem searched = problem;
  Problem& p = searched.problem;
  if (searched.lengths.empty()) searched.lengths = even_lengths(p, searched.sizes);
  if (p.varlen && p.seq_q == 0 && searched.sizes.seq_q <= kMostFewQueries)
    p.seq_q = searched.sizes.seq_q;
  return searched;
}

Status check_task(const TuneProblem& task) { return checked_task(task).status(); }

Sizes typical_sizes(const Problem& problem) {
  Sizes sizes = sizes_of(problem);
  if (problem.seq_q == 0) sizes.seq_q = kTypicalLength;
  if (problem.seq_k == 0) sizes.seq_k = kTypicalLength;
  if (problem.batch <= 1 && problem.heads <= 1) {
    // Keys too: for one query each, 16K batch entries of 4096 keys would take 256 GiB.
    const int64_t longest = std::max({int64_t{1}, sizes.seq_q, sizes.seq_k});
    sizes.batch = std::max<int64_t>(1, kTypicalTokens / longest);
    sizes.heads = sizes.kv_heads = 16;
  }
  return sizes;
}

Result<SearchOutcome> tune(const TuneProblem& task, const TuneOptions& options) {
  LSSAR_ASSIGN_OR_RETURN(const TuneProblem problem, checked_task(task));
  Stopwatch watch(options.now_s);
  watch.start();
  LSSAR_ASSIGN_OR_RETURN(
      const std::unique_ptr<CandidateRunner> runner,
      open_worker_runner(runner_task(problem, options), num_compilers(options), options.worker));
  watch.stop();
  return tune_timed(*runner, problem, options, watch);
}

Result<SearchOutcome> tune_with(CandidateRunner& runner, const TuneProblem& task,
                                const TuneOptions& options) {
  LSSAR_ASSIGN_OR_RETURN(const TuneProblem problem, checked_task(task));
  Stopwatch watch(options.now_s);
  return tune_timed(runner, problem, options, watch);
}

}  // namespace lssar
