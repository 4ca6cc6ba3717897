// Forms of instructions, made from the patterns of the opcode table, and their comparison with a
// scalar function: many forms in one kernel, unguarded, guarded and in a divergent branch, on every
// level of the machine. Used by the conformance tests.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lssar::test {

// What a register's bits mean, for its special values and for comparing NaNs.
enum class Number { kBits, kF16, kBf16, kF32, kF64, kF16x2, kBf16x2 };

Number number_of(std::string_view type);  // "f16x2" -> kF16x2, "s32" -> kBits

struct Form {
  std::string text;     // "add.s32 $0, $1, $2;", $0 the result
  std::string letters;  // widths of the registers, the result first: p h w l
  Number in = Number::kBits;
  Number out = Number::kBits;                          // any NaN equals any other
  std::function<uint64_t(const uint64_t* in)> expect;  // from zero-extended bits
  // Whether the text uses memory: 64 bytes of the thread's own at [%gs] global, [%ss] shared, [%ls]
  // local; 256 bytes at [%cs] constant and in the parameter `blob`, of memory_byte().
  bool memory = false;
  // How far a float may be from the expected one: relative * |expected| + absolute.
  double relative = 0, absolute = 0;
};
// The text may use %xh0 to %xh7, %xw0 ..., %xl0 ..., %xp0 to %xp3 freely.

uint8_t memory_byte(uint64_t index);

// Runs all forms on special and random values and compares every lane. Fails the test at a
// difference.
void check_forms(const std::vector<Form>& forms);

// Opcodes of a pattern that together have every alternative of every group.
std::vector<std::string> opcodes_of(std::string_view pattern);

// "add.rn.f32" -> add, rn, f32.
std::vector<std::string> words_of(std::string_view opcode);

// "$0, $1, $2" for count = 3.
std::string operand_list(size_t count);

}  // namespace lssar::test
