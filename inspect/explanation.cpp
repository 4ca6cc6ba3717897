#include "inspect/explanation.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/json_fields.h"
#include "codegen/pass_needs.h"

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
      : request_(request), model_(request.problem, request.sizes, request.target, request.model) {}

  Explanation explain() {
    choose();
    collect_records();
    if (request_.whole_space) {
      enumerate();
    } else {
      take_recorded();
    }
    place_chosen();
    place_records();
    for (ConsideredCandidate& candidate : out_.candidates) judge(&candidate);
    rank();
    return std::move(out_);
  }

 private:
  void choose() {
    out_.bucket = bucket_of(request_.problem, request_.sizes, request_.determinism);
    out_.model = request_.model;
    out_.is_searched = !is_of_range(request_.problem.pass);
    out_.choice =
        choose_schedule(request_.problem, request_.sizes, request_.determinism, request_.target,
                        request_.machine, request_.tables, request_.given);
    saving_x_ms_ = saving_x_ms(request_.problem, request_.sizes, request_.target, request_.model);
    out_.estimate = estimate(out_.choice.schedule);
    chosen_ = canonical_schedule(out_.choice.schedule, request_.problem);
  }

  CostEstimate estimate(const Schedule& schedule) {
    CostEstimate cost = model_.estimate(schedule);
    if (saves_x(request_.problem, schedule)) cost.elsewhere_ms = saving_x_ms_;
    return cost;
  }

  // Collects the latest record of each schedule of this bucket. A record of this GPU beats one of
  // another GPU.
  void collect_records() {
    for (const TuningTable* table : request_.tables) {
      for (const TuningRecord& record : table->records()) {
        if (record.bucket != out_.bucket || record.machine.target != request_.target.name())
          continue;
        const Schedule canonical = canonical_schedule(record.schedule, request_.problem);
        if (recorded_.insert(canonical)) {
          out_.records.push_back(record);
        } else if (TuningRecord& earlier = out_.records[*recorded_.find(canonical)];
                   replaces(record, earlier)) {
          earlier = record;
        }
      }
    }
    // Skips records of kernels that this generator no longer makes.
    for (const TuningRecord& record : out_.records)
      is_current_.push_back(record_state(record) == RecordState::kCurrent);
    if (const auto at = recorded_.find(chosen_); at && is_current_[*at])
      out_.record = out_.records[*at];
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
    // Reserves for every combination: memory that is reserved and not written costs nothing, but
    // moving does.
    uint64_t most = 0;
    for (const Algorithm& algorithm : space.algorithms) most += num_blocks(algorithm);
    out_.candidates.reserve(most);
    for (const Algorithm& algorithm : space.algorithms) {
      out_.algorithms.push_back(algorithm.name);
      enumerate_blocks(request_.problem, request_.target, algorithm, &found);
      take_new(&found, int(out_.algorithms.size()) - 1);
    }
    // Thread-level dimensions are searched around one good block. Here that is the chosen block.
    const Algorithm* own = algorithm_of(space, out_.choice.schedule);
    if (own != nullptr) {
      algorithm_idx_ = int(own - space.algorithms.data());
      enumerate_threads(request_.problem, request_.target, *own, out_.choice.schedule, &found);
      take_new(&found, algorithm_idx_);
    }
    places_ = std::move(found.seen);
    out_.combinations = found.combinations;
    out_.duplicates = found.duplicates;
    for (const RejectedByRule& one : found.rejected_by_rule)
      out_.rejected.push_back(
          {one.rule, one.count,
           find_rejection(one.first, request_.problem, request_.target).reason()});
    std::stable_sort(out_.rejected.begin(), out_.rejected.end(),
                     [](const RuleCount& a, const RuleCount& b) { return a.count > b.count; });
  }

  void take_recorded() {
    const SearchSpace space = search_space(request_.problem, request_.target, request_.determinism);
    for (const Algorithm& algorithm : space.algorithms) out_.algorithms.push_back(algorithm.name);
    for (size_t i = 0; i < out_.records.size(); ++i) {
      const Schedule& schedule = out_.records[i].schedule;
      if (!is_current_[i] || !validate(schedule, request_.problem, request_.target).ok()) continue;
      const Algorithm* own = algorithm_of(space, schedule);
      add(schedule, own == nullptr ? -1 : int(own - space.algorithms.data()), estimate(schedule));
      places_.insert(canonical_schedule(schedule, request_.problem));
    }
    out_.combinations = out_.candidates.size();
  }

  void take_new(Enumeration* found, int algorithm) {
    for (const Schedule& schedule : found->candidates) add(schedule, algorithm, estimate(schedule));
    found->candidates.clear();
  }

  void add(const Schedule& schedule, int algorithm, const CostEstimate& cost) {
    out_.candidates.push_back({.schedule = schedule, .algorithm = algorithm, .estimate = cost});
  }

  // The chosen schedule may not be in the space (it may come from a table or the caller). Then it
  // is added.
  void place_chosen() {
    if (places_.insert(chosen_)) {
      ++out_.combinations;
      add(out_.choice.schedule, algorithm_idx_, out_.estimate);
    }
    out_.candidates[*places_.find(chosen_)].standing = Standing::kChosen;
  }

  void place_records() {
    for (size_t i = 0; i < out_.records.size(); ++i) {
      if (!is_current_[i]) continue;
      const auto at = places_.find(canonical_schedule(out_.records[i].schedule, request_.problem));
      if (at) out_.candidates[*at].record = int(i);
    }
  }

  void judge(ConsideredCandidate* candidate) {
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

  // Keeps equal candidates in the space's order.
  void rank() {
    struct Place {
      int group;
      uint32_t number;
      double ms;
    };
    std::vector<Place> places;
    places.reserve(out_.candidates.size());
    for (const ConsideredCandidate& one : out_.candidates) {
      const double timed = one.record < 0 ? 0 : out_.records[size_t(one.record)].ms;
      places.push_back({one.standing == Standing::kChosen ? 0
                        : timed > 0                       ? 1
                                                          : 2,
                        uint32_t(places.size()),
                        (timed > 0 ? timed : one.estimate.ms) + one.estimate.elsewhere_ms});
    }
    std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
      if (a.group != b.group) return a.group < b.group;
      if (a.ms != b.ms) return a.ms < b.ms;
      return a.number < b.number;
    });
    for (const Place& place : places) out_.ranking.push_back(place.number);
  }

  const ExplanationRequest& request_;
  CostModel model_;
  Explanation out_;
  double saving_x_ms_ = 0;
  Schedule chosen_;               // canonical
  int algorithm_idx_ = -1;        // of the chosen schedule; -1: not in the space
  ScheduleSet recorded_;          // canonical schedules of out_.records
  std::vector<bool> is_current_;  // for each: whether the generator still makes its kernel
  ScheduleSet places_;            // canonical schedules of out_.candidates
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
      return fmt::format("{}: the model says {:.4g} ms, {:.2f} x the chosen one's{}", name,
                         candidate.estimate.ms, estimated,
                         explanation.is_searched ? "; lssar tune tries it" : "");
  }
  return name;
}

}  // namespace lssar
