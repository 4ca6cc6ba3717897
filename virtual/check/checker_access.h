// What the checker's own functions know of the access that they check. Private to the strict mode's
// files.
#pragma once

#include "virtual/check/checker.h"
#include "virtual/program/kernel_program.h"

namespace lssar::vdev {

// Where a lane's address lies.
struct LanePlace {
  StateSpace space;  // not kGeneric
  bool mapped;       // into the shared memory of another block of the cluster
  uint32_t rank;     // of the block, for shared memory
  uint64_t address;  // in it
};
LanePlace place_of(const Warp& warp, StateSpace space, uint64_t address);

// What all lanes of an instruction's access have in common.
struct LaneAccess {
  const Warp& warp;
  const OpFacts& facts;
  const Knowledge& knowledge;
  StateSpace space;
  const uint64_t* addresses;   // by lane
  Stamp stamp;                 // without lane; for cp.async without time
  uint32_t bytes;              // of a lane
  bool copies;                 // by cp.async
  bool to_shared_copy;         // the destination of a cp.async
  uint32_t done = 0;           // lanes that were checked
  bool any_undefined = false;  // a shared word that was read has undefined bytes

  // Whether a checked lane touched the word: `lane`, or any lane for kWholeWarp.
  bool touched(uint32_t lane, const LanePlace& word) const;
};

// A part of an access, compared with earlier accesses.
struct Checker::Who {
  Warp& warp;
  const Op& op;
  const Knowledge& knowledge;
  uint32_t lane;  // or kWholeWarp
  Stamp stamp;    // without bytes
  bool async;     // by the async proxy
  bool strong;
  const LaneAccess* access = nullptr;  // null: a barrier or an asynchronous operation
  uint32_t together = 0;               // as AsyncIssue has it

  uint32_t lanes() const {
    return together != 0 ? together : lane == kWholeWarp ? warp.live : 1u << lane;
  }
};

}  // namespace lssar::vdev
