// The golden cases: inputs, and float64 results that were computed independently of this code. Used
// by the tests of the reference, of the virtual device and of GPUs.
//
// They are in tests/golden/data of the source tree. LSSAR_TEST_DATA names another folder with the
// same cases and takes precedence (for a bundle that runs elsewhere).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "codegen/problem.h"
#include "codegen/sizes.h"
#include "reference/reference.h"

namespace lssar {

struct GoldenCase {
  std::string name;  // "causal_p15_d64"
  std::string data;  // what the inputs look like: "gauss", "clustered", ...
  Problem problem;   // pass is the default, lengths are fixed; a test sets what it wants
  Sizes sizes;

  // Contiguous [batch, heads, length, dim]; inputs are numbers of the dtype.
  std::vector<float> q, k, v, grad_o;
  std::vector<double> o, dq, dk, dv;
  double floor_dq = 0, floor_dk = 0;  // of the error rule, including its 2^-20
};

std::string golden_data_folder();

// The same for other score functions (ScoreFunction). Results are stored as float32.
std::string golden_family_folder();

// Sorted. An empty list is an error, because a test over no cases would pass.
Result<std::vector<std::string>> golden_case_names(
    const std::string& folder = golden_data_folder());

// The case's results and floors. The error of an ideal kernel comes from the reference, because no
// case has it.
Result<ReferenceOutputs> golden_reference(const GoldenCase& golden);

// Errors name the file.
Result<GoldenCase> load_golden_case(const std::string& name,
                                    const std::string& folder = golden_data_folder());

}  // namespace lssar
