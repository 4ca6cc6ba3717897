// The rows of the opcode table as a test of the tests sees them: which of them the kernels of a
// test use, and the same table with one row that no longer does anything.
//
// Programs that link this have decode_kernel wrapped by the linker (CMakeLists.txt); the device
// itself knows nothing of it. Not thread-safe: to be set before a test runs.
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

// "add.(u32|s32) www": what a report and an exception name a row by.
std::string row_name(size_t row);

// Called with the row and the opcode of every instruction of a kernel when it is loaded. Null: not.
void on_row_used(std::function<void(size_t row, std::string_view opcode)> listener);

// Whether every level has the same code for it.
bool is_compiled_once(size_t row);

// From now on kernels that are loaded at one of these levels have the row's instructions do
// nothing: results are not written, branches not taken, barriers not waited at.
void break_row(size_t row, const std::vector<SimdLevel>& levels);

}  // namespace lssar::test
