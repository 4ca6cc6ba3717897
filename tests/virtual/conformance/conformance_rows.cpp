#include "tests/virtual/conformance/conformance_rows.h"

#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>

#include "virtual/program/decoder.h"
#include "virtual/program/handler_sets.h"
#include "virtual/program/operand_binder.h"

// The linker's names for the function and for what takes its place (--wrap).
#define LSSAR_DECODE_KERNEL \
  "_ZN5lssar4vdev13decode_kernelERKNS0_12ParsedModuleERKNS0_12ParsedKernelERKNS0_11OpcodeTableE"

namespace lssar::test {

using vdev::Bind;
using vdev::HandlerSet;
using vdev::OpcodeTable;
using vdev::Row;
using vdev::RowSpan;
using Decoded = std::unique_ptr<vdev::KernelProgram>;

Decoded decode_really(const vdev::ParsedModule& module, const vdev::ParsedKernel& kernel,
                      const OpcodeTable& table) asm("__real_" LSSAR_DECODE_KERNEL);
Decoded decode_watched(const vdev::ParsedModule& module, const vdev::ParsedKernel& kernel,
                       const OpcodeTable& table) asm("__wrap_" LSSAR_DECODE_KERNEL);

namespace {

void nothing(vdev::Warp&, const vdev::Op&) {}

// Without its handler an instruction that ends a block would still do so.
Row broken(Row row) {
  row.handler = nothing;
  const bool ends_block = row.bind == Bind::kBranch || row.bind == Bind::kTable ||
                          row.bind == Bind::kExit || row.bind == Bind::kBarrier;
  if (ends_block) {
    row.bind = Bind::kNone;
    row.operands = nullptr;
  }
  return row;
}

// A copy of a handler set, with one row broken.
class BrokenTable {
 public:
  BrokenTable(const HandlerSet& set, size_t row) : set_(set) {
    size_t begin = 0;
    for (uint32_t s = 0; s < set.num_spans; ++s) {
      const RowSpan& span = *set.spans[s];
      std::vector<Row>& rows = rows_.emplace_back(span.rows, span.rows + span.count);
      if (row >= begin && row < begin + rows.size()) rows[row - begin] = broken(rows[row - begin]);
      begin += rows.size();
      spans_.push_back({rows.data(), span.count});
      pointers_.push_back(&spans_.back());
    }
    set_.spans = pointers_.data();
    table_.emplace(set_);
  }
  BrokenTable(const BrokenTable&) = delete;
  BrokenTable& operator=(const BrokenTable&) = delete;
  const OpcodeTable& table() const { return *table_; }

 private:
  std::deque<std::vector<Row>> rows_;
  std::deque<RowSpan> spans_;
  std::vector<const RowSpan*> pointers_;
  HandlerSet set_;
  std::optional<OpcodeTable> table_;
};

std::function<void(size_t, std::string_view)> listener;
std::unordered_map<const OpcodeTable*, std::unique_ptr<BrokenTable>> instead;

void tell_listener(const vdev::ParsedModule& module, const vdev::ParsedKernel& kernel,
                   const OpcodeTable& table) {
  static std::unordered_map<const Row*, size_t> indices;
  if (indices.empty()) {
    for (const SimdLevel level : available_simd_levels()) {
      const auto& rows = table_rows(level);
      for (size_t i = 0; i < rows.size(); ++i) indices[rows[i]] = i;
    }
  }
  const std::vector<uint64_t> addresses(module.variables.size());
  vdev::KernelProgram program;
  const vdev::OperandBinder binder(module, kernel, addresses, program);
  for (const vdev::Instruction& in : kernel.instructions) {
    for (const Row* row : table.find(in.opcode)) {
      if (!binder.fits(in, *row)) continue;
      listener(indices.at(row), in.opcode);
      break;
    }
  }
}

}  // namespace

Decoded decode_watched(const vdev::ParsedModule& module, const vdev::ParsedKernel& kernel,
                       const OpcodeTable& table) {
  if (listener) tell_listener(module, kernel, table);
  const auto other = instead.find(&table);
  return decode_really(module, kernel, other == instead.end() ? table : other->second->table());
}

const std::vector<const Row*>& table_rows(SimdLevel level) {
  static std::unordered_map<int, std::vector<const Row*>> by_level;
  std::vector<const Row*>& rows = by_level[static_cast<int>(level)];
  if (rows.empty()) {
    // Includes levels that this machine cannot run.
    const HandlerSet& set = *vdev::handler_set(level);
    for (uint32_t s = 0; s < set.num_spans; ++s) {
      for (uint32_t i = 0; i < set.spans[s]->count; ++i) rows.push_back(&set.spans[s]->rows[i]);
    }
  }
  return rows;
}

std::string row_name(size_t row) {
  const Row& r = *table_rows(SimdLevel::kPlain)[row];
  const std::string opcode = r.opcode;
  return r.operands[0] == '\0' ? opcode : opcode + " " + r.operands;
}

void on_row_used(std::function<void(size_t, std::string_view)> l) { listener = std::move(l); }

bool is_compiled_once(size_t row) {
  const vdev::Handler handler = table_rows(SimdLevel::kPlain)[row]->handler;
  for (const SimdLevel level : {SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (vdev::handler_set(level) == nullptr) continue;  // LSSAR_NATIVE_SIMD
    if (handler != table_rows(level)[row]->handler) return false;
  }
  return true;
}

void break_row(size_t row, const std::vector<SimdLevel>& levels) {
  for (const SimdLevel level : levels) {
    const OpcodeTable& table = vdev::opcode_table(level);
    instead[&table] = std::make_unique<BrokenTable>(table.handlers(), row);
  }
}

}  // namespace lssar::test
