// Issuing wgmma operations, waiting for them, and their moment of effect.
#include "virtual/async/wgmma_unit.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include <fmt/format.h>

#include "virtual/async/matrix_descriptor.h"
#include "virtual/state/cluster.h"
#include "virtual/state/fault.h"
#include "virtual/state/launch_context.h"
#include "virtual/state/units.h"

namespace lssar::vdev {
namespace {

constexpr uint32_t kRegisterBytes = 4 * kLanes;
constexpr uint32_t kAllWarps = (1u << kWarpsPerGroup) - 1;

WgmmaForm form_of(const Op& op) { return std::bit_cast<WgmmaForm>(op.imm); }
bool a_in_registers(const Op& op) { return op.a == kNoRegister; }

[[noreturn]] void fault(const Warp& warp, const Op& op, const std::string& message) {
  raise_fault(warp, op, message.c_str());
}

// kMostInFlight limits the operations of a warp group, and the commit groups of a warp.
std::string too_many(const char* what) {
  return fmt::format("{} {} of wgmma are in flight, which is the limit: nothing waits for them",
                     kMostInFlight, what);
}

// A descriptor; all lanes must have the same.
uint64_t uniform(const Warp& warp, const Op& op, uint32_t reg, char which) {
  const auto* lanes = reinterpret_cast<const uint64_t*>(warp.registers + reg);
  uint64_t difference = 0;
  for (uint32_t i = 1; i < kLanes; ++i) difference |= lanes[i] ^ lanes[0];
  for (uint32_t i = 1; difference != 0 && i < kLanes; ++i) {
    if (lanes[i] == lanes[0]) continue;
    fault(warp, op,
          fmt::format("the descriptor of {} is {:#x} in lane 0 and {:#x} in lane {}", which,
                      lanes[0], lanes[i], i));
  }
  return lanes[0];
}

}  // namespace

WgmmaUnit::WgmmaUnit(Cluster& cluster) : cluster_(cluster), buffer_offsets_(kMaxSums) {
  for (uint32_t i = 0; i < kMaxSums; ++i) buffer_offsets_[i] = i * kRegisterBytes;
}
WgmmaUnit::~WgmmaUnit() = default;

void WgmmaUnit::reset() {
  const LaunchContext& launch = cluster_.launch;
  for (Group& group : groups_) {
    for (auto& operation : group.operations) free_operations_.push_back(std::move(operation));
  }
  groups_.clear();
  groups_.resize(launch.num_warps() / kWarpsPerGroup * launch.cluster_size());
  free_buffers_.clear();
  for (auto& buffer : buffers_) free_buffers_.push_back(buffer.get());
  states_.assign(cluster_.warps.size(), {});
  touched_.clear();
}

uint32_t WgmmaUnit::group_index(const Warp& warp) const {
  const uint32_t per_block = cluster_.launch.num_warps() / kWarpsPerGroup;
  return warp.cta->rank * per_block + warp.index / kWarpsPerGroup;
}

uint32_t WgmmaUnit::first_agent(uint32_t group) const {
  const uint32_t warps = cluster_.launch.num_warps();
  const uint32_t per_block = warps / kWarpsPerGroup;
  return group / per_block * warps + group % per_block * kWarpsPerGroup;
}

// All lanes of a warp execute these instructions together, so the first ones wait.
bool WgmmaUnit::lacks_lanes(Warp& warp, const Op& op) const {
  if (warp.mask == kAllLanes) return false;
  if (warp.live != kAllLanes || op.guard != kNoRegister) {
    raise_fault(warp, op, "wgmma instructions must be executed by all 32 lanes of the warp");
  }
  warp.missing = warp.live;
  return true;
}

// The warp's next operation. Another warp of the group may have issued it already.
WgmmaUnit::Operation& WgmmaUnit::operation(Warp& warp, const Op& op, Group& group) {
  const uint32_t number = states_[warp.agent].issued;
  const Operands mine = read_operands(warp, op);
  if (number - group.first < group.operations.size()) {
    Operation& found = *group.operations[number - group.first];
    compare(warp, op, found.operands, mine);
    return found;
  }
  if (group.operations.size() == kMostInFlight) fault(warp, op, too_many("operations"));
  if (free_operations_.empty()) free_operations_.push_back(std::make_unique<Operation>());
  group.operations.push_back(std::move(free_operations_.back()));
  free_operations_.pop_back();
  Operation& added = *group.operations.back();
  added.operands = mine;
  added.issued = 0;
  added.b_reads.complete = false;
  return added;
}

WgmmaUnit::Operands WgmmaUnit::read_operands(const Warp& warp, const Op& op) {
  Operands operands;
  operands.op = &op;
  operands.a = a_in_registers(op) ? 0 : uniform(warp, op, op.a, 'A');
  operands.b = uniform(warp, op, op.b, 'B');
  uint32_t scale = *reinterpret_cast<const uint32_t*>(warp.registers + op.c);
  if ((op.flags & kOpNegated) != 0) scale = ~scale;
  if (scale != 0 && scale != kAllLanes) {
    fault(warp, op, fmt::format("scale-d holds in lanes {:#010x} only", scale));
  }
  operands.accumulate = scale != 0;
  return operands;
}

void WgmmaUnit::compare(const Warp& warp, const Op& op, const Operands& theirs,
                        const Operands& mine) const {
  const KernelProgram& program = *cluster_.launch.program;
  const auto differs = [&](const char* what, uint64_t other, uint64_t own) {
    if (other == own) return;
    fault(warp, op,
          fmt::format("{} is {:#x}, but {:#x} for the warps of its group that came first", what,
                      own, other));
  };
  if (theirs.op != mine.op) {
    fault(warp, op,
          fmt::format("other warps of its group came to {} instead",
                      describe_line(program.instruction(*theirs.op))));
  }
  differs("the descriptor of A", theirs.a, mine.a);
  differs("the descriptor of B", theirs.b, mine.b);
  differs("scale-d", theirs.accumulate ? 1 : 0, mine.accumulate ? 1 : 0);
}

// An operand in shared memory. Faults if it is out of bounds.
std::shared_ptr<const WgmmaTile> WgmmaUnit::tile(const Warp& warp, const Op& op,
                                                 const WgmmaTileKey& key, char which) {
  const char* why = nullptr;
  std::shared_ptr<const WgmmaTile> found = tiles_.find(key, why);
  if (found == nullptr) {
    fault(warp, op, fmt::format("the descriptor of {}, {:#x}: {}", which, key.descriptor, why));
  }
  if (uint64_t{found->highest} + kChunkBytes > warp.shared_bytes) {
    fault(warp, op,
          fmt::format("{} has 16 bytes at shared address {:#x}, out of bounds: the block has {} "
                      "bytes",
                      which, found->highest, warp.shared_bytes));
  }
  return found;
}

void WgmmaUnit::find_tiles(const Warp& warp, const Op& op, Operation& operation) {
  const WgmmaForm form = form_of(op);
  const Operands& operands = operation.operands;
  const uint32_t w = warp.index % kWarpsPerGroup;
  operation.a[w] = nullptr;
  if (!a_in_registers(op)) {
    const WgmmaTileKey rows = {operands.a, w * kWgmmaRows, kWgmmaRows, form.a_mn_major != 0};
    operation.a[w] = tile(warp, op, rows, 'A');
  }
  if (operation.issued != 0) return;
  operation.b = tile(warp, op, {operands.b, 0, form.n, form.b_mn_major != 0}, 'B');
}

// The buffer of the warp's accumulators: that of an earlier operation in flight on the same
// registers, or a new one. Poisons the registers.
WgmmaUnit::Buffer* WgmmaUnit::take_sums(Warp& warp, const Op& op, bool accumulate) {
  WarpState& state = states_[warp.agent];
  for (Sums& sums : state.sums) {
    const Op& other = *sums.op;
    if (other.count != op.count || !std::equal(op.list, op.list + op.count, other.list)) continue;
    sums.op = &op;
    sums.last = state.issued;
    return sums.buffer;
  }
  if (free_buffers_.empty()) {
    buffers_.push_back(std::make_unique<Buffer>());
    free_buffers_.push_back(buffers_.back().get());
  }
  Buffer* const buffer = free_buffers_.back();
  free_buffers_.pop_back();
  for (uint32_t i = 0; i < op.count; ++i) {
    uint8_t* const reg = warp.registers + op.list[i];
    if (accumulate) std::memcpy(buffer->value + i * kLanes, reg, kRegisterBytes);
    std::memset(reg, kPoisonByte, kRegisterBytes);
  }
  state.sums.push_back({&op, state.issued, buffer});
  return buffer;
}

// Copies the sums that the warp has waited for to its registers.
void WgmmaUnit::return_sums(Warp& warp, uint32_t upto) {
  std::vector<Sums>& all = states_[warp.agent].sums;
  for (size_t i = 0; i < all.size();) {
    const Sums sums = all[i];
    if (sums.last >= upto) {
      ++i;
      continue;
    }
    for (uint32_t r = 0; r < sums.op->count; ++r) {
      std::memcpy(warp.registers + sums.op->list[r], sums.buffer->value + r * kLanes,
                  kRegisterBytes);
    }
    free_buffers_.push_back(sums.buffer);
    all[i] = all.back();
    all.pop_back();
  }
}

void WgmmaUnit::issue(Warp& warp, const Op& op) {
  if (lacks_lanes(warp, op)) return;
  const uint32_t w = warp.index % kWarpsPerGroup;
  if (cluster_.launch.num_warps() < warp.index - w + kWarpsPerGroup) {
    raise_fault(warp, op, "wgmma needs a whole warp group, and this is a part of one");
  }
  const uint32_t group = group_index(warp);
  WarpState& state = states_[warp.agent];
  Operation& mine = operation(warp, op, groups_[group]);
  find_tiles(warp, op, mine);
  if (cluster_.checker != nullptr) check_issue(warp, op, mine, state.issued);
  mine.sums[w] = take_sums(warp, op, mine.operands.accumulate);
  mine.issued |= 1u << w;
  ++state.issued;
  cluster_.note_event();
  if (mine.issued == kAllWarps && cluster_.launch.timing == AsyncTiming::kEarliest) {
    take_effect(group, state.issued);
  }
}

void WgmmaUnit::fence(Warp& warp, const Op& op) {
  if (lacks_lanes(warp, op)) return;
  WarpState& state = states_[warp.agent];
  state.fenced = true;
  ++state.epoch;
}

void WgmmaUnit::commit(Warp& warp, const Op& op) {
  if (lacks_lanes(warp, op)) return;
  WarpState& state = states_[warp.agent];
  if (state.group_ends.size() == kMostInFlight) fault(warp, op, too_many("groups"));
  state.group_ends.push_back(state.issued);
}

// NOTE: it does not wait for operations that are not committed.
void WgmmaUnit::wait(Warp& warp, const Op& op) {
  if (lacks_lanes(warp, op)) return;
  WarpState& state = states_[warp.agent];
  const auto pending = static_cast<uint64_t>(op.imm);
  if (state.group_ends.size() <= pending) return;
  const uint32_t upto = state.group_ends[state.group_ends.size() - 1 - pending];
  if (upto > state.waited) {
    const uint32_t group = group_index(warp);
    if (upto > complete(group)) {
      block_on(warp, op);
      return;
    }
    take_effect(group, upto);
    return_sums(warp, upto);
    state.waited = upto;
    if (Checker* checker = cluster_.checker) {
      checker->acquire_agent(warp, warp.live, checker->wgmma_agent(group),
                             checker->base_time() + upto);
    }
    drop_waited(group);
  }
  state.group_ends.erase(state.group_ends.begin(),
                         state.group_ends.end() - static_cast<ptrdiff_t>(pending));
  cluster_.note_event();
}

// How many operations all warps of the group have issued.
uint32_t WgmmaUnit::complete(uint32_t group) const {
  const WarpState* const states = states_.data() + first_agent(group);
  uint32_t count = states[0].issued;
  for (uint32_t w = 1; w < kWarpsPerGroup; ++w) count = std::min(count, states[w].issued);
  return count;
}

void WgmmaUnit::take_effect(uint32_t group, uint32_t upto) {
  Group& g = groups_[group];
  for (; g.done < upto; ++g.done) execute(group, *g.operations[g.done - g.first]);
}

void WgmmaUnit::execute(uint32_t group, const Operation& operation) {
  const Op& op = *operation.operands.op;
  const WgmmaForm form = form_of(op);
  const Warp* const warps = cluster_.warps.data() + first_agent(group);
  WgmmaCall call = {};
  call.a_type = form.a_type;
  call.b_type = form.b_type;
  call.half_sums = form.half_sums != 0;
  call.saturate = form.saturate != 0;
  call.accumulate = operation.operands.accumulate;
  call.negate = form.negate != 0;
  call.a_mn_major = form.a_mn_major != 0;
  call.b_mn_major = form.b_mn_major != 0;
  call.n = form.n;
  call.shared = warps[0].shared;
  call.b_chunks = operation.b->chunks.data();
  call.d_registers = buffer_offsets_.data();
  call.a_registers = a_in_registers(op) ? op.list + op.count : nullptr;
  call.num_warps = kWarpsPerGroup;
  for (uint32_t w = 0; w < kWarpsPerGroup; ++w) {
    call.warps[w] = {reinterpret_cast<uint8_t*>(operation.sums[w]->value), warps[w].registers,
                     operation.a[w] == nullptr ? nullptr : operation.a[w]->chunks.data()};
  }
  cluster_.launch.program->handlers->wgmma(call);
}

void WgmmaUnit::drop_waited(uint32_t group) {
  const WarpState* const states = states_.data() + first_agent(group);
  uint32_t waited = states[0].waited;
  for (uint32_t w = 1; w < kWarpsPerGroup; ++w) waited = std::min(waited, states[w].waited);
  Group& g = groups_[group];
  const auto end = g.operations.begin() + (waited - g.first);
  std::move(g.operations.begin(), end, std::back_inserter(free_operations_));
  g.operations.erase(g.operations.begin(), end);
  g.first = waited;
}

void WgmmaUnit::step() {
  if (cluster_.launch.timing != AsyncTiming::kRandom) return;
  for (uint32_t group = 0; group < groups_.size(); ++group) {
    if (groups_[group].operations.empty()) continue;
    const uint32_t end = complete(group);
    uint32_t upto = groups_[group].done;
    while (upto < end && cluster_.random.below(4) == 0) ++upto;
    take_effect(group, upto);
  }
}

void wgmma_issue(Warp& warp, const Op& op) { warp.cta->cluster->wgmma->issue(warp, op); }
void wgmma_fence(Warp& warp, const Op& op) { warp.cta->cluster->wgmma->fence(warp, op); }
void wgmma_commit(Warp& warp, const Op& op) { warp.cta->cluster->wgmma->commit(warp, op); }
void wgmma_wait(Warp& warp, const Op& op) { warp.cta->cluster->wgmma->wait(warp, op); }

}  // namespace lssar::vdev
