// Binds an instruction's operands to the fields of an op, as the matched row says. The decoder uses
// it twice per instruction: first to learn which registers it reads and writes, then with the
// places of the registers.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "virtual/program/kernel_program.h"

namespace lssar::vdev {

struct BulkAddress;  // bulk_operands.h

class OperandBinder {
 public:
  // `addresses`: of the module's variables by index, as this kernel sees them.
  OperandBinder(const ParsedModule& module, const ParsedKernel& kernel,
                const std::vector<uint64_t>& addresses, KernelProgram& program)
      : module_(module), kernel_(kernel), addresses_(addresses), program_(program) {}

  // Whether the row accepts operands of these kinds and widths.
  bool fits(const Instruction& instruction, const Row& row) const;

  // Fills everything except the handlers. REQUIRES: fits().
  Status bind(const Instruction& instruction, const Row& row, Op& op);

  // What the last bind() found.
  std::vector<uint32_t> reads, writes;

  // For the second pass: offsets by register. Before this call, offsets in ops mean nothing.
  void use_offsets(const std::vector<uint32_t>& offsets) { offsets_ = &offsets; }
  uint32_t register_offset(uint32_t reg) const { return offsets_ ? (*offsets_)[reg] : 0; }
  // Where the layout of registers begins: after scratch, constants and special registers.
  uint32_t constants_end() const { return constants_end_; }

 private:
  bool fits_value(const Operand& operand, char letter, bool is_destination) const;
  bool fits_values(const Instruction& instruction, const char* letters) const;
  bool fits_vector(const Operand& operand, char letter, uint32_t count, bool is_destination) const;
  bool fits_memory(const Instruction& instruction, const Row& row) const;
  bool fits_pack(const Instruction& instruction, const char* letters) const;
  bool fits_setp(const Instruction& instruction, const char* letters) const;
  bool fits_pair(const Operand& operand, char letter) const;
  bool fits_matrix(const Instruction& instruction, const Row& row) const;
  bool fits_wgmma(const Instruction& instruction) const;
  bool fits_generic(const Instruction& instruction, const Row& row) const;
  bool fits_barrier(const Instruction& instruction, const Row& row) const;
  bool fits_conversion(const Instruction& instruction) const;
  bool fits_bulk(const Instruction& instruction) const;

  Status bind_operands(const Instruction& instruction, const Row& row, Op& op);
  // Whether the last operand is a cache policy, which has no effect.
  static bool has_policy(const Instruction& instruction, const Row& row);
  bool fits_operands(const Instruction& instruction, const Row& row) const;
  Status bind_alu(const Instruction& instruction, const Row& row, Op& op);
  Status bind_setp(const Instruction& instruction, const Row& row, Op& op);
  Status bind_conversion(const Instruction& instruction, Op& op);
  Status bind_load(const Instruction& instruction, const Row& row, Op& op);
  Status bind_store(const Instruction& instruction, const Row& row, Op& op);
  Status bind_load_param(const Instruction& instruction, const Row& row, Op& op);
  Status bind_atomic(const Instruction& instruction, const Row& row, Op& op);
  Status bind_copy_async(const Instruction& instruction, Op& op);
  Status bind_bulk(const Instruction& instruction, Op& op);
  Status bind_matrix(const Instruction& instruction, const Row& row, Op& op);
  Status bind_mma(const Instruction& instruction, const Row& row, Op& op);
  Status bind_wgmma(const Instruction& instruction, Op& op);
  Status bind_shuffle(const Instruction& instruction, Op& op);
  Status bind_collective(const Instruction& instruction, const Row& row, Op& op);
  struct GenericOperand {
    const Operand* operand;
    char letter;
  };
  bool take_apart(const Instruction& instruction, const char* letters,
                  std::vector<GenericOperand>& taken) const;
  Status bind_generic(const Instruction& instruction, const Row& row, Op& op);
  Status bind_barrier(const Instruction& instruction, const Row& row, Op& op);

  Status read(const Operand& operand, char letter, uint32_t& field);
  Status write(const Operand& operand, uint32_t& field);
  Status write_pair(const Operand& operand, uint32_t& first, int64_t& second);
  Status read_all(const Operand& operand, char letter, std::vector<uint32_t>& list);
  Status write_all(const Operand& operand, std::vector<uint32_t>& list);
  Status address(const Operand& operand, StateSpace space, uint32_t& base, int64_t& offset,
                 bool& wide);
  Status bulk_address(const Operand& operand, StateSpace space, BulkAddress& bound);
  Status memory_operand(const Instruction& instruction, const Operand& operand, Op& op);
  Status literal_bits(const Operand& operand, char letter, uint64_t& bits) const;
  uint32_t constant(RegClass reg_class, uint64_t bits, bool in_shared = false);
  bool is_shared_variable(const Operand& operand);
  bool special(std::string_view name, char letter, Special& which) const;
  uint32_t special_register(Special which);
  const uint32_t* keep(std::vector<uint32_t> list);
  const Operand& operand(const Instruction& instruction, uint32_t i) const {
    return kernel_.operands[instruction.first_operand + i];
  }
  const Operand& element(const Operand& vector, uint32_t i) const {
    return kernel_.operands[vector.index + i];
  }
  RegClass register_class(const Operand& operand) const { return kernel_.registers[operand.index]; }
  uint32_t claim(uint32_t bytes);

  const ParsedModule& module_;
  const ParsedKernel& kernel_;
  const std::vector<uint64_t>& addresses_;
  KernelProgram& program_;
  const std::vector<uint32_t>* offsets_ = nullptr;
  uint32_t constants_end_ = kScratchBytes;
  std::map<std::tuple<RegClass, uint64_t, bool>, uint32_t> constants_;
  std::map<Special, uint32_t> specials_;
};

// The width of an mma's registers: the row's fifth letter, or 32 bits.
inline char mma_letter(const Row& row) { return row.operands[4] == '\0' ? 'w' : row.operands[4]; }

// Whether it is a clock register; `code` is then the one for read_clock.
bool clock_register(std::string_view name, char letter, uint8_t& code);

}  // namespace lssar::vdev
