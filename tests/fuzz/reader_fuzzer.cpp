// The libFuzzer program of one reader, LSSAR_READER: see CMakeLists.txt for how to build and run it.
#include <algorithm>
#include <cstring>

#include "tests/fuzz/reader_mutator.h"
#include "tests/fuzz/readers.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

const lssar::test::Reader& reader() {
  return *std::find_if(std::begin(lssar::test::kReaders), std::end(lssar::test::kReaders),
                       [](const auto& one) { return std::strcmp(one.name, LSSAR_READER) == 0; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  reader().run({reinterpret_cast<const char*>(data), size});
  return 0;
}

// By what the bytes mean, and as often by bytes.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  if (seed % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string text = lssar::test::mutate_input(
      reader().name, {reinterpret_cast<const char*>(data), size}, seed / 2);
  const size_t written = std::min(text.size(), max_size);
  std::memcpy(data, text.data(), written);
  return written;
}
