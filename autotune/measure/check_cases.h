// The small problems that a candidate is checked on, and the truth for each.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "autotune/measure/candidate_runner.h"
#include "autotune/table/sequence_lengths.h"
#include "base/status.h"
#include "codegen/emit.h"
#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "codegen/sizes.h"
#include "reference/random_inputs.h"
#include "reference/reference.h"

namespace lssar {

struct CheckCase {
  Sizes sizes;
  SequenceLengths lengths = {};  // with varlen
  InputKind data = InputKind::kGauss;
  // Run once more in strict mode, if the device has one.
  bool strict = false;

  // "gauss 65x136, heads 2/1"; with sequences "gauss 65:136,0,22:69, heads 2/1".
  std::string to_string() const;
};

// Lengths around the edges of the schedule's tiles, with more keys than queries, fewer, and as
// many. With rotary positions never fewer. With varlen a sequence of these lengths comes with an
// empty one and shorter ones. Heads are in the ratio of `sizes`. Lengths that are built into the
// problem's kernels stay. `source` is what the schedule emits for the problem.
std::vector<CheckCase> check_cases(const Problem& problem, const Sizes& sizes,
                                   const Schedule& schedule, const KernelSource& source,
                                   CheckDepth depth);

// The same problem with lengths given at run time. The number of queries stays where the schedule
// is for few of them (split_keys). With varlen no length stays: they are bounds, and the kernels
// are the same without them.
Problem with_open_lengths(const Problem& problem, const Schedule& schedule);
// Whether a length is built into the problem's kernels.
inline bool has_fixed_length(const Problem& problem) {
  return built_in_seq_q(problem) != 0 || built_in_seq_k(problem) != 0;
}

}  // namespace lssar
