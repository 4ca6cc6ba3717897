// Determinism: whether two runs of a kernel must give the same bits.
//
// Used wherever a schedule is chosen. Threads: plain values and pure functions.
#pragma once

#include <string>

#include "base/status.h"

namespace lssar {

enum class Determinism {
  kRepeatable,
  kAny,  // allows sums in any order, by atomics, where they are faster
};

const char* determinism_name(Determinism determinism);  // "repeatable", "any"
Result<Determinism> parse_determinism(const std::string& name);

}  // namespace lssar
