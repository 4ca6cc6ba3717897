// A corpus in one file: the inputs that fuzzing found worth keeping, in the order of their names.
//
//   2 inputs            how many
//   NAME LENGTH         of the first: letters, digits, '_', '.', '-'; bytes in decimal
//   ...                 its bytes, whatever they are, and a line end
//   NAME LENGTH
//   ...
//
// libFuzzer wants a folder with a file per input: fuzz_corpus (fuzz_corpus.cpp) makes one, and adds
// what was found. Used by that program and by the tests that run the corpora.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lssar::test {

struct CorpusInput {
  std::string name;
  std::string bytes;
  bool operator==(const CorpusInput&) const = default;
};

// kInvalidArgument: a name that is not allowed, or that two inputs with different bytes have. The
// same input twice is one.
Result<std::string> pack_corpus(std::vector<CorpusInput> inputs);

// kInvalidArgument says at which byte the file is not what pack_corpus writes, and why.
Result<std::vector<CorpusInput>> parse_corpus(std::string_view packed);

// Errors name the path.
Result<std::vector<CorpusInput>> read_corpus(const std::string& path);
Status write_corpus(const std::string& path, std::vector<CorpusInput> inputs);

// The files of a folder as inputs with their names.
Result<std::vector<CorpusInput>> read_input_folder(const std::string& folder);
// Makes the folder, which must be missing or empty, with a file per input.
Status write_input_folder(const std::string& folder, const std::vector<CorpusInput>& inputs);

// Those of `found` whose bytes no input of `corpus` has, each set of bytes once.
std::vector<CorpusInput> new_inputs(const std::vector<CorpusInput>& corpus,
                                    const std::vector<CorpusInput>& found);

}  // namespace lssar::test
