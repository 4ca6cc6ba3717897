#include "inspect/explanation.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "codegen/json_fields.h"

namespace lssar {
namespace {

constexpr EnumName<Standing> kStandings[] = {{Standing::kChosen, "chosen"},
                                             {Standing::kSlower, "slower"},
                                             {Standing::kRuledOut, "ruled out"},
                                             {Standing::kNotTimed, "not timed"},
                                             {Standing::kEstimatedSlower, "slower by the model"},
                                             {Standing::kUntried, "untried"}};

class Explainer {
 public:
  explicit Explainer(const ExplanationRequest& request)
      : request_(request),
        model_(request.problem, request.sizes, request.target, request.gpu) {}

  Explanation explain() {
    choose();
    collect_records();
    if (request_.whole_space) {
      enumerate();
    } else {
      take_recorded();
    }
    place_chosen();
    for (ConsideredCandidate& candidate : out_.candidates) judge(&candidate);
    sort();
    return std::move(out_);
  }

 private:
  void choose() {
    out_.bucket = bucket_of(request_.problem, request_.sizes, request_.determinism);
    out_.gpu = request_.gpu;
    out_.choice =
        request_.given
            ? ScheduleChoice{*request_.given, ScheduleOrigin::kGiven, "given by the caller"}
            : choose_schedule(request_.problem, request_.sizes, request_.determinism,
                              request_.target, request_.machine, request_.tables);
    saving_x_ms_ = saving_x_ms(request_.problem, request_.sizes, request_.target, request_.gpu);
    out_.estimate = estimate(out_.choice.schedule);
    chosen_ = canonical_schedule(out_.choice.schedule, request_.problem);
  }

  CostEstimate estimate(const Schedule& schedule) {
    CostEstimate cost = model_.estimate(schedule);
    if (saves_x(request_.problem, schedule)) cost.elsewhere_ms = saving_x_ms_;
    return cost;
  }

  // The latest record of each schedule of this bucket, of this GPU before that of another one.
  void collect_records() {
    for (const TuningTable* table : request_.tables) {
      for (const TuningRecord& record : table->records()) {
        if (record.bucket != out_.bucket || record.machine.target != request_.target.name())
          continue;
        const Schedule canonical = canonical_schedule(record.schedule, request_.problem);
        const auto [at, is_new] = record_of_.try_emplace(canonical, int(out_.records.size()));
        if (is_new) {
          out_.records.push_back(record);
        } else if (replaces(record, out_.records[size_t(at->second)])) {
          out_.records[size_t(at->second)] = record;
        }
      }
    }
    // What another generator made says nothing of what this one makes.
    for (auto at = record_of_.begin(); at != record_of_.end();) {
      const bool is_current =
          record_state(out_.records[size_t(at->second)]) == RecordState::kCurrent;
      at = is_current ? std::next(at) : record_of_.erase(at);
    }
    if (const auto at = record_of_.find(chosen_); at != record_of_.end())
      out_.record = out_.records[size_t(at->second)];
  }

  bool replaces(const TuningRecord& later, const TuningRecord& earlier) const {
    const auto rank = [&](const TuningRecord& record) {
      return std::make_tuple(record.evidence == Evidence::kMeasured,
                             record.machine.device == request_.machine.device, record.time);
    };
    return rank(later) >= rank(earlier);
  }

  void enumerate() {
    SearchSpace space = search_space(request_.problem, request_.target, request_.determinism);
    out_.excluded = std::move(space.excluded);
    Enumeration found;
    found.on_rejected = [&](const Rejected& one) { count_rejected(one); };
    for (const Algorithm& algorithm : space.algorithms) {
      out_.algorithms.push_back(algorithm.name);
      enumerate_blocks(request_.problem, request_.target, algorithm, &found);
      take_new(&found);
    }
    // The thread level is searched around a block that is good: around the chosen one here.
    const Algorithm* own = algorithm_of(space, out_.choice.schedule);
    if (own != nullptr) {
      algorithm_idx_ = int(own - space.algorithms.data());
      enumerate_threads(request_.problem, request_.target, *own, out_.choice.schedule, &found);
      take_new(&found, algorithm_idx_);
    }
    out_.combinations = found.combinations;
    out_.duplicates = found.duplicates;
    std::stable_sort(out_.rejected.begin(), out_.rejected.end(),
                     [](const RuleCount& a, const RuleCount& b) { return a.count > b.count; });
  }

  void take_recorded() {
    const SearchSpace space = search_space(request_.problem, request_.target, request_.determinism);
    for (const Algorithm& algorithm : space.algorithms) out_.algorithms.push_back(algorithm.name);
    for (const TuningRecord& record : out_.records) {
      const Schedule& schedule = record.schedule;
      if (record_of_.count(canonical_schedule(schedule, request_.problem)) == 0 ||
          !validate(schedule, request_.problem, request_.target).ok()) continue;
      const Algorithm* own = algorithm_of(space, schedule);
      ConsideredCandidate considered;
      considered.schedule = schedule;
      considered.algorithm = own == nullptr ? -1 : int(own - space.algorithms.data());
      considered.estimate = estimate(schedule);
      out_.candidates.push_back(std::move(considered));
    }
    out_.combinations = out_.candidates.size();
  }

  void count_rejected(const Rejected& one) {
    const auto same = std::find_if(out_.rejected.begin(), out_.rejected.end(),
                                   [&](const RuleCount& rule) { return rule.rule == one.rule; });
    if (same != out_.rejected.end()) {
      ++same->count;
    } else {
      out_.rejected.push_back({one.rule, 1, one.reason});
    }
  }

  void take_new(Enumeration* found, int algorithm = -1) {
    if (algorithm < 0) algorithm = int(out_.algorithms.size()) - 1;
    for (Candidate& candidate : found->candidates) {
      ConsideredCandidate considered;
      considered.schedule = candidate.schedule;
      considered.algorithm = algorithm;
      considered.estimate = estimate(candidate.schedule);
      out_.candidates.push_back(std::move(considered));
    }
    found->candidates.clear();
  }

  // A schedule of a table or of the caller's may be none of the space: then it is one more.
  void place_chosen() {
    const auto is_chosen = [&](const ConsideredCandidate& candidate) {
      return canonical_schedule(candidate.schedule, request_.problem) == chosen_;
    };
    auto at = std::find_if(out_.candidates.begin(), out_.candidates.end(), is_chosen);
    if (at == out_.candidates.end()) {
      ++out_.combinations;
      ConsideredCandidate own;
      own.schedule = out_.choice.schedule;
      own.algorithm = algorithm_idx_;
      own.estimate = out_.estimate;
      at = out_.candidates.insert(out_.candidates.end(), own);
    }
    at->standing = Standing::kChosen;
  }

  void judge(ConsideredCandidate* candidate) {
    if (!record_of_.empty()) {
      const auto at = record_of_.find(canonical_schedule(candidate->schedule, request_.problem));
      if (at != record_of_.end()) candidate->record = at->second;
    }
    if (candidate->standing == Standing::kChosen) return;
    if (candidate->record < 0) {
      candidate->standing = candidate->estimate.whole_ms() >= out_.estimate.whole_ms()
                                ? Standing::kEstimatedSlower
                                : Standing::kUntried;
      return;
    }
    const TuningRecord& record = out_.records[size_t(candidate->record)];
    candidate->standing = record.verdict != Verdict::kOk ? Standing::kRuledOut
                          : record.ms > 0                ? Standing::kSlower
                                                         : Standing::kNotTimed;
  }

  void sort() {
    const auto rank = [&](const ConsideredCandidate& one) {
      const double timed = one.record < 0 ? 0 : out_.records[size_t(one.record)].ms;
      return std::make_tuple(one.standing != Standing::kChosen, timed <= 0,
                             (timed > 0 ? timed : one.estimate.ms) + one.estimate.elsewhere_ms);
    };
    std::stable_sort(out_.candidates.begin(), out_.candidates.end(),
                     [&](const ConsideredCandidate& a, const ConsideredCandidate& b) {
                       return rank(a) < rank(b);
                     });
  }

  const ExplanationRequest& request_;
  CostModel model_;
  Explanation out_;
  double saving_x_ms_ = 0;
  Schedule chosen_;         // canonical
  int algorithm_idx_ = -1;  // of the chosen one; -1: none of the space's
  std::unordered_map<Schedule, int, ScheduleHash> record_of_;
};

}  // namespace

const char* standing_name(Standing standing) { return enum_name(kStandings, standing); }

std::array<uint64_t, kNumStandings> Explanation::count_by_standing() const {
  std::array<uint64_t, kNumStandings> counts = {};
  for (const ConsideredCandidate& candidate : candidates) ++counts[size_t(candidate.standing)];
  return counts;
}

Explanation explain(const ExplanationRequest& request) { return Explainer(request).explain(); }

std::string reason_of(const Explanation& explanation, const ConsideredCandidate& candidate) {
  const std::string name = standing_name(candidate.standing);
  const TuningRecord* record =
      candidate.record < 0 ? nullptr : &explanation.records[size_t(candidate.record)];
  const double estimated = candidate.estimate.whole_ms() / explanation.estimate.whole_ms();
  switch (candidate.standing) {
    case Standing::kChosen:
      return fmt::format("chosen: {}", explanation.choice.reason);
    case Standing::kRuledOut:
      return fmt::format("{}: {}", verdict_name(record->verdict), record->reason);
    case Standing::kNotTimed:
      return fmt::format("{}: its search timed others; estimated {:.2f} x the chosen one's", name,
                         estimated);
    case Standing::kSlower: {
      const std::string how = evidence_name(record->evidence);
      if (!explanation.record || explanation.record->ms <= 0)
        return fmt::format("{} {:.4g} ms, and not the winner of its search", how, record->ms);
      const double ratio = (record->ms + candidate.estimate.elsewhere_ms) /
                           (explanation.record->ms + explanation.estimate.elsewhere_ms);
      return fmt::format("{} {:.4g} ms, {:.3f} x the chosen one's{}", how, record->ms, ratio,
                         ratio < 1 ? ": within the noise of its search" : "");
    }
    case Standing::kEstimatedSlower:
      return fmt::format("{}: {:.4g} ms, {:.2f} x the chosen one's; never tried", name,
                         candidate.estimate.ms, estimated);
    case Standing::kUntried:
      return fmt::format(
          "{}: the model says {:.4g} ms, {:.2f} x the chosen one's; lssar tune tries it", name,
          candidate.estimate.ms, estimated);
  }
  return name;
}

}  // namespace lssar
