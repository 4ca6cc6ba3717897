// What the mutation test takes apart: PTX, and how to run it and hold its results to what is right.
// Used by mutation_test.cpp.
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
  std::string only;                  // mutants of this kernel; "": of all
  std::vector<std::string> opcodes;  // and of opcodes that begin so; none: of all
  // Runs this text, the subject's or a mutant's: the first difference of the results from the right
  // ones, "" where there is none.
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
  const char* only = "";  // mutate this kernel: the others are another subject's
  // Mutate only where an opcode begins with one of these: the rest is another subject's too. "":
  // everywhere.
  std::vector<std::string> opcodes = {};
  bool has_plain_sums = false;  // with_plain_sums
  DType dtype = DType::kBf16;
};
inline void PrintTo(const OwnKernel& own, std::ostream* out) { *out << own.name; }
// The forward for training and both backwards of either variant, and the kernel of epsilon; of the
// Hopper variant also the forward, by default, with everything in turn, in clusters, and with
// passes staggered, the turns of ordered dq, and fp16's scale found ahead.
const std::vector<OwnKernel>& own_kernels();

// As the generator emits it, compiled by whichever compiler there is. Every text runs on a few
// tiles, on lengths where some blocks have no tile of the other side, and without a query.
Result<Subject> own_subject(const OwnKernel& own);

// A kernel of data/hopper_*.cu, by the entry's name.
Subject replica_subject(const std::string& entry);

// For runs: strict, one thread, this seed.
std::shared_ptr<Device> open_strict_device(const std::string& target, uint64_t seed);

}  // namespace lssar::test
