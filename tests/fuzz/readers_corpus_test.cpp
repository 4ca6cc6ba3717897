// Without libFuzzer: the inputs that fuzzing found worth keeping, what it began with, and changes of
// both from fixed seeds. What is checked is that the process survives, and in the harness of each
// reader its properties.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/fuzz/reader_mutator.h"
#include "tests/fuzz/readers.h"

namespace lssar::test {

void PrintTo(const Reader& reader, std::ostream* out) { *out << reader.name; }

namespace {

std::vector<std::string> read_corpus(const char* reader) {
  std::map<std::string, std::string> files;  // in an order of their own
  const std::filesystem::path folder = std::filesystem::path(LSSAR_FUZZ_CORPORA) / reader;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    files[entry.path().filename()] = bytes.str();
  }
  std::vector<std::string> inputs;
  for (auto& [name, bytes] : files) inputs.push_back(std::move(bytes));
  return inputs;
}

class ReaderCorpus : public testing::TestWithParam<Reader> {};

TEST_P(ReaderCorpus, EveryInputReturns) {
  const std::vector<std::string> corpus = read_corpus(GetParam().name);
  ASSERT_FALSE(corpus.empty()) << LSSAR_FUZZ_CORPORA;
  for (const std::string& input : corpus) GetParam().run(input);
}

TEST_P(ReaderCorpus, ChangedSeedsReturn) {
  constexpr uint32_t kChanges = 20;
  const auto seeds = reader_seeds(GetParam().name);
  ASSERT_GE(seeds.size(), 5u);
  for (uint32_t i = 0; i < seeds.size(); ++i) {
    std::string input = seeds[i].second;
    for (uint32_t k = 0; k < kChanges; ++k) {
      GetParam().run(input);
      input = mutate_input(GetParam().name, input, i * kChanges + k);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReaderCorpus, testing::ValuesIn(kReaders),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace lssar::test
