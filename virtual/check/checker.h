// The strict mode: finds races, missing proxy fences and uses of undefined values in one cluster.
//
// It compares accesses by happens-before, with vector clocks, so that the result does not depend on
// the order in which warps ran. Asynchronous operations are agents of their own. Their accesses are
// checked against what had been seen where they were issued; others see them once their completion
// was observed. Reports are collected, and execution goes on. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "virtual/check/knowledge.h"
#include "virtual/check/launch_reports.h"
#include "virtual/check/shared_shadow.h"
#include "virtual/check/taint.h"
#include "virtual/ptx/state_space.h"
#include "virtual/state/warp.h"

namespace lssar::vdev {

struct Cluster;
class GlobalShadow;
struct LaneAccess;
struct LanePlace;
struct Mbarrier;
struct OpFacts;

enum class ReportKind : uint8_t {
  kRace,
  kClusterRace,    // a race between clusters that several threads run
  kProxyFence,     // a race between proxies: no fence.proxy.async
  kUndefined,      // a value that nobody wrote is used
  kSynchronise,    // a barrier or wait that is used wrongly
  kAsync,          // registers or memory of an operation in flight are used
  kUninitialised,  // global memory is read that nobody wrote
};
const char* report_kind_name(ReportKind kind);

// An access of an asynchronous operation: who issued it, and where.
struct AsyncIssue {
  Warp* warp;
  const Op* op;
  uint32_t lane;   // or kWholeWarp
  uint32_t agent;  // its reads and writes carry this agent and time
  uint32_t time;
  bool strong = false;    // atomic, as reductions are
  bool generic = false;   // by the generic proxy
  bool by_lane = false;   // several lanes share the agent; stamps name this lane
  uint32_t together = 0;  // lanes that issued it as one; 0: `lane`, or the whole warp
  uint32_t stamp_lane() const { return by_lane ? lane : kWholeWarp; }
};

// Some 16-byte units of a 1-KB chunk of shared memory, one bit each.
struct ChunkUnits {
  uint32_t chunk;
  uint64_t units;
};

// The result of checking what one warp's part of an operation reads of shared memory.
struct CheckedReads {
  std::vector<Stamp> writers;  // of the words that were read, each once
  uint64_t version = 0;        // of the shadow
  bool complete = false;
};

class Checker {
 public:
  explicit Checker(Cluster& cluster);
  ~Checker();

  // Call it before a cluster; `cluster` is its index in the grid.
  void begin_cluster(uint64_t cluster);

  // A warp has ended. `block_ended`: it was the last one of its block.
  void warp_ended(Warp& warp, const Op& op, bool block_ended);
  void registers_set(const Warp& warp, const Op& op);

  // Synchronisation of lanes.
  void release(Warp& warp, uint32_t lanes, SyncClock& into);
  void acquire(Warp& warp, uint32_t lanes, const SyncClock& from);
  void warp_sync(Warp& warp, uint32_t lanes);
  void fence_proxy_async(Warp& warp, uint32_t lanes);
  void fence_mbarrier_init(Warp& warp, uint32_t lanes);
  // What a fence.mbarrier_init released: a relaxed arrival at the cluster's barrier hands it on.
  const SyncClock& init_fence(const Warp& warp) const { return init_fences_[warp.agent]; }
  // fence.acq_rel.gpu, membar.gl and stronger: synchronisation between blocks relies on them.
  void fence_device(Warp& warp, uint32_t lanes);

  // Barriers.
  void init_mbarrier(Warp& warp, const Op& op, uint32_t lane, Mbarrier& barrier);
  void use_mbarrier(Warp& warp, const Op& op, uint32_t lanes, Mbarrier& barrier);
  // The async proxy uses the barrier, through an operation that the lane issues.
  void use_mbarrier_async(Warp& warp, const Op& op, uint32_t lane, Mbarrier& barrier);
  // The lanes issue operations that complete on the barrier. A warp that sees the phase complete
  // has then seen what these lanes had seen. A complete-tx releases: it comes after what the lanes
  // did.
  void issued_for(Warp& warp, uint32_t lanes, Mbarrier& barrier);
  void inval_mbarrier(Warp& warp, const Op& op, uint32_t lane, Mbarrier& barrier);
  void phase_completed(Mbarrier& barrier);
  // A warp finds a phase complete. What other blocks did to the barrier for that phase has then
  // happened, even if they released nothing by it.
  void saw_phase(const Warp& warp, const Mbarrier& barrier);

  // Asynchronous operations. An agent's operations complete in the order of their times.
  uint32_t add_agent();
  uint32_t wgmma_agent(uint32_t warp_group) const { return first_wgmma_ + warp_group; }
  uint32_t base_time() const { return base_; }
  // The time of the operations that complete the barrier's current phase.
  uint32_t time_of(const Mbarrier& barrier) const;
  uint32_t time_of(const Warp& warp) const { return knowledge_[warp.agent].time(); }
  // Whether the lane has seen an access.
  bool covers(const Warp& warp, uint32_t lane, uint32_t agent, uint32_t time,
              uint32_t by_lane) const {
    return knowledge_[warp.agent].covers(1u << lane, agent, time, by_lane);
  }
  void acquire_agent(Warp& warp, uint32_t lanes, uint32_t agent, uint32_t floor,
                     uint32_t by_lane = kWholeWarp);
  void async_shared(const AsyncIssue& issue, uint32_t rank, uint32_t address, uint32_t bytes,
                    bool writes);
  void async_global(const AsyncIssue& issue, uint64_t address, uint32_t bytes, bool writes);
  // Reads of 16-byte units of shared memory, by wgmma.
  void async_units(const AsyncIssue& issue, uint32_t rank, const ChunkUnits* chunks, size_t count,
                   CheckedReads& found);
  // Whether the same reads are right if another warp issues them. Decides it without looking at the
  // memory.
  bool are_seen(const AsyncIssue& issue, uint32_t rank, const CheckedReads& reads);
  // Bytes become undefined or defined without an access.
  void set_undefined(uint32_t rank, uint32_t address, uint32_t bytes, bool undefined);
  bool any_undefined(uint32_t rank, uint32_t address, uint32_t bytes);

  // Whether accesses of the stamp's agent need no synchronisation with each other.
  bool is_in_order(Stamp stamp) const;

  // Checks every access of an instruction, addresses by lane. Addresses of inactive lanes are
  // ignored.
  void access(Warp& warp, const Op& op, StateSpace space, const uint64_t* addresses,
              uint32_t bytes);
  // The instruction of the last access has read and written memory.
  void note_access_done();
  // Checks one of several accesses of an instruction, with facts of its own.
  void access(Warp& warp, const Op& op, const OpFacts& facts, StateSpace space,
              const uint64_t* addresses, uint32_t bytes);

  // Undefined values in registers.
  Taint& taint(const Warp& warp) { return taints_[warp.agent]; }
  void run_tainted(Warp& warp, const Op& op, bool full);
  void apply_loaded_taint(Warp& warp, const Op& op);
  void check_branch(Warp& warp, const Op& op, uint32_t lanes);

  void report(ReportKind kind, const Warp& warp, const Op& op, const std::string& what,
              const Op* other = nullptr);
  // Reports a race with an access by another cluster. If several threads run clusters, it names
  // neither block nor address, because these depend on the threads.
  void report_between_clusters(const Warp& warp, const Op& op, const std::string& what,
                               const Op* other);
  // "warp 3, lane 5, wrote at PTX line 7 '...'": an access within the cluster.
  std::string describe(Stamp stamp, bool writes) const;
  // Whether the access is by a warp itself or its cp.async, not by the async proxy.
  bool is_generic(Stamp stamp) const { return stamp_agent(stamp) < first_wgmma_; }
  bool full() const { return reports_.size() >= kMaxReports; }
  std::vector<Report> take_reports();

 private:
  struct Who;
  // For the checks of a block's end and of setmaxnreg.
  struct BlockEnd {
    bool ended = false;
    SyncClock seen;    // what its ended warps had seen
    VectorClock made;  // operations on its mbarriers whose phases its warps saw complete
  };
  struct RegisterUse {
    const Op* op = nullptr;  // the last setmaxnreg
    uint32_t count = 0;      // executed so far
  };

  // The agent of an invalidated barrier, and the first time that none of its operations has.
  struct Retired {
    uint32_t agent;
    uint32_t time;
  };

  void check_agents() const;
  void note_time(uint32_t time);
  Retired agent_of_barrier(uint64_t place);
  void check_barriers(Warp& warp, const Op& op, uint32_t rank, uint32_t word, uint32_t count);
  static bool is_same_store(const Who& who, uint32_t rank, uint32_t word, Stamp earlier);
  bool is_row_rewrite(const Who& who, Stamp earlier, bool earlier_writes) const;
  bool all_lanes(const Warp& warp, uint32_t lanes) const;
  Knowledge& knowledge(const Warp& warp) { return knowledge_[warp.agent]; }
  void write_mbarrier(Warp& warp, const Op& op, uint32_t lane, const Mbarrier& barrier);
  void refresh_limits(const Warp& warp);
  void shared_access(Warp& warp, const Op& op, LaneAccess& access, uint32_t rank, uint32_t lane,
                     uint32_t address);
  void shared_lane(Warp& warp, const Op& op, LaneAccess& access, uint32_t lane,
                   const LanePlace& place);
  void global_access(Warp& warp, const Op& op, const LaneAccess& access, uint32_t lane,
                     uint64_t address);
  Stamp stamp_of_lane(const LaneAccess& access, uint32_t lane);
  void check_chunk(const Who& who, uint32_t rank, const ChunkUnits& chunk, CheckedReads& found);
  bool check_unit(const Who& who, uint32_t rank, uint32_t word, std::vector<Stamp>& writers);
  Who who_issued(const AsyncIssue& issue);
  void read_words(const Who& who, uint32_t rank, uint32_t word, uint32_t count, uint32_t bytes);
  void write_words(const Who& who, uint32_t rank, uint32_t word, uint32_t count, uint32_t bytes);
  void check_block_use(const Warp& warp, const Op& op, uint32_t rank);
  void check_user(Warp& warp, const Op& op, uint32_t word, Stamp stamp, bool writes);
  void check_register_use(const Warp& last, const Op& op);
  void compare(const Who& who, uint32_t rank, uint32_t word, Stamp stamp, bool stamp_writes,
               uint32_t bytes);
  void taint_unwritten(Warp& warp);
  void store_taint(Warp& warp, const Op& op, StateSpace space, const uint64_t* addresses,
                   uint32_t bytes);
  void load_taint(Warp& warp, const Op& op, StateSpace space, const uint64_t* addresses,
                  uint32_t bytes);

  Cluster& cluster_;
  std::vector<Knowledge> knowledge_;    // by warp
  std::vector<SharedShadow> shadows_;   // by rank
  std::vector<SyncClock> init_fences_;  // by warp
  std::vector<Taint> taints_;           // by warp
  std::unique_ptr<GlobalShadow> global_;
  std::vector<BlockEnd> block_ends_;        // by rank
  std::vector<RegisterUse> register_uses_;  // by warp
  uint32_t num_warps_ = 0;
  uint32_t first_wgmma_ = 0;
  uint32_t first_other_ = 0;  // from here on agents that were made while the cluster ran
  uint32_t num_agents_ = 0;
  uint32_t base_ = 1;                    // the first time of this cluster
  uint32_t last_time_ = 1;               // the last time that was used
  uint64_t cluster_index_ = 0;           // in the grid
  std::map<uint64_t, Retired> retired_;  // by rank and address

  // Limits of the warp that made the last access. All its lanes have seen stamps below
  // limits_[agent]; the async operations that they issue have seen those below
  // async_limits_[agent].
  std::vector<Stamp> limits_;
  std::vector<Stamp> async_limits_;
  uint32_t limits_of_ = ~0u;
  uint32_t limits_version_ = 0;

  std::set<decltype(Report::key)> seen_reports_;
  std::vector<Report> reports_;
  std::vector<Report> cluster_races_;  // apart: which cluster finds one depends on the threads
};

}  // namespace lssar::vdev
