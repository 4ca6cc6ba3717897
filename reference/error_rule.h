// The error rule that results must meet (docs/accuracy.md). `lssar verify`, the tuner and the tests
// share it. No state: any thread.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "codegen/problem.h"
#include "reference/reference.h"

namespace lssar {

// The output tensors of a problem. (call.h's Tensor is a piece of memory.)
enum class OutputTensor { kO, kDq, kDk, kDv, kDsink };

// "o", "dq", "dk", "dv", "dsink".
const char* tensor_name(OutputTensor tensor);

// The table of docs/accuracy.md: the error allowed for well-conditioned inputs, relative to the
// tensor.
double tolerance(DType dtype, OutputTensor tensor, int p);

// The absolute error allowed on top, from ReferenceOutputs::floor_norm_dq or floor_norm_dk. 0 for o
// and dv.
double error_floor(double floor_norm);

// A limit for an L2 norm over the tensor: max(relative * |reference|, least) + floor.
struct AllowedError {
  double relative = 0;
  double least = 0;
  double floor = 0;
  // The largest number that the stored type holds. Beyond it the right result is infinity.
  double largest = std::numeric_limits<double>::infinity();
};

// The rule: the table's value or a multiple of the ideal kernel's error, whichever is larger.
AllowedError allowed_error(const Problem& problem, OutputTensor tensor,
                           const ReferenceOutputs& reference);

const std::vector<double>& reference_values(const ReferenceOutputs& reference, OutputTensor tensor);

struct TensorError {
  double relative_l2 = 0;  // |error| / |reference|; 0 if both are 0
  double error_l2 = 0;
  double worst_abs = 0;    // NaN if an element's error is NaN
  size_t worst_index = 0;  // of the worst element, or of the first NaN
  double tolerance = 0;    // the limit of relative_l2: the whole rule's
  double floor = 0;
  bool passed = false;
  // Not 0 if the result failed only because numbers of up to this magnitude do not fit the stored
  // type.
  double overflow = 0;

  bool is_right() const { return passed || overflow > 0; }

  // "relative L2 1.2e-03 (allowed 3.0e-03), worst 4.5e-02 at 1234: passed".
  std::string to_string() const;
};

// A NaN on either side fails, even if both sides have it (tests of the NaN rules compare by
// themselves). So does a difference in size.
TensorError compare(std::span<const double> reference, std::span<const float> actual,
                    const AllowedError& allowed);

}  // namespace lssar
