// The error rule that results are held to (docs/accuracy.md): what `lssar verify`, the tuner
// and the tests share. No state: any thread.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "codegen/problem.h"
#include "reference/reference.h"

namespace lssar {

// What a problem computes (a call.h Tensor is memory).
enum class OutputTensor { kO, kDq, kDk, kDv, kDsink };

// "o", "dq", "dk", "dv", "dsink".
const char* tensor_name(OutputTensor tensor);

// The table of the rule: the error of well-conditioned inputs, relative to the tensor.
double tolerance(DType dtype, OutputTensor tensor, int p);

// The absolute error allowed on top, from ReferenceOutputs::floor_norm_dq or _dk. 0 for o and dv.
double error_floor(double floor_norm);

// An L2 norm over the tensor: at most max(relative * |reference|, least) + floor.
struct AllowedError {
  double relative = 0;
  double least = 0;
  double floor = 0;
  // What the stored type can hold: beyond it the right result is an infinity.
  double largest = std::numeric_limits<double>::infinity();
};

// The rule: the table, or some times what an ideal kernel is off by, if that is more.
AllowedError allowed_error(const Problem& problem, OutputTensor tensor,
                           const ReferenceOutputs& reference);

const std::vector<double>& reference_values(const ReferenceOutputs& reference, OutputTensor tensor);

struct TensorError {
  double relative_l2 = 0;  // |error| / |reference|; 0 where both are 0
  double error_l2 = 0;
  double worst_abs = 0;    // NaN where an element's error is
  size_t worst_index = 0;  // of the worst element; the first NaN, if there is one
  double tolerance = 0;    // what relative_l2 may be, but for the floor
  double floor = 0;
  bool passed = false;
  // Not 0: numbers of up to this magnitude do not fit the stored type, and all others are right.
  // Not passed then.
  double overflow = 0;

  bool is_right() const { return passed || overflow > 0; }

  // "relative L2 1.2e-03 (allowed 3.0e-03), worst 4.5e-02 at 1234: passed".
  std::string to_string() const;
};

// A NaN on either side fails (also where both have one: tests of the NaN rules compare by
// themselves), and so does a difference in size.
TensorError compare(std::span<const double> reference, std::span<const float> actual,
                    const AllowedError& allowed);

}  // namespace lssar
