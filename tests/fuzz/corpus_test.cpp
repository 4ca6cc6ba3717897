// Without libFuzzer: the texts that fuzzing found worth keeping, one of every row of the opcode
// table, and changes of both from a fixed seed. What is checked is that the process survives, and
// in the harness that every error says something.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/fuzz/ptx_harness.h"
#include "tests/fuzz/ptx_mutator.h"

namespace lssar::test {
namespace {

// The folder's files; `end` is how their names end.
std::vector<std::string> read_folder(const char* folder, std::string_view end) {
  std::map<std::string, std::string> files;  // in an order of their own
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.path().filename().string().ends_with(end)) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    files[entry.path().filename()] = text.str();
  }
  std::vector<std::string> texts;
  for (auto& [name, text] : files) texts.push_back(std::move(text));
  return texts;
}

std::vector<std::string> read_corpus() { return read_folder(LSSAR_FUZZ_CORPUS, ""); }

// The first text of the row that loads; empty: none of them did.
std::string loading_kernel(PtxMutator& mutator, const vdev::Row& row) {
  constexpr int kTries = 300;
  for (int i = 0; i < kTries; ++i) {
    const std::string text = PtxMutator::kernel("BEGIN:\n" + mutator.instruction(row));
    if (run_ptx_input(text) != PtxOutcome::kRefused) return text;
  }
  return "";
}

TEST(PtxCorpus, EveryTextReturns) {
  const std::vector<std::string> corpus = read_corpus();
  ASSERT_GE(corpus.size(), 20u) << LSSAR_FUZZ_CORPUS;
  size_t ran = 0;
  for (const std::string& text : corpus) {
    const PtxOutcome outcome = run_ptx_input(text);
    ran += outcome == PtxOutcome::kReported || outcome == PtxOutcome::kClean;
  }
  EXPECT_GE(ran, corpus.size() / 4);  // else the corpus has gone stale
}

TEST(PtxCorpus, ChangedTextsReturn) {
  constexpr int kChanges = 4;
  const std::vector<std::string> corpus = read_corpus();
  PtxMutator mutator(1);
  for (size_t i = 0; i < corpus.size(); ++i) {
    std::string text = mutator.splice(corpus[i], corpus[(i * 7 + 1) % corpus.size()]);
    for (int k = 0; k < kChanges; ++k) {
      run_ptx_input(text);
      text = mutator.mutate(text);
    }
  }
}

// The kernels of tests/virtual/data: longer, and with synchronisation that works.
TEST(PtxCorpus, KernelsAndTheirChangesReturn) {
  constexpr uint32_t kFirstLines = 8;
  const std::vector<std::string> modules = read_folder(LSSAR_PTX_DATA, ".ptx");
  ASSERT_GE(modules.size(), 9u) << LSSAR_PTX_DATA;
  PtxMutator mutator(4);
  for (const std::string& module : modules) {
    const std::vector<std::string> kernels = split_kernels(module);
    ASSERT_FALSE(kernels.empty()) << module.substr(0, 200);
    for (const std::string& kernel : kernels) {
      size_t ran = 0;
      for (uint32_t i = 0; i < kFirstLines; ++i) {
        const std::string text = "// " + std::to_string(i) + "\n" + kernel;
        const PtxOutcome outcome = run_ptx_input(text);
        ran += outcome == PtxOutcome::kReported || outcome == PtxOutcome::kClean;
        run_ptx_input(mutator.mutate(text));
      }
      EXPECT_GT(ran, 0u) << kernel.substr(0, 600);
    }
  }
}

TEST(PtxTable, MostRowsCanBeGeneratedAndRun) {
  PtxMutator mutator(2);
  std::string failed;
  size_t count = 0;
  for (const vdev::Row* row : mutator.rows()) {
    if (!loading_kernel(mutator, *row).empty()) {
      ++count;
    } else {
      failed += std::string("\n  ") + row->opcode;
    }
  }
  // Those that need strings, tables or a rare match of modifiers are left to the corpus.
  EXPECT_GE(count, mutator.rows().size() * 98 / 100) << failed;
}

}  // namespace
}  // namespace lssar::test
