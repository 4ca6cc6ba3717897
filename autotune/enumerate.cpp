// The products of a search space's dimensions.
#include <algorithm>
#include <type_traits>

#include "autotune/search_space.h"
#include "codegen/shapes.h"

namespace lssar {

using nlohmann::json;

namespace {

static_assert(std::is_trivially_copyable_v<Schedule>, "an Edit moves its bytes");

// One dimension's values as bytes of a Schedule: a product of tens of thousands sets each field
// about twice as often, and reading it from JSON would take most of the time.
class Edit {
 public:
  // Values that are no value of the field are left out: there are none in the table (a test).
  Edit(const Schedule& base, const Dimension& dimension) {
    for (const json& value : dimension.values) {
      Result<Schedule> schedule = with_value(base, dimension, value);
      if (schedule.ok()) schedules_.push_back(*schedule);
    }
    for (size_t i = 0; i < sizeof(Schedule); ++i)
      if (std::any_of(schedules_.begin(), schedules_.end(),
                      [&](const Schedule& s) { return byte(s, i) != byte(base, i); }))
        offsets_.push_back(i);
  }

  size_t size() const { return schedules_.size(); }
  void apply(size_t value, Schedule* schedule) const {
    auto* bytes = reinterpret_cast<unsigned char*>(schedule);
    for (const size_t offset : offsets_) bytes[offset] = byte(schedules_[value], offset);
  }

 private:
  static unsigned char byte(const Schedule& schedule, size_t offset) {
    return reinterpret_cast<const unsigned char*>(&schedule)[offset];
  }

  std::vector<Schedule> schedules_;
  std::vector<size_t> offsets_;  // of bytes that any value changes
};

class Product {
 public:
  Product(const Problem& problem, const Target& target, const std::string& algorithm,
          Enumeration* into)
      : problem_(problem), target_(target), algorithm_(algorithm), into_(into) {}

  void enumerate(const std::vector<Dimension>& dimensions, const Schedule& base) {
    for (const Dimension& dimension : dimensions) edits_.emplace_back(base, dimension);
    choose(0, base);
  }

 private:
  void choose(size_t depth, const Schedule& schedule) {
    if (depth == edits_.size()) return add(schedule);
    Schedule next = schedule;
    for (size_t value = 0; value < edits_[depth].size(); ++value) {
      edits_[depth].apply(value, &next);
      choose(depth + 1, next);
    }
  }

  void add(const Schedule& schedule) {
    ++into_->combinations;
    Status status = validate(schedule, problem_, target_);
    if (status.ok()) status = check_worth(schedule, problem_, target_);
    if (!status.ok()) return reject(schedule, status);
    if (!into_->seen.insert(canonical_schedule(schedule, problem_)).second) {
      ++into_->duplicates;
      return;
    }
    into_->candidates.push_back({schedule, algorithm_});
  }

  void reject(const Schedule& schedule, const Status& status) {
    const std::string rule = rule_of(status.message());
    auto& counts = into_->rejected_by_rule;
    auto found = std::find_if(counts.begin(), counts.end(),
                              [&](const auto& entry) { return entry.first == rule; });
    if (found == counts.end()) found = counts.insert(counts.end(), {rule, 0});
    ++found->second;
    if (into_->on_rejected) into_->on_rejected({algorithm_, schedule, rule, status.message()});
  }

  const Problem& problem_;
  const Target& target_;
  const std::string& algorithm_;
  Enumeration* into_;
  std::vector<Edit> edits_;
};

}  // namespace

size_t ScheduleHash::operator()(const Schedule& s) const {
  uint64_t hash = 1469598103934665603u;  // FNV-1a
  const auto add = [&](int value) {
    hash = (hash ^ static_cast<uint32_t>(value)) * 1099511628211u;
  };
  for (const Tiling& tiling : {s.forward, s.dkdv, s.dq})
    for (const int value : {tiling.block_rows, tiling.block_cols, tiling.stages, tiling.min_blocks})
      add(value);
  const HopperOptions& h = s.hopper;
  for (const int value : {static_cast<int>(s.variant),
                          static_cast<int>(s.load_path),
                          s.block_dv,
                          static_cast<int>(s.dq_mode),
                          static_cast<int>(s.epsilon),
                          int{s.split_dkdv},
                          s.softplus_degree,
                          h.score_cols,
                          int{h.overlap},
                          int{h.ping_pong},
                          int{h.queries_in_registers},
                          int{h.persistent},
                          int{h.tickets},
                          int{s.skip_tiles},
                          int{s.pack_gqa},
                          h.cluster,
                          h.stagger,
                          static_cast<int>(h.weights_from),
                          static_cast<int>(h.store_path),
                          static_cast<int>(h.sum_path),
                          h.head_group,
                          static_cast<int>(h.norm_form),
                          static_cast<int>(h.evaluator),
                          h.producer_registers,
                          h.consumer_registers})
    add(value);
  return hash;
}

Schedule canonical_schedule(const Schedule& schedule, const Problem& problem) {
  const Schedule fixed;
  Schedule result = schedule;
  const bool is_backward = problem.pass == Pass::kBackward;
  if (is_backward) {
    result.forward = fixed.forward;
    result.block_dv = fixed.block_dv;
    result.skip_tiles = fixed.skip_tiles;
    result.pack_gqa = fixed.pack_gqa;
    result.hopper.evaluator = fixed.hopper.evaluator;
    result.hopper.tickets = fixed.hopper.tickets;
    result.hopper.stagger = fixed.hopper.stagger;
    if (!has_dq_tiles(result)) result.dq = fixed.dq;
  } else {
    result.dkdv = fixed.dkdv;
    result.dq = fixed.dq;
    result.split_dkdv = fixed.split_dkdv;
    result.dq_mode = fixed.dq_mode;
    result.hopper.sum_path = fixed.hopper.sum_path;
    if (problem.pass != Pass::kForwardTrain) result.epsilon = fixed.epsilon;
    if (result.hopper.stagger > 1) result.hopper.score_cols = fixed.hopper.score_cols;
  }
  if (result.variant != Variant::kHopper) {
    result.hopper = fixed.hopper;
    return result;
  }
  // The split that 0 and 0 stand for, said with numbers.
  HopperOptions automatic = result.hopper;
  automatic.producer_registers = automatic.consumer_registers = 0;
  const auto is_automatic = [&](const Tiling& tiling) {
    const RegisterSplit own = hopper_registers(result.hopper, tiling, result.hopper.cluster);
    const RegisterSplit other = hopper_registers(automatic, tiling, automatic.cluster);
    return own.producer == other.producer && own.consumer == other.consumer;
  };
  const bool is_same = !is_backward ? is_automatic(result.forward)
                                    : is_automatic(result.dkdv) &&
                                          (!has_dq_tiles(result) || is_automatic(result.dq));
  if (is_same) result.hopper = automatic;
  return result;
}

uint64_t Enumeration::rejected() const {
  uint64_t sum = 0;
  for (const auto& [rule, count] : rejected_by_rule) sum += count;
  return sum;
}

void enumerate_blocks(const Problem& problem, const Target& target, const Algorithm& algorithm,
                      Enumeration* into) {
  Product(problem, target, algorithm.name, into).enumerate(algorithm.block, algorithm.schedule);
}

void enumerate_threads(const Problem& problem, const Target& target, const Algorithm& algorithm,
                       const Schedule& base, Enumeration* into) {
  // The base's own value first, where it is not the default's.
  std::vector<Dimension> dimensions = algorithm.thread;
  for (Dimension& dimension : dimensions) {
    const auto is_base = [&](const json& value) {
      const Result<Schedule> schedule = with_value(base, dimension, value);
      return schedule.ok() && *schedule == base;
    };
    std::stable_partition(dimension.values.begin(), dimension.values.end(), is_base);
  }
  Product(problem, target, algorithm.name, into).enumerate(dimensions, base);
}

}  // namespace lssar
