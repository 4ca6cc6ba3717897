// Finds scores for which a score function works badly, by trying many. The result is for a log.
#pragma once

#include <string>
#include <vector>

#include "score/score_function.h"

namespace lssar {

// The scores that rows may have, and the number of keys that they see.
struct ScoreRange {
  double largest = 64;  // the largest magnitude of a score before its bias
  double length = 4096;
  double offset = 1;
};

// One sentence for each problem found: phi, psi or a derivative has no finite float32 value at some
// score; a sum of activations has terms of both signs and may be 0. It names the field, its value
// and an argument.
std::vector<std::string> score_warnings(const ScoreFunction& score, const ScoreRange& range);

}  // namespace lssar
