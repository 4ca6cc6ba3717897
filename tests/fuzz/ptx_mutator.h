// Changes PTX texts so that many still load: whole instructions of the opcode table are inserted,
// statements moved, operands exchanged. It reads the table's rows, so it knows every instruction
// that the virtual device does.
//
// Threads: a mutator belongs to one.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "virtual/program/program.h"

namespace lssar::test {

// The module's kernels, each as a module of its own.
std::vector<std::string> split_kernels(const std::string& text);

class PtxMutator {
 public:
  explicit PtxMutator(uint32_t seed);

  const std::vector<const vdev::Row*>& rows() const { return rows_; }
  // One random form of the row with operands that are likely to fit, and its semicolon.
  std::string instruction(const vdev::Row& row);
  // A module with one kernel that declares and sets up the operands of instruction(), followed by
  // `body`. `first_line` chooses how the harness runs it.
  static std::string kernel(std::string_view body, uint32_t first_line = 0);
  // One random change.
  std::string mutate(const std::string& text);
  // `text` with some statements of `other`.
  std::string splice(const std::string& text, const std::string& other);

 private:
  uint32_t below(size_t n) { return static_cast<uint32_t>(random_() % n); }
  std::string opcode(const char* pattern);
  std::string reg(char letter);
  std::string vector(std::string_view letters);
  std::string address();
  std::string operand();
  std::string data_operand(std::string_view opcode);
  std::string barrier_address();
  std::vector<std::string> wgmma_operands(std::string_view opcode);
  std::vector<std::string> bulk_operands(std::string_view opcode);
  std::vector<std::string> sync_operands(std::string_view opcode);
  std::vector<std::string> generic_operands(std::string_view letters);
  std::vector<std::string> operands(const vdev::Row& row, std::string_view opcode);
  std::string exchange_word(std::string text);

  std::mt19937 random_;
  std::vector<const vdev::Row*> rows_;
};

}  // namespace lssar::test
