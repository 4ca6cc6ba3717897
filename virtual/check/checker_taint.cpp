// Undefined values. They come from memory that nobody wrote, or that an operation in flight will
// write, pass through registers, and are reported where they matter: global memory, addresses,
// branches.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "virtual/check/checker.h"
#include "virtual/state/cluster.h"
#include "virtual/state/fault.h"
#include "virtual/state/generic_operands.h"
#include "virtual/state/units.h"

namespace lssar::vdev {
namespace {

std::string origin_text(const KernelProgram& program, const Op* origin) {
  if (origin == nullptr) return "nobody wrote";
  return "comes from " + describe_line(program.instruction(*origin));
}

uint32_t cluster_rank_of(uint64_t address) {
  return static_cast<uint32_t>((address & 0xffffffffu) >> kRankShift);
}

// Lanes of an 8x8 matrix register that hold a part of row r.
uint32_t lanes_of_row(uint32_t row, bool transposed) {
  if (!transposed) return 0xfu << (4 * row);
  return 0x11111111u << (row / 2);
}

struct Sources {
  uint32_t lanes = 0;
  const Op* origin = nullptr;
  void add(const Taint::Value& value) {
    lanes |= value.lanes;
    if (value.lanes != 0) origin = value.origin;
  }
};

// Registers of mma: four lanes hold a row of A or C, or a column of B.
void propagate_mma(Taint& taint, const Op& op, uint32_t num_d, uint32_t num_a, uint32_t num_b) {
  const uint32_t* d = op.list;
  const uint32_t* a = d + num_d;
  const uint32_t* b = a + num_a;
  const uint32_t* c = b + num_b;
  uint32_t rows = 0;
  uint32_t columns = 0;
  const Op* origin = nullptr;
  for (uint32_t i = 0; i < num_a; ++i) {
    const Taint::Value v = taint.get(a[i]);
    if (v.lanes != 0) origin = v.origin;
    for (uint32_t g = 0; g < 8; ++g) {
      if ((v.lanes >> (4 * g) & 15) != 0) rows |= 1u << (8 * (i & 1) + g);
    }
  }
  for (uint32_t i = 0; i < num_b; ++i) {
    const Taint::Value v = taint.get(b[i]);
    if (v.lanes != 0) origin = v.origin;
    for (uint32_t g = 0; g < 8; ++g) {
      if ((v.lanes >> (4 * g) & 15) != 0) columns |= 1u << g;
    }
  }
  std::vector<Taint::Value> sums;
  for (uint32_t i = 0; i < num_d; ++i) sums.push_back(taint.get(c[i]));
  const bool pairs = num_d == 2 && num_a > 1;  // f16 sums: both columns in one register
  for (uint32_t i = 0; i < num_d; ++i) {
    uint32_t lanes = sums[i].lanes;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const uint32_t row = 8 * (pairs ? i : i / 2) + lane / 4;
      const uint32_t column = 2 * (lane % 4);
      const uint32_t mine = pairs ? 3u << column : 1u << (column + (i & 1));
      if ((rows >> row & 1) != 0 || (columns & mine) != 0) lanes |= 1u << lane;
    }
    taint.set(d[i], kAllLanes, lanes, sums[i].lanes != 0 ? sums[i].origin : origin);
  }
}

// A register's lanes as 32-bit values.
uint32_t* lanes_of(const Warp& warp, uint32_t reg) {
  return reinterpret_cast<uint32_t*>(warp.registers + reg);
}

// The lanes in which the defined operand of an and (false) or an or (true) of predicates decides
// the result.
uint32_t decided_lanes(const Warp& warp, const Op& op, TaintKind kind, uint32_t a, uint32_t b) {
  if (kind != TaintKind::kAnd && kind != TaintKind::kOr) return 0;
  const uint32_t flip = kind == TaintKind::kAnd ? kAllLanes : 0;
  return ((*lanes_of(warp, op.a) ^ flip) & ~a) | ((*lanes_of(warp, op.b) ^ flip) & ~b);
}

// Which lanes get something from the lanes `from` by a shuffle, found by shuffling lane numbers.
// False: the shuffle lacks lanes and is executed again.
bool trace_shuffle(Warp& warp, const Op& op, bool full, uint32_t from, uint32_t& to) {
  struct Saved {
    uint32_t reg;
    uint32_t lanes;
    uint32_t value[kLanes];
  };
  to = kAllLanes;
  if (op.a == op.b || op.a == op.c || op.a == op.list[0]) return true;
  Saved saved[] = {
      {op.a, kLanes, {}}, {op.dst, kLanes, {}}, {static_cast<uint32_t>(op.imm), 1, {}}};
  for (Saved& s : saved) {
    if (s.reg != kNoRegister) std::copy_n(lanes_of(warp, s.reg), s.lanes, s.value);
  }
  for (uint32_t i = 0; i < kLanes; ++i) lanes_of(warp, op.a)[i] = i;
  (full ? op.run : op.run_masked)(warp, op);
  const bool done = warp.missing == 0;
  to = 0;
  for (uint32_t i = 0; done && op.dst != kNoRegister && i < kLanes; ++i) {
    to |= (from >> (lanes_of(warp, op.dst)[i] & (kLanes - 1)) & 1) << i;
  }
  for (const Saved& s : saved) {
    if (s.reg != kNoRegister) std::copy_n(s.value, s.lanes, lanes_of(warp, s.reg));
  }
  return done;
}

}  // namespace

// Taints registers that some path reads before it writes them.
void Checker::taint_unwritten(Warp& warp) {
  Taint& taint = taints_[warp.agent];
  taint.clear();
  for (const uint32_t offset : cluster_.launch.program->followed_undefined) {
    taint.set(offset, kAllLanes, kAllLanes, nullptr);
  }
  warp.checks->tainted = !taint.empty();
}

void Checker::set_undefined(uint32_t rank, uint32_t address, uint32_t bytes, bool undefined) {
  const uint32_t first = address / kWordBytes;
  const uint32_t count = (bytes + kWordBytes - 1) / kWordBytes;
  std::memset(shadows_[rank].undefined() + first, undefined ? kAllBytes : 0, count);
  shadows_[rank].note_write(first, count);
}

bool Checker::any_undefined(uint32_t rank, uint32_t address, uint32_t bytes) {
  const uint8_t* words = shadows_[rank].undefined() + address / kWordBytes;
  const uint32_t count = (bytes + kWordBytes - 1) / kWordBytes;
  return count != 0 && (words[0] != 0 || std::memcmp(words, words + 1, count - 1) != 0);
}

void Checker::load_taint(Warp& warp, const Op& op, StateSpace space, const uint64_t* addresses,
                         uint32_t bytes) {
  if (space != StateSpace::kShared && space != StateSpace::kGeneric) return;
  const OpFacts& facts = cluster_.launch.program->facts_of(op);
  if (facts.access == MemoryUse::kCopyAsync) return;
  const uint32_t elements = std::max<uint32_t>(op.count, 1);
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) {
    const uint32_t lane = lowest_bit(m);
    uint64_t address = addresses[lane];
    if (space == StateSpace::kGeneric) {
      if (address >> kWindowShift << kWindowShift != kSharedWindow) continue;
      address -= kSharedWindow;
    }
    const uint32_t rank = cluster_rank_of(address);
    const auto offset = static_cast<uint32_t>(address & ((1u << kRankShift) - 1));
    if (rank >= shadows_.size() || offset + bytes > warp.shared_bytes) continue;
    if (!any_undefined(rank, offset, bytes)) continue;
    WarpChecks& checks = *warp.checks;
    if (!checks.loaded_taint) std::fill(checks.loaded, checks.loaded + kLanes, 0);
    checks.loaded_taint = true;
    if (facts.whole_warp) {  // a row of a matrix
      checks.loaded[lane / 8] |= lanes_of_row(lane % 8, facts.transposed);
      continue;
    }
    const uint32_t each = bytes / elements;
    for (uint32_t k = 0; k < elements; ++k) {
      if (any_undefined(rank, offset + k * each, each)) checks.loaded[k] |= 1u << lane;
    }
  }
}

void Checker::store_taint(Warp& warp, const Op& op, StateSpace space, const uint64_t* addresses,
                          uint32_t bytes) {
  const KernelProgram& program = *cluster_.launch.program;
  const OpFacts& facts = program.facts_of(op);
  const Taint& taint = taints_[warp.agent];
  const uint32_t elements = std::max<uint32_t>(op.count, 1);
  const bool copies = facts.access == MemoryUse::kCopyAsync;
  const bool listed = facts.taint == TaintKind::kMemory || facts.taint == TaintKind::kMatrix;
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) {
    const uint32_t lane = lowest_bit(m);
    uint64_t address = addresses[lane];
    StateSpace where = space;
    if (space == StateSpace::kGeneric) {
      const uint64_t window = address >> kWindowShift << kWindowShift;
      where = window == 0               ? StateSpace::kGlobal
              : window == kSharedWindow ? StateSpace::kShared
                                        : StateSpace::kLocal;
      address -= window;
    }
    for (uint32_t k = 0; k < elements; ++k) {
      Taint::Value value;
      if (!taint.empty() && !copies) {
        const bool by_list = listed && op.list != nullptr;
        value = taint.get(by_list ? op.list[facts.whole_warp ? lane / 8 : k] : op.b);
        const uint32_t mine =
            facts.whole_warp ? lanes_of_row(lane % 8, facts.transposed) : 1u << lane;
        value.lanes &= mine;
      }
      if (where == StateSpace::kGlobal && value.lanes != 0) {
        report(ReportKind::kUndefined, warp, op,
               fmt::format("lane {} stores to global memory a value that {}", lane,
                           origin_text(program, value.origin)),
               value.origin);
      }
      if (where != StateSpace::kShared) continue;
      const uint32_t rank = cluster_rank_of(address);
      const auto offset = static_cast<uint32_t>(address & ((1u << kRankShift) - 1));
      if (rank >= shadows_.size() || offset + bytes > warp.shared_bytes) continue;
      const uint32_t each = facts.whole_warp ? kMatrixRowBytes : bytes / elements;
      set_undefined(rank, offset + (facts.whole_warp ? 0 : k * each), each,
                    copies || value.lanes != 0);
      if (facts.whole_warp) break;
    }
  }
}

void Checker::check_branch(Warp& warp, const Op& op, uint32_t lanes) {
  const Taint& taint = taints_[warp.agent];
  if (taint.empty() || op.guard == kNoRegister) return;
  const Taint::Value value = taint.get(op.guard);
  if ((value.lanes & lanes) == 0) return;
  report(
      ReportKind::kUndefined, warp, op,
      "the branch depends on a value that " + origin_text(*cluster_.launch.program, value.origin),
      value.origin);
}

// Executes an op if a register is undefined or the op reads something undefined.
void Checker::run_tainted(Warp& warp, const Op& op, bool full) {
  const KernelProgram& program = *cluster_.launch.program;
  const OpFacts& facts = program.facts_of(op);
  Taint& taint = taints_[warp.agent];
  WarpChecks& checks = *warp.checks;
  const uint32_t* const registers = program.op_registers.data();

  Sources sources;
  // The last reads of a guarded op are old values, which lanes that it skips keep; they do not
  // count.
  const uint32_t kept = op.guard == kNoRegister ? 0 : facts.writes_end - facts.reads_end;
  for (uint32_t i = facts.reads_begin; i < facts.reads_end - kept; ++i) {
    sources.add(taint.get(registers[i]));
  }
  uint32_t active = warp.mask;
  if (op.guard != kNoRegister) {
    const uint32_t guard = *reinterpret_cast<const uint32_t*>(warp.registers + op.guard);
    active &= op.guard_negated ? ~guard : guard;
  }
  const Taint::Value a = op.a == kNoRegister ? Taint::Value() : taint.get(op.a);
  const bool memory = facts.taint == TaintKind::kMemory || facts.taint == TaintKind::kMatrix;
  if (memory && (a.lanes & active) != 0) {
    report(ReportKind::kUndefined, warp, op,
           "an address depends on a value that " + origin_text(program, a.origin), a.origin);
  }
  const Taint::Value b = op.b == kNoRegister ? Taint::Value() : taint.get(op.b);
  const Taint::Value c = op.c == kNoRegister ? Taint::Value() : taint.get(op.c);
  const uint32_t chosen = facts.taint == TaintKind::kSelect ? *lanes_of(warp, op.c) : 0;
  const uint32_t decided = decided_lanes(warp, op, facts.taint, a.lanes, b.lanes);
  uint32_t moved = 0;
  if (facts.taint == TaintKind::kShuffle && a.lanes != 0 &&
      !trace_shuffle(warp, op, full, a.lanes, moved)) {
    return;
  }

  checks.loaded_taint = false;
  (full ? op.run : op.run_masked)(warp, op);
  if (warp.missing != 0 || warp.blocked) return;

  const auto set_all = [&](uint32_t lanes) {
    for (uint32_t i = facts.reads_end; i < facts.writes_end; ++i) {
      taint.set(registers[i], active, lanes, sources.origin);
    }
  };
  switch (facts.taint) {
    case TaintKind::kByLane:
      set_all(sources.lanes);
      break;
    case TaintKind::kWarp:
      set_all((sources.lanes & active) != 0 ? kAllLanes : 0);
      break;
    case TaintKind::kSelect:
      set_all((chosen & a.lanes) | (~chosen & b.lanes) | c.lanes);
      break;
    case TaintKind::kShuffle:
      set_all(moved | b.lanes | c.lanes);
      break;
    case TaintKind::kAnd:
    case TaintKind::kOr:
      set_all(sources.lanes & ~decided);
      break;
    case TaintKind::kMma: {
      propagate_mma(taint, op, facts.writes_end - facts.reads_end, op.count >> 4, op.count & 15);
      break;
    }
    case TaintKind::kMemory:
    case TaintKind::kMatrix:
      set_all(0);
      apply_loaded_taint(warp, op);
      break;
    case TaintKind::kDefined:
      set_all(0);
      break;
    case TaintKind::kWgmma:
      break;
  }
  checks.tainted = !taint.empty();
}

// Undefined values that the op read become the taint of its destinations.
void Checker::apply_loaded_taint(Warp& warp, const Op& op) {
  WarpChecks& checks = *warp.checks;
  if (!checks.loaded_taint) return;
  checks.loaded_taint = false;
  const OpFacts& facts = cluster_.launch.program->facts_of(op);
  if (facts.access != MemoryUse::kRead) return;
  Taint& taint = taints_[warp.agent];
  for (uint32_t k = 0; k < op.count; ++k) {
    if (op.list[k] != kNoRegister && checks.loaded[k] != 0) {
      taint.set(op.list[k], checks.loaded[k], checks.loaded[k], &op);
    }
  }
  checks.tainted = !taint.empty();
}

}  // namespace lssar::vdev
