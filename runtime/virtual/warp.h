// What a running warp is to the handlers: registers, lanes, the memory it may touch, and its
// asynchronous copies. One thread runs a warp at a time.
//
// NOTE: compiled for several instruction sets, like program.h: plain data only.
#pragma once

#include <cstdint>

#include "runtime/virtual/approx_mode.h"
#include "runtime/virtual/program.h"
#include "runtime/virtual/state_space.h"

namespace lssar::vdev {

struct BlockContext;    // block_runner.h
struct AccessCounters;  // access_counters.h
struct WarpChecks;      // checker.h

// One cp.async of a warp that is issued and not yet delivered. Delivered as late as PTX allows: at
// the wait that says it must have arrived.
struct AsyncCopy {
  uint8_t* target[kLanes];
  const uint8_t* source[kLanes];
  uint32_t group[kLanes];        // the lane's commit count when it was issued
  uint8_t source_bytes[kLanes];  // the rest of `bytes` is zero
  uint32_t mask;                 // lanes still to be delivered
  uint32_t bytes;
};

struct AsyncQueue {
  AsyncCopy* items;
  uint32_t size;
  uint32_t capacity;
  uint32_t commits[kLanes];  // cp.async groups committed
};

// Lanes that run together. At most 32 in a warp, their masks disjoint.
enum class WaitKind : uint8_t {
  kNone,
  kBarrier,   // bar.sync `barrier`
  kConverge,  // a collective of the warp: until `need` lanes stand at the same op
  kWarpSync,  // bar.warp.sync: until `need` lanes stand at any of them
};
struct Split {
  uint32_t block;
  uint32_t op;  // within the block
  uint32_t mask;
  uint32_t need;         // of kConverge and kWarpSync
  const Op* barrier_op;  // of kBarrier
  uint8_t barrier;
  WaitKind wait;
};

struct Warp {
  uint8_t* registers;
  uint32_t mask;  // lanes of the instruction being executed
  uint32_t live;  // lanes that exist and have not exited

  // The global range that was hit last.
  uint64_t range_begin;
  uint64_t range_bytes;

  uint8_t* shared;
  uint32_t shared_bytes;
  uint8_t* local;  // lane i's part begins at i * local_bytes
  uint32_t local_bytes;
  const uint8_t* params;
  uint32_t params_bytes;

  // Set by a collective that lacks lanes: the op is to be executed again when they have come.
  uint32_t missing;
  bool missing_any_op;  // kWarpSync instead of kConverge

  ApproxMode approx;
  uint32_t elect_seed;       // 0: elect.sync elects the lowest lane, else one drawn from it
  uint32_t carry;            // CC.CF of each lane
  AccessCounters* counters;  // null: nothing is counted
  WarpChecks* checks;        // null: not strict

  uint32_t index;  // in its block
  BlockContext* context;
  AsyncQueue async;
  uint32_t num_splits;
  Split splits[kLanes];
};

// Faults stop the launch. They throw (through the handlers, to the block runner) and so never
// return.
enum class MemoryFault : uint8_t { kOutOfRange, kMisaligned, kReadOnly, kBadSpace };
[[noreturn]] void raise_memory_fault(const Warp& warp, const Op& op, MemoryFault fault,
                                     StateSpace space, uint32_t lane, uint64_t address,
                                     uint32_t bytes);
[[noreturn]] void raise_fault(const Warp& warp, const Op& op, const char* message);

// Makes the warp's last range the one that holds the bytes; false if none does.
bool find_global_range(Warp& warp, uint64_t address, uint32_t bytes);

// Makes room for one more.
void grow_async_queue(AsyncQueue& queue);

// Instructions executed by this block so far: what %clock counts.
uint64_t read_block_clock(const Warp& warp);
uint64_t read_global_timer();

}  // namespace lssar::vdev
