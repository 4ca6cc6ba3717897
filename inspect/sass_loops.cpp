#include "inspect/sass_loops.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lssar {
namespace {

struct Block {
  uint32_t first = 0, last = 0;  // instructions [first, last)
  std::vector<int> successors, predecessors;
};

class Flow {
 public:
  Flow(uint32_t num_instructions, const std::vector<SassBranch>& branches) {
    std::vector<bool> begins(num_instructions + 1, false);
    begins[0] = true;
    for (const SassBranch& branch : branches) {
      begins[branch.from + 1] = true;
      for (const uint32_t target : branch.targets) begins[target] = true;
    }
    block_of_.resize(num_instructions);
    for (uint32_t i = 0; i < num_instructions; ++i) {
      if (begins[i]) blocks_.push_back({i, i, {}, {}});
      blocks_.back().last = i + 1;
      block_of_[i] = int(blocks_.size()) - 1;
    }
    connect(branches);
    order_blocks();
    find_dominators();
  }

  const std::vector<Block>& blocks() const { return blocks_; }
  const std::vector<int>& order() const { return order_; }

  // Whether every path from an entry to `block` passes through `by`.
  bool is_dominated(int block, int by) const {
    while (block >= 0 && block != by && depth_of(block) > depth_of(by))
      block = idom_[size_t(block)];
    return block == by;
  }

 private:
  void connect(const std::vector<SassBranch>& branches) {
    std::map<uint32_t, const SassBranch*> at;
    for (const SassBranch& branch : branches) at[branch.from] = &branch;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const auto branch = at.find(blocks_[i].last - 1);
      if (branch != at.end()) {
        for (const uint32_t target : branch->second->targets) add_edge(int(i), block_of_[target]);
      }
      const bool falls = branch == at.end() || branch->second->falls_through;
      if (falls && i + 1 < blocks_.size()) add_edge(int(i), int(i) + 1);
    }
  }

  void add_edge(int from, int to) {
    blocks_[size_t(from)].successors.push_back(to);
    blocks_[size_t(to)].predecessors.push_back(from);
  }

  // Reverse postorder from block 0 and from unreachable blocks, which are functions of their own.
  void order_blocks() {
    std::vector<bool> seen(blocks_.size(), false);
    const auto visit = [&](int entry) {
      std::vector<std::pair<int, size_t>> stack = {{entry, 0}};
      seen[size_t(entry)] = true;
      std::vector<int> post;
      while (!stack.empty()) {
        auto& [block, next] = stack.back();
        const auto& successors = blocks_[size_t(block)].successors;
        if (next == successors.size()) {
          post.push_back(block);
          stack.pop_back();
        } else if (const int to = successors[next++]; !seen[size_t(to)]) {
          seen[size_t(to)] = true;
          stack.emplace_back(to, 0);
        }
      }
      order_.insert(order_.end(), post.rbegin(), post.rend());
      entries_.push_back(entry);
    };
    visit(0);
    for (size_t i = 1; i < blocks_.size(); ++i)
      if (!seen[i] && blocks_[i].predecessors.empty()) visit(int(i));
  }

  // Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm. -1: an entry, which nothing
  // dominates.
  void find_dominators() {
    constexpr int kUnknown = -2;
    idom_.assign(blocks_.size(), kUnknown);
    position_.assign(blocks_.size(), -1);
    for (size_t i = 0; i < order_.size(); ++i) position_[size_t(order_[i])] = int(i);
    for (const int entry : entries_) idom_[size_t(entry)] = -1;
    for (bool changed = true; changed;) {
      changed = false;
      for (const int block : order_) {
        if (std::find(entries_.begin(), entries_.end(), block) != entries_.end()) continue;
        int now = kUnknown;
        for (const int from : blocks_[size_t(block)].predecessors) {
          if (position_[size_t(from)] < 0 || idom_[size_t(from)] == kUnknown) continue;
          now = now == kUnknown ? from : meet(from, now);
        }
        if (now != idom_[size_t(block)]) idom_[size_t(block)] = now, changed = true;
      }
    }
    depth_.assign(blocks_.size(), 0);
    for (const int block : order_)
      if (idom_[size_t(block)] >= 0) depth_[size_t(block)] = depth_of(idom_[size_t(block)]) + 1;
  }

  int meet(int a, int b) const {
    while (a != b) {
      if (a < 0 || b < 0) return -1;
      if (position_[size_t(a)] > position_[size_t(b)]) {
        a = idom_[size_t(a)];
      } else {
        b = idom_[size_t(b)];
      }
    }
    return a;
  }

  int depth_of(int block) const { return depth_[size_t(block)]; }

  std::vector<Block> blocks_;
  std::vector<int> block_of_;  // by instruction
  std::vector<int> entries_, order_, position_, idom_, depth_;
};

struct BlockLoop {
  int header = 0;
  std::vector<int> latches;
  std::vector<bool> has;  // by block
  size_t size = 0;
};

// Back edges to the same header make one loop.
std::vector<BlockLoop> block_loops(const Flow& flow) {
  std::map<int, BlockLoop> by_header;
  for (const int block : flow.order()) {
    for (const int header : flow.blocks()[size_t(block)].successors) {
      if (!flow.is_dominated(block, header)) continue;
      BlockLoop& loop = by_header[header];
      if (loop.has.empty()) {
        loop.header = header;
        loop.has.assign(flow.blocks().size(), false);
        loop.has[size_t(header)] = true;
        loop.size = 1;
      }
      loop.latches.push_back(block);
      for (std::vector<int> stack = {block}; !stack.empty();) {
        const int inside = stack.back();
        stack.pop_back();
        if (loop.has[size_t(inside)]) continue;
        loop.has[size_t(inside)] = true;
        ++loop.size;
        const auto& before = flow.blocks()[size_t(inside)].predecessors;
        stack.insert(stack.end(), before.begin(), before.end());
      }
    }
  }
  std::vector<BlockLoop> loops;
  for (auto& [header, loop] : by_header) loops.push_back(std::move(loop));
  return loops;
}

bool is_within(const BlockLoop& inner, const BlockLoop& outer) {
  return &inner != &outer && outer.has[size_t(inner.header)] && inner.size < outer.size;
}

SassLoop describe(const BlockLoop& loop, const std::vector<BlockLoop>& all, const Flow& flow,
                  const std::vector<SassInstruction>& instructions) {
  SassLoop out;
  out.first_address = ~0u;
  out.header = flow.blocks()[size_t(loop.header)].first;
  for (const BlockLoop& other : all) out.depth += is_within(loop, other);
  for (size_t b = 0; b < loop.has.size(); ++b) {
    if (!loop.has[b]) continue;
    const Block& block = flow.blocks()[b];
    out.first_address = std::min(out.first_address, instructions[block.first].address);
    out.last_address = std::max(out.last_address, instructions[block.last - 1].address);
    const bool is_nested = std::any_of(all.begin(), all.end(), [&](const BlockLoop& other) {
      return is_within(other, loop) && other.has[b];
    });
    if (is_nested) continue;
    const bool is_always = std::all_of(loop.latches.begin(), loop.latches.end(),
                                       [&](int latch) { return flow.is_dominated(latch, int(b)); });
    for (uint32_t i = block.first; i < block.last; ++i) {
      out.own.push_back(i);
      const auto c = size_t(instructions[i].sass_class);
      ++out.at_most[c];
      if (is_always) ++out.every_iteration[c];
    }
  }
  return out;
}

}  // namespace

std::vector<SassLoop> find_loops(const std::vector<SassInstruction>& instructions,
                                 const std::vector<SassBranch>& branches) {
  if (instructions.empty()) return {};
  const Flow flow(uint32_t(instructions.size()), branches);
  const std::vector<BlockLoop> found = block_loops(flow);
  std::vector<SassLoop> loops;
  for (const BlockLoop& loop : found) {
    loops.push_back(describe(loop, found, flow, instructions));
    const auto has_products = [&](const SassLoop& one) {
      return one.at_most[size_t(SassClass::kTensor)] > 0;
    };
    loops.back().is_hot = has_products(loops.back());
    for (const BlockLoop& inner : found) {
      if (loops.back().is_hot && is_within(inner, loop) &&
          has_products(describe(inner, found, flow, instructions))) {
        loops.back().is_hot = false;
      }
    }
  }
  std::sort(loops.begin(), loops.end(), [](const SassLoop& a, const SassLoop& b) {
    return std::make_pair(a.first_address, a.depth) < std::make_pair(b.first_address, b.depth);
  });
  return loops;
}

}  // namespace lssar
