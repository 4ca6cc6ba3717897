// --arg of `lssar sim`, before any file is read.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tools/lssar/sim/sim_types.h"

namespace lssar::command {

enum class SimArgumentKind : uint8_t {
  kScalar,       // i32:N and the like
  kPointer,      // in:, out:, inout:
  kTensorMap,    // map:, mapout:, mapinout:
  kStructBegin,  // {
  kStructEnd,    // }
};

struct SimArgument {
  SimArgumentKind kind = SimArgumentKind::kScalar;
  std::string text;  // as given, for messages
  SimType type = SimType::kF32;

  std::vector<std::byte> scalar;

  bool reads = false;   // the memory has the file's values before the launch
  bool writes = false;  // the file is written after the launch
  std::string file;
  std::string output_file;     // `file`, unless another one was given
  std::vector<int64_t> shape;  // of the output; empty: that of `file`

  uint32_t box_rows = 0, box_columns = 0;
  int swizzle_bytes = 0;  // 0, 32, 64 or 128
};

// kInvalidArgument names the argument, what is wrong with it and what is allowed.
Result<SimArgument> parse_sim_argument(const std::string& text);

// Lines for --help: every form with its meaning.
std::string sim_argument_help();

// Parses "AxBxC", each number at least `least`. False if the text is not of this form.
bool parse_extents(std::string_view text, char separator, int64_t least,
                   std::vector<int64_t>& extents);

}  // namespace lssar::command
