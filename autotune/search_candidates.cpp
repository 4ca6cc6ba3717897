// What is tried: enumeration, ranking by estimate, and the quota of every algorithm.
#include <algorithm>

#include <fmt/format.h>

#include "autotune/search_run.h"

namespace lssar {
namespace {

// Of an algorithm's share of what is kept: half is given out evenly, half by rank, since a model
// alone is wrong about whole algorithms more often than about tiles of one.
constexpr int kQuotaDivisor = 2;

// 0 for "quick-...", 1, 2; -1 for a name that is none.
int budget_rank(const std::string& search) {
  const char* const names[] = {"quick", "normal", "full"};
  for (int i = 0; i < 3; ++i) {
    if (search.rfind(std::string(names[i]) + "-", 0) == 0 || search == names[i]) return i;
  }
  return -1;
}

}  // namespace

// The newest record of that source: later lines replace earlier ones.
const TuningRecord* SearchRun::known_record(const std::string& source_hash) const {
  if (request_.known == nullptr) return nullptr;
  const std::vector<TuningRecord>& records = request_.known->records();
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (record->source_hash == source_hash && record->bucket == bucket_ &&
        record->machine == runner_.machine() && record->evidence == runner_.evidence()) {
      return &*record;
    }
  }
  return nullptr;
}

// Whether a search with this budget or a larger one has ended already, on this machine.
bool SearchRun::answer_is_known() {
  if (request_.known == nullptr || !request_.extra.empty()) return false;
  const std::vector<TuningRecord>& records = request_.known->records();
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (!record->chosen || record->bucket != bucket_ || record->machine != runner_.machine() ||
        record->evidence != runner_.evidence()) {
      continue;
    }
    if (budget_rank(record->search) < budget_rank(request_.budget.name)) continue;
    const Result<std::string> hash =
        schedule_source_hash(request_.problem, record->schedule, request_.target);
    if (!hash.ok() || *hash != record->source_hash) continue;
    outcome_.winner = *record;
    return true;
  }
  return false;
}

CostEstimate SearchRun::estimate(const Schedule& schedule) const {
  return apply(estimate_cost(request_.problem, request_.sizes, schedule, request_.target,
                             request_.gpu),
               request_.calibration);
}

Status SearchRun::enumerate() {
  // The default and the incumbent first: every search ends with an answer at least as good.
  const Schedule first = default_schedule(request_.problem, request_.target);
  LSSAR_ASSIGN_OR_RETURN(default_, add_trial(first, "default", estimate(first)));
  incumbent_ = default_;
  if (request_.known != nullptr) {
    const ScheduleChoice known =
        choose_schedule(request_.problem, request_.sizes, request_.determinism, request_.target,
                        runner_.machine(), {request_.known});
    LSSAR_ASSIGN_OR_RETURN(incumbent_,
                           add_trial(known.schedule, "incumbent", estimate(known.schedule)));
  }
  trials_[default_].always_tried = trials_[incumbent_].always_tried = true;
  for (const CandidateSpec& spec : request_.extra) add_extra(spec);

  space_ = search_space(request_.problem, request_.target, request_.determinism);
  for (const Algorithm& algorithm : space_.algorithms) {
    Enumeration found;
    enumerate_blocks(request_.problem, request_.target, algorithm, &found);
    outcome_.combinations += found.combinations;
    outcome_.duplicates += found.duplicates;
    for (const auto& [rule, count] : found.rejected_by_rule) {
      auto& counts = outcome_.rejected_by_rule;
      const auto same = std::find_if(counts.begin(), counts.end(),
                                     [&](const auto& entry) { return entry.first == rule; });
      if (same == counts.end()) {
        counts.emplace_back(rule, count);
      } else {
        same->second += count;
      }
    }
    for (Candidate& candidate : found.candidates) {
      const CostEstimate cost = estimate(candidate.schedule);
      ranked_.push_back({std::move(candidate), cost, &algorithm, false});
    }
  }
  std::stable_sort(ranked_.begin(), ranked_.end(), [](const Ranked& a, const Ranked& b) {
    return a.estimate.ms < b.estimate.ms;
  });
  return {};
}

// Indices of trials: the default, the incumbent and the extra ones, then the best by estimate, with
// a quota for every algorithm.
std::vector<size_t> SearchRun::keep_blocks() {
  std::vector<size_t> kept;
  for (size_t i = 0; i < trials_.size(); ++i) kept.push_back(i);

  const int limit = request_.budget.keep_blocks;
  const int num_algorithms = static_cast<int>(std::max<size_t>(1, space_.algorithms.size()));
  const int quota = std::max(1, limit / (kQuotaDivisor * num_algorithms));
  const auto take = [&](Ranked& ranked) {
    const size_t before = trials_.size();
    const Result<size_t> trial = add_trial(ranked.candidate.schedule, ranked.candidate.algorithm,
                                           ranked.estimate);
    ranked.is_kept = true;
    if (!trial.ok() || trials_.size() == before) return false;  // one of those above
    kept.push_back(*trial);
    return true;
  };
  int taken = 0;
  for (const Algorithm& algorithm : space_.algorithms) {
    int of_algorithm = 0;
    for (Ranked& ranked : ranked_) {
      if (of_algorithm == quota || taken == limit) break;
      if (ranked.algorithm != &algorithm || ranked.is_kept) continue;
      if (take(ranked)) ++of_algorithm, ++taken;
    }
  }
  for (Ranked& ranked : ranked_) {
    if (taken >= limit) break;
    if (!ranked.is_kept && take(ranked)) ++taken;
  }
  std::stable_sort(kept.begin(), kept.end(), [&](size_t a, size_t b) {
    if (trials_[a].always_tried != trials_[b].always_tried) return trials_[a].always_tried;
    return trials_[a].estimate.ms < trials_[b].estimate.ms;
  });
  return kept;
}

std::vector<size_t> SearchRun::keep_threads(size_t trial) {
  const Schedule base = trials_[trial].spec.schedule;
  const std::string name = trials_[trial].algorithm;
  if (trials_[trial].is_extra) return {};
  const auto algorithm = std::find_if(space_.algorithms.begin(), space_.algorithms.end(),
                                      [&](const Algorithm& one) { return one.name == name; });
  // Of the default or the incumbent: the algorithm whose fixed choices are the same.
  const Algorithm* of_base = algorithm != space_.algorithms.end()
                                 ? &*algorithm
                                 : algorithm_of(space_, base);
  if (of_base == nullptr) return {};

  Enumeration found;
  enumerate_threads(request_.problem, request_.target, *of_base, base, &found);
  outcome_.combinations += found.combinations;
  outcome_.duplicates += found.duplicates;
  std::vector<Ranked> around;
  for (Candidate& candidate : found.candidates) {
    const CostEstimate cost = estimate(candidate.schedule);
    around.push_back({std::move(candidate), cost, of_base, false});
  }
  std::stable_sort(around.begin(), around.end(), [](const Ranked& a, const Ranked& b) {
    return a.estimate.ms < b.estimate.ms;
  });
  std::vector<size_t> kept;
  for (Ranked& ranked : around) {
    if (kept.size() < size_t(request_.budget.keep_threads)) {
      const size_t before = trials_.size();
      const Result<size_t> added = add_trial(ranked.candidate.schedule,
                                             ranked.candidate.algorithm, ranked.estimate);
      ranked.is_kept = true;
      if (added.ok() && trials_.size() > before) kept.push_back(*added);
    }
    if (!ranked.is_kept) ranked_.push_back(std::move(ranked));
  }
  return kept;
}

// The trial of this source: an earlier one, where there is one.
Result<size_t> SearchRun::add_trial(const Schedule& schedule, const std::string& algorithm,
                                    const CostEstimate& cost) {
  LSSAR_ASSIGN_OR_RETURN(std::string hash,
                         schedule_source_hash(request_.problem, schedule, request_.target));
  for (size_t i = 0; i < trials_.size(); ++i) {
    if (trials_[i].source_hash == hash && !trials_[i].is_extra) return i;
  }
  Trial trial;
  trial.spec.id = fmt::format("c{}", trials_.size());
  trial.spec.schedule = schedule;
  trial.algorithm = algorithm;
  trial.source_hash = std::move(hash);
  trial.estimate = cost;
  TuningRecord& record = trial.record;
  record.bucket = bucket_;
  record.problem = request_.problem;
  record.sizes = request_.sizes;
  record.schedule = schedule;
  record.source_hash = trial.source_hash;
  record.machine = runner_.machine();
  record.evidence = runner_.evidence();
  record.estimate_ms = cost.ms;
  for (int i = 0; i < kNumResources; ++i) {
    record.terms[resource_name(static_cast<Resource>(i))] = cost.terms_ms[size_t(i)];
  }
  record.search = name_;
  trials_.push_back(std::move(trial));
  return trials_.size() - 1;
}

void SearchRun::add_extra(const CandidateSpec& spec) {
  Trial trial;
  trial.spec = spec;
  trial.algorithm = "given";
  trial.estimate = estimate(spec.schedule);
  trial.is_extra = trial.always_tried = true;
  trials_.push_back(std::move(trial));
}

}  // namespace lssar
