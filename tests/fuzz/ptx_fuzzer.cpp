// The libFuzzer program: see CMakeLists.txt for how to build and run it.
#include <cstring>

#include "tests/fuzz/ptx_harness.h"
#include "tests/fuzz/ptx_mutator.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

std::string to_text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

size_t copy_out(const std::string& text, uint8_t* data, size_t max_size) {
  const size_t size = std::min(text.size(), max_size);
  std::memcpy(data, text.data(), size);
  return size;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lssar::test::run_ptx_input({reinterpret_cast<const char*>(data), size});
  return 0;
}

// Mostly by statements and instructions, sometimes by bytes.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  if (seed % 5 == 0) return LLVMFuzzerMutate(data, size, max_size);
  lssar::test::PtxMutator mutator(seed);
  std::string text = to_text(data, size);
  for (unsigned int i = 0; i <= seed / 5 % 4; ++i) text = mutator.mutate(text);
  return copy_out(text, data, max_size);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* first, size_t first_size,
                                            const uint8_t* second, size_t second_size, uint8_t* out,
                                            size_t max_size, unsigned int seed) {
  lssar::test::PtxMutator mutator(seed);
  return copy_out(mutator.splice(to_text(first, first_size), to_text(second, second_size)), out,
                  max_size);
}
