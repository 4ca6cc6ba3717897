// A file with the launches of one pass of a CPU kernel, for a program that runs them elsewhere
// (launch_program.cpp). It has, in the machine's byte order:
//
//   LaunchFileHeader
//   the argument of the kernel's functions, AttentionParams
//   LaunchFileStep [num_steps]
//   LaunchFileMemory [num_memory], each followed by its bytes
//
// Where a word of the argument is an address in one of the memories, it is a pointer. Afterwards
// the program overwrites the file with what the memories then hold.
#pragma once

#include <cstdint>

struct LaunchFileHeader {
  uint64_t params_bytes;
  uint64_t num_steps;
  uint64_t num_memory;
};

struct LaunchFileStep {
  char entry[64];
  uint64_t first_block, num_blocks;
  uint64_t scratch_bytes;
};

struct LaunchFileMemory {
  uint64_t address;  // where the writer of the file had it
  uint64_t bytes;
};
