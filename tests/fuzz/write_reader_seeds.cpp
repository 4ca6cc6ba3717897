// Writes what the fuzzer of a reader begins with.
//
//   reader_seeds READER FOLDER
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "tests/fuzz/readers.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: reader_seeds READER FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[2];
  std::filesystem::create_directories(folder);
  for (const auto& [name, bytes] : lssar::test::reader_seeds(argv[1])) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
  }
  return 0;
}
