// Mutants of PTX: each has one synchronisation taken away or changed. The mutation test requires
// that each is found.
#pragma once

#include <string>
#include <vector>

namespace lssar::test {

struct Mutant {
  // "kernel: opcode #2: taken away": the second line of this opcode in this entry. "last" instead
  // of a number is the last of several, because compilers unroll the lines before it in different
  // ways.
  std::string name;
  std::string entry, opcode;
  int line = 0;
  std::string text;  // of the whole module
};

// In the order of the text. It mutates waits, commits, fences, barriers and their thread counts;
// arrivals, byte counts, parities (flipped) and initial counts of mbarriers; loads, stores and
// atomics that acquire or release; and setmaxnreg.
std::vector<Mutant> make_mutants(const std::string& module);

// Replaces additions to pairs of float32 in global memory by loads and stores, which may do them if
// each addition is made alone. The strict mode then reports two additions that nothing orders;
// atomics it would accept.
std::string with_plain_sums(const std::string& module);

}  // namespace lssar::test
