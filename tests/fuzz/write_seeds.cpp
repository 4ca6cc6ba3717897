// Writes a folder of PTX texts for the fuzzer to begin with: for every row of the opcode table of
// which a random form loads, and for every kernel of the files, one that is run strictly and one
// that is run fast.
//
//   ptx_seeds FOLDER [FILE.ptx ...]
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "tests/fuzz/ptx_harness.h"
#include "tests/fuzz/ptx_mutator.h"

using namespace lssar::test;

namespace {

void write(const std::filesystem::path& folder, const std::string& name, const std::string& text) {
  const char* mode = runs_strict(text) ? "strict" : "fast";
  std::ofstream(folder / fmt::format("{}_{}.ptx", name, mode)) << text;
}

// Empty: none loads.
std::string loading_text(PtxMutator& mutator, const lssar::vdev::Row& row, uint32_t first_line) {
  constexpr int kTries = 2000;
  for (int k = 0; k < kTries; ++k) {
    const std::string body = "BEGIN:\n" + mutator.instruction(row);
    std::string text = PtxMutator::kernel(body, first_line);
    if (run_ptx_input(text) != PtxOutcome::kRefused) return text;
  }
  return "";
}

// The first line with which the kernel runs without a report, else with one; empty: with none.
std::string running_text(const std::string& kernel, bool strict) {
  constexpr uint32_t kTries = 400;
  std::string best;
  for (uint32_t k = 0; k < kTries; ++k) {
    std::string text = fmt::format("// {}\n{}", k, kernel);
    if (runs_strict(text) != strict) continue;
    const PtxOutcome outcome = run_ptx_input(text);
    if (outcome == PtxOutcome::kClean) return text;
    if (outcome == PtxOutcome::kReported && best.empty()) best = std::move(text);
  }
  return best;
}

size_t write_rows(const std::filesystem::path& folder) {
  PtxMutator mutator(3);
  size_t written = 0;
  uint32_t first_line = 0;
  for (size_t i = 0; i < mutator.rows().size(); ++i) {
    bool loads = true;
    for (const bool strict : {true, false}) {
      while (runs_strict(PtxMutator::kernel("", first_line)) != strict) ++first_line;
      const std::string text = loading_text(mutator, *mutator.rows()[i], first_line++);
      loads = loads && !text.empty();
      if (!text.empty()) write(folder, fmt::format("row_{:03}", i), text);
    }
    written += loads;
    if (!loads) fmt::print("no text of {}\n", mutator.rows()[i]->opcode);
  }
  fmt::print("{} of {} rows\n", written, mutator.rows().size());
  return written;
}

// Returns whether each of its kernels runs.
bool write_kernels(const std::filesystem::path& folder, const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream module;
  module << file.rdbuf();
  const std::vector<std::string> kernels = split_kernels(module.str());
  bool all = !kernels.empty();
  for (size_t i = 0; i < kernels.size(); ++i) {
    for (const bool strict : {true, false}) {
      const std::string text = running_text(kernels[i], strict);
      if (!text.empty()) write(folder, fmt::format("{}_{}", path.stem().string(), i), text);
      all = all && !text.empty();
    }
  }
  if (!all) fmt::print("not every kernel of {} runs\n", path.string());
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: ptx_seeds FOLDER [FILE.ptx ...]\n");
    return 2;
  }
  std::filesystem::create_directories(argv[1]);
  bool all = write_rows(argv[1]) > 0;
  for (int i = 2; i < argc; ++i) all = write_kernels(argv[1], argv[i]) && all;
  return all ? 0 : 1;
}
