// The last stage before times are measured, and the last of all where they are only predicted: the
// order by the sum of both models.
//
// Sums are known of what was compiled. They are another unit than estimates and counts, so times
// are compared as ratios to those of one candidate, the first that has a sum: the default, if its
// kernel can be read.
#include <algorithm>
#include <exception>
#include <utility>

#include "autotune/search/search_run.h"

namespace lssar {

bool SearchRun::needs_loops(const Trial& trial) const {
  return request_.loop_clocks && !trial.sum_ms && trial.why_no_sum.empty();
}

// Also called from the threads that compile.
Result<std::vector<double>> SearchRun::read_loops(const Trial& trial) const {
  if (!has_sum_of_both(request_.problem, trial.spec.schedule)) {
    return unsupported(
        "only forwards with wgmma have a sum, and only if their passes are not "
        "staggered");
  }
  if (trial.record.spill_bytes > 0) return unsupported("its machine code has spills");
  try {
    return request_.loop_clocks(trial.spec);
  } catch (const std::exception& error) {
    return internal_error(error.what());
  }
}

void SearchRun::note_loops(Trial& trial, const Result<std::vector<double>>& loops) {
  if (!loops.ok()) {
    trial.why_no_sum = loops.status().message();
    return;
  }
  const std::optional<SumOfBoth> sum = model_.sum_of_both(trial.spec.schedule, *loops);
  if (sum) trial.sum_ms = sum->ms;
  if (!sum) trial.why_no_sum = "the timing model does not find the loops of its passes";
}

// Each trial's sum, or its estimate in the sum's unit if it has no sum. Empty: none has a sum.
std::vector<double> SearchRun::sums_of(const std::vector<size_t>& trials) const {
  const auto first = std::find_if(trials_.begin(), trials_.end(),
                                  [](const Trial& trial) { return trial.sum_ms.has_value(); });
  if (first == trials_.end()) return {};
  const double unit = *first->sum_ms / first->estimate.ms;
  std::vector<double> sums;
  for (const size_t i : trials)
    sums.push_back(trials_[i].sum_ms.value_or(trials_[i].estimate.ms * unit));
  return sums;
}

// What an answer needs comes first, whatever its sum.
void SearchRun::order_by_sum(std::vector<size_t>* trials) const {
  const std::vector<double> sums = sums_of(*trials);
  if (sums.empty()) return;
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < sums.size(); ++i) {
    const size_t trial = (*trials)[i];
    order.emplace_back(trials_[trial].always_tried ? 0 : sums[i], trial);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < order.size(); ++i) (*trials)[i] = order[i].second;
}

// Replaces counted times, and the final: a sum has no noise. Candidates whose times an earlier
// search left were not compiled in this one, and are read now.
void SearchRun::rank_by_sum() {
  if (!request_.loop_clocks || runner_.evidence() != Evidence::kPredicted) return;
  std::vector<size_t> alive;
  for (size_t i = 0; i < trials_.size(); ++i) {
    if (trials_[i].state == Trial::State::kAlive) alive.push_back(i);
  }
  std::vector<std::optional<Result<std::vector<double>>>> loops(alive.size());
  in_parallel(alive.size(), [&](size_t i) {
    const Trial& trial = trials_[alive[i]];
    if (needs_loops(trial) && !out_of_time(1)) loops[i] = read_loops(trial);
  });
  for (size_t i = 0; i < alive.size(); ++i) {
    Trial& trial = trials_[alive[i]];
    if (loops[i]) note_loops(trial, *loops[i]);
    was_cut_ = was_cut_ || needs_loops(trial);
  }
  const std::vector<double> sums = sums_of(alive);
  const auto has_sum = [&](size_t i) { return trials_[i].sum_ms.has_value(); };
  const auto base = std::find_if(alive.begin(), alive.end(), has_sum);
  if (base == alive.end()) return;
  is_ranked_by_sum_ = true;
  report(Stage::kFinal, static_cast<int>(alive.size()), static_cast<int>(alive.size()));
  const double unit = trials_[*base].score_ms / *trials_[*base].sum_ms;
  for (size_t i = 0; i < alive.size(); ++i) {
    Trial& trial = trials_[alive[i]];
    trial.score_ms = trial.record.ms = sums[i] * unit;
    trial.record.spread_ms = 0;
  }
}

void SearchRun::count_sums() {
  for (const Trial& trial : trials_) {
    if (trial.sum_ms) ++outcome_.with_sum;
    if (trial.why_no_sum.empty()) continue;
    ++outcome_.without_sum;
    if (outcome_.why_no_sum.empty()) outcome_.why_no_sum = trial.why_no_sum;
  }
}

}  // namespace lssar
