// The products of a search space's dimensions.
#include <algorithm>
#include <type_traits>

#include "autotune/search_space.h"
#include "codegen/kernel.h"
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

// Calls visit(schedule) for every combination of the dimensions' values over `base`, the last
// dimension's fastest, until it says false.
template <typename Visit>
class Product {
 public:
  Product(const std::vector<Dimension>& dimensions, const Schedule& base, const Visit& visit)
      : schedule_(base), visit_(visit) {
    for (const Dimension& dimension : dimensions) edits_.emplace_back(base, dimension);
    (void)choose(0);
  }

 private:
  // A dimension's fields hold its last value afterwards: it sets them all before anyone reads them.
  bool choose(size_t depth) {
    if (depth == edits_.size()) return visit_(schedule_);
    for (size_t value = 0; value < edits_[depth].size(); ++value) {
      edits_[depth].apply(value, &schedule_);
      if (!choose(depth + 1)) return false;
    }
    return true;
  }

  std::vector<Edit> edits_;
  Schedule schedule_;  // the combination at hand
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

Schedule canonical_schedule(const Schedule& schedule, const Problem& problem) {
  static const Schedule fixed;
  Schedule result = schedule;
  const bool is_backward = problem.pass == Pass::kBackward;
  if (is_backward) {
    result.forward = fixed.forward;
    result.block_dv = fixed.block_dv;
    result.skip_tiles = fixed.skip_tiles;
    result.pack_gqa = fixed.pack_gqa;
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
  if (!may_abridge_softplus(problem, result)) result.hopper.evaluator = fixed.hopper.evaluator;
  if (result.variant != Variant::kHopper) {
    result.hopper = fixed.hopper;
    return result;
  }
  if (result.hopper.producer_registers == 0 && result.hopper.consumer_registers == 0) return result;
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
  // The base's own value first, where it is not the default's.
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
