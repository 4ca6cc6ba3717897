// Occupancy: how many blocks of a kernel an SM holds at once, and what keeps it from more.
//
// Rules of NVIDIA's CUDA C++ Programming Guide, "Hardware Multithreading": registers are given to
// warps in units of 256, shared memory to blocks in units of 128 bytes with 1 KiB that the system
// keeps per block. Threads: pure functions.
#pragma once

#include <string>

#include "codegen/target.h"

namespace lssar {

struct Occupancy {
  int blocks = 0;  // per SM; 0: a block does not fit
  int warps = 0;   // of them
  int most_warps = 0;
  std::string limit;  // "registers", "shared memory", "threads" or "blocks"

  double share() const { return most_warps == 0 ? 0 : double(warps) / most_warps; }
};

// `registers` per thread (-1: not known, and then no limit), `shared_bytes` of a block, static and
// dynamic.
Occupancy occupancy(const Target& target, int threads, int registers, int shared_bytes);

}  // namespace lssar
