// What the checker passes on of the access it is looking at. Private to the strict mode's own
// files.
#pragma once

#include "virtual/check/checker.h"
#include "virtual/program/kernel_program.h"

namespace lssar::vdev {

// Where a lane's address lies.
struct LanePlace {
  StateSpace space;  // not kGeneric
  bool mapped;       // shared memory of another block of the cluster
  uint32_t rank;     // of the block, for shared memory
  uint64_t address;  // in it
};
LanePlace place_of(const Warp& warp, StateSpace space, uint64_t address);

// An instruction's access: what is the same for all its lanes.
struct LaneAccess {
  const Warp& warp;
  const OpFacts& facts;
  const Knowledge& knowledge;
  StateSpace space;
  const uint64_t* addresses;   // by lane
  Stamp stamp;                 // without lane, and for cp.async without time
  uint32_t bytes;              // of a lane
  bool copies;                 // by cp.async
  bool to_shared_copy;         // its destination
  uint32_t done = 0;           // lanes that have been looked at
  bool any_undefined = false;  // a shared word that was read

  // Whether one of the lanes done touched a word: `lane`, or any of them if it is kWholeWarp.
  bool touched(uint32_t lane, const LanePlace& word) const;
};

// A part of an access that is compared with earlier ones.
struct Checker::Who {
  Warp& warp;
  const Op& op;
  const Knowledge& knowledge;
  uint32_t lane;  // or kWholeWarp
  Stamp stamp;    // without bytes
  bool async;     // by the async proxy
  bool strong;
  const LaneAccess* access = nullptr;  // null: by a barrier or an asynchronous operation
  uint32_t together = 0;               // as AsyncIssue has it

  uint32_t lanes() const {
    return together != 0 ? together : lane == kWholeWarp ? warp.live : 1u << lane;
  }
};

}  // namespace lssar::vdev
