// wgmma: the products that warp groups have in flight, when each takes effect, and what the strict
// mode reports about them. The block runner owns it; only its thread uses it.
//
// The n-th wgmma of each of a group's four warps is one operation. Each warp issues its quarter.
// Once all four have, the operation takes effect at a moment that the launch's AsyncTiming draws,
// at the latest when one of the warps has to wait for it. It then reads its operands in shared
// memory and the registers of A, and writes the sums to a buffer. A warp finds the sums in its
// registers after it has waited itself. Until then these registers hold NaN, so that a missing wait
// shows with any timing.
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

  // Call it before a cluster.
  void reset();

  // The instructions.
  void issue(Warp& warp, const Op& op);
  void fence(Warp& warp, const Op& op);
  void commit(Warp& warp, const Op& op);
  void wait(Warp& warp, const Op& op);

  // With AsyncTiming::kRandom: some operations take effect.
  void step();

  // Strict mode. touch: an instruction other than wgmma is about to read or write registers that
  // some wgmma of the kernel uses.
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
    uint32_t issued = 0;  // the warps that have issued their quarter, as a mask
    Buffer* sums[kWarpsPerGroup] = {};
    std::shared_ptr<const WgmmaTile> a[kWarpsPerGroup];  // each warp's rows; null: in registers
    std::shared_ptr<const WgmmaTile> b;
    CheckedReads b_reads;
  };
  struct Group {
    std::vector<std::unique_ptr<Operation>> operations;
    uint32_t first = 0;  // number of operations[0]
    uint32_t done = 0;   // operations that have taken effect
  };
  // A warp's accumulators that an operation in flight writes.
  struct Sums {
    const Op* op;
    uint32_t last;  // number of the last operation that writes them
    Buffer* buffer;
  };
  // Strict mode, for each register.
  struct RegisterUse {
    uint32_t flight_end = 0;  // in flight until this many operations were waited for
    uint32_t flight_op = 0;
    uint32_t touch_epoch = 0;  // the epoch of the last read or write by another instruction
    uint32_t touch_op = 0;
  };
  struct WarpState {
    uint32_t issued = 0;
    uint32_t waited = 0;
    std::vector<uint32_t> group_ends;  // at each commit in flight: how many operations were issued
    std::vector<Sums> sums;
    bool fenced = false;
    uint32_t epoch = 1;  // wgmma.fences executed, plus 1
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
  std::unordered_map<uint32_t, uint32_t> touched_;  // reports made, by operation
  WgmmaTiles tiles_;
  CheckedReads a_reads_;  // of one warp; a member so that its memory is reused
};

// Handlers.
void wgmma_issue(Warp& warp, const Op& op);
void wgmma_fence(Warp& warp, const Op& op);
void wgmma_commit(Warp& warp, const Op& op);
void wgmma_wait(Warp& warp, const Op& op);

}  // namespace lssar::vdev
