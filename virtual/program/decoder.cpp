#include "virtual/program/decoder.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "base/round_up.h"
#include "virtual/program/control_flow.h"
#include "virtual/program/generic_layout.h"
#include "virtual/program/op_facts.h"
#include "virtual/program/operand_binder.h"
#include "virtual/program/register_layout.h"

namespace lssar::vdev {
namespace {

constexpr size_t kMaxInstructions = 1u << 20;
constexpr uint64_t kMaxSharedBytes = 1u << 20;
constexpr uint64_t kMaxLocalBytes = 512 << 10;  // of a thread, as on hardware
constexpr uint64_t kDynamicSharedAlign = 16;

bool runs_together(Bind bind) {
  return bind == Bind::kBarrier || bind == Bind::kBranch || bind == Bind::kTable ||
         bind == Bind::kExit;
}

bool may_block(const Row& row) {
  return (row.bind == Bind::kGeneric || row.bind == Bind::kImmediate) &&
         (row.arg & kRowMayBlock) != 0;
}

class Decoder {
 public:
  Decoder(const ParsedModule& module, const ParsedKernel& kernel, const OpcodeTable& table)
      : module_(module), kernel_(kernel), table_(table) {}

  std::unique_ptr<KernelProgram> decode();

 private:
  Status decode_body();
  void refuse(const Instruction& in, std::string_view what);
  Status refused() const;
  Status error(const Instruction& in, std::string_view what) const;
  Status assign_addresses();
  Status match_rows();
  Status collect_access(OperandBinder& binder);
  void collect_async(const OperandBinder& binder);
  void find_flow();
  Status emit(OperandBinder& binder);
  Status emit_op(OperandBinder& binder, uint32_t instruction);
  void add_facts(const OperandBinder& binder, uint32_t instruction);
  void choose_handlers(const Row& row, Op& op) const;
  void emit_terminator(const FlowBlock& flow, BasicBlock& block);
  void emit_end();

  const ParsedModule& module_;
  const ParsedKernel& kernel_;
  const OpcodeTable& table_;
  std::unique_ptr<KernelProgram> program_ = std::make_unique<KernelProgram>();
  std::vector<uint64_t> addresses_;  // of the module's variables, as this kernel sees them
  std::vector<const Row*> rows_;     // by instruction
  RegisterAccess access_;
  ControlFlow flow_;
  std::vector<std::vector<uint32_t>*> tables_;  // of brx.idx, in the program
  std::unordered_set<uint32_t> async_offsets_;  // of access_.async_registers
  // Instructions that cannot be run, one entry per opcode and reason.
  struct Refused {
    std::string text;
    std::vector<uint32_t> lines;
  };
  std::map<std::pair<std::string_view, std::string>, Refused> refused_;
};

Status Decoder::error(const Instruction& in, std::string_view what) const {
  constexpr size_t kMaxQuoted = 200;
  return unsupported(fmt::format("kernel {}, PTX line {}: {}: '{}'", kernel_.name, in.line, what,
                                 in.text.substr(0, kMaxQuoted)));
}

void Decoder::refuse(const Instruction& in, std::string_view what) {
  Refused& refused = refused_[{in.opcode, std::string(what)}];
  if (refused.lines.empty()) refused.text = error(in, what).message();
  refused.lines.push_back(in.line);
}

// All of them, in the order of their first lines.
Status Decoder::refused() const {
  std::vector<const Refused*> order;
  for (const auto& [what, refused] : refused_) order.push_back(&refused);
  std::sort(order.begin(), order.end(), [](const Refused* a, const Refused* b) {
    return std::tie(a->lines[0], a->text) < std::tie(b->lines[0], b->text);
  });
  std::string text;
  for (const Refused* refused : order) {
    if (!text.empty()) text += "\n";
    text += refused->text;
    for (size_t i = 1; i < refused->lines.size(); ++i) {
      text += fmt::format("{}{}", i == 1 ? ", and at PTX line " : ", ", refused->lines[i]);
    }
  }
  return text.empty() ? Status() : unsupported(std::move(text));
}

// Assigns addresses to the shared and local variables that this kernel uses, in the order of their
// declaration. Extern shared variables all begin after the others.
Status Decoder::assign_addresses() {
  std::vector<bool> used(module_.variables.size(), false);
  for (const Operand& o : kernel_.operands) {
    if (o.kind == OperandKind::kVariable) used[o.index] = true;
  }
  uint64_t shared = 0;
  uint64_t local = 0;
  uint64_t dynamic_align = kDynamicSharedAlign;
  addresses_.assign(module_.variables.size(), 0);
  for (size_t i = 0; i < module_.variables.size(); ++i) {
    const Variable& v = module_.variables[i];
    addresses_[i] = v.address;
    if (!used[i]) continue;
    if (v.space == StateSpace::kShared && v.bytes == 0) {
      dynamic_align = std::max(dynamic_align, v.align);
    } else if (v.space == StateSpace::kShared || v.space == StateSpace::kLocal) {
      uint64_t& end = v.space == StateSpace::kShared ? shared : local;
      addresses_[i] = round_up(end, v.align);
      end = addresses_[i] + v.bytes;
    }
    if (shared > kMaxSharedBytes || local > kMaxLocalBytes) {
      return unsupported(
          fmt::format("kernel {}: variable {} makes {} bytes of shared and {} of local memory; at "
                      "most {} and {}",
                      kernel_.name, v.name, shared, local, kMaxSharedBytes, kMaxLocalBytes));
    }
  }
  program_->static_shared_bytes = static_cast<uint32_t>(shared);
  program_->dynamic_shared_offset = static_cast<uint32_t>(round_up(shared, dynamic_align));
  program_->local_bytes = static_cast<uint32_t>(round_up(local, 16));
  for (size_t i = 0; i < module_.variables.size(); ++i) {
    const Variable& v = module_.variables[i];
    if (v.space == StateSpace::kShared && v.bytes == 0) {
      addresses_[i] = program_->dynamic_shared_offset;
    }
  }
  return {};
}

Status Decoder::match_rows() {
  std::unordered_map<std::string_view, std::vector<const Row*>> known;
  for (const UnknownStatement& statement : kernel_.unknown) {
    Instruction in;
    in.opcode = in.text = statement.text;
    in.line = statement.line;
    refuse(in, statement.what);
  }
  OperandBinder binder(module_, kernel_, addresses_, *program_);
  rows_.reserve(kernel_.instructions.size());
  for (const Instruction& in : kernel_.instructions) {
    const auto [found, added] = known.try_emplace(in.opcode);
    if (added) found->second = table_.find(in.opcode);
    if (found->second.empty()) {
      refuse(in, "unknown instruction");
      continue;
    }
    const auto row = std::find_if(found->second.begin(), found->second.end(),
                                  [&](const Row* r) { return binder.fits(in, *r); });
    if (row == found->second.end()) {
      refuse(in, "operands of the wrong number, kind or width");
      continue;
    }
    rows_.push_back(*row);
  }
  return refused();
}

// The sums, which are also read, and A. Descriptors and the predicate are read when it is issued.
void Decoder::collect_async(const OperandBinder& binder) {
  for (const uint32_t r : binder.reads) {
    if (kernel_.registers[r] == RegClass::k32) access_.async_registers.push_back(r);
  }
}

Status Decoder::collect_access(OperandBinder& binder) {
  for (size_t i = 0; i < rows_.size(); ++i) {
    Op op;
    const Instruction& in = kernel_.instructions[i];
    if (const Status status = binder.bind(in, *rows_[i], op); !status.ok()) {
      refuse(in, status.message());
      continue;
    }
    access_.reads.insert(access_.reads.end(), binder.reads.begin(), binder.reads.end());
    access_.writes.insert(access_.writes.end(), binder.writes.begin(), binder.writes.end());
    access_.reads_begin.push_back(static_cast<uint32_t>(access_.reads.size()));
    access_.writes_begin.push_back(static_cast<uint32_t>(access_.writes.size()));
    access_.in_place.push_back(rows_[i]->bind == Bind::kAlu);
    access_.waits_for_async.push_back(in.opcode.starts_with("wgmma.wait_group."));
    if (rows_[i]->bind == Bind::kWgmma) collect_async(binder);
  }
  std::vector<uint32_t>& async = access_.async_registers;
  std::sort(async.begin(), async.end());
  async.erase(std::unique(async.begin(), async.end()), async.end());
  program_->lists.clear();  // they are made again, with the registers' places
  return refused();
}

void Decoder::find_flow() {
  std::vector<InstructionFlow> flow(rows_.size());
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Instruction& in = kernel_.instructions[i];
    flow[i].guarded = in.guard >= 0;
    const auto operand = [&](uint32_t n) -> const Operand& {
      return kernel_.operands[in.first_operand + n];
    };
    switch (rows_[i]->bind) {
      case Bind::kBranch:
        flow[i].terminator = Terminator::kJump;
        flow[i].target = operand(0).index;
        break;
      case Bind::kTable:
        flow[i].terminator = Terminator::kTable;
        flow[i].table = &kernel_.branch_tables[operand(1).index];
        break;
      case Bind::kExit:
        flow[i].terminator = Terminator::kExit;
        break;
      case Bind::kBarrier:
        flow[i].terminator = Terminator::kBarrier;
        break;
      default:
        break;
    }
  }
  flow_ = build_control_flow(flow);
}

void Decoder::choose_handlers(const Row& row, Op& op) const {
  const HandlerSet& set = table_.handlers();
  const bool lanes_apart =
      row.bind == Bind::kAlu || row.bind == Bind::kPack || row.bind == Bind::kConvert;
  op.core = row.handler;
  op.run = row.handler;
  op.run_masked = lanes_apart ? set.blended : row.handler;
  if (op.guard != kNoRegister) {
    op.run = op.run_masked = lanes_apart ? set.guarded_blended : set.guarded;
  }
}

Status Decoder::emit_op(OperandBinder& binder, uint32_t instruction) {
  const Instruction& in = kernel_.instructions[instruction];
  Op op;
  if (const Status status = binder.bind(in, *rows_[instruction], op); !status.ok()) {
    return error(in, status.message());
  }
  choose_handlers(*rows_[instruction], op);
  program_->ops.push_back(op);
  program_->op_instruction.push_back(instruction);
  add_facts(binder, instruction);
  return {};
}

void Decoder::add_facts(const OperandBinder& binder, uint32_t instruction) {
  OpFacts facts = facts_of_instruction(kernel_.instructions[instruction], *rows_[instruction]);
  std::vector<uint32_t>& registers = program_->op_registers;
  const auto end = [&] { return static_cast<uint32_t>(registers.size()); };
  facts.reads_begin = end();
  for (const uint32_t r : binder.reads) registers.push_back(binder.register_offset(r));
  facts.reads_end = end();
  for (const uint32_t r : binder.writes) registers.push_back(binder.register_offset(r));
  facts.writes_end = end();
  facts.wgmma_registers =
      rows_[instruction]->bind != Bind::kWgmma &&
      std::any_of(registers.begin() + facts.reads_begin, registers.end(),
                  [&](uint32_t offset) { return async_offsets_.count(offset) != 0; });
  program_->facts.push_back(facts);
}

void Decoder::emit_terminator(const FlowBlock& flow, BasicBlock& block) {
  block.terminator = flow.terminator;
  const std::vector<uint32_t>& to = flow.successors;
  switch (flow.terminator) {
    case Terminator::kJump:
      block.taken = to[0];
      break;
    case Terminator::kBranch:
      block.taken = to[0];
      block.next = to[1];
      break;
    case Terminator::kTable: {
      Op& op = program_->ops.back();
      const bool guarded = op.guard != kNoRegister;
      program_->lists.emplace_back(to.begin(), to.end() - (guarded ? 1 : 0));
      tables_.push_back(&program_->lists.back());
      op.list = program_->lists.back().data();
      op.imm = static_cast<int64_t>(program_->lists.back().size());
      if (guarded) block.next = to.back();
      break;
    }
    case Terminator::kExit:
      if (!to.empty()) block.next = to[0];
      break;
    case Terminator::kFall:
    case Terminator::kBarrier:
      block.next = to[0];
      break;
  }
}

// Lanes exit where control reaches the kernel's end without ret. This is a block of its own, which
// counts no instruction.
void Decoder::emit_end() {
  const auto end = static_cast<uint32_t>(program_->blocks.size());
  bool used = false;
  const auto redirect = [&](uint32_t& target) {
    if (target != kNoBlock) return;
    target = end;
    used = true;
  };
  for (BasicBlock& block : program_->blocks) {
    const bool jumps = block.terminator == Terminator::kJump;
    if (jumps || block.terminator == Terminator::kBranch) redirect(block.taken);
    if (!jumps && block.terminator != Terminator::kTable && block.terminator != Terminator::kExit) {
      redirect(block.next);
    }
    const Op& op = program_->ops[block.first_op + block.num_instructions - 1];
    if (op.guard == kNoRegister) continue;
    if (block.terminator == Terminator::kTable || block.terminator == Terminator::kExit) {
      redirect(block.next);
    }
  }
  for (auto& table : tables_) {
    for (uint32_t& target : *table) redirect(target);
  }
  if (!used) return;
  BasicBlock block;
  block.first_op = static_cast<uint32_t>(program_->ops.size());
  block.terminator = Terminator::kExit;
  program_->blocks.push_back(block);
  program_->ops.emplace_back();
  program_->op_instruction.push_back(static_cast<uint32_t>(rows_.size()) - 1);
  program_->facts.emplace_back();
}

Status Decoder::emit(OperandBinder& binder) {
  for (const FlowBlock& flow : flow_.blocks) {
    BasicBlock block;
    block.first_op = static_cast<uint32_t>(program_->ops.size());
    block.num_instructions = flow.end - flow.begin;
    for (uint32_t i = flow.begin; i < flow.end; ++i) {
      LSSAR_RETURN_IF_ERROR(emit_op(binder, i));
      block.may_block |= may_block(*rows_[i]);
    }
    block.num_ops = block.num_instructions - (runs_together(rows_[flow.end - 1]->bind) ? 1 : 0);
    emit_terminator(flow, block);
    program_->blocks.push_back(block);
  }
  if (!program_->blocks.empty()) emit_end();
  return {};
}

Status Decoder::decode_body() {
  if (kernel_.instructions.size() > kMaxInstructions) {
    return unsupported(fmt::format("kernel {}: {} instructions; at most {}", kernel_.name,
                                   kernel_.instructions.size(), kMaxInstructions));
  }
  LSSAR_RETURN_IF_ERROR(assign_addresses());
  LSSAR_RETURN_IF_ERROR(match_rows());
  OperandBinder binder(module_, kernel_, addresses_, *program_);
  LSSAR_RETURN_IF_ERROR(collect_access(binder));
  find_flow();
  LSSAR_ASSIGN_OR_RETURN(const RegisterLayout layout,
                         lay_out_registers(kernel_, flow_, access_, binder.constants_end()));
  program_->register_bytes = layout.end;
  for (const uint32_t r : layout.undefined) {
    program_->undefined.push_back({layout.offset[r], class_bytes(kernel_.registers[r])});
  }
  binder.use_offsets(layout.offset);
  for (const uint32_t r : access_.async_registers) async_offsets_.insert(layout.offset[r]);
  for (const auto& [offset, bytes] : program_->undefined) {
    if (async_offsets_.count(offset) == 0) program_->followed_undefined.push_back(offset);
  }
  return emit(binder);
}

std::unique_ptr<KernelProgram> Decoder::decode() {
  program_->name = kernel_.name;
  program_->parsed = &kernel_;
  program_->handlers = &table_.handlers();
  program_->params_bytes = kernel_.params_bytes;
  program_->max_threads = kernel_.max_threads;
  program_->has_required_block = kernel_.has_required_block;
  for (int i = 0; i < 3; ++i) program_->required_block[i] = kernel_.required_block[i];
  program_->refusal = decode_body();
  return std::move(program_);
}

}  // namespace

std::unique_ptr<KernelProgram> decode_kernel(const ParsedModule& module, const ParsedKernel& kernel,
                                             const OpcodeTable& table) {
  return Decoder(module, kernel, table).decode();
}

}  // namespace lssar::vdev
