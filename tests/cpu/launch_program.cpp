// Runs the launches of a file (launch_file.h) with the functions of a shared library.
// cpu_sanitizer_test compiles both with sanitizers. Every memory ends where its allocation ends,
// and begins at a multiple of 4 bytes that is no multiple of 8, the least alignment of floats.
//
// Arguments: LIBRARY FILE
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/cpu/launch_file.h"

namespace {

struct Memory {
  LaunchFileMemory described;
  std::vector<char> bytes;  // 4 unused ones first
  char* begin() { return bytes.data() + 4; }
};

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "launch_program: %s\n", what);
  std::exit(1);
}

void read(FILE* file, void* to, size_t bytes) {
  require(std::fread(to, 1, bytes, file) == bytes, "the file is too short");
}

// Points the words of the argument that are addresses of a memory to where it is now.
void relocate(std::vector<uint64_t>& params, std::vector<Memory>& memories) {
  for (uint64_t& word : params)
    for (Memory& memory : memories) {
      const uint64_t offset = word - memory.described.address;
      if (offset >= memory.described.bytes) continue;
      word = reinterpret_cast<uint64_t>(memory.begin()) + offset;
      break;
    }
}

void run(void* library, const LaunchFileStep& step, const std::vector<uint64_t>& params) {
  using Block = void (*)(const void* params, unsigned block, void* scratch);
  const auto function = reinterpret_cast<Block>(dlsym(library, step.entry));
  require(function != nullptr, step.entry);
  void* const scratch = std::aligned_alloc(64, step.scratch_bytes);
  std::memset(scratch, 0xff, step.scratch_bytes);  // NaN
  // The last blocks first, as the device: in the backward a block may wait for later ones.
  for (uint64_t block = step.num_blocks; block-- > 0;)
    function(params.data(), static_cast<unsigned>(step.first_block + block), scratch);
  std::free(scratch);
}

}  // namespace

int main(int argc, char** argv) {
  require(argc == 3, "the arguments are LIBRARY FILE");
  void* const library = dlopen(argv[1], RTLD_NOW);
  require(library != nullptr, "the library does not load");
  FILE* file = std::fopen(argv[2], "rb");
  require(file != nullptr, "the file does not open");
  LaunchFileHeader header;
  read(file, &header, sizeof(header));
  std::vector<uint64_t> params(header.params_bytes / sizeof(uint64_t));
  read(file, params.data(), header.params_bytes);
  std::vector<LaunchFileStep> steps(header.num_steps);
  for (LaunchFileStep& step : steps) read(file, &step, sizeof(step));
  std::vector<Memory> memories(header.num_memory);
  for (Memory& memory : memories) {
    read(file, &memory.described, sizeof(memory.described));
    memory.bytes.resize(4 + memory.described.bytes);
    read(file, memory.begin(), memory.described.bytes);
  }
  std::fclose(file);

  relocate(params, memories);
  for (const LaunchFileStep& step : steps) run(library, step, params);

  file = std::fopen(argv[2], "wb");
  require(file != nullptr, "the file cannot be written");
  for (Memory& memory : memories) std::fwrite(memory.begin(), 1, memory.described.bytes, file);
  require(std::fclose(file) == 0, "the file cannot be written");
  return 0;
}
