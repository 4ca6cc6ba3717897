// Between the packed corpora (corpus_file.h) and the folders and files that libFuzzer works with;
// fuzz.sh uses it.
//
//   fuzz_corpus unpack CORPUS FOLDER           a file per input, in a new or empty folder
//   fuzz_corpus add CORPUS FOLDER-OR-FILE ...  the inputs that the corpus lacks, under their names
//   fuzz_corpus list CORPUS                    names and lengths
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "base/file.h"
#include "tests/fuzz/corpus_file.h"

using namespace lssar;
using namespace lssar::test;

namespace {

constexpr int kFailed = 1, kUsage = 2;

Status unpack(const std::string& path, const std::string& folder) {
  LSSAR_ASSIGN_OR_RETURN(const auto inputs, read_corpus(path));
  LSSAR_RETURN_IF_ERROR(write_input_folder(folder, inputs));
  fmt::print("{} inputs of {} in {}\n", inputs.size(), path, folder);
  return {};
}

Result<std::vector<CorpusInput>> read_inputs(const std::string& place) {
  const std::filesystem::path path = place;
  if (std::filesystem::is_directory(path)) return read_input_folder(place);
  LSSAR_ASSIGN_OR_RETURN(std::string bytes, read_file(place));
  return std::vector<CorpusInput>{{path.filename().string(), std::move(bytes)}};
}

Status add(const std::string& path, const std::vector<std::string>& places) {
  std::vector<CorpusInput> inputs, found;
  if (std::filesystem::exists(path)) {
    LSSAR_ASSIGN_OR_RETURN(inputs, read_corpus(path));
  }
  for (const std::string& place : places) {
    LSSAR_ASSIGN_OR_RETURN(const auto here, read_inputs(place));
    found.insert(found.end(), here.begin(), here.end());
  }
  const auto added = new_inputs(inputs, found);
  inputs.insert(inputs.end(), added.begin(), added.end());
  if (!added.empty()) LSSAR_RETURN_IF_ERROR(write_corpus(path, inputs));
  fmt::print("{}: {} added, {} inputs now\n", path, added.size(), inputs.size());
  return {};
}

Status list(const std::string& path) {
  LSSAR_ASSIGN_OR_RETURN(const auto inputs, read_corpus(path));
  for (const auto& [name, bytes] : inputs) fmt::print("{} {}\n", name, bytes.size());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  Status status;
  if (words.size() == 3 && words[0] == "unpack") {
    status = unpack(words[1], words[2]);
  } else if (words.size() >= 3 && words[0] == "add") {
    status = add(words[1], {words.begin() + 2, words.end()});
  } else if (words.size() == 2 && words[0] == "list") {
    status = list(words[1]);
  } else {
    fmt::print(stderr,
               "usage: fuzz_corpus unpack CORPUS FOLDER\n"
               "       fuzz_corpus add CORPUS FOLDER-OR-FILE ...\n"
               "       fuzz_corpus list CORPUS\n");
    return kUsage;
  }
  if (status.ok()) return 0;
  fmt::print(stderr, "fuzz_corpus: {}\n", status.to_string());
  return kFailed;
}
