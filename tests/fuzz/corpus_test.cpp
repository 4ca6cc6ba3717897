// Runs, without libFuzzer, the texts that fuzzing found worth keeping, one of every row of the
// opcode table, and changes of both from a fixed seed. The test checks that the process survives;
// the harness checks that every error says something.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/fuzz/corpus_file.h"
#include "tests/fuzz/ptx_harness.h"
#include "tests/fuzz/ptx_mutator.h"

namespace lssar::test {
namespace {

// The PTX files of the folder, in the order of their names.
std::vector<std::string> read_modules(const char* folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".ptx") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    files[entry.path().filename()] = text.str();
  }
  std::vector<std::string> texts;
  for (auto& [name, text] : files) texts.push_back(std::move(text));
  return texts;
}

class PtxCorpus : public testing::Test {
 protected:
  void SetUp() override {
    auto inputs = read_corpus(LSSAR_FUZZ_CORPORA "/ptx.corpus");
    ASSERT_TRUE(inputs.ok()) << inputs.status().message();
    ASSERT_FALSE(inputs->empty());
    corpus_ = std::move(*inputs);
  }
  void TearDown() override { std::printf("%zu inputs ran\n", ran_); }

  PtxOutcome run(const std::string& text) {
    ++ran_;
    return run_ptx_input(text);
  }

  std::vector<CorpusInput> corpus_;
  size_t ran_ = 0;
};

// The first text of the row that loads; empty: none of them did.
std::string loading_kernel(PtxMutator& mutator, const vdev::Row& row) {
  constexpr int kTries = 300;
  for (int i = 0; i < kTries; ++i) {
    const std::string text = PtxMutator::kernel("BEGIN:\n" + mutator.instruction(row));
    if (run_ptx_input(text) != PtxOutcome::kRefused) return text;
  }
  return "";
}

TEST_F(PtxCorpus, EveryTextReturns) {
  size_t loaded = 0;
  for (const CorpusInput& input : corpus_) {
    const PtxOutcome outcome = run(input.bytes);
    loaded += outcome == PtxOutcome::kReported || outcome == PtxOutcome::kClean;
  }
  EXPECT_EQ(ran_, corpus_.size());
  EXPECT_GE(loaded, corpus_.size() / 4) << "the corpus no longer fits the device";
}

TEST_F(PtxCorpus, ChangedTextsReturn) {
  constexpr size_t kChanges = 4;
  PtxMutator mutator(1);
  for (size_t i = 0; i < corpus_.size(); ++i) {
    const size_t other = (i * 7 + 1) % corpus_.size();
    std::string text = mutator.splice(corpus_[i].bytes, corpus_[other].bytes);
    for (size_t k = 0; k < kChanges; ++k) {
      run(text);
      text = mutator.mutate(text);
    }
  }
  EXPECT_EQ(ran_, corpus_.size() * kChanges);
}

// The kernels of tests/virtual/data: longer, and with synchronisation that works.
TEST_F(PtxCorpus, KernelsAndTheirChangesReturn) {
  constexpr uint32_t kFirstLines = 8;
  const std::vector<std::string> modules = read_modules(LSSAR_PTX_DATA);
  ASSERT_GE(modules.size(), 9u) << LSSAR_PTX_DATA;
  PtxMutator mutator(4);
  for (const std::string& module : modules) {
    const std::vector<std::string> kernels = split_kernels(module);
    ASSERT_FALSE(kernels.empty()) << module.substr(0, 200);
    for (const std::string& kernel : kernels) {
      size_t loaded = 0;
      for (uint32_t i = 0; i < kFirstLines; ++i) {
        const std::string text = "// " + std::to_string(i) + "\n" + kernel;
        const PtxOutcome outcome = run(text);
        loaded += outcome == PtxOutcome::kReported || outcome == PtxOutcome::kClean;
        run(mutator.mutate(text));
      }
      EXPECT_GT(loaded, 0u) << kernel.substr(0, 600);
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
