#include "virtual/program/control_flow.h"

#include <algorithm>

namespace lssar::vdev {
namespace {

std::vector<FlowBlock> cut_blocks(const std::vector<InstructionFlow>& flow) {
  const auto count = static_cast<uint32_t>(flow.size());
  std::vector<bool> leader(count + 1, false);
  leader[0] = true;
  for (uint32_t i = 0; i < count; ++i) {
    const InstructionFlow& f = flow[i];
    if (f.terminator == Terminator::kFall) continue;
    leader[i + 1] = true;
    if (f.terminator == Terminator::kJump) leader[f.target] = true;
    if (f.table != nullptr) {
      for (const uint32_t target : *f.table) leader[target] = true;
    }
  }
  std::vector<uint32_t> block_of(count + 1, kNoBlock);
  std::vector<FlowBlock> blocks;
  for (uint32_t i = 0; i < count; ++i) {
    if (leader[i]) {
      blocks.emplace_back();
      blocks.back().begin = i;
    }
    block_of[i] = static_cast<uint32_t>(blocks.size()) - 1;
    blocks.back().end = i + 1;
  }
  for (FlowBlock& block : blocks) {
    const InstructionFlow& f = flow[block.end - 1];
    block.terminator = f.terminator;
    const uint32_t next = block_of[block.end];
    if (f.terminator == Terminator::kJump) {
      block.successors.push_back(block_of[f.target]);
      if (f.guarded) {
        block.terminator = Terminator::kBranch;
        block.successors.push_back(next);
      }
    } else if (f.terminator == Terminator::kTable) {
      for (const uint32_t target : *f.table) block.successors.push_back(block_of[target]);
      if (f.guarded) block.successors.push_back(next);
    } else if (f.terminator != Terminator::kExit || f.guarded) {
      block.successors.push_back(next);
    }
  }
  return blocks;
}

// A depth-first walk that visits successors in the given order. Returns the blocks in the order in
// which they are finished.
std::vector<uint32_t> finish_order(const std::vector<std::vector<uint32_t>>& successors,
                                   std::vector<std::pair<uint32_t, uint32_t>>* back_edges) {
  enum : uint8_t { kNew, kOpen, kDone };
  std::vector<uint8_t> state(successors.size(), kNew);
  std::vector<uint32_t> order;
  std::vector<std::pair<uint32_t, uint32_t>> stack = {{0, 0}};  // block, next successor
  state[0] = kOpen;
  while (!stack.empty()) {
    auto& [block, position] = stack.back();
    if (position == successors[block].size()) {
      state[block] = kDone;
      order.push_back(block);
      stack.pop_back();
      continue;
    }
    const uint32_t successor = successors[block][position++];
    if (state[successor] == kOpen && back_edges != nullptr) {
      back_edges->emplace_back(block, successor);
    } else if (state[successor] == kNew) {
      state[successor] = kOpen;
      stack.emplace_back(successor, 0);
    }
  }
  return order;
}

// How many natural loops contain each block. Loops beyond a budget are skipped, which only makes
// the order worse.
std::vector<uint32_t> loop_depths(const std::vector<std::vector<uint32_t>>& successors,
                                  std::vector<std::pair<uint32_t, uint32_t>> back_edges) {
  const size_t count = successors.size();
  std::vector<std::vector<uint32_t>> predecessors(count);
  for (uint32_t b = 0; b < count; ++b) {
    for (const uint32_t s : successors[b]) predecessors[s].push_back(b);
  }
  std::sort(back_edges.begin(), back_edges.end(),
            [](const auto& x, const auto& y) { return x.second < y.second; });
  std::vector<uint32_t> depth(count, 0);
  std::vector<uint32_t> seen(count, kNoBlock);  // the loop that last contained it
  uint64_t budget = 4'000'000;
  for (const auto& [tail, header] : back_edges) {
    std::vector<uint32_t> work = {tail};
    if (seen[header] != header) {
      seen[header] = header;
      ++depth[header];
    }
    while (!work.empty() && budget > 0) {
      const uint32_t block = work.back();
      work.pop_back();
      --budget;
      if (seen[block] == header) continue;
      seen[block] = header;
      ++depth[block];
      budget -= std::min<uint64_t>(budget, predecessors[block].size());
      work.insert(work.end(), predecessors[block].begin(), predecessors[block].end());
    }
  }
  return depth;
}

}  // namespace

ControlFlow build_control_flow(const std::vector<InstructionFlow>& flow) {
  ControlFlow result;
  if (flow.empty()) return result;
  std::vector<FlowBlock> blocks = cut_blocks(flow);
  std::vector<std::vector<uint32_t>> successors(blocks.size());
  for (size_t b = 0; b < blocks.size(); ++b) {
    for (const uint32_t s : blocks[b].successors) {
      if (s != kNoBlock) successors[b].push_back(s);
    }
  }
  std::vector<std::pair<uint32_t, uint32_t>> back_edges;
  finish_order(successors, &back_edges);
  const std::vector<uint32_t> depth = loop_depths(successors, std::move(back_edges));

  // A successor that is visited first is finished first and comes last: the exits of loops.
  for (auto& s : successors) {
    std::stable_sort(s.begin(), s.end(),
                     [&](uint32_t x, uint32_t y) { return depth[x] < depth[y]; });
  }
  std::vector<uint32_t> order = finish_order(successors, nullptr);
  std::reverse(order.begin(), order.end());
  std::vector<uint32_t> position(blocks.size(), kNoBlock);
  for (uint32_t i = 0; i < order.size(); ++i) position[order[i]] = i;
  for (const uint32_t b : order) {
    for (uint32_t& s : blocks[b].successors) {
      if (s != kNoBlock) s = position[s];
    }
    result.blocks.push_back(std::move(blocks[b]));
  }
  return result;
}

}  // namespace lssar::vdev
