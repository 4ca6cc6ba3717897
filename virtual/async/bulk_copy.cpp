#include "virtual/async/bulk_copy.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "device/tensor_map_codec.h"
#include "virtual/async/async_engine.h"
#include "virtual/async/bulk_operation.h"
#include "virtual/check/checker.h"
#include "virtual/count/access_counters.h"
#include "virtual/count/block_recorder.h"
#include "virtual/state/cluster.h"
#include "virtual/state/generic_operands.h"
#include "virtual/state/mbarrier_table.h"
#include "virtual/state/units.h"

namespace lssar::vdev {
namespace {

constexpr uint32_t kBulkAlignment = 16;     // of addresses and sizes
constexpr uint32_t kTensorAlignment = 128;  // of a box in shared memory

// A bulk instruction as one lane executes it.
struct Issuer {
  Warp& warp;
  const Op& op;
  uint32_t lane;
  BulkForm form;
  BulkOperands in;

  Issuer(Warp& issuing_warp, const Op& issued, uint32_t issuing_lane)
      : warp(issuing_warp), op(issued), lane(issuing_lane) {
    std::memcpy(&form, &op.imm, sizeof(form));
    std::memcpy(&in, op.list, sizeof(in));
  }

  template <typename T>
  T value(uint32_t reg) const {
    return reinterpret_cast<const T*>(warp.registers + reg)[lane];
  }
  uint64_t address(const BulkAddress& a) const {
    const auto offset = static_cast<uint64_t>(a.offset);
    if (a.base == kNoRegister) return offset;
    if (a.wide != 0) return value<uint64_t>(a.base) + offset;
    return value<uint32_t>(a.base) + static_cast<uint32_t>(offset);
  }
  [[noreturn]] void fail(const std::string& what) const {
    raise_fault(warp, op, fmt::format("lane {}: {}", lane, what).c_str());
  }
  SharedRange shared(const BulkAddress& a, uint32_t bytes, uint32_t align) const {
    const SharedPlace place = locate_shared(warp, op, lane, address(a), bytes, align);
    return {cluster_of(warp).ctas[place.rank].shared, place.rank, place.address};
  }
  uint32_t thread() const { return warp.agent * kLanes + lane; }
};

template <typename Function>
void for_each_lane(Warp& warp, const Op& op, Function f) {
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) f(Issuer(warp, op, lowest_bit(m)));
}

// What moves: rows of global memory, and how they lie in shared memory.
struct Transfer {
  std::vector<BoxRow> rows;
  TensorMapRequest map;      // of a tensor
  uint64_t map_address = 0;  // its address, if it is in global memory
  uint32_t bytes = 0;
  uint32_t align = kBulkAlignment;  // in shared memory
};

uint32_t size_operand(const Issuer& i) {
  const uint32_t bytes = i.value<uint32_t>(i.in.bytes);
  if (bytes % kBulkAlignment != 0) {
    i.fail(fmt::format("a size of {} bytes: allowed are multiples of {}", bytes, kBulkAlignment));
  }
  return bytes;
}

// The 128 bytes of a tensor map.
const uint8_t* find_map(const Issuer& i, uint64_t address) {
  if (address % kTensorMapAlignment != 0) {
    i.fail(fmt::format("the tensor map at {:#x} is not aligned to {} bytes", address,
                       kTensorMapAlignment));
  }
  const uint64_t window = address >> kWindowShift << kWindowShift;
  if (window == kParamWindow) {
    const uint64_t offset = address - window;
    if (offset + kTensorMapBytes <= i.warp.params_bytes) return i.warp.params + offset;
  } else if (window != 0) {
    i.fail("a tensor map must lie in global, constant or parameter memory, not in shared or local");
  } else if (find_global_range(i.warp, address, kTensorMapBytes)) {
    return reinterpret_cast<const uint8_t*>(address);
  }
  raise_memory_fault(i.warp, i.op, MemoryFault::kOutOfRange, StateSpace::kGlobal, i.lane, address,
                     kTensorMapBytes);
}

void read_map(const Issuer& i, uint64_t address, Transfer& t) {
  std::string why;
  if (!decode_tensor_map(find_map(i, address), t.map, &why)) {
    i.fail(fmt::format("what lies at {:#x} is {}", address, why));
  }
  if (t.map.rank != i.form.rank) {
    i.fail(fmt::format("a tensor map of rank {} where one of rank {} is expected", t.map.rank,
                       i.form.rank));
  }
  if (address >> kWindowShift == 0) t.map_address = address;
}

// Faults if a box is too large for any shared memory; a map that a kernel made up may have such a
// box.
void check_box(const Issuer& i, const TensorMapRequest& map) {
  uint64_t bytes = tensor_element_bytes(map.type);
  for (uint32_t d = 0; d < map.rank; ++d) bytes *= map.box_dims[d];  // at most 2^43
  const uint64_t limit = uint64_t{1} << 20;
  if (bytes <= limit) return;
  raise_fault(
      i.warp, i.op,
      fmt::format("a box of {} bytes: no shared memory holds more than {}", bytes, limit).c_str());
}

// `global` is the side in global memory. Checks that every row is there.
Transfer describe_transfer(const Issuer& i, const BulkAddress& global) {
  Transfer t;
  const uint64_t address = i.address(global);
  if (i.form.rank == 0) {
    t.bytes = size_operand(i);
    if (address % kBulkAlignment != 0) {
      raise_memory_fault(i.warp, i.op, MemoryFault::kMisaligned, StateSpace::kGlobal, i.lane,
                         address, kBulkAlignment);
    }
    t.rows.push_back({address, 0, t.bytes, 0, t.bytes});
  } else {
    read_map(i, address, t);
    int32_t coordinates[kMaxTensorRank] = {};
    for (uint32_t c = 0; c < i.form.rank; ++c) {
      coordinates[c] = i.value<int32_t>(i.in.coordinates[c]);
    }
    check_box(i, t.map);
    const TensorBox box(t.map, coordinates, 0);
    box.rows(t.rows);
    t.bytes = box.bytes();
    t.align = kTensorAlignment;
  }
  for (const BoxRow& row : t.rows) {
    if (row.begin == row.end) continue;
    const uint64_t begin = row.global + row.begin;
    const uint32_t bytes = row.end - row.begin;
    const uint64_t offset = begin - i.warp.range_begin;
    if (offset < i.warp.range_bytes && i.warp.range_bytes - offset >= bytes) continue;
    if (!find_global_range(i.warp, begin, bytes)) {
      raise_memory_fault(i.warp, i.op, MemoryFault::kOutOfRange, StateSpace::kGlobal, i.lane, begin,
                         bytes);
    }
  }
  return t;
}

Mbarrier& find_barrier(const Issuer& i, uint32_t rank, uint32_t address) {
  Cluster& cluster = cluster_of(i.warp);
  Mbarrier* const barrier = cluster.mbarriers->find(rank, address);
  if (barrier == nullptr) {
    i.fail(fmt::format(
        "no mbarrier was initialised at shared address {:#x} of block {} of the cluster", address,
        rank));
  }
  if (Checker* checker = cluster.checker) {
    checker->use_mbarrier_async(i.warp, i.op, i.lane, *barrier);
  }
  return *barrier;
}

// Bytes of shared memory that a swizzled box may touch: its chunks move within 128 bytes.
uint32_t touched_bytes(const Transfer& t) {
  const uint32_t span = swizzle_span_bytes(t.map.swizzle);
  return span == 0 ? t.bytes : (t.bytes + span - 1) / span * span;
}

// The target holds poison until the bytes arrive.
void poison_target(const Issuer& i, const SharedRange& to, TensorSwizzle swizzle, uint32_t bytes) {
  Cluster& cluster = cluster_of(i.warp);
  if (cluster.launch.timing == AsyncTiming::kEarliest) return;
  for_each_swizzled_range(swizzle, to.address, bytes, [&](uint32_t address, uint32_t n) {
    std::memset(to.memory + address, kPoisonByte, n);
    if (Checker* checker = cluster.checker) checker->set_undefined(to.rank, address, n, true);
  });
}

void check_global(Checker& checker, const AsyncIssue& issue, const Transfer& t, bool writes) {
  if (t.map_address != 0) checker.async_global(issue, t.map_address, kTensorMapBytes, false);
  for (const BoxRow& row : t.rows) {
    if (row.begin == row.end) continue;
    checker.async_global(issue, row.global + row.begin, row.end - row.begin, writes);
  }
}

void check_shared(Checker& checker, const AsyncIssue& issue, const SharedRange& range,
                  TensorSwizzle swizzle, uint32_t bytes, bool writes) {
  for_each_swizzled_range(swizzle, range.address, bytes, [&](uint32_t address, uint32_t n) {
    checker.async_shared(issue, range.rank, address, n, writes);
  });
}

std::unique_ptr<BulkOperation> make_operation(const Issuer& i, const Transfer& t) {
  auto operation = std::make_unique<BulkOperation>(i.form.kind, t.bytes);
  operation->op = &i.op;
  operation->swizzle = t.map.swizzle;
  operation->type = t.map.type;
  operation->fill = t.map.fill;
  operation->checker = cluster_of(i.warp).checker;
  return operation;
}

void issue_load(const Issuer& i, const Transfer& t, const SharedRange& to, Mbarrier& barrier) {
  Cluster& cluster = cluster_of(i.warp);
  auto operation = make_operation(i, t);
  operation->rows = t.rows;
  operation->to = to;
  operation->barrier = &barrier;
  operation->writes_shared_of = 1u << to.rank;
  if (Checker* checker = cluster.checker) {
    const AsyncIssue issue = {&i.warp, &i.op, i.lane, barrier.agent, checker->time_of(barrier)};
    check_global(*checker, issue, t, false);
    check_shared(*checker, issue, to, t.map.swizzle, t.bytes, true);
    checker->issued_for(i.warp, 1u << i.lane, barrier);
  }
  poison_target(i, to, t.map.swizzle, t.bytes);
  if (BlockRecorder* recorder = cluster.recorder)
    recorder->bulk(i.warp, i.op, TraceKind::kLoad, &barrier, to.address, t.bytes);
  cluster.async->issue(std::move(operation));
}

// The blocks of the cluster that a multicast writes to, as a mask.
uint32_t multicast_mask(const Issuer& i) {
  const uint32_t mask = i.value<uint16_t>(i.in.block_mask);
  const auto blocks = static_cast<uint32_t>(cluster_of(i.warp).ctas.size());
  if (mask == 0 || mask >> blocks != 0) {
    i.fail(fmt::format("a multicast to the blocks {:#x} of a cluster of {}", mask, blocks));
  }
  return mask;
}

void load(const Issuer& i) {
  const Transfer t = describe_transfer(i, i.in.source);
  SharedRange to = i.shared(i.in.destination, touched_bytes(t), t.align);
  const SharedRange barrier = i.shared(i.in.barrier, sizeof(uint64_t), sizeof(uint64_t));
  count_tma(i.warp.counters, TmaDirection::kLoad, t.bytes);
  if (to.rank != barrier.rank) {
    i.fail(fmt::format("destination and mbarrier are of different blocks: {} and {}", to.rank,
                       barrier.rank));
  }
  const uint32_t ranks = i.form.multicast != 0 ? multicast_mask(i) : 1u << to.rank;
  for (uint32_t m = ranks; m != 0; m &= m - 1) {
    to.rank = lowest_bit(m);
    to.memory = cluster_of(i.warp).ctas[to.rank].shared;
    issue_load(i, t, to, find_barrier(i, to.rank, barrier.address));
  }
}

BulkReduce find_reduction(const Issuer& i, const Transfer& t) {
  NumberType type = i.form.type;
  const bool known = i.form.rank == 0 || bulk_reduce_type(t.map.type, type);
  const BulkReduce reduce = known ? bulk_reduce(i.form.reduce, type) : nullptr;
  if (reduce == nullptr) {
    i.fail(fmt::format("there is no such reduction of elements of type {}",
                       tensor_data_type_name(t.map.type)));
  }
  return reduce;
}

// Calls the function for the parts of `from` that a store reads: those of rows within the tensor.
template <typename Function>
void for_each_source_range(const Transfer& t, const SharedRange& from, Function f) {
  bool whole = true;
  for (const BoxRow& row : t.rows) whole &= row.begin == 0 && row.end == row.bytes;
  if (whole) {
    for_each_swizzled_range(t.map.swizzle, from.address, t.bytes, f);
    return;
  }
  for (const BoxRow& row : t.rows) {
    for (uint32_t at = row.begin; at < row.end;) {
      const uint32_t end = std::min(row.end, (at / kBulkAlignment + 1) * kBulkAlignment);
      f(swizzle_address(t.map.swizzle, from.address + row.shared + at), end - at);
      at = end;
    }
  }
}

void check_source(Checker& checker, const AsyncIssue& issue, const Transfer& t,
                  const SharedRange& from) {
  bool undefined = false;
  for_each_source_range(t, from, [&](uint32_t address, uint32_t bytes) {
    checker.async_shared(issue, from.rank, address, bytes, false);
    undefined |= checker.any_undefined(from.rank, address, bytes);
  });
  if (undefined) {
    checker.report(
        ReportKind::kUndefined, *issue.warp, *issue.op,
        fmt::format("lane {}: the copy reads shared memory that nobody wrote", issue.lane));
  }
}

// The lanes of `among` that name the same addresses, coordinates and size as the issuer.
uint32_t lanes_with_same_operands(const Issuer& i, uint32_t among) {
  const auto same = [&](const Issuer& other) {
    if (i.address(i.in.destination) != other.address(i.in.destination) ||
        i.address(i.in.source) != other.address(i.in.source)) {
      return false;
    }
    for (const uint32_t reg : {i.in.bytes, i.in.coordinates[0], i.in.coordinates[1],
                               i.in.coordinates[2], i.in.coordinates[3], i.in.coordinates[4]}) {
      if (reg != kNoRegister && i.value<uint32_t>(reg) != other.value<uint32_t>(reg)) return false;
    }
    const uint32_t policy = i.in.cache_policy;
    return policy == kNoRegister || i.value<uint64_t>(policy) == other.value<uint64_t>(policy);
  };
  uint32_t lanes = 1u << i.lane;
  for (uint32_t m = among & ~lanes; m != 0; m &= m - 1) {
    const Issuer other(i.warp, i.op, lowest_bit(m));
    if (same(other)) lanes |= 1u << other.lane;
  }
  return lanes;
}

// The agent, time and lanes of an operation that the lanes issue together, for its reads. Its
// writes have another agent.
AsyncIssue issue_of_group(const Issuer& i, uint32_t lanes, const BulkAgents& agents,
                          Checker& checker) {
  AsyncEngine& engine = *cluster_of(i.warp).async;
  const uint32_t time = checker.base_time() + engine.committed(i.thread());
  AsyncIssue issue = {&i.warp, &i.op, i.lane, agents.reads, time};
  issue.by_lane = agents.by_lane;
  issue.together = lanes;
  for (uint32_t m = lanes & ~(1u << i.lane); m != 0; m &= m - 1) {
    const uint32_t thread = i.warp.agent * kLanes + lowest_bit(m);
    engine.share(thread, {engine.committed(thread), i.thread(), time + 1});
  }
  return issue;
}

// All of the lanes issue it as one operation; the issuer is the first of them.
void store(const Issuer& i, uint32_t lanes) {
  Cluster& cluster = cluster_of(i.warp);
  const Transfer t = describe_transfer(i, i.in.destination);
  const SharedRange from = i.shared(i.in.source, touched_bytes(t), t.align);
  const bool reduces = i.form.kind == BulkKind::kReduce;
  if (from.rank != i.warp.cta->rank) {
    i.fail(fmt::format("a .shared::cta source in block {} of the cluster", from.rank));
  }
  count_tma(i.warp.counters, reduces ? TmaDirection::kReduce : TmaDirection::kStore, t.bytes);
  auto operation = make_operation(i, t);
  operation->rows = t.rows;
  operation->from = from;
  operation->warp = i.warp.agent;
  operation->lanes = lanes;
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const uint32_t lane = lowest_bit(m);
    operation->groups[lane] = cluster.async->committed(i.warp.agent * kLanes + lane);
  }
  operation->reads_shared_of = 1u << from.rank;
  if (reduces) operation->reduce = find_reduction(i, t);
  if (Checker* checker = cluster.checker) {
    const BulkAgents agents = cluster.async->agents(i.thread(), *checker);
    AsyncIssue issue = issue_of_group(i, lanes, agents, *checker);
    check_source(*checker, issue, t, from);
    issue.agent = agents.writes;
    issue.strong = reduces;
    check_global(*checker, issue, t, true);
  }
  if (BlockRecorder* recorder = cluster.recorder)
    recorder->bulk(i.warp, i.op, TraceKind::kStore, nullptr, from.address, t.bytes);
  cluster.async->issue(std::move(operation));
}

void copy(const Issuer& i) {
  Cluster& cluster = cluster_of(i.warp);
  Transfer t;
  t.bytes = size_operand(i);
  t.rows.push_back({0, 0, t.bytes, 0, t.bytes});
  const SharedRange from = i.shared(i.in.source, t.bytes, kBulkAlignment);
  const SharedRange to = i.shared(i.in.destination, t.bytes, kBulkAlignment);
  const SharedRange place = i.shared(i.in.barrier, sizeof(uint64_t), sizeof(uint64_t));
  if (to.rank != place.rank) {
    i.fail(fmt::format("destination and mbarrier are of different blocks: {} and {}", to.rank,
                       place.rank));
  }
  Mbarrier& barrier = find_barrier(i, place.rank, place.address);
  auto operation = make_operation(i, t);
  operation->from = from;
  operation->to = to;
  operation->barrier = &barrier;
  operation->reads_shared_of = 1u << from.rank;
  operation->writes_shared_of = 1u << to.rank;
  const bool reduces = i.form.kind == BulkKind::kReduceShared;
  if (reduces) operation->reduce = find_reduction(i, t);
  if (Checker* checker = cluster.checker) {
    const AsyncIssue issue = {&i.warp, &i.op, i.lane, barrier.agent, checker->time_of(barrier),
                              reduces};
    check_source(*checker, issue, t, from);
    check_shared(*checker, issue, to, TensorSwizzle::kNone, t.bytes, true);
    checker->issued_for(i.warp, 1u << i.lane, barrier);
  }
  if (!reduces) poison_target(i, to, TensorSwizzle::kNone, t.bytes);
  if (BlockRecorder* recorder = cluster.recorder)
    recorder->bulk(i.warp, i.op, TraceKind::kLoad, &barrier, to.address, t.bytes);
  cluster.async->issue(std::move(operation));
}

// The lane has seen what a thread of its warp issued before time `floor`.
void acquire_groups(Warp& warp, uint32_t lane, uint32_t thread, uint32_t floor, bool read_only) {
  Checker& checker = *cluster_of(warp).checker;
  const BulkAgents agents = cluster_of(warp).async->agents(thread, checker);
  const uint32_t by_lane = agents.by_lane ? thread % kLanes : kWholeWarp;
  checker.acquire_agent(warp, 1u << lane, agents.reads, floor, by_lane);
  if (!read_only) checker.acquire_agent(warp, 1u << lane, agents.writes, floor, by_lane);
}

void wait_groups(Warp& warp, const Op& op, bool read_only) {
  Cluster& cluster = cluster_of(warp);
  const auto pending = static_cast<uint32_t>(std::min<int64_t>(op.imm, UINT32_MAX));
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) {
    const uint32_t lane = lowest_bit(m);
    const uint32_t thread = warp.agent * kLanes + lane;
    const uint32_t committed = cluster.async->committed(thread);
    if (committed <= pending) continue;
    cluster.async->wait_groups(thread, pending, read_only);
    Checker* const checker = cluster.checker;
    if (checker == nullptr) continue;
    const uint32_t before = committed - pending;
    acquire_groups(warp, lane, thread, checker->base_time() + before, read_only);
    for (const auto& shared : cluster.async->shared_before(thread, before, read_only)) {
      acquire_groups(warp, lane, shared.issuer, shared.floor, read_only);
    }
  }
}

}  // namespace

void bulk_load(Warp& warp, const Op& op) { for_each_lane(warp, op, load); }

// As ptxas does it: lanes that name the same operands make one store (one UTMASTG or UBLKCP.G.S,
// repeated while lanes with other operands are left). Loads and reductions are repeated for every
// lane, because two of them differ from one.
void bulk_store(Warp& warp, const Op& op) {
  for (uint32_t rest = warp.mask; rest != 0;) {
    const Issuer first(warp, op, lowest_bit(rest));
    const bool once = first.form.kind == BulkKind::kStore;
    const uint32_t lanes = once ? lanes_with_same_operands(first, rest) : 1u << first.lane;
    rest &= ~lanes;
    store(first, lanes);
  }
}

void bulk_copy(Warp& warp, const Op& op) { for_each_lane(warp, op, copy); }

void bulk_prefetch(Warp&, const Op&) {}

// Policies are opaque, and this device has no cache.
void create_policy(Warp& warp, const Op& op) {
  const GenericOperands in(warp, op);
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) in.set64(0, lowest_bit(m), 0);
}

void bulk_commit_group(Warp& warp, const Op&) {
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) {
    cluster_of(warp).async->commit_group(warp.agent * kLanes + lowest_bit(m));
  }
}

// NOTE: the release orders nothing by itself. What counts is the acquire before the map is used.
void fence_tensor_map(Warp& warp, const Op& op) {
  Checker* const checker = cluster_of(warp).checker;
  if (checker == nullptr) return;
  const Instruction& in = cluster_of(warp).launch.program->instruction(op);
  if (in.opcode.find(".acquire") == std::string::npos) return;
  checker->fence_proxy_async(warp, warp.mask);
}

void bulk_wait_group(Warp& warp, const Op& op) { wait_groups(warp, op, false); }
void bulk_wait_group_read(Warp& warp, const Op& op) { wait_groups(warp, op, true); }

}  // namespace lssar::vdev
