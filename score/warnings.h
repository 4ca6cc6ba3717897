// What a score function does badly for some scores, found by trying many: for a log.
#pragma once

#include <string>
#include <vector>

#include "score/score_function.h"

namespace lssar {

// Scores that rows may have, and the keys that they see.
struct ScoreRange {
  double largest = 64;  // magnitude of a score before its bias
  double length = 4096;
  double offset = 1;
};

// A sentence for each: phi, psi or a derivative without a finite float32 value at some score; a sum
// of activations of both signs, which may be 0. They name the field, its value and an argument.
std::vector<std::string> score_warnings(const ScoreFunction& score, const ScoreRange& range);

}  // namespace lssar
