// Mutants of PTX: every one has one synchronisation taken away or changed. Used by the mutation
// test, which wants each of them to be found out.
#pragma once

#include <string>
#include <vector>

namespace lssar::test {

struct Mutant {
  // "kernel: opcode #2: taken away": the second line of this opcode in this entry. "last" instead
  // of a number is the last of several: compilers unroll what comes before it in their own ways.
  std::string name;
  std::string entry, opcode;
  int line = 0;
  std::string text;  // of the whole module
};

// In the order of the text. Mutated are waits, commits, fences, barriers and their thread counts,
// arrivals, byte counts and parities of mbarriers, where a parity is flipped, their initial counts,
// loads, stores and atomics that acquire or release, and setmaxnreg.
std::vector<Mutant> make_mutants(const std::string& module);

// Additions to pairs of float32 in global memory by loads and stores, as they may be where each is
// made alone: the strict mode then reports two that nothing orders, which atomics may be.
std::string with_plain_sums(const std::string& module);

}  // namespace lssar::test
