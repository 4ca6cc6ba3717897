// What the mutation test mutates: PTX, how to run it, and how to compare its results with the right
// ones. Used by mutation_test.cpp.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "base/status.h"
#include "codegen/problem.h"
#include "virtual/run/virtual_device.h"

namespace lssar::test {

struct Subject {
  std::string name;
  std::string ptx;
  std::string only;                  // mutate this kernel; "": all
  std::vector<std::string> opcodes;  // mutate opcodes that begin so; empty: all
  // Runs the text, the subject's or a mutant's. Returns the first difference from the right
  // results; "" if there is none.
  std::function<Result<std::string>(Device& device, const std::string& text)> run;
};

// A kernel of the project's own: causal, lengths given at run time.
struct OwnKernel {
  const char* name;  // of the subject
  const char* target;
  Pass pass;
  // JSON, over the default schedule. For the Hopper variant it has the sizes of tiles and rings:
  // small ones, so that a run's lengths can be small.
  const char* schedule;
  const char* only = "";  // mutate this kernel; another subject has the others
  // Mutate only opcodes that begin with one of these; another subject has the rest. Empty: mutate
  // all.
  std::vector<std::string> opcodes = {};
  bool has_plain_sums = false;  // with_plain_sums
  DType dtype = DType::kBf16;
};
inline void PrintTo(const OwnKernel& own, std::ostream* out) { *out << own.name; }
// For both variants the forward for training, both backwards, and the kernel of epsilon. For the
// Hopper variant also the forward: by default, with ping-pong, in clusters, with staggered passes;
// the turns of ordered dq; and fp16's scale found ahead.
const std::vector<OwnKernel>& own_kernels();

// The kernel as the generator emits it, compiled by any compiler that was found. Every text runs on
// a few tiles: on lengths for which some blocks have no tile of the other side, and without a
// query.
Result<Subject> own_subject(const OwnKernel& own);

// A kernel of data/hopper_*.cu, by the entry's name.
Subject replica_subject(const std::string& entry);

// For runs: strict, one thread, this seed.
std::shared_ptr<Device> open_strict_device(const std::string& target, uint64_t seed);

}  // namespace lssar::test
