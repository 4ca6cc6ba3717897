// The rows of the opcode table, for a test of the tests: which rows a test's kernels use, and the
// same table with one row that does nothing.
//
// In programs that link this the linker wraps decode_kernel (CMakeLists.txt); the device knows
// nothing of it. Not thread-safe: call it before a test runs.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "virtual/program/program.h"
#include "virtual/program/simd_level.h"

namespace lssar::test {

// In the order of the table, the same at every level.
const std::vector<const vdev::Row*>& table_rows(SimdLevel level);

// "add.(u32|s32) www": a row's name in reports and exceptions.
std::string row_name(size_t row);

// Called with the row and the opcode of every instruction of a kernel when it is loaded. Null: not
// called.
void on_row_used(std::function<void(size_t row, std::string_view opcode)> listener);

// Whether all levels share its code.
bool is_compiled_once(size_t row);

// From now on the row's instructions do nothing in kernels that are loaded at one of these levels:
// results are not written, branches not taken, barriers not waited at.
void break_row(size_t row, const std::vector<SimdLevel>& levels);

}  // namespace lssar::test
