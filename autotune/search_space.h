// Search space: which schedules are looked at for a problem, as data.
//
// Three levels, from the choice that changes most: algorithm (which kernels there are), block
// (tiles, stages, blocks per SM), thread (how scores are evaluated, what is in registers). Every
// level is a list of dimensions, every dimension a list of values; the values of a level multiply.
// Rules (validate of codegen/schedule.h) decide what is legal before any source is emitted.
// Used by the search and by `lssar explain`. Threads: plain values and pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "autotune/bucket.h"
#include "base/status.h"
#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "codegen/target.h"

namespace lssar {

enum class Level { kAlgorithm, kBlock, kThread };
const char* level_name(Level level);  // "algorithm", "block", "thread"

struct Dimension {
  std::string name;  // of the field in a schedule's JSON: "forward.block_cols"
  Level level = Level::kBlock;
  std::vector<nlohmann::json> values;
  std::string why;  // what it trades, for people: one line
  // Whether the field means anything for this algorithm and pass; dimensions that do not apply
  // have no place in the product.
};

// The dimensions below one choice of algorithm.
struct Algorithm {
  std::string name;   // "hopper persistent split dq"
  Schedule schedule;  // its default tiles: where block and thread dimensions start from
  std::vector<Dimension> block;
  std::vector<Dimension> thread;
};

struct SearchSpace {
  std::vector<Dimension> algorithm_dimensions;
  std::vector<Algorithm> algorithms;  // the legal ones
  // Combinations of algorithm dimensions that no schedule of this problem can have, with why.
  struct Excluded {
    std::string name;
    std::string reason;
  };
  std::vector<Excluded> excluded;
};

// Deterministic: the same order every time.
// REQUIRES: validate(problem).ok().
SearchSpace search_space(const Problem& problem, const Target& target, Determinism determinism);

// The algorithm of a space that a schedule belongs to: the one whose algorithm dimensions have its
// values; null where there is none.
const Algorithm* algorithm_of(const SearchSpace& space, const Schedule& schedule);

struct Candidate {
  Schedule schedule;
  std::string algorithm;    // name of its Algorithm
  std::string source_hash;  // schedule_source_hash; two candidates never share one
};

// A combination that is no candidate, and the rule that says so.
struct Rejected {
  std::string algorithm;
  Schedule schedule;
  std::string rule;  // the field of validate()'s message, for counting
  std::string reason;
};

struct Enumeration {
  std::vector<Candidate> candidates;
  uint64_t combinations = 0;               // of values: candidates + rejected + duplicates
  uint64_t duplicates = 0;                 // emitted the source of an earlier candidate
  std::vector<std::pair<std::string, uint64_t>> rejected_by_rule;  // counts, in order of first use
  // Every rejected combination is reported here where it is set.
  std::function<void(const Rejected&)> on_rejected;
};

// The product of an algorithm's block dimensions over its default schedule (thread dimensions at
// their defaults), and of thread dimensions over one candidate. Adds to `into`. Sources are emitted
// for legal combinations only.
void enumerate_blocks(const Problem& problem, const Target& target, const Algorithm& algorithm,
                      Enumeration* into);
void enumerate_threads(const Problem& problem, const Target& target, const Algorithm& algorithm,
                       const Schedule& base, Enumeration* into);

}  // namespace lssar
