#include "virtual/program/register_layout.h"

#include <algorithm>
#include <array>
#include <queue>

namespace lssar::vdev {
namespace {

constexpr uint64_t kMaxSetWords = uint64_t{1} << 23;  // all live sets together
constexpr uint32_t kNever = 0xffffffffu;

struct Interval {
  uint32_t begin = kNever;
  uint32_t end = 0;
};

// Calls visit for every register that instruction i reads or, if it is a wait, may still need.
template <typename Visit>
void for_each_read(const RegisterAccess& access, uint32_t i, Visit visit) {
  for (uint32_t k = access.reads_begin[i]; k < access.reads_begin[i + 1]; ++k) {
    visit(access.reads[k]);
  }
  if (access.async_registers.empty() || !access.waits_for_async[i]) return;
  for (const uint32_t r : access.async_registers) visit(r);
}

// Registers live at the beginning of every block, as bit sets.
class Liveness {
 public:
  Liveness(size_t num_registers, const ControlFlow& flow, const RegisterAccess& access)
      : words_((num_registers + 63) / 64), flow_(flow), access_(access) {
    const size_t total = words_ * flow.blocks.size();
    live_.assign(total, 0);
    reads_first_.assign(total, 0);
    writes_.assign(total, 0);
    for (size_t b = 0; b < flow.blocks.size(); ++b) summarize(b);
    solve();
  }

  bool live_in(size_t block, uint32_t reg) const {
    return test(live_.data() + block * words_, reg);
  }
  size_t words() const { return words_; }
  const uint64_t* live_set(size_t block) const { return live_.data() + block * words_; }

 private:
  static bool test(const uint64_t* set, uint32_t i) { return (set[i / 64] >> (i % 64)) & 1; }
  static void add(uint64_t* set, uint32_t i) { set[i / 64] |= uint64_t{1} << (i % 64); }

  void summarize(size_t b) {
    uint64_t* reads = reads_first_.data() + b * words_;
    uint64_t* writes = writes_.data() + b * words_;
    for (uint32_t i = flow_.blocks[b].begin; i < flow_.blocks[b].end; ++i) {
      for_each_read(access_, i, [&](uint32_t r) {
        if (!test(writes, r)) add(reads, r);
      });
      for (uint32_t k = access_.writes_begin[i]; k < access_.writes_begin[i + 1]; ++k) {
        add(writes, access_.writes[k]);
      }
    }
  }

  void solve() {
    bool changed = true;
    std::vector<uint64_t> out(words_);
    while (changed) {
      changed = false;
      for (size_t b = flow_.blocks.size(); b-- > 0;) {
        std::fill(out.begin(), out.end(), 0);
        for (const uint32_t s : flow_.blocks[b].successors) {
          if (s == kNoBlock) continue;
          for (size_t w = 0; w < words_; ++w) out[w] |= live_[s * words_ + w];
        }
        for (size_t w = 0; w < words_; ++w) {
          const size_t at = b * words_ + w;
          const uint64_t in = reads_first_[at] | (out[w] & ~writes_[at]);
          changed |= in != live_[at];
          live_[at] = in;
        }
      }
    }
  }

  size_t words_;
  const ControlFlow& flow_;
  const RegisterAccess& access_;
  std::vector<uint64_t> live_, reads_first_, writes_;
};

void extend(Interval& interval, uint32_t position) {
  interval.begin = std::min(interval.begin, position);
  interval.end = std::max(interval.end, position);
}

// Instruction k of the block order reads at 2k and writes at 2k + 1.
std::vector<Interval> find_intervals(size_t num_registers, const ControlFlow& flow,
                                     const RegisterAccess& access, const Liveness& liveness) {
  std::vector<Interval> intervals(num_registers);
  const auto extend_set = [&](const uint64_t* set, uint32_t position) {
    for (size_t w = 0; w < liveness.words(); ++w) {
      for (uint64_t bits = set[w]; bits != 0; bits &= bits - 1) {
        extend(intervals[w * 64 + static_cast<size_t>(__builtin_ctzll(bits))], position);
      }
    }
  };
  uint32_t position = 0;
  for (size_t b = 0; b < flow.blocks.size(); ++b) {
    const FlowBlock& block = flow.blocks[b];
    extend_set(liveness.live_set(b), position);
    for (uint32_t i = block.begin; i < block.end; ++i, position += 2) {
      for_each_read(access, i, [&](uint32_t r) {
        extend(intervals[r], position + (access.in_place[i] ? 0 : 1));
      });
      for (uint32_t k = access.writes_begin[i]; k < access.writes_begin[i + 1]; ++k) {
        extend(intervals[access.writes[k]], position + 1);
      }
    }
    for (const uint32_t s : block.successors) {
      if (s != kNoBlock) extend_set(liveness.live_set(s), position);
    }
  }
  return intervals;
}

// Assigns slots to the registers of one class. Returns the number of slots.
uint32_t assign_slots(const std::vector<Interval>& intervals, std::vector<uint32_t> registers,
                      std::vector<uint32_t>& slot) {
  std::sort(registers.begin(), registers.end(),
            [&](uint32_t x, uint32_t y) { return intervals[x].begin < intervals[y].begin; });
  using Active = std::pair<uint32_t, uint32_t>;  // end, slot
  std::priority_queue<Active, std::vector<Active>, std::greater<>> active;
  std::vector<uint32_t> free_slots;
  uint32_t count = 0;
  for (const uint32_t r : registers) {
    while (!active.empty() && active.top().first < intervals[r].begin) {
      free_slots.push_back(active.top().second);
      active.pop();
    }
    if (free_slots.empty()) free_slots.push_back(count++);
    slot[r] = free_slots.back();
    free_slots.pop_back();
    active.emplace(intervals[r].end, slot[r]);
  }
  return count;
}

}  // namespace

Result<RegisterLayout> lay_out_registers(const ParsedKernel& kernel, const ControlFlow& flow,
                                         const RegisterAccess& access, uint32_t begin) {
  const size_t count = kernel.registers.size();
  if ((count / 64 + 1) * (flow.blocks.size() + 1) > kMaxSetWords) {
    return device_error("too many registers and basic blocks: " + std::to_string(count) + " and " +
                        std::to_string(flow.blocks.size()) +
                        "; allowed are registers / 64 * blocks up to " +
                        std::to_string(kMaxSetWords));
  }
  const Liveness liveness(count, flow, access);
  const std::vector<Interval> intervals = find_intervals(count, flow, access, liveness);

  RegisterLayout layout;
  layout.offset.assign(count, begin);
  std::array<std::vector<uint32_t>, kNumRegClasses> by_class;
  for (uint32_t r = 0; r < count; ++r) {
    if (intervals[r].begin == kNever) continue;
    by_class[static_cast<size_t>(kernel.registers[r])].push_back(r);
    if (!flow.blocks.empty() && liveness.live_in(0, r)) layout.undefined.push_back(r);
  }
  std::vector<uint32_t> slot(count, 0);
  uint64_t end = begin;
  for (int c = 0; c < kNumRegClasses; ++c) {
    const uint32_t bytes = class_bytes(static_cast<RegClass>(c));
    const uint32_t slots = assign_slots(intervals, by_class[c], slot);
    for (const uint32_t r : by_class[c]) {
      layout.offset[r] = static_cast<uint32_t>(end + uint64_t{slot[r]} * bytes);
    }
    end = (end + uint64_t{slots} * bytes + 255) / 256 * 256;
    if (end > (uint64_t{1} << 28)) return device_error("the registers need too much memory");
  }
  layout.end = static_cast<uint32_t>(end);
  return layout;
}

}  // namespace lssar::vdev
