#include "inspect/timing/loop_ways.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace lssar {
namespace {

constexpr size_t kMostKinds = 64;  // that a block remembers
constexpr uint32_t kEnd = ~0u;

// The work of the rest of an iteration, by which ways are told apart.
struct Kind {
  uint32_t tensor = 0, special = 0, fma = 0;
  auto operator<=>(const Kind&) const = default;
};

// The shortest rest of an iteration of one kind, from a block on.
struct Rest {
  uint32_t slots = 0;
  uint32_t next_block = kEnd;
  Kind next_kind;
};

struct WayBlock {
  uint32_t first = 0, last = 0;  // instructions [first, last)
  std::vector<uint32_t> successors;
  std::map<Kind, Rest> rests;
  enum { kNew, kOpen, kDone } state = kNew;
};

class Ways {
 public:
  Ways(const SassKernel& kernel, const SassLoop& loop) : kernel_(kernel), header_(loop.header) {
    make_blocks();
    is_own_.assign(kernel.instructions.size(), false);
    for (const uint32_t i : loop.own) is_own_[i] = true;
  }

  std::vector<LoopWay> find() {
    const uint32_t start = block_of_.at(header_);
    visit(start);
    std::vector<LoopWay> ways;
    for (const auto& [kind, rest] : blocks_[start].rests) {
      if (kind.tensor > 0) ways.push_back(way(start, kind));
    }
    return ways;
  }

 private:
  void make_blocks() {
    const auto count = uint32_t(kernel_.instructions.size());
    std::vector<bool> begins(count + 1, false);
    begins[0] = begins[header_] = true;
    for (const SassBranch& branch : kernel_.branches) {
      begins[branch.from + 1] = true;
      for (const uint32_t target : branch.targets) begins[target] = true;
    }
    for (uint32_t i = 0; i < count; ++i) {
      if (begins[i]) {
        block_of_[i] = uint32_t(blocks_.size());
        blocks_.emplace_back();
        blocks_.back().first = i;
      }
      blocks_.back().last = i + 1;
    }
    auto branch = kernel_.branches.begin();
    for (WayBlock& block : blocks_) {
      while (branch != kernel_.branches.end() && branch->from < block.last - 1) ++branch;
      const bool ends = branch != kernel_.branches.end() && branch->from == block.last - 1;
      if (ends)
        for (const uint32_t target : branch->targets)
          block.successors.push_back(block_of_.at(target));
      if ((!ends || branch->falls_through) && block.last < count)
        block.successors.push_back(block_of_.at(block.last));
    }
  }

  // Fills `rests` of the block and of those behind it. An edge to a block that is still open
  // closes a nested loop: it is not taken. A block from which no way leads back has no rests.
  void visit(uint32_t index) {
    WayBlock& block = blocks_[index];
    block.state = WayBlock::kOpen;
    Kind own;
    for (uint32_t i = block.first; i < block.last; ++i) {
      const SassClass c = kernel_.instructions[i].sass_class;
      own.tensor += c == SassClass::kTensor;
      own.special += c == SassClass::kSpecial;
      own.fma += c == SassClass::kFma;
    }
    const uint32_t slots = block.last - block.first;
    for (const uint32_t next : block.successors) {
      if (blocks_[next].first == header_) {
        // Only the loop's own instructions close it: an outer loop also leads here.
        if (is_own_[block.last - 1]) offer(&block, own, {slots, kEnd, {}});
        continue;
      }
      if (blocks_[next].state == WayBlock::kOpen) continue;
      if (blocks_[next].state == WayBlock::kNew) visit(next);
      for (const auto& [kind, rest] : blocks_[next].rests) {
        const Kind sum = {own.tensor + kind.tensor, own.special + kind.special, own.fma + kind.fma};
        offer(&block, sum, {slots + rest.slots, next, kind});
      }
    }
    block.state = WayBlock::kDone;
  }

  static void offer(WayBlock* block, const Kind& kind, const Rest& rest) {
    const auto [at, is_new] = block->rests.emplace(kind, rest);
    if (!is_new && rest.slots < at->second.slots) at->second = rest;
    // Kinds ascend: the first has the fewest products.
    if (block->rests.size() > kMostKinds) block->rests.erase(block->rests.begin());
  }

  LoopWay way(uint32_t block, Kind kind) const {
    LoopWay out{{}, kind.tensor, kind.special, kind.fma};
    while (block != kEnd) {
      const WayBlock& at = blocks_[block];
      for (uint32_t i = at.first; i < at.last; ++i) out.instructions.push_back(i);
      const Rest& rest = at.rests.at(kind);
      block = rest.next_block;
      kind = rest.next_kind;
    }
    return out;
  }

  const SassKernel& kernel_;
  uint32_t header_;
  std::vector<WayBlock> blocks_;
  std::map<uint32_t, uint32_t> block_of_;  // by first instruction
  std::vector<bool> is_own_;               // by instruction: in the loop, and in no nested one
};

// Whether two counts differ by at most a fifth of the smaller one.
bool is_near(uint32_t a, uint32_t b) {
  return 5 * (std::max(a, b) - std::min(a, b)) <= std::min(a, b);
}

}  // namespace

std::vector<LoopWay> loop_ways(const SassKernel& kernel, const SassLoop& loop) {
  std::vector<LoopWay> found = Ways(kernel, loop).find();
  uint32_t most = 0;
  for (const LoopWay& way : found) most = std::max(most, way.tensor);
  std::sort(found.begin(), found.end(), [](const LoopWay& a, const LoopWay& b) {
    return std::make_tuple(a.instructions.size(), a.special, a.fma) <
           std::make_tuple(b.instructions.size(), b.special, b.fma);
  });
  std::vector<LoopWay> kept;
  for (LoopWay& way : found) {
    const bool is_known = std::any_of(kept.begin(), kept.end(), [&](const LoopWay& other) {
      return is_near(way.special, other.special) && is_near(way.fma, other.fma);
    });
    if (way.tensor == most && !is_known && kept.size() < kMostWays) kept.push_back(std::move(way));
  }
  return kept;
}

}  // namespace lssar
