// The argument of kernels that turn rows by their rotary positions, laid out alike by host and
// device.
#pragma once

#include "templates/kernels/params.cuh"

namespace lssar_device {

struct RotaryParams {
  TensorRef from;    // [batch, heads, rows, head_dim]
  TensorRef to;      // the same shape, or `from` itself
  const float* cos;  // [positions, kRotaryDim / 2], contiguous
  const float* sin;
  long long rows;
  long long first_position;  // of row 0; row i is at first_position + i
  int heads;
  int reserved;
};

// The argument where sequences have lengths of their own. `rotary` has the tensors of all; the
// rows and the first position are those of each sequence.
struct RotarySequencesParams {
  SequencesParams sequences;
  RotaryParams rotary;
};

}  // namespace lssar_device
