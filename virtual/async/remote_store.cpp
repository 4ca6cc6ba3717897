#include "virtual/async/remote_store.h"

#include <cstring>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "virtual/async/async_engine.h"
#include "virtual/async/bulk_reduce.h"
#include "virtual/async/mbarrier.h"
#include "virtual/check/checker.h"
#include "virtual/state/cluster.h"
#include "virtual/state/generic_operands.h"
#include "virtual/state/mbarrier_table.h"
#include "virtual/state/units.h"

namespace lssar::vdev {
namespace {

constexpr uint32_t kMaxBytes = 16;

// What one lane sends.
struct Message {
  uint8_t data[kMaxBytes];
  uint32_t bytes;
  bool undefined;  // at least in part
  BulkReduce reduce;
};

class RemoteStore final : public AsyncOperation {
 public:
  RemoteStore(const Message& message, uint8_t* target, SharedPlace place, Checker* checker)
      : message_(message), target_(target), place_(place), checker_(checker) {}

  void read() override {}
  void finish() override {
    if (message_.reduce != nullptr) {
      message_.reduce(target_, message_.data, message_.bytes);
    } else {
      std::memcpy(target_, message_.data, message_.bytes);
    }
    if (checker_ != nullptr && (message_.reduce == nullptr || message_.undefined)) {
      checker_->set_undefined(place_.rank, place_.address, message_.bytes, message_.undefined);
    }
    complete_transactions(*barrier, message_.bytes);
  }

 private:
  const Message message_;
  uint8_t* const target_;
  const SharedPlace place_;
  Checker* const checker_;
};

std::unique_ptr<AsyncOperation> make_store(Warp& warp, const Op& op, uint32_t lane,
                                           uint32_t barrier_operand, const Message& message) {
  const GenericOperands in(warp, op);
  Cluster& cluster = cluster_of(warp);
  const SharedPlace place =
      locate_shared(warp, op, lane, in.address(0, lane), message.bytes, message.bytes);
  Mbarrier& barrier = require_mbarrier(warp, op, lane, in.address(barrier_operand, lane));
  if (barrier.cta->rank != place.rank) {
    raise_fault(warp, op,
                fmt::format("lane {}: destination and mbarrier are of different blocks: {} and {}",
                            lane, place.rank, barrier.cta->rank)
                    .c_str());
  }
  Checker* const checker = cluster.checker;
  uint8_t* const target = cluster.ctas[place.rank].shared + place.address;
  auto operation = std::make_unique<RemoteStore>(message, target, place, checker);
  operation->op = &op;
  operation->barrier = &barrier;
  operation->writes_shared_of = 1u << place.rank;
  if (checker != nullptr) {
    AsyncIssue issue = {&warp, &op, lane, barrier.agent, checker->time_of(barrier)};
    issue.strong = message.reduce != nullptr;
    issue.generic = true;
    checker->async_shared(issue, place.rank, place.address, message.bytes, true);
  }
  if (message.reduce == nullptr && cluster.launch.timing != AsyncTiming::kEarliest) {
    std::memset(target, kPoisonByte, message.bytes);
    if (checker != nullptr) {
      checker->set_undefined(place.rank, place.address, message.bytes, true);
    }
  }
  return operation;
}

// All lanes whose operations complete on one barrier hand on together what they have seen and done.
void note_issued(Checker& checker, Warp& warp,
                 const std::vector<std::unique_ptr<AsyncOperation>>& operations) {
  for (uint32_t rest = warp.mask; rest != 0;) {
    Mbarrier* const barrier = operations[lowest_bit(rest)]->barrier;
    uint32_t lanes = 0;
    for (uint32_t m = rest; m != 0; m &= m - 1) {
      if (operations[lowest_bit(m)]->barrier == barrier) lanes |= 1u << lowest_bit(m);
    }
    checker.issued_for(warp, lanes, *barrier);
    rest &= ~lanes;
  }
}

// Sends `count` values of `each` bytes.
void send_values(Warp& warp, const Op& op, uint32_t count, uint32_t each, BulkReduce reduce) {
  const GenericOperands in(warp, op);
  Checker* const checker = cluster_of(warp).checker;
  std::vector<std::unique_ptr<AsyncOperation>> operations(kLanes);  // by lane
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) {
    const uint32_t lane = lowest_bit(m);
    Message message = {{}, count * each, false, reduce};
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t value = each == 8 ? in.value64(1 + i, lane) : in.value32(1 + i, lane);
      std::memcpy(message.data + i * each, &value, each);
      if (checker == nullptr) continue;
      message.undefined |= (checker->taint(warp).get(in.reg(1 + i)).lanes >> lane & 1) != 0;
    }
    operations[lane] = make_store(warp, op, lane, 1 + count, message);
  }
  if (checker != nullptr) note_issued(*checker, warp, operations);
  for (std::unique_ptr<AsyncOperation>& operation : operations) {
    if (operation) cluster_of(warp).async->issue(std::move(operation));
  }
}

void reduce_async(Warp& warp, const Op& op, NumberType type, uint32_t bytes) {
  const auto what = static_cast<BulkReduceOp>((op.flags & kOpFlagsMask) >> 1);
  send_values(warp, op, 1, bytes, bulk_reduce(what, type));
}

}  // namespace

void store_async_1x32(Warp& warp, const Op& op) { send_values(warp, op, 1, 4, nullptr); }
void store_async_2x32(Warp& warp, const Op& op) { send_values(warp, op, 2, 4, nullptr); }
void store_async_4x32(Warp& warp, const Op& op) { send_values(warp, op, 4, 4, nullptr); }
void store_async_1x64(Warp& warp, const Op& op) { send_values(warp, op, 1, 8, nullptr); }
void store_async_2x64(Warp& warp, const Op& op) { send_values(warp, op, 2, 8, nullptr); }

void reduce_async_u32(Warp& warp, const Op& op) { reduce_async(warp, op, NumberType::kU32, 4); }
void reduce_async_s32(Warp& warp, const Op& op) { reduce_async(warp, op, NumberType::kS32, 4); }
void reduce_async_u64(Warp& warp, const Op& op) { reduce_async(warp, op, NumberType::kU64, 8); }

}  // namespace lssar::vdev
