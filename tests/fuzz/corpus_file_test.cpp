// The format of the packed corpora, and the way to a folder and back. What cannot be read exactly
// is an error: a corpus that lost inputs would test less, and nobody would see it.
#include "tests/fuzz/corpus_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "tests/cache/temporary_folder.h"

namespace lssar::test {
namespace {

using Inputs = std::vector<CorpusInput>;

Inputs some_inputs() {
  return {{"a-1", std::string("\0\n 3\n", 5)}, {"b.ptx", ""}, {"b_2", "no end of line"}};
}

std::string error_of(std::string_view packed) {
  const auto parsed = parse_corpus(packed);
  return parsed.ok() ? "" : parsed.status().message();
}

TEST(CorpusFile, ReadsWhatItWrites) {
  const auto packed = pack_corpus(some_inputs());
  ASSERT_TRUE(packed.ok()) << packed.status().message();
  EXPECT_EQ(*packed,
            std::string("3 inputs\na-1 5\n\0\n 3\n\nb.ptx 0\n\nb_2 14\nno end of line\n", 52));
  const auto parsed = parse_corpus(*packed);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(*parsed, some_inputs());
}

TEST(CorpusFile, OrderIsThatOfTheNames) {
  Inputs reversed = some_inputs();
  std::swap(reversed.front(), reversed.back());
  reversed.push_back(reversed[1]);  // the same input twice is one
  EXPECT_EQ(*pack_corpus(reversed), *pack_corpus(some_inputs()));
}

TEST(CorpusFile, NamesAreThoseOfFilesInAFolder) {
  for (const char* name : {"", ".", "..", "../a", "a b", "a\n", "\xc3\xa4"}) {
    const auto packed = pack_corpus({{name, "x"}});
    ASSERT_FALSE(packed.ok()) << name;
    EXPECT_NE(packed.status().message().find("allowed are letters"), std::string::npos);
  }
  const auto packed = pack_corpus({{"a", "x"}, {"a", "y"}});
  ASSERT_FALSE(packed.ok());
  EXPECT_EQ(packed.status().message(), "two inputs with different bytes are named \"a\"");
}

// Cut anywhere, it is an error; so is a byte too many.
TEST(CorpusFile, NoPartOfItIsACorpus) {
  const std::string packed = *pack_corpus(some_inputs());
  for (size_t size = 0; size < packed.size(); ++size) {
    EXPECT_FALSE(parse_corpus(packed.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(parse_corpus(packed + "\n").ok());
}

TEST(CorpusFile, ErrorsSayWhereAndWhy) {
  EXPECT_EQ(error_of(""), "byte 0: the line does not end");
  EXPECT_EQ(error_of("many inputs\n"), "byte 0: the first line is not \"COUNT inputs\"");
  EXPECT_EQ(error_of("01 inputs\na 1\nx\n"), "byte 0: the first line is not \"COUNT inputs\"");
  EXPECT_EQ(error_of("2 inputs\na 1\nx\n"),
            "byte 15: there are 1 inputs, and the first line says 2");
  EXPECT_EQ(error_of("1 inputs\na\nx\n"), "byte 9: the line is not \"NAME LENGTH\"");
  EXPECT_EQ(error_of("1 inputs\na -1\nx\n"), "byte 9: the line is not \"NAME LENGTH\"");
  EXPECT_EQ(error_of("1 inputs\n../a 1\nx\n"), "byte 9: the line is not \"NAME LENGTH\"");
  EXPECT_EQ(error_of("1 inputs\na 18446744073709551615\nx\n"),
            "byte 9: \"a\" has 18446744073709551615 bytes and a line end, and 2 bytes are left");
  EXPECT_EQ(error_of("1 inputs\na 1\nxy\n"), "byte 14: no line end after the 1 bytes of \"a\"");
  EXPECT_EQ(error_of("2 inputs\nb 1\nx\na 1\ny\n"), "byte 21: \"a\" does not come after \"b\"");
  EXPECT_EQ(error_of("2 inputs\na 1\nx\na 1\ny\n"), "byte 21: \"a\" does not come after \"a\"");
}

TEST(CorpusFile, GoesToAFolderAndBack) {
  const TemporaryFolder folder;
  const std::string unpacked = folder.path() + "/inputs", path = folder.path() + "/some.corpus";
  ASSERT_TRUE(write_input_folder(unpacked, some_inputs()).ok());
  EXPECT_FALSE(write_input_folder(unpacked, some_inputs()).ok()) << "it is not empty";
  const auto inputs = read_input_folder(unpacked);
  ASSERT_TRUE(inputs.ok()) << inputs.status().message();
  ASSERT_TRUE(write_corpus(path, *inputs).ok());
  EXPECT_EQ(*read_corpus(path), some_inputs());

  ASSERT_TRUE(write_file_atomically(path, "1 inputs\n").ok());
  EXPECT_EQ(read_corpus(path).status().message(),
            path + ": byte 9: there are 0 inputs, and the first line says 1");
}

TEST(CorpusFile, AddsOnlyBytesThatItLacks) {
  const Inputs corpus = {{"a", "x"}, {"b", "y"}};
  const Inputs found = {{"c", "y"}, {"d", "z"}, {"e", "z"}};
  EXPECT_EQ(new_inputs(corpus, found), (Inputs{{"d", "z"}}));
}

}  // namespace
}  // namespace lssar::test
