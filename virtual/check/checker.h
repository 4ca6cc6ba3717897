// The strict mode: finds races, missing proxy fences and uses of undefined values in one cluster.
//
// Happens-before by vector clocks, so that what is found does not depend on the order in which
// warps happened to run. Asynchronous operations are agents of their own: their accesses are
// checked against what had been seen where they were issued, and are seen by others once their
// completion has been observed. Reports are collected; execution goes on. One thread at a time.
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
  kProxyFence,     // a race between proxies: no fence.proxy.async
  kUndefined,      // a value that nobody wrote is used
  kSynchronise,    // a barrier or wait that is used wrongly
  kAsync,          // registers or memory of an operation in flight
  kUninitialised,  // global memory
};
const char* report_kind_name(ReportKind kind);

// An access of an asynchronous operation: in whose name, and issued where.
struct AsyncIssue {
  Warp* warp;
  const Op* op;
  uint32_t lane;   // or kWholeWarp
  uint32_t agent;  // its reads and writes carry this agent and time
  uint32_t time;
  bool strong = false;    // atomic, as reductions are
  bool generic = false;   // not by the async proxy
  bool by_lane = false;   // the agent is that of several lanes: stamps name this one
  uint32_t together = 0;  // lanes that issued it as one; 0: `lane` alone, or the whole warp
  uint32_t stamp_lane() const { return by_lane ? lane : kWholeWarp; }
};

// 16-byte units of one 1-KB chunk of shared memory, as bits.
struct ChunkUnits {
  uint32_t chunk;
  uint64_t units;
};

// What one warp's part of an operation found when its reads of shared memory were checked.
struct CheckedReads {
  std::vector<Stamp> writers;  // of the words, each once
  uint64_t version = 0;        // of the shadow
  bool complete = false;
};

class Checker {
 public:
  explicit Checker(Cluster& cluster);
  ~Checker();

  // Before a cluster; `cluster`: which of the grid.
  void begin_cluster(uint64_t cluster);

  // A warp has ended; its block has, with its last one.
  void warp_ended(Warp& warp, const Op& op, bool block_ended);
  void registers_set(const Warp& warp, const Op& op);

  // Synchronisation of lanes.
  void release(Warp& warp, uint32_t lanes, SyncClock& into);
  void acquire(Warp& warp, uint32_t lanes, const SyncClock& from);
  void warp_sync(Warp& warp, uint32_t lanes);
  void fence_proxy_async(Warp& warp, uint32_t lanes);
  void fence_mbarrier_init(Warp& warp, uint32_t lanes);
  // What a relaxed arrival at the cluster's barrier hands on: what a fence.mbarrier_init released.
  const SyncClock& init_fence(const Warp& warp) const { return init_fences_[warp.agent]; }
  // fence.acq_rel.gpu, membar.gl and stronger: what cross-block synchronisation hangs on.
  void fence_device(Warp& warp, uint32_t lanes);

  // Barriers.
  void init_mbarrier(Warp& warp, const Op& op, uint32_t lane, Mbarrier& barrier);
  void use_mbarrier(Warp& warp, const Op& op, uint32_t lanes, Mbarrier& barrier);
  // By the async proxy, through an operation that the lane issues.
  void use_mbarrier_async(Warp& warp, const Op& op, uint32_t lane, Mbarrier& barrier);
  // The lanes issue operations that complete on the barrier. A warp that sees the phase complete
  // has seen what these lanes had seen. A complete-tx releases, and what the lanes did comes before
  // it.
  void issued_for(Warp& warp, uint32_t lanes, Mbarrier& barrier);
  void inval_mbarrier(Warp& warp, const Op& op, uint32_t lane, Mbarrier& barrier);
  void phase_completed(Mbarrier& barrier);
  // A warp finds a phase complete: what other blocks did to the barrier for it has been done, even
  // where they released nothing by it.
  void saw_phase(const Warp& warp, const Mbarrier& barrier);

  // Asynchronous operations. An agent's operations complete in the order of their times.
  uint32_t add_agent();
  uint32_t wgmma_agent(uint32_t warp_group) const { return first_wgmma_ + warp_group; }
  uint32_t base_time() const { return base_; }
  // The time of the operations that complete the phase that the barrier is in.
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
  // Whether the same reads are right in the name of another warp too, without looking at them.
  bool are_seen(const AsyncIssue& issue, uint32_t rank, const CheckedReads& reads);
  // Bytes become undefined, or defined, without an access.
  void set_undefined(uint32_t rank, uint32_t address, uint32_t bytes, bool undefined);
  bool any_undefined(uint32_t rank, uint32_t address, uint32_t bytes);

  // Whether accesses of the stamp's agent need no synchronisation among themselves.
  bool is_in_order(Stamp stamp) const;

  // Every access of an instruction, addresses by lane (those of inactive lanes are ignored).
  void access(Warp& warp, const Op& op, StateSpace space, const uint64_t* addresses,
              uint32_t bytes);
  // One of several that the instruction makes, with facts of its own.
  void access(Warp& warp, const Op& op, const OpFacts& facts, StateSpace space,
              const uint64_t* addresses, uint32_t bytes);

  // Undefined values in registers.
  Taint& taint(const Warp& warp) { return taints_[warp.agent]; }
  void run_tainted(Warp& warp, const Op& op, bool full);
  void apply_loaded_taint(Warp& warp, const Op& op);
  void check_branch(Warp& warp, const Op& op, uint32_t lanes);

  void report(ReportKind kind, const Warp& warp, const Op& op, const std::string& what,
              const Op* other = nullptr);
  // A race with an access by another cluster. Where several threads run clusters it names neither
  // block nor address: which of many they are is up to the threads.
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
  // What the end of a block and setmaxnreg are checked by.
  struct BlockEnd {
    bool ended = false;
    SyncClock seen;    // by its warps that have ended
    VectorClock made;  // operations on its mbarriers whose phases its warps have seen
  };
  struct RegisterUse {
    const Op* op = nullptr;  // the last setmaxnreg
    uint32_t count = 0;      // of them
  };

  // A barrier's agent and the first time that none of its operations has.
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
  uint32_t first_other_ = 0;  // agents made as the cluster runs
  uint32_t num_agents_ = 0;
  uint32_t base_ = 1;                    // the first time of this cluster
  uint32_t last_time_ = 1;               // used
  uint64_t cluster_index_ = 0;           // in the grid
  std::map<uint64_t, Retired> retired_;  // of barriers invalidated, by rank and address

  // Limits of the warp that accessed last: stamps below limits_[agent] are seen by all its lanes,
  // those below async_limits_[agent] by the async operations that they issue.
  std::vector<Stamp> limits_;
  std::vector<Stamp> async_limits_;
  uint32_t limits_of_ = ~0u;
  uint32_t limits_version_ = 0;

  std::set<decltype(Report::key)> seen_reports_;
  std::vector<Report> reports_;
};

}  // namespace lssar::vdev
