// What handlers see of a running warp: registers, lanes, the memory it may touch, and its
// asynchronous copies. One thread runs a warp at a time.
//
// NOTE: compiled for several instruction sets, like program.h: plain data only.
#pragma once

#include <cstdint>

#include "virtual/program/program.h"
#include "virtual/ptx/state_space.h"
#include "virtual/state/approx_mode.h"
#include "virtual/state/async_timing.h"

namespace lssar::vdev {

struct Cta;             // cta.h
struct AccessCounters;  // access_counters.h

// What the strict mode wants to know after every instruction of a warp.
struct WarpChecks {
  bool tainted;             // some register holds an undefined value
  bool loaded_taint;        // the instruction read one of them
  uint32_t loaded[kLanes];  // lanes, by element of a vector or matrix
};

// One cp.async of a warp that is issued and not yet delivered. It is delivered at the latest at the
// wait for it.
struct AsyncCopy {
  uint8_t* target[kLanes];
  const uint8_t* source[kLanes];
  uint32_t group[kLanes];        // the lane's commit count when it was issued
  uint8_t source_bytes[kLanes];  // the rest of `bytes` is filled with zeros
  uint32_t mask;                 // lanes whose copy is not delivered yet
  uint32_t bytes;
};

struct AsyncQueue {
  AsyncCopy* items;
  uint32_t size;
  uint32_t capacity;
  uint32_t commits[kLanes];  // cp.async groups committed
  uint32_t waited[kLanes];   // groups waited for
  AsyncTiming timing;        // never kBySeed: the seed has decided already
};

// Lanes that run together. A warp has at most 32 splits, with disjoint masks.
enum class WaitKind : uint8_t {
  kNone,
  kBarrier,   // bar.sync `barrier`
  kConverge,  // a collective of the warp: until `need` lanes stand at the same op
  kWarpSync,  // bar.warp.sync: until `need` lanes stand at any of them
  kBlocked,   // executes the op again at the warp's next turn
  kPolled,    // a wait failed: goes on at the warp's next turn
};
struct Split {
  uint32_t block;
  uint32_t op;  // within the block
  uint32_t mask;
  uint32_t need;       // of kConverge and kWarpSync
  const Op* waits_at;  // null for kNone only
  uint8_t barrier;
  WaitKind wait;
};

struct Warp {
  uint8_t* registers;
  uint32_t mask;  // lanes of the instruction being executed
  uint32_t live;  // lanes that exist and have not exited

  // The global range of the last access.
  uint64_t range_begin;
  uint64_t range_bytes;

  uint8_t* shared;
  uint32_t shared_begin;  // its address: the block's rank in its cluster << kRankShift
  uint32_t shared_bytes;
  uint8_t* local;  // lane i's part begins at i * local_bytes
  uint32_t local_bytes;
  const uint8_t* params;
  uint32_t params_bytes;

  // Set by a collective that lacks lanes: the op is executed again once they have come.
  uint32_t missing;
  bool missing_any_op;  // they may come to any bar.warp.sync (kWarpSync), else to this op alone
  bool blocked;         // set by block_on
  uint32_t polled;      // lanes whose wait failed; set by poll_failed
  const Op* polled_op;

  ApproxMode approx;
  uint32_t elect_seed;       // 0: elect.sync elects the lowest lane, else one drawn from it
  uint32_t carry;            // CC.CF of each lane
  AccessCounters* counters;  // null: nothing is counted
  WarpChecks* checks;        // null: not strict

  uint32_t index;  // in its block
  uint32_t agent;  // in its cluster
  Cta* cta;
  AsyncQueue async;
  uint32_t num_splits;
  Split splits[kLanes];
};

// Faults stop the launch. They throw (through the handlers, to the block runner) and so never
// return.
enum class MemoryFault : uint8_t { kOutOfRange, kMisaligned, kReadOnly, kBadSpace, kOtherBlock };
[[noreturn]] void raise_memory_fault(const Warp& warp, const Op& op, MemoryFault fault,
                                     StateSpace space, uint32_t lane, uint64_t address,
                                     uint32_t bytes);
[[noreturn]] void raise_fault(const Warp& warp, const Op& op, const char* message);

// Makes the warp's last range the one that holds the bytes; false if none does.
bool find_global_range(Warp& warp, uint64_t address, uint32_t bytes);

// The op waits: it returns without effect and is executed again at the warp's next turn.
void block_on(Warp& warp, const Op& op);
// A wait that failed for these lanes: the warp goes on, but lets others have their turn first.
void poll_failed(Warp& warp, const Op& op, uint32_t lanes);
// The shared memory of another block of the cluster: `bytes` at a shared address, or null. Faults
// where the instruction is on the block's own only.
uint8_t* shared_of_other(const Warp& warp, const Op& op, uint32_t lane, uint64_t address,
                         uint32_t bytes);

// Strict mode: every access of an instruction, addresses by lane (those of lanes that are not
// active mean nothing).
void check_access(Warp& warp, const Op& op, StateSpace space, const uint64_t* addresses,
                  uint32_t bytes);

// The instruction of the last check_access has read and written memory.
void note_access_done(Warp& warp);

void check_warp_sync(Warp& warp);
// Bytes of a cp.async have arrived.
void check_delivered(Warp& warp, const uint8_t* target, uint32_t bytes);

// Makes room for one more.
void grow_async_queue(AsyncQueue& queue);

// Instructions executed by this block so far: what %clock counts.
uint64_t read_block_clock(const Warp& warp);
uint64_t read_global_timer();

}  // namespace lssar::vdev
