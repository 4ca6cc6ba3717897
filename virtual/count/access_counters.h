// What the memory accesses of a launch add up to, by op. The handlers report every warp's access;
// KernelCounts (kernel_counts.h) owns and sums the counters.
//
// One thread at a time. NOTE: included by the handlers, like program.h: plain data only.
#pragma once

#include <cstdint>

#include "virtual/program/program.h"
#include "virtual/ptx/state_space.h"

namespace lssar::vdev {

struct Warp;

// The accesses of one op. The op itself says whether it reads, writes or both; cp.async reads
// global memory and writes shared memory.
struct OpAccess {
  uint64_t global_requests;  // executions with a lane in global memory
  uint64_t global_bytes;     // asked for, by all lanes
  uint64_t global_sectors;   // of 32 bytes, touched; once per request
  uint64_t global_excess;    // sectors beyond those that the bytes would fill
  uint64_t shared_requests;
  uint64_t shared_bytes;
  uint64_t shared_wavefronts;  // passes over the 32 banks
  uint64_t shared_ideal;       // wavefronts without conflicts
};

enum class TmaDirection : uint8_t { kLoad, kStore, kReduce };
inline constexpr int kNumTmaDirections = 3;

struct AccessCounters {
  const Op* ops;         // the program's
  const uint8_t* modes;  // AccessMode, by op (instruction_class.h)
  OpAccess* by_op;
  uint64_t tma_bytes[kNumTmaDirections];
};

// Counts one access of `bytes` (a power of two up to 32) by every lane of warp.mask. REQUIRES:
// warp.counters is set, and `op` is one of the program's.
void count_access(const Warp& warp, const Op& op, StateSpace space, const uint64_t* addresses,
                  uint32_t bytes);

// Counts the bytes of a bulk copy, once per copy. Counts nothing if `counters` is null.
void count_tma(AccessCounters* counters, TmaDirection direction, uint64_t bytes);

}  // namespace lssar::vdev
