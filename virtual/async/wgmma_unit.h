// wgmma: the products that warp groups have in flight, when each takes effect, and what the strict
// mode has to say about them. Owned by the block runner, used by its thread only.
//
// The n-th wgmma of each of a group's four warps is one operation. Each warp issues its quarter;
// once all four have, the operation takes effect at a moment that the launch's AsyncTiming draws,
// at the latest when one of the warps has to wait for it: operands in shared memory and registers
// of A are read then, sums go to a buffer. A warp finds them in its registers after it has waited
// itself; until then these hold NaN, so that a missing wait shows whatever the timing.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "virtual/async/wgmma_tiles.h"
#include "virtual/check/checker.h"
#include "virtual/program/program.h"
#include "virtual/program/wgmma.h"

namespace lssar::vdev {

struct Cluster;
struct Warp;

class WgmmaUnit {
 public:
  explicit WgmmaUnit(Cluster& cluster);
  ~WgmmaUnit();

  // Before a cluster.
  void reset();

  // The instructions.
  void issue(Warp& warp, const Op& op);
  void fence(Warp& warp, const Op& op);
  void commit(Warp& warp, const Op& op);
  void wait(Warp& warp, const Op& op);

  // With AsyncTiming::kRandom: some operations take effect.
  void step();

  // Strict mode: an instruction other than wgmma is about to read or write registers that some
  // wgmma of the kernel uses; a warp has ended.
  void touch(Warp& warp, const Op& op);
  void warp_ended(Warp& warp, const Op& op);

 private:
  static constexpr uint32_t kMaxSums = kWgmmaMaxColumns / 2;
  struct alignas(64) Buffer {
    uint32_t value[kMaxSums * kLanes];
  };
  // What the warps of a group must agree on.
  struct Operands {
    const Op* op = nullptr;
    uint64_t a = 0;  // descriptors
    uint64_t b = 0;
    bool accumulate = false;
  };
  struct Operation {
    Operands operands;
    uint32_t issued = 0;  // by the warps of this mask
    Buffer* sums[kWarpsPerGroup] = {};
    std::shared_ptr<const WgmmaTile> a[kWarpsPerGroup];  // each warp's rows; null: in registers
    std::shared_ptr<const WgmmaTile> b;
    CheckedReads b_reads;
  };
  struct Group {
    std::vector<std::unique_ptr<Operation>> operations;
    uint32_t first = 0;  // number of operations[0]
    uint32_t done = 0;   // how many have taken effect
  };
  // Accumulators of a warp that an operation in flight writes.
  struct Sums {
    const Op* op;
    uint32_t last;  // number of the operation that writes them last
    Buffer* buffer;
  };
  // By register, of the strict mode.
  struct RegisterUse {
    uint32_t flight_end = 0;  // in flight until this many operations are waited for
    uint32_t flight_op = 0;
    uint32_t touch_epoch = 0;  // of the last read or write by another instruction
    uint32_t touch_op = 0;
  };
  struct WarpState {
    uint32_t issued = 0;
    uint32_t waited = 0;
    std::vector<uint32_t> group_ends;  // operations issued at the last commits
    std::vector<Sums> sums;
    bool fenced = false;
    uint32_t epoch = 1;  // wgmma.fences executed, and 1
    std::vector<RegisterUse> uses;
  };

  uint32_t group_index(const Warp& warp) const;
  uint32_t first_agent(uint32_t group) const;
  bool lacks_lanes(Warp& warp, const Op& op) const;
  Operation& operation(Warp& warp, const Op& op, Group& group);
  static Operands read_operands(const Warp& warp, const Op& op);
  void compare(const Warp& warp, const Op& op, const Operands& theirs, const Operands& mine) const;
  std::shared_ptr<const WgmmaTile> tile(const Warp& warp, const Op& op, const WgmmaTileKey& key,
                                        char which);
  void find_tiles(const Warp& warp, const Op& op, Operation& operation);
  Buffer* take_sums(Warp& warp, const Op& op, bool accumulate);
  void return_sums(Warp& warp, uint32_t upto);
  uint32_t complete(uint32_t group) const;
  void take_effect(uint32_t group, uint32_t upto);
  void execute(uint32_t group, const Operation& operation);
  void drop_waited(uint32_t group);

  void check_issue(Warp& warp, const Op& op, Operation& operation, uint32_t number);
  void check_shared(Warp& warp, const Op& op, const WgmmaTile& tile, uint32_t number,
                    CheckedReads& reads);
  void check_registers(Warp& warp, const Op& op, uint32_t number);
  void check_register(Warp& warp, const Op& op, uint32_t offset, bool sum);
  void report_touch(Warp& warp, const Op& op, const RegisterUse& use, bool writes);
  void taint_sums(Warp& warp, const Op& op, bool accumulate);
  RegisterUse* uses_of(WarpState& state) const;  // by offset / 64

  Cluster& cluster_;
  std::vector<Group> groups_;
  std::vector<WarpState> states_;  // by warp
  std::vector<std::unique_ptr<Operation>> free_operations_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<Buffer*> free_buffers_;
  std::vector<uint32_t> buffer_offsets_;            // of the registers of a buffer
  std::unordered_map<uint32_t, uint32_t> touched_;  // reports, by operation
  WgmmaTiles tiles_;
  CheckedReads a_reads_;  // of one warp, kept for its memory
};

// Handlers.
void wgmma_issue(Warp& warp, const Op& op);
void wgmma_fence(Warp& warp, const Op& op);
void wgmma_commit(Warp& warp, const Op& op);
void wgmma_wait(Warp& warp, const Op& op);

}  // namespace lssar::vdev
