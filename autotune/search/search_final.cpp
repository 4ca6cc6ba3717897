// Who wins: successive halving, the final on several kinds of data, and the noise that a gain must
// exceed.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "autotune/measure/samples.h"
#include "autotune/search/search_run.h"

namespace lssar {
namespace {

// An incumbent stays unless the gain is larger, even on a quiet machine, because a new schedule is
// a new risk.
constexpr double kLeastGain = 0.02;
// For counted times. Two schedules whose estimates are closer than this may be the other way round
// on a GPU (docs/tuning_search.md: the model is within 15 % of what it reproduces).
constexpr double kLeastPredictedGain = 0.1;
// For the sum of both models. Where it puts two schedules further apart, an H100 had 92 % of them
// in its order, and the others at most 8 % the other way round; with 2 % one of them by 24 %.
constexpr double kLeastSumGain = 0.03;
// A final uses data with even weights and data with uneven ones, because evaluators depend on it.
constexpr InputKind kFinalData[] = {InputKind::kGauss, InputKind::kPeaky};

}  // namespace

// Half of the timed candidates go on, with twice the rounds, until only finalists are left.
Status SearchRun::halve() {
  if (runner_.evidence() == Evidence::kPredicted) return {};  // counted: no noise to average
  const size_t finalists = size_t(std::max(1, request_.budget.finalists));
  int rounds = request_.budget.first_rounds;
  std::vector<size_t> alive = alive_by_score();
  while (alive.size() > finalists) {
    alive.resize(std::max(finalists, alive.size() / 2));
    rounds *= 2;
    report(Stage::kHalving, 0, static_cast<int>(alive.size()));
    if (alive.size() <= finalists || should_stop()) return {};
    was_cut_ = out_of_time(1);
    if (was_cut_) return {};
    TimeRequest how;
    how.rounds = rounds;
    LSSAR_RETURN_IF_ERROR(time_trials(alive, how));
    const std::vector<size_t> kept = alive;
    alive.clear();
    for (const size_t i : alive_by_score()) {
      if (std::find(kept.begin(), kept.end(), i) != kept.end()) alive.push_back(i);
    }
  }
  return {};
}

// Times the best, the incumbent and the default, paired round by round on every kind of data. A
// score is the geometric mean over the kinds; if time ran out, over those that were timed.
Status SearchRun::final_round() {
  std::vector<size_t> alive = alive_by_score();
  if (alive.empty() || should_stop()) return {};
  const size_t finalists = size_t(std::max(1, request_.budget.finalists));
  std::vector<size_t> last(alive.begin(),
                           alive.begin() + std::ptrdiff_t(std::min(finalists, alive.size())));
  for (const size_t i : {default_, incumbent_}) {
    const bool is_alive = trials_[i].state == Trial::State::kAlive;
    if (is_alive && std::find(last.begin(), last.end(), i) == last.end()) last.push_back(i);
  }
  report(Stage::kFinal, 0, static_cast<int>(last.size()));
  // The others are compared with the incumbent, if it is alive.
  has_anchor_ = false;
  for (const size_t i : {default_, incumbent_}) {
    if (trials_[i].state != Trial::State::kAlive) continue;
    anchor_ = i;
    anchor_ms_ = trials_[i].score_ms;
    has_anchor_ = true;
    anchor_count_ms_ = 0;
  }
  choose_anchor();

  std::vector<double> logs(trials_.size(), 0);
  std::vector<std::vector<double>> relative(trials_.size());
  int num_kinds = 0;
  for (const InputKind data : kFinalData) {
    was_cut_ = was_cut_ || out_of_time(1);
    if (was_cut_) break;
    TimeRequest how;
    how.rounds = runner_.evidence() == Evidence::kPredicted ? 1 : request_.budget.final_rounds;
    how.data = data;
    for (const size_t i : last) trials_[i].relative.clear();
    LSSAR_RETURN_IF_ERROR(time_trials(last, how));
    std::erase_if(last, [&](size_t i) { return trials_[i].state != Trial::State::kAlive; });
    for (const size_t i : last) {
      logs[i] += std::log(trials_[i].score_ms);
      relative[i].insert(relative[i].end(), trials_[i].relative.begin(), trials_[i].relative.end());
    }
    ++num_kinds;
  }
  if (num_kinds == 0) return {};  // the earlier times stay
  for (const size_t i : last) {
    Trial& trial = trials_[i];
    trial.score_ms = std::exp(logs[i] / num_kinds);
    trial.relative = relative[i];
    trial.record.ms = trial.score_ms;
    trial.record.spread_ms = half_quartile_range(trial.relative) * anchor_ms_;
    trial.record.samples = static_cast<int>(trial.relative.size());
  }
  report(Stage::kFinal, static_cast<int>(last.size()), static_cast<int>(last.size()));
  return {};
}

// The gain must exceed the noise: half the quartile range of the paired ratios, and a least gain.
bool SearchRun::beats(const Trial& challenger, const Trial& incumbent) {
  const bool predicted = runner_.evidence() == Evidence::kPredicted;
  const bool by_sums = is_ranked_by_sum_ && challenger.sum_ms && incumbent.sum_ms;
  const double least = by_sums ? kLeastSumGain : predicted ? kLeastPredictedGain : kLeastGain;
  outcome_.noise = std::max(least, challenger.record.spread_ms / challenger.score_ms);
  return challenger.whole_ms() < incumbent.whole_ms() * (1 - outcome_.noise);
}

// The others wait for the next search, unless no known candidate is left.
void SearchRun::leave_known_alive() {
  const size_t known = trials_[incumbent_].state == Trial::State::kAlive ? incumbent_ : default_;
  if (trials_[known].state != Trial::State::kAlive) return;
  for (size_t i = 0; i < trials_.size(); ++i) {
    if (i != known && trials_[i].state == Trial::State::kAlive)
      trials_[i].state = Trial::State::kWaiting;
  }
}

Status SearchRun::choose_winner() {
  const auto is_alive = [&](size_t i) { return trials_[i].state == Trial::State::kAlive; };
  if (is_alive(default_)) outcome_.default_ms = trials_[default_].score_ms;
  for (;;) {
    const std::vector<size_t> alive = alive_by_score();
    if (alive.empty()) return {};
    winner_ = alive[0];
    outcome_.kept_incumbent = false;
    if (winner_ != incumbent_ && is_alive(incumbent_) &&
        !beats(trials_[winner_], trials_[incumbent_])) {
      winner_ = incumbent_;
      outcome_.kept_incumbent = true;
    }
    report(Stage::kVerify, 0, 1);
    LSSAR_RETURN_IF_ERROR(check(trials_[winner_], CheckDepth::kFull));
    if (is_alive(winner_)) break;
    // There is no time for one challenger after the other. Takes the incumbent, which was checked
    // before, or the default.
    if (out_of_time(1)) leave_known_alive();
  }
  Trial& winner = trials_[winner_];
  has_winner_ = true;
  winner.record.chosen = !winner.is_extra;
  winner.record.complete =
      !was_cut_ && std::none_of(trials_.begin(), trials_.end(), [](const Trial& trial) {
        return trial.state == Trial::State::kWaiting;
      });
  LSSAR_RETURN_IF_ERROR(keep(winner));
  outcome_.winner = winner.record;
  if (winner.is_extra) outcome_.winner_id = winner.spec.id;
  return {};
}

}  // namespace lssar
