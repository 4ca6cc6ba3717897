// Writes a folder of PTX texts for the fuzzer to begin with: one for every row of the opcode table
// of which a random form loads.
//
//   ptx_seeds FOLDER
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "tests/fuzz/ptx_harness.h"
#include "tests/fuzz/ptx_mutator.h"

using namespace lssar::test;

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: ptx_seeds FOLDER\n");
    return 2;
  }
  constexpr int kTries = 2000;
  std::filesystem::create_directories(argv[1]);
  PtxMutator mutator(3);
  size_t written = 0;
  for (size_t i = 0; i < mutator.rows().size(); ++i) {
    for (int k = 0; k < kTries; ++k) {
      const std::string body = "BEGIN:\n" + mutator.instruction(*mutator.rows()[i]);
      const std::string text = PtxMutator::kernel(body, static_cast<uint32_t>(i));
      if (run_ptx_input(text) == PtxOutcome::kRefused) continue;
      std::ofstream(fmt::format("{}/row_{:03}.ptx", argv[1], i)) << text;
      ++written;
      break;
    }
  }
  fmt::print("{} of {} rows\n", written, mutator.rows().size());
  return 0;
}
