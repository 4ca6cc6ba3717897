#include "capi/tune.h"

#include <cstddef>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace lssar::capi {
namespace {

Result<Budget> budget(int32_t value) {
  switch (value) {
    case LSSAR_BUDGET_NORMAL:
      return budget_named("normal");
    case LSSAR_BUDGET_QUICK:
      return budget_named("quick");
    case LSSAR_BUDGET_FULL:
      return budget_named("full");
  }
  return invalid_argument(
      fmt::format("budget = {}: allowed are 0 (normal), 1 (quick), 2 (full)", value));
}

Status read_lengths(const lssar_tune_options& known, SequenceLengths& lengths) {
  constexpr int64_t kMostLengths = int64_t{1} << 20;
  const int64_t count = known.num_lengths;
  if (count < 0 || count > kMostLengths) {
    return invalid_argument(
        fmt::format("tune_options.num_lengths = {}: allowed are 0 to {}", count, kMostLengths));
  }
  if (known.lengths_q == nullptr && (count != 0 || known.lengths_k != nullptr)) {
    return invalid_argument(fmt::format(
        "tune_options.lengths_q = NULL, with num_lengths = {} and lengths_k {}: allowed is NULL "
        "only with 0 and NULL",
        count, known.lengths_k == nullptr ? "= NULL" : "given"));
  }
  if (known.lengths_q == nullptr) return {};
  if (count == 0) {
    return invalid_argument(fmt::format(
        "tune_options.num_lengths = 0: allowed with lengths_q are 1 to {}", kMostLengths));
  }
  const int64_t* const k = known.lengths_k == nullptr ? known.lengths_q : known.lengths_k;
  lengths.q.assign(known.lengths_q, known.lengths_q + count);
  lengths.k.assign(k, k + count);
  return {};
}

// `most`: what the problem's field of that name says; 0: any length.
Status check_each(const std::vector<int64_t>& lengths, const char* name, const char* field,
                  int64_t most) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  for (size_t b = 0; b < lengths.size(); ++b) {
    if (lengths[b] >= 0 && lengths[b] <= (most == 0 ? kMost : most)) continue;
    const std::string why = most == 0 ? "" : fmt::format(", because {} = {}", field, most);
    return invalid_argument(fmt::format("tune_options.{}[{}] = {}: allowed are 0 to {}{}", name, b,
                                        lengths[b], most == 0 ? kMost : most, why));
  }
  return {};
}

// Searches for the aligned kernel, because tuning gains most there.
std::vector<TuneProblem> searches_of(const std::vector<PlanRequest>& problems,
                                     const TuneRequest& options) {
  std::vector<TuneProblem> searches;
  for (const PlanRequest& request : problems) {
    for (const Pass pass : request.options.passes) {
      if (is_of_range(pass)) continue;
      TuneProblem search;
      search.problem = request.problem;
      search.problem.pass = pass;
      search.problem.alignment = 16;
      search.lengths = options.lengths;
      search.sizes = options.lengths.empty() ? typical_sizes(search.problem)
                                             : sizes_of_call(options.lengths, search.problem.heads,
                                                             search.problem.kv_heads);
      search.determinism = options.determinism;
      searches.push_back(std::move(search));
    }
  }
  return searches;
}

// Translates one search's progress for the callback. Remembers if the callback asked to stop.
class Reporter {
 public:
  Reporter(const TuneRequest& request, size_t num_searches)
      : request_(request), num_searches_(num_searches) {}

  void begin(size_t index, std::string problem) {
    index_ = index;
    problem_ = std::move(problem);
  }
  void show(const SearchProgress& now) {
    if (request_.callback == nullptr) return;
    lssar_tune_progress progress = {};
    progress.struct_size = sizeof(progress);
    progress.problem = problem_.c_str();
    progress.stage = stage_name(now.stage);
    progress.best = now.best.c_str();
    progress.search = static_cast<int32_t>(index_);
    progress.num_searches = static_cast<int32_t>(num_searches_);
    progress.done = now.done;
    progress.total = now.total;
    progress.best_ms = now.best_ms;
    progress.elapsed_s = now.elapsed_s;
    progress.limit_s = now.limit_s;
    if (request_.callback(&progress, request_.user) != 0) is_cancelled_ = true;
  }
  bool is_cancelled() const { return is_cancelled_; }

 private:
  const TuneRequest& request_;
  const size_t num_searches_;
  size_t index_ = 0;
  std::string problem_;
  bool is_cancelled_ = false;
};

Result<TuneOptions> tune_options(const ContextState& context, const TuneRequest& request) {
  const DeviceInfo& device = context.engine()->device().info();
  TuneOptions options;
  LSSAR_ASSIGN_OR_RETURN(options.device, parse_device_choice(device.kind));
  if (options.device == DeviceChoice::kRecord) {
    return unsupported(
        "tuning: the recording device runs no kernels; allowed are a GPU, the "
        "cpu device and the virtual device");
  }
  options.ordinal = context.request().engine.ordinal;
  options.target = device.target.name();
  options.compiler = context.request().engine.compiler;
  options.cache_directory = context.request().engine.cache.directory;
  const std::string& configured = context.request().tuning_table;
  options.table_path = configured.empty()
                           ? default_table_path(context.engine()->store().directory())
                       : configured == "none" ? ""
                                              : configured;
  options.worker = request.worker;
  options.budget = request.budget;
  options.parallel_compiles = request.parallel_compiles;
  return options;
}

}  // namespace

std::shared_ptr<const TuningTable> ContextState::table() const {
  const std::lock_guard lock(mutex_);
  return table_;
}

void ContextState::add(const TuningRecord& winner) {
  const std::lock_guard lock(mutex_);
  auto extended = std::make_shared<TuningTable>(*table_);
  extended->add(winner);
  table_ = std::move(extended);
}

Result<TuneRequest> tune_request(const lssar_tune_options* options) {
  TuneRequest request;
  lssar_tune_options known = {};
  if (options != nullptr) {
    LSSAR_ASSIGN_OR_RETURN(
        known, read_struct(options, "tune_options", offsetof(lssar_tune_options, lengths_q)));
  }
  LSSAR_ASSIGN_OR_RETURN(request.budget, budget(known.budget));
  switch (known.determinism) {
    case LSSAR_DETERMINISM_REPEATABLE:
      break;
    case LSSAR_DETERMINISM_ANY:
      request.determinism = Determinism::kAny;
      break;
    default:
      return invalid_argument(
          fmt::format("determinism = {}: allowed are 0 (repeatable), 1 (any)", known.determinism));
  }
  if (known.parallel_compiles < 0 || known.parallel_compiles > 256) {
    return invalid_argument(fmt::format(
        "parallel_compiles = {}: allowed are 0 (one per core) to 256", known.parallel_compiles));
  }
  if (known.reserved != 0) {
    return invalid_argument(
        fmt::format("tune_options.reserved = {}: allowed are 0", known.reserved));
  }
  request.parallel_compiles = known.parallel_compiles;
  request.callback = known.callback;
  request.user = known.user;
  if (known.worker != nullptr) request.worker = known.worker;
  LSSAR_RETURN_IF_ERROR(read_lengths(known, request.lengths));
  return request;
}

Status check_lengths_of(const TuneRequest& request, const PlanRequest& problem) {
  if (request.lengths.empty()) return {};
  const Problem& p = problem.problem;
  if (!p.varlen) {
    return invalid_argument(
        "tune_options.lengths_q: given; allowed is NULL with varlen = 0, because lengths are those "
        "of sequences");
  }
  const int64_t count = request.lengths.count();
  if (p.batch != 1 && p.batch != count) {
    return invalid_argument(
        fmt::format("batch = {}: allowed with tune_options.num_lengths = {} are 0, 1 and {}",
                    p.batch, count, count));
  }
  LSSAR_RETURN_IF_ERROR(check_each(request.lengths.q, "lengths_q", "seq_q", p.seq_q));
  LSSAR_RETURN_IF_ERROR(check_each(request.lengths.k, "lengths_k", "seq_k", p.seq_k));
  for (const TuneProblem& search : searches_of({problem}, request)) {
    const Status status = check_task(search);
    if (!status.ok()) return status.with_context("tune_options");
  }
  return {};
}

Status check_lengths_suit_plan(const TuneRequest& request, const PlanRequest& problem) {
  if (request.lengths.empty() || problem.problem.seq_q != 0) return {};
  const int64_t most = sizes_of_call(request.lengths, 1, 1).seq_q;
  if (most > kMostFewQueries) return {};
  const std::string allowed = most == kMostFewQueries
                                  ? fmt::format("is {}", most)
                                  : fmt::format("are {} to {}", most, kMostFewQueries);
  return invalid_argument(fmt::format(
      "seq_q = 0: allowed in a plan that tunes with at most {} queries in tune_options.lengths_q "
      "{}, because schedules for few queries serve only plans that state seq_q",
      most, allowed));
}

Result<bool> tune_problems(ContextState& context, const std::vector<PlanRequest>& problems,
                           const TuneRequest& request) {
  LSSAR_ASSIGN_OR_RETURN(TuneOptions options, tune_options(context, request));
  const std::vector<TuneProblem> searches = searches_of(problems, request);
  Reporter reporter(request, searches.size());
  options.progress = [&](const SearchProgress& now) { reporter.show(now); };
  options.cancelled = [&] { return reporter.is_cancelled(); };

  Status first_error;
  for (size_t i = 0; i < searches.size(); ++i) {
    const std::string problem = to_string(searches[i].problem);
    reporter.begin(i, problem);
    const Result<SearchOutcome> outcome = tune(searches[i], options);
    if (reporter.is_cancelled()) return false;
    if (!outcome.ok()) {
      const Status status = outcome.status().with_context("tuning " + problem);
      log(LogLevel::kWarning, status.to_string());
      if (first_error.ok()) first_error = status;
      continue;
    }
    context.add(outcome->winner);
    log(LogLevel::kInfo,
        fmt::format("tuned {}: {:.4g} ms, the default {:.4g} ms, {}", problem, outcome->winner.ms,
                    outcome->default_ms, evidence_name(outcome->winner.evidence)));
  }
  LSSAR_RETURN_IF_ERROR(std::move(first_error));
  return true;
}

}  // namespace lssar::capi
