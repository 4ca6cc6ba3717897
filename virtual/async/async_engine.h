// Asynchronous operations of a cluster in flight: when each takes effect, and who waits for it.
//
// An operation is issued once its addresses are known and checked. It reads its sources and writes
// its destinations at moments between its issue and the point where its completion is observed; the
// launch's AsyncTiming draws them. Used by the block runner's thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "virtual/state/async_timing.h"
#include "virtual/state/random.h"

namespace lssar::vdev {

struct Mbarrier;

class AsyncOperation {
 public:
  virtual ~AsyncOperation() = default;
  // Reads its sources. Called once, before finish().
  virtual void read() = 0;
  // Writes its destinations and signals completion. Called once.
  virtual void finish() = 0;

  // Who observes its completion: this barrier, or the bulk groups of the threads that issued it
  // together.
  Mbarrier* barrier = nullptr;
  uint32_t warp = 0;         // the agent that issued it; unused with a barrier
  uint32_t lanes = 0;        // of that warp
  uint32_t groups[32] = {};  // by lane: how many groups it had committed at issue
  // Ranks of the blocks whose shared memory it still has to read or write, as bits.
  uint32_t reads_shared_of = 0;
  uint32_t writes_shared_of = 0;
  const struct Op* op = nullptr;  // for reports
  bool was_read = false;
};

class Checker;

// The strict mode's agents for a thread's bulk operations; .read waits see only the reads. The
// first thread of a warp with such operations has agents of its own, the others share theirs.
struct BulkAgents {
  uint32_t reads = 0;
  uint32_t writes = 0;
  bool by_lane = false;  // shared
};

class AsyncEngine {
 public:
  void reset(AsyncTiming timing, Random* random);

  // Takes effect at once with kEarliest.
  void issue(std::unique_ptr<AsyncOperation> operation);

  // Bulk groups. `committed` is 0 for a thread that never committed one.
  void commit_group(uint32_t thread) { ++committed_[thread]; }
  uint32_t committed(uint32_t thread) const;
  // Made on first use.
  BulkAgents agents(uint32_t thread, Checker& checker);
  // Completes all but the latest `pending` groups; with `read_only` only their reads.
  void wait_groups(uint32_t thread, uint32_t pending, bool read_only);

  // An operation that several threads issue as one has the agents of the first thread. Another
  // thread, which has committed `group` groups, has seen the operation once it has waited for that
  // group. It has then seen all that the first thread did before time `floor`.
  struct Shared {
    uint32_t group;
    uint32_t issuer;  // the first thread
    uint32_t floor;
  };
  void share(uint32_t thread, const Shared& shared);
  // The shared operations that a wait for all groups before `before` makes visible, the latest
  // last. They are forgotten, unless the wait is for reads only.
  std::vector<Shared> shared_before(uint32_t thread, uint32_t before, bool read_only);

  // Completes the operations that the barrier waits for. False: there were none.
  bool finish_for(const Mbarrier& barrier);
  bool waits_for(const Mbarrier& barrier) const;
  // With kRandom: some operations take their next step.
  void step();
  // Completes the oldest operation. False: there was none.
  bool force_oldest();
  // The oldest operation that still has to read (`reads`) or write shared memory of this block.
  const AsyncOperation* using_shared_of(uint32_t rank, bool reads) const;
  bool idle() const { return operations_.empty(); }

 private:
  static void advance(AsyncOperation& operation);
  void complete(AsyncOperation& operation);
  void remove_done();

  AsyncTiming timing_ = AsyncTiming::kLatest;
  Random* random_ = nullptr;
  std::vector<std::unique_ptr<AsyncOperation>> operations_;  // oldest first; null: done
  std::unordered_map<uint32_t, uint32_t> committed_;         // groups, by thread
  struct WarpAgents {
    uint32_t first = 0;  // thread
    BulkAgents own, others;
  };
  std::unordered_map<uint32_t, WarpAgents> agents_;           // by warp
  std::unordered_map<uint32_t, std::vector<Shared>> shared_;  // by thread
};

}  // namespace lssar::vdev
