// Which candidates are tried: enumeration, ranking by estimate, and a quota for every algorithm.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "autotune/search/search_run.h"

#include "codegen/pass_needs.h"

namespace lssar {
namespace {

// How many candidates of each algorithm are kept. Half are given out evenly and half by rank,
// because a model is wrong about whole algorithms more often than about tiles of one.
constexpr int kQuotaDivisor = 2;

// 0 for "quick-...", then 1 and 2; -1 if it is no such name.
int budget_rank(const std::string& search) {
  const char* const names[] = {"quick", "normal", "full"};
  for (int i = 0; i < 3; ++i) {
    if (search.rfind(std::string(names[i]) + "-", 0) == 0 || search == names[i]) return i;
  }
  return -1;
}

}  // namespace

// The newest record of that source; later lines replace earlier ones. A time is used only if it is
// of this search's sizes: a bucket has others, which take longer or shorter.
const TuningRecord* SearchRun::known_record(const std::string& source_hash) const {
  if (request_.known == nullptr) return nullptr;
  const std::vector<TuningRecord>& records = request_.known->records();
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    const bool is_of_these_sizes =
        record->sizes == request_.sizes && record->lengths == request_.lengths;
    if (record->source_hash == source_hash && record->bucket == bucket_ &&
        record->machine == runner_.machine() && record->evidence == runner_.evidence() &&
        (record->verdict != Verdict::kOk || is_of_these_sizes)) {
      return &*record;
    }
  }
  return nullptr;
}

// Whether a search with this budget or a larger one has ended on this machine. A search that its
// budget cut short has not; this one continues from what it left.
bool SearchRun::answer_is_known() {
  if (request_.known == nullptr || !request_.extra.empty()) return false;
  const std::vector<TuningRecord>& records = request_.known->records();
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (!record->chosen || !record->complete || record->bucket != bucket_ ||
        record->machine != runner_.machine() || record->evidence != runner_.evidence()) {
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

CostEstimate SearchRun::estimate(const Schedule& schedule) {
  CostEstimate cost = apply(model_.estimate(schedule), request_.calibration);
  if (saves_x(request_.problem, schedule)) cost.elsewhere_ms = saving_x_ms_;
  return cost;
}

Status SearchRun::enumerate() {
  // The default and the incumbent come first, so every search ends with an answer at least as good.
  const Schedule by_default =
      default_schedule(request_.problem, request_.target, request_.determinism);
  LSSAR_ASSIGN_OR_RETURN(default_, add_trial(by_default, "default", estimate(by_default)));
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
    const size_t first = found_.candidates.size();
    enumerate_blocks(request_.problem, request_.target, algorithm, &found_);
    for (size_t i = first; i < found_.candidates.size(); ++i) {
      const Schedule& schedule = found_.candidates[i];
      ranked_.push_back({schedule, estimate(schedule), &algorithm, false});
    }
  }
  std::stable_sort(ranked_.begin(), ranked_.end(), &SearchRun::by_estimate);
  LSSAR_RETURN_IF_ERROR(claim_known_trials());
  return {};
}

// The default and the incumbent are candidates of the space, or one more each. Every candidate has
// one fate.
Status SearchRun::claim_known_trials() {
  std::vector<size_t> known = {default_};
  if (incumbent_ != default_) known.push_back(incumbent_);
  for (const size_t trial : known) {
    const Schedule canonical = canonical_schedule(trials_[trial].spec.schedule, request_.problem);
    const auto same = std::find_if(ranked_.begin(), ranked_.end(), [&](const Ranked& ranked) {
      return canonical_schedule(ranked.schedule, request_.problem) == canonical;
    });
    if (same != ranked_.end()) {
      same->is_kept = true;
      trials_[trial].algorithm = same->algorithm->name;
    } else {
      ++found_.combinations;
      found_.seen.insert(canonical);
      const Algorithm* algorithm = algorithm_of(space_, trials_[trial].spec.schedule);
      if (algorithm != nullptr) trials_[trial].algorithm = algorithm->name;
    }
  }
  return {};
}

// Indices of trials: the default, the incumbent and the extra ones; then the best by estimate, with
// a quota for every algorithm.
std::vector<size_t> SearchRun::keep_blocks() {
  std::vector<size_t> kept;
  for (size_t i = 0; i < trials_.size(); ++i) kept.push_back(i);

  const int limit = request_.budget.keep_blocks;
  const int num_algorithms = static_cast<int>(std::max<size_t>(1, space_.algorithms.size()));
  const int quota = std::max(1, limit / (kQuotaDivisor * num_algorithms));
  const auto take = [&](Ranked& ranked) {
    const Result<size_t> trial = keep_ranked(ranked);
    if (trial.ok()) kept.push_back(*trial);
    return trial.ok();
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
  interleave_algorithms(&kept);
  return kept;
}

// The next best, after all that was kept so far was rejected.
std::vector<size_t> SearchRun::keep_more() {
  std::vector<size_t> kept;
  for (Ranked& ranked : ranked_) {
    if (kept.size() >= size_t(request_.budget.keep_blocks)) break;
    if (ranked.is_kept) continue;
    const Result<size_t> trial = keep_ranked(ranked);
    if (trial.ok()) kept.push_back(*trial);
  }
  interleave_algorithms(&kept);
  return kept;
}

// First what is always tried, then the best of every algorithm, then the second best of every one.
// So neither a lack of time nor an algorithm with wrong numbers takes another algorithm's turn.
void SearchRun::interleave_algorithms(std::vector<size_t>* trials) const {
  std::stable_sort(trials->begin(), trials->end(), [&](size_t a, size_t b) {
    return trials_[a].estimate.whole_ms() < trials_[b].estimate.whole_ms();
  });
  std::map<std::string, int> next_place;
  std::vector<std::pair<int, size_t>> order;
  for (const size_t i : *trials) {
    const Trial& trial = trials_[i];
    order.emplace_back(trial.always_tried ? -1 : next_place[trial.algorithm]++, i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < order.size(); ++i) (*trials)[i] = order[i].second;
}

std::vector<size_t> SearchRun::keep_threads(size_t trial) {
  if (trials_[trial].is_extra) return {};
  const Schedule base = trials_[trial].spec.schedule;
  const Algorithm* algorithm = algorithm_of(space_, base);
  if (algorithm == nullptr) return {};

  const size_t first = found_.candidates.size();
  enumerate_threads(request_.problem, request_.target, *algorithm, base, &found_);
  std::vector<Ranked> around;
  for (size_t i = first; i < found_.candidates.size(); ++i) {
    const Schedule& schedule = found_.candidates[i];
    around.push_back({schedule, estimate(schedule), algorithm, false});
  }
  std::stable_sort(around.begin(), around.end(), &SearchRun::by_estimate);
  std::vector<size_t> kept;
  for (Ranked& ranked : around) {
    if (kept.size() < size_t(request_.budget.keep_threads)) {
      const Result<size_t> added = keep_ranked(ranked);
      if (added.ok()) kept.push_back(*added);
    }
    if (!ranked.is_kept) ranked_.push_back(std::move(ranked));
  }
  return kept;
}

// A new trial. An error says that its source is that of an earlier one: a duplicate that only the
// emitted source shows.
Result<size_t> SearchRun::keep_ranked(Ranked& ranked) {
  ranked.is_kept = true;
  const size_t before = trials_.size();
  const Result<size_t> trial = add_trial(ranked.schedule, ranked.algorithm->name, ranked.estimate);
  if (trial.ok() && trials_.size() > before) return trial;
  ++found_.duplicates;
  return trial.ok() ? invalid_argument("its source is an earlier candidate's") : trial.status();
}

// The trial of this source: the earlier one if it exists.
Result<size_t> SearchRun::add_trial(const Schedule& schedule, const std::string& algorithm,
                                    const CostEstimate& cost) {
  LSSAR_ASSIGN_OR_RETURN(std::string hash,
                         schedule_source_hash(request_.problem, schedule, request_.target));
  for (size_t i = 0; i < trials_.size(); ++i) {
    if (trials_[i].source_hash == hash && !trials_[i].is_extra) return i;
  }
  CandidateSpec spec;
  spec.id = fmt::format("c{}", trials_.size());
  spec.schedule = schedule;
  append_trial(std::move(spec), algorithm, std::move(hash), cost);
  return trials_.size() - 1;
}

Trial& SearchRun::append_trial(CandidateSpec spec, const std::string& algorithm, std::string hash,
                               const CostEstimate& cost) {
  Trial trial;
  trial.spec = std::move(spec);
  trial.algorithm = algorithm;
  trial.source_hash = std::move(hash);
  trial.estimate = cost;
  TuningRecord& record = trial.record;
  record.bucket = bucket_;
  record.problem = request_.problem;
  record.sizes = request_.sizes;
  record.lengths = request_.lengths;
  record.schedule = trial.spec.schedule;
  record.source_hash = trial.source_hash;
  record.machine = runner_.machine();
  record.evidence = runner_.evidence();
  record.estimate_ms = cost.ms;
  const ModelKind kind = model_kind(request_.target);
  for (int i = 0; i < kNumResources; ++i) {
    record.terms[resource_name(static_cast<Resource>(i), kind)] = cost.terms_ms[size_t(i)];
  }
  record.search = name_;
  trials_.push_back(std::move(trial));
  return trials_.back();
}

void SearchRun::add_extra(const CandidateSpec& spec) {
  Trial& trial =
      append_trial(spec, "given", spec.source ? source_hash(spec.source->source) : std::string(),
                   estimate(spec.schedule));
  trial.is_extra = trial.always_tried = true;
  ++found_.combinations;
}

}  // namespace lssar
