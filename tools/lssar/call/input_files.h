// Reads the tensors of a call from .npy files, for `lssar run` and `lssar capture`.
//
// Threads: plain values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/status.h"
#include "codegen/sizes.h"
#include "tools/lssar/call/attention_run.h"

namespace lssar::command {

// batch, heads, length, dim.
using Shape = std::array<int64_t, 4>;

// --q, --k, --v, --do.
class InputFiles {
 public:
  // Returns --q, which the other options need.
  CLI::Option* add_to(CLI::App& app);

  bool given() const { return !q_.empty(); }
  bool has_grad_o() const { return !grad_o_.empty(); }
  struct Content {
    Sizes sizes;
    int head_dim = 0, head_dim_v = 0;
    AttentionInputs tensors;
  };
  // is_packed: the files are of packed sequences, [rows, heads, dim], and the tensors come out as
  // one batch entry. Errors: those of reading the files; shapes that do not fit each other.
  Result<Content> read(bool is_packed = false) const;

 private:
  std::string q_, k_, v_, grad_o_;
};

// `values` is [first, second, dim]; the result [second, first, dim].
std::vector<float> swap_outer_dims(const std::vector<float>& values, int64_t first, int64_t second,
                                   int64_t dim);

}  // namespace lssar::command
