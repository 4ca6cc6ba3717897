// Runs, without libFuzzer, the inputs that fuzzing found worth keeping, the seeds it began with,
// and changes of the seeds. The test checks that the process survives; the harness of each reader
// checks the reader's properties.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/fuzz/corpus_file.h"
#include "tests/fuzz/reader_mutator.h"
#include "tests/fuzz/readers.h"

namespace lssar::test {

void PrintTo(const Reader& reader, std::ostream* out) { *out << reader.name; }

namespace {

class ReaderCorpus : public testing::TestWithParam<Reader> {
 protected:
  void TearDown() override { std::printf("%zu inputs ran\n", ran_); }
  void run(const std::string& input) {
    ++ran_;
    GetParam().run(input);
  }

  size_t ran_ = 0;
};

TEST_P(ReaderCorpus, EveryInputReturns) {
  const auto corpus =
      read_corpus(std::string(LSSAR_FUZZ_CORPORA "/") + GetParam().name + ".corpus");
  ASSERT_TRUE(corpus.ok()) << corpus.status().message();
  ASSERT_FALSE(corpus->empty());
  for (const CorpusInput& input : *corpus) run(input.bytes);
  EXPECT_EQ(ran_, corpus->size());
}

TEST_P(ReaderCorpus, ChangedSeedsReturn) {
  constexpr uint32_t kChanges = 20;
  const auto seeds = reader_seeds(GetParam().name);
  ASSERT_GE(seeds.size(), 5u);
  for (uint32_t i = 0; i < seeds.size(); ++i) {
    std::string input = seeds[i].second;
    for (uint32_t k = 0; k < kChanges; ++k) {
      run(input);
      input = mutate_input(GetParam().name, input, i * kChanges + k);
    }
  }
  EXPECT_EQ(ran_, seeds.size() * kChanges);
}

INSTANTIATE_TEST_SUITE_P(All, ReaderCorpus, testing::ValuesIn(kReaders),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace lssar::test
