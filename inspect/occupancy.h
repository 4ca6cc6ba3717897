// Occupancy: how many blocks of a kernel an SM holds at once, and what limits their number.
//
// By NVIDIA's CUDA C++ Programming Guide, "Hardware Multithreading": warps get registers in units
// of 256; blocks get shared memory in units of 128 bytes, and the system keeps 1 KiB per block.
// Threads: pure functions.
#pragma once

#include <string>

#include "codegen/target.h"

namespace lssar {

struct Occupancy {
  int blocks = 0;  // per SM; 0: a block does not fit
  int warps = 0;   // of these blocks
  int most_warps = 0;
  std::string limit;  // "registers", "shared memory", "threads" or "blocks"

  double share() const { return most_warps == 0 ? 0 : double(warps) / most_warps; }
};

// `registers` per thread (-1: not known, so they are no limit); `shared_bytes` of a block, static
// and dynamic.
Occupancy occupancy(const Target& target, int threads, int registers, int shared_bytes);

}  // namespace lssar
