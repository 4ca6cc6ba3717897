// The kernels of data/adversary_*.cu, as they are and with bugs: how they are launched, and what a
// report must say. A kernel copies `words` words of its input to its output.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "base/status.h"
#include "tests/virtual/strict/ptx_edit.h"
#include "virtual/run/virtual_device.h"

namespace lssar::test {

struct AdversaryKernel {
  const char* file;  // of data_ptx
  const char* entry;
  uint32_t blocks;
  uint32_t threads;
  uint32_t cluster;  // blocks
  uint32_t words;
};
const std::vector<AdversaryKernel>& adversary_kernels();

// A bug, and what at least one of ten seeds must report: texts, "@mark" for the number of any line
// with this mark. Nothing expected: the edit makes no bug, and no seed may report anything.
struct Adversary {
  std::string name;
  std::string entry;
  std::vector<Edit> edits;
  std::vector<std::string> expect;
};
inline void PrintTo(const Adversary& adversary, std::ostream* out) { *out << adversary.name; }

inline constexpr int kAdversarySeeds = 10;

// A run of a kernel, edited or not.
struct AdversaryRun {
  Status status;
  std::string difference;  // of the output from what is right; empty: none
};
AdversaryRun run_adversary(const AdversaryKernel& kernel, const std::string& text, uint64_t seed,
                           bool letter = false);
std::string adversary_text(const AdversaryKernel& kernel);

// Fails the test where a report is missing, or where there is one that should not be.
void check_adversary(const Adversary& adversary);
void check_correct(const AdversaryKernel& kernel);

}  // namespace lssar::test
