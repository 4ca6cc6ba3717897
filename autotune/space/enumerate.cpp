// The products of a search space's dimensions.
#include <algorithm>

#include "autotune/space/search_space.h"
#include "codegen/pass_needs.h"
#include "codegen/schedule_fields.h"
#include "codegen/shapes.h"

namespace lssar {

using nlohmann::json;

namespace {

// One dimension's values as numbers of the schedule's fields. A product of tens of thousands sets
// each field about twice as often, and reading it from JSON would take most of the time.
class Edit {
 public:
  // Leaves out values that the field cannot have. The table has none (a test checks this).
  Edit(const Schedule& base, const Dimension& dimension) {
    for (const std::string& name : dimension.fields()) {
      const ScheduleLeaf* leaf = find_leaf(name);
      if (leaf != nullptr) leaves_.push_back(leaf);
    }
    for (const json& value : dimension.values) {
      const Result<Schedule> schedule = with_value(base, dimension, value);
      if (!schedule.ok()) continue;
      ++size_;
      for (const ScheduleLeaf* leaf : leaves_) numbers_.push_back(leaf->get(*schedule));
    }
  }

  size_t size() const { return size_; }
  void apply(size_t value, Schedule* schedule) const {
    for (size_t i = 0; i < leaves_.size(); ++i)
      leaves_[i]->set(*schedule, numbers_[value * leaves_.size() + i]);
  }

 private:
  std::vector<const ScheduleLeaf*> leaves_;
  std::vector<int> numbers_;  // of every leaf, value after value
  size_t size_ = 0;
};

// Calls visit(schedule) for every combination of the dimensions' values over `base`, the last
// dimension's fastest, until it returns false.
template <typename Visit>
class Product {
 public:
  Product(const std::vector<Dimension>& dimensions, const Schedule& base, const Visit& visit)
      : schedule_(base), visit_(visit) {
    for (const Dimension& dimension : dimensions) edits_.emplace_back(base, dimension);
    (void)choose(0);
  }

 private:
  // A dimension's fields keep its last value afterwards, because all fields are set before they are
  // read.
  bool choose(size_t depth) {
    if (depth == edits_.size()) return visit_(schedule_);
    for (size_t value = 0; value < edits_[depth].size(); ++value) {
      edits_[depth].apply(value, &schedule_);
      if (!choose(depth + 1)) return false;
    }
    return true;
  }

  std::vector<Edit> edits_;
  Schedule schedule_;  // the current combination
  const Visit& visit_;
};

void reject(const Schedule& schedule, std::string_view rule, Enumeration* into) {
  auto& counts = into->rejected_by_rule;
  auto found = std::find_if(counts.begin(), counts.end(),
                            [&](const RejectedByRule& one) { return one.rule == rule; });
  if (found == counts.end()) found = counts.insert(counts.end(), {std::string(rule), 0, schedule});
  ++found->count;
  if (into->on_rejected) into->on_rejected(schedule, rule);
}

void enumerate(const Problem& problem, const Target& target,
               const std::vector<Dimension>& dimensions, const Schedule& base, Enumeration* into) {
  Product(dimensions, base, [&](const Schedule& schedule) {
    ++into->combinations;
    const Breach breach = find_rejection(schedule, problem, target, Reasons::kLeftOut);
    if (!breach.ok()) {
      reject(schedule, breach.rule(), into);
    } else if (into->seen.insert(canonical_schedule(schedule, problem))) {
      into->candidates.push_back(schedule);
    } else {
      ++into->duplicates;
    }
    return true;
  });
}

}  // namespace

namespace {

// Fields that no source of the pass uses get the value of `fixed`.
template <typename S>
void forget_unread(S& fields, const S& fixed, unsigned readers) {
  for_each_field<S>([&](const auto& field) {
    if ((field.readers & readers) == 0) fields.*field.member = fixed.*field.member;
  });
}

// A CPU's kernels read only these.
Schedule canonical_cpu(const Schedule& schedule, const Problem& problem) {
  Schedule result;
  result.variant = Variant::kCpu;
  result.cpu = schedule.cpu;
  result.epsilon = schedule.epsilon;
  result.dq_mode = schedule.dq_mode;
  if (!is_general(problem)) result.softplus_degree = schedule.softplus_degree;
  return result;
}

}  // namespace

Schedule canonical_schedule(const Schedule& schedule, const Problem& problem) {
  static const Schedule fixed;
  Schedule result = schedule;
  const bool is_backward = problem.pass == Pass::kBackward;
  forget_unread(result, fixed, readers_of(problem.pass));
  forget_unread(result.hopper, fixed.hopper, readers_of(problem.pass));
  forget_unread(result.cpu, fixed.cpu, readers_of(problem.pass));
  if (result.variant == Variant::kCpu) return canonical_cpu(result, problem);
  if (!has_dq_tiles(result)) result.dq = fixed.dq;
  // In the backward only the kernel of dq reads it, not that of epsilon.
  if (is_backward && sums_dq(result)) result.hopper.overlap = fixed.hopper.overlap;
  if (!is_backward && (result.hopper.stagger > 1 || !has_pass_one(problem)))
    result.hopper.score_cols = fixed.hopper.score_cols;
  if (is_general(problem)) result.softplus_degree = fixed.softplus_degree;
  if (!may_abridge_softplus(problem, result)) result.hopper.evaluator = fixed.hopper.evaluator;
  result.cpu = fixed.cpu;
  if (result.variant != Variant::kHopper) {
    result.hopper = fixed.hopper;
    return result;
  }
  if (result.hopper.producer_registers == 0 && result.hopper.consumer_registers == 0) return result;
  // The split that 0 and 0 stand for, in numbers.
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
  for (const RejectedByRule& one : rejected_by_rule) sum += one.count;
  return sum;
}

uint64_t num_blocks(const Algorithm& algorithm) {
  uint64_t product = 1;
  for (const Dimension& dimension : algorithm.block) product *= dimension.values.size();
  return product;
}

void enumerate_blocks(const Problem& problem, const Target& target, const Algorithm& algorithm,
                      Enumeration* into) {
  enumerate(problem, target, algorithm.block, algorithm.schedule, into);
}

std::optional<Schedule> first_block(const Problem& problem, const Target& target,
                                    const Algorithm& algorithm) {
  std::optional<Schedule> first;
  Product(algorithm.block, algorithm.schedule, [&](const Schedule& schedule) {
    if (find_rejection(schedule, problem, target, Reasons::kLeftOut).ok()) first = schedule;
    return !first;
  });
  return first;
}

void enumerate_threads(const Problem& problem, const Target& target, const Algorithm& algorithm,
                       const Schedule& base, Enumeration* into) {
  // The base's own value comes first if it is not the default's.
  std::vector<Dimension> dimensions = algorithm.thread;
  for (Dimension& dimension : dimensions) {
    const auto is_base = [&](const json& value) {
      const Result<Schedule> schedule = with_value(base, dimension, value);
      return schedule.ok() && *schedule == base;
    };
    std::stable_partition(dimension.values.begin(), dimension.values.end(), is_base);
  }
  enumerate(problem, target, dimensions, base, into);
}

}  // namespace lssar
