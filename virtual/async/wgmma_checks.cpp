// What the strict mode reports about wgmma: reads of shared memory, registers in flight.
#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "virtual/async/wgmma_unit.h"
#include "virtual/check/checker.h"
#include "virtual/state/cluster.h"
#include "virtual/state/fault.h"
#include "virtual/state/splits.h"

namespace lssar::vdev {
namespace {

constexpr uint32_t kRegisterUnit = 64;  // registers of 16 bits and more begin at a multiple

std::string quoted(const Cluster& cluster, uint32_t op) {
  const KernelProgram& program = *cluster.launch.program;
  return describe_line(program.instruction(program.ops[op]));
}

bool writes(const KernelProgram& program, const Op& op, uint32_t offset) {
  const OpFacts& facts = program.facts_of(op);
  const uint32_t* const registers = program.op_registers.data();
  const uint32_t* const end = registers + facts.writes_end;
  return std::find(registers + facts.reads_end, end, offset) != end;
}

// Lanes that hold row r or row r + 8 of a 16-row fragment.
uint32_t lanes_of_rows(uint32_t lanes) {
  const uint32_t any = lanes | lanes >> 1 | lanes >> 2 | lanes >> 3;
  return (any & 0x11111111u) * 15;
}

}  // namespace

WgmmaUnit::RegisterUse* WgmmaUnit::uses_of(WarpState& state) const {
  if (state.uses.empty()) {
    state.uses.resize(cluster_.launch.program->register_bytes / kRegisterUnit + 1);
  }
  return state.uses.data();
}

void WgmmaUnit::check_issue(Warp& warp, const Op& op, Operation& operation, uint32_t number) {
  if (const WgmmaTile* a = operation.a[warp.index % kWarpsPerGroup].get()) {
    a_reads_.complete = false;
    check_shared(warp, op, *a, number, a_reads_);
  }
  check_shared(warp, op, *operation.b, number, operation.b_reads);
  check_registers(warp, op, number);
  if (warp.checks->tainted) taint_sums(warp, op, operation.operands.accumulate);
}

void WgmmaUnit::check_shared(Warp& warp, const Op& op, const WgmmaTile& tile, uint32_t number,
                             CheckedReads& reads) {
  Checker& checker = *cluster_.checker;
  const AsyncIssue issue = {&warp, &op, kWholeWarp, checker.wgmma_agent(group_index(warp)),
                            checker.base_time() + number};
  const uint32_t rank = warp.cta->rank;
  if (checker.are_seen(issue, rank, reads)) return;
  checker.async_units(issue, rank, tile.units.data(), tile.units.size(), reads);
}

// Checks a register of the sums or of A.
void WgmmaUnit::check_register(Warp& warp, const Op& op, uint32_t offset, bool sum) {
  WarpState& state = states_[warp.agent];
  const RegisterUse& use = uses_of(state)[offset / kRegisterUnit];
  Checker& checker = *cluster_.checker;
  const KernelProgram& program = *cluster_.launch.program;
  const bool in_flight = use.flight_end > state.waited;
  const Op& flight_op = program.ops[use.flight_op];
  if (in_flight) {
    const uint32_t* const sums = flight_op.list;
    const bool was_sum = std::find(sums, sums + flight_op.count, offset) != sums + flight_op.count;
    if (sum || was_sum) {
      checker.report(
          ReportKind::kAsync, warp, op,
          fmt::format("{} is a register of an operation in flight that is waited for by "
                      "nothing in between: {}",
                      sum ? "an accumulator" : "a register of A", quoted(cluster_, use.flight_op)),
          &flight_op);
    }
  }
  if (use.touch_epoch >= state.epoch) {
    const Op& touch_op = program.ops[use.touch_op];
    checker.report(ReportKind::kSynchronise, warp, op,
                   fmt::format("{} was {}, without a wgmma.fence since then, at {}",
                               sum ? "an accumulator" : "a register of A",
                               writes(program, touch_op, offset) ? "written" : "read",
                               quoted(cluster_, use.touch_op)),
                   &touch_op);
  }
}

void WgmmaUnit::check_registers(Warp& warp, const Op& op, uint32_t number) {
  WarpState& state = states_[warp.agent];
  if (!state.fenced) {
    cluster_.checker->report(ReportKind::kSynchronise, warp, op,
                             "no wgmma.fence precedes the warp's first wgmma");
  }
  const bool halves = std::bit_cast<WgmmaForm>(op.imm).half_sums != 0;
  const bool chained = std::any_of(state.sums.begin(), state.sums.end(), [&](const Sums& sums) {
    const Op& other = *sums.op;
    return other.count == op.count && std::equal(op.list, op.list + op.count, other.list) &&
           (std::bit_cast<WgmmaForm>(other.imm).half_sums != 0) == halves;
  });
  const uint32_t index = cluster_.launch.program->index_of(op);
  const uint32_t end = op.count + (op.a == kNoRegister ? 4u : 0u);
  // Uses of sums in flight were reported already, so the sums of a chained product are skipped.
  for (uint32_t i = chained ? op.count : 0; i < end; ++i) {
    check_register(warp, op, op.list[i], i < op.count);
  }
  RegisterUse* const uses = uses_of(state);
  for (uint32_t i = 0; i < end; ++i) {
    RegisterUse& use = uses[op.list[i] / kRegisterUnit];
    use.flight_end = number + 1;
    use.flight_op = index;
  }
}

void WgmmaUnit::touch(Warp& warp, const Op& op) {
  if (op.guard != kNoRegister && guarded_mask(warp, op, warp.mask) == 0) return;
  const KernelProgram& program = *cluster_.launch.program;
  const OpFacts& facts = program.facts_of(op);
  WarpState& state = states_[warp.agent];
  const uint32_t* const registers = program.op_registers.data();
  RegisterUse* const uses = uses_of(state);
  if (state.issued != state.waited) {
    for (uint32_t i = facts.writes_end; i-- > facts.reads_begin;) {
      const RegisterUse& use = uses[registers[i] / kRegisterUnit];
      if (use.flight_end > state.waited) report_touch(warp, op, use, i >= facts.reads_end);
    }
  }
  for (uint32_t i = facts.reads_begin; i < facts.writes_end; ++i) {
    RegisterUse& use = uses[registers[i] / kRegisterUnit];
    use.touch_epoch = state.epoch;
    use.touch_op = program.index_of(op);
  }
}

// A missing wait shows at every use of the sums. The first reports are enough.
void WgmmaUnit::report_touch(Warp& warp, const Op& op, const RegisterUse& use, bool writes) {
  constexpr uint32_t kMostPerOperation = 3;
  if (touched_[use.flight_op]++ >= kMostPerOperation) return;
  cluster_.checker->report(
      ReportKind::kAsync, warp, op,
      fmt::format("{} a register of {}, which is in flight until the warp's wgmma.wait_group: "
                  "neither its accumulators nor its registers of A may be read or written",
                  writes ? "writes" : "reads", quoted(cluster_, use.flight_op)),
      &cluster_.launch.program->ops[use.flight_op]);
}

// Rows of A with undefined values make the same rows of D undefined.
void WgmmaUnit::taint_sums(Warp& warp, const Op& op, bool accumulate) {
  Taint& taint = cluster_.checker->taint(warp);
  uint32_t rows[2] = {0, 0};
  const Op* origin = nullptr;
  for (uint32_t i = 0; op.a == kNoRegister && i < 4; ++i) {
    const Taint::Value value = taint.get(op.list[op.count + i]);
    rows[i & 1] |= lanes_of_rows(value.lanes);
    if (value.lanes != 0) origin = value.origin;
  }
  const bool halves = std::bit_cast<WgmmaForm>(op.imm).half_sums != 0;
  for (uint32_t i = 0; i < op.count; ++i) {
    const Taint::Value old = accumulate ? taint.get(op.list[i]) : Taint::Value();
    const uint32_t lanes = old.lanes | rows[(halves ? i : i / 2) & 1];
    taint.set(op.list[i], kAllLanes, lanes, old.lanes != 0 ? old.origin : origin);
  }
  warp.checks->tainted = !taint.empty();
}

void WgmmaUnit::warp_ended(Warp& warp, const Op& op) {
  const WarpState& state = states_[warp.agent];
  Checker* const checker = cluster_.checker;
  if (checker == nullptr || state.issued == state.waited) return;
  const Group& group = groups_[group_index(warp)];
  const Op& first = *group.operations[state.waited - group.first]->operands.op;
  checker->report(ReportKind::kAsync, warp, op,
                  fmt::format("the warp ends without having waited for {}",
                              quoted(cluster_, cluster_.launch.program->index_of(first))),
                  &first);
}

}  // namespace lssar::vdev
