#include "autotune/search/search.h"

#include <chrono>
#include <limits>

#include <fmt/format.h>

#include "autotune/search/search_run.h"
#include "base/file.h"

namespace lssar {
namespace {

// Shares of the budget's time after which a stage starts nothing new.
constexpr double kBlocksShare = 0.55;
constexpr double kThreadsShare = 0.75;

// If nothing that was kept is right, not even the default, more is kept, at most this many times.
constexpr int kMostExtensions = 4;

const Budget kBudgets[] = {
    // name, seconds, blocks, threads, expanded, finalists, first rounds, final rounds
    {"quick", 20, 12, 6, 1, 3, 5, 20},
    {"normal", 120, 28, 12, 2, 4, 7, 40},
    {"full", 0, 160, 32, 5, 5, 9, 80},
};

// Names what one search wrote. It is neither a secret nor a key.
std::string search_name(const Budget& budget) {
  const std::string unique = unique_file_name();
  return fmt::format("{}-{}", budget.name, unique.substr(unique.size() - 8));
}

}  // namespace

Result<Budget> budget_named(const std::string& name) {
  for (const Budget& budget : kBudgets) {
    if (name == budget.name) return budget;
  }
  return invalid_argument(
      fmt::format("budget = \"{}\": allowed are \"quick\", \"normal\" and \"full\"", name));
}

const char* fate_name(Fate fate) {
  switch (fate) {
    case Fate::kWon:
      return "won";
    case Fate::kSlower:
      return "slower";
    case Fate::kRuledOut:
      return "ruled out";
    case Fate::kUnpromising:
      return "unpromising";
    case Fate::kBound:
      return "bound";
    case Fate::kOutOfTime:
      return "out of time";
  }
  return "?";
}

const char* stage_name(Stage stage) {
  switch (stage) {
    case Stage::kEnumerate:
      return "enumerate";
    case Stage::kBlocks:
      return "blocks";
    case Stage::kThreads:
      return "threads";
    case Stage::kHalving:
      return "halving";
    case Stage::kFinal:
      return "final";
    case Stage::kVerify:
      return "verify";
    case Stage::kDone:
      return "done";
  }
  return "?";
}

double steady_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

Result<SearchOutcome> search(CandidateRunner& runner, const SearchRequest& request) {
  return SearchRun(runner, request).run();
}

SearchRun::SearchRun(CandidateRunner& runner, const SearchRequest& request)
    : runner_(runner),
      request_(request),
      bucket_(bucket_of(request.problem, request.sizes, request.determinism)),
      name_(search_name(request.budget)),
      start_s_(now_s() - request.spent_s),
      model_(request.problem, request.sizes, request.target, request.model, request.lengths),
      saving_x_ms_(saving_x_ms(request.problem, request.sizes, request.target, request.model,
                               request.calibration, request.lengths)) {}

Result<SearchOutcome> SearchRun::run() {
  outcome_.target = request_.target;
  if (answer_is_known()) {
    outcome_.resumed_complete = true;
    report(Stage::kDone, 1, 1);
    return std::move(outcome_);
  }
  LSSAR_RETURN_IF_ERROR(run_stages());
  if (!outcome_.cancelled && !has_winner_) return no_winner();
  finish();
  return std::move(outcome_);
}

Status SearchRun::run_stages() {
  report(Stage::kEnumerate, 0, 0);
  LSSAR_RETURN_IF_ERROR(enumerate());
  std::vector<size_t> kept = keep_blocks();
  for (int more = 0; !kept.empty(); ++more) {
    LSSAR_RETURN_IF_ERROR(try_all(Stage::kBlocks, kept, kBlocksShare));
    const bool has_one = !alive_by_score().empty();
    if (has_one || more == kMostExtensions || outcome_.cancelled || out_of_time(kBlocksShare))
      break;
    kept = keep_more();
  }

  const std::vector<size_t> best = alive_by_score();
  std::vector<size_t> around;
  for (size_t i = 0; i < best.size() && i < size_t(request_.budget.expanded_blocks); ++i) {
    for (const size_t trial : keep_threads(best[i])) around.push_back(trial);
  }
  LSSAR_RETURN_IF_ERROR(try_all(Stage::kThreads, around, kThreadsShare));
  if (outcome_.cancelled) return {};

  LSSAR_RETURN_IF_ERROR(halve());
  rank_by_sum();
  if (!is_ranked_by_sum_) LSSAR_RETURN_IF_ERROR(final_round());
  if (outcome_.cancelled) return {};
  return choose_winner();
}

bool SearchRun::should_stop() {
  if (request_.cancelled && request_.cancelled()) outcome_.cancelled = true;
  return outcome_.cancelled;
}

double SearchRun::now_s() const { return request_.now_s ? request_.now_s() : steady_seconds(); }

bool SearchRun::out_of_time(double share) const {
  if (request_.budget.seconds <= 0) return false;
  return now_s() - start_s_ >= share * request_.budget.seconds;
}

void SearchRun::report(Stage stage, int done, int total) {
  if (!request_.progress) return;
  SearchProgress progress;
  progress.stage = stage;
  progress.done = done;
  progress.total = total;
  progress.elapsed_s = now_s() - start_s_;
  progress.limit_s = request_.budget.seconds;
  const std::vector<size_t> best = alive_by_score();
  if (!best.empty()) {
    progress.best_ms = trials_[best[0]].score_ms;
    progress.best = to_string(trials_[best[0]].spec.schedule);
  }
  request_.progress(progress);
}

Result<SearchOutcome> SearchRun::no_winner() const {
  std::string why = "none was tried in time";
  for (const size_t i : {default_, incumbent_}) {
    if (trials_[i].state == Trial::State::kOut) why = trials_[i].reason;
  }
  return device_error(
      fmt::format("tuning {}: no candidate passed; the default: {}", to_string(bucket_), why));
}

void SearchRun::finish() {
  outcome_.saving_x_ms = saving_x_ms_;
  outcome_.combinations = found_.combinations;
  outcome_.duplicates = found_.duplicates;
  for (const RejectedByRule& one : found_.rejected_by_rule)
    outcome_.rejected_by_rule.emplace_back(one.rule, one.count);

  std::vector<double> estimates, times;
  for (const Trial& trial : trials_) {
    if (trial.score_ms <= 0) continue;
    estimates.push_back(trial.estimate.ms);
    times.push_back(trial.score_ms);
  }
  outcome_.timed = static_cast<int>(times.size());
  outcome_.rank_correlation = rank_correlation(estimates, times);

  for (size_t i = 0; i < trials_.size(); ++i) {
    const Trial& trial = trials_[i];
    CandidateFate fate{trial.algorithm, trial.spec.schedule,         trial.fate,
                       trial.reason,    trial.estimate.ms,           trial.estimate.terms_ms,
                       trial.score_ms,  trial.estimate.elsewhere_ms, trial.sum_ms.value_or(0)};
    if (has_winner_ && i == winner_) {
      fate.fate = Fate::kWon;
      fate.reason = outcome_.kept_incumbent ? "nothing was better by more than the noise" : "";
    } else if (trial.state == Trial::State::kAlive) {
      fate.fate = Fate::kSlower;
      fate.reason = fmt::format("{:.2f} x the winner's time",
                                has_winner_ ? trial.whole_ms() / trials_[winner_].whole_ms() : 0.0);
    } else if (trial.state == Trial::State::kWaiting) {
      fate.fate = Fate::kOutOfTime;
      fate.reason = outcome_.cancelled ? "the search was cancelled" : "the budget was used up";
    }
    outcome_.fates.push_back(std::move(fate));
  }
  const std::string unpromising =
      fmt::format("its estimate is not among the {} that are tried", request_.budget.keep_blocks);
  for (const Ranked& ranked : ranked_) {
    if (ranked.is_kept) continue;
    outcome_.fates.push_back({ranked.algorithm->name, ranked.schedule, Fate::kUnpromising,
                              unpromising, ranked.estimate.ms, ranked.estimate.terms_ms, 0,
                              ranked.estimate.elsewhere_ms, 0});
  }
  count_sums();
  outcome_.seconds = now_s() - start_s_;
  report(Stage::kDone, 1, 1);
}

}  // namespace lssar
