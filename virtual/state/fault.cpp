#include "virtual/state/fault.h"

#include <chrono>
#include <cstdlib>

#include <fmt/format.h>

#include "virtual/state/cluster.h"
#include "virtual/state/generic_operands.h"

namespace lssar::vdev {
namespace {

const char* space_name(StateSpace space) {
  switch (space) {
    case StateSpace::kGlobal:
      return "global";
    case StateSpace::kConst:
      return "constant";
    case StateSpace::kShared:
      return "shared";
    case StateSpace::kLocal:
      return "local";
    case StateSpace::kParam:
      return "parameter";
    case StateSpace::kGeneric:
      return "generic";
  }
  return "";
}

std::string limits(const Warp& warp, StateSpace space, uint64_t address) {
  switch (space) {
    case StateSpace::kShared:
      return fmt::format("the block has {} bytes", warp.shared_bytes);
    case StateSpace::kLocal:
      return fmt::format("a thread has {} bytes", warp.local_bytes);
    case StateSpace::kParam:
      return fmt::format("there are {} bytes", warp.params_bytes);
    default:
      if (warp.cta->launch->ranges->was_freed(address)) return "the memory there was freed";
      return "it lies in no allocated or imported range";
  }
}

}  // namespace

std::string describe_line(const Instruction& instruction) {
  constexpr size_t kMaxQuoted = 200;
  return fmt::format("PTX line {} '{}'", instruction.line, instruction.text.substr(0, kMaxQuoted));
}

std::string describe_place(const Cta& cta, uint32_t warp, const Op& op) {
  const KernelProgram& program = *cta.launch->program;
  const auto& b = cta.index;
  return fmt::format("kernel {}, block ({}, {}, {}), warp {}, {}", program.name, b[0], b[1], b[2],
                     warp, describe_line(program.instruction(op)));
}

void raise_memory_fault(const Warp& warp, const Op& op, MemoryFault fault, StateSpace space,
                        uint32_t lane, uint64_t address, uint32_t bytes) {
  const char* verb = op.flags & kOpWrites ? "write" : "read";
  std::string what = fmt::format("lane {}, {} {} of {} bytes at address {:#x}: ", lane,
                                 space_name(space), verb, bytes, address);
  switch (fault) {
    case MemoryFault::kOutOfRange:
      what += "out of bounds: " + limits(warp, space, address);
      break;
    case MemoryFault::kMisaligned:
      what += fmt::format("not aligned to {} bytes", bytes);
      break;
    case MemoryFault::kReadOnly:
      what += "parameters are read-only";
      break;
    case MemoryFault::kBadSpace:
      what += "not an address of any state space";
      break;
    case MemoryFault::kOtherBlock:
      what += fmt::format(
          "in block {} of the cluster, but the instruction is on block {}'s own shared memory "
          "(.shared::cta)",
          address >> kRankShift, warp.cta->rank);
      break;
  }
  throw LaunchFault{device_error(describe_place(*warp.cta, warp.index, op) + ": " + what)};
}

void raise_fault(const Warp& warp, const Op& op, const char* message) {
  throw LaunchFault{device_error(describe_place(*warp.cta, warp.index, op) + ": " + message)};
}

bool find_global_range(Warp& warp, uint64_t address, uint32_t bytes) {
  const RangeTable::Range* range = warp.cta->launch->ranges->find(address, bytes);
  if (range == nullptr) return false;
  warp.range_begin = range->begin;
  warp.range_bytes = range->bytes;
  return true;
}

void block_on(Warp& warp, const Op&) { warp.blocked = true; }

void poll_failed(Warp& warp, const Op& op, uint32_t lanes) {
  warp.polled |= lanes;
  warp.polled_op = &op;
}

uint8_t* shared_of_other(const Warp& warp, const Op& op, uint32_t lane, uint64_t address,
                         uint32_t bytes) {
  const auto& ctas = warp.cta->cluster->ctas;
  const uint64_t rank = address >> kRankShift;
  const uint64_t offset = address & ((1u << kRankShift) - 1);
  if (rank >= ctas.size() || offset + bytes > warp.shared_bytes) return nullptr;
  if (rank != warp.cta->rank && warp.cta->launch->program->facts_of(op).own_shared) {
    raise_memory_fault(warp, op, MemoryFault::kOtherBlock, StateSpace::kShared, lane, address,
                       bytes);
  }
  return ctas[rank].shared + offset;
}

SharedPlace locate_shared(const Warp& warp, const Op& op, uint32_t lane, uint64_t address,
                          uint32_t bytes, uint32_t align) {
  const uint64_t given = address;
  const uint64_t window = address >> kWindowShift << kWindowShift;
  if (window == kSharedWindow) address -= window;
  const uint64_t rank = address >> kRankShift;
  const uint64_t offset = address & ((1u << kRankShift) - 1);
  if (rank >= warp.cta->cluster->ctas.size()) {
    raise_memory_fault(warp, op, MemoryFault::kBadSpace, StateSpace::kShared, lane, given, bytes);
  }
  if (offset % align != 0) {
    raise_memory_fault(warp, op, MemoryFault::kMisaligned, StateSpace::kShared, lane, given, align);
  }
  if (offset + bytes > warp.shared_bytes) {
    raise_memory_fault(warp, op, MemoryFault::kOutOfRange, StateSpace::kShared, lane, given, bytes);
  }
  if (rank != warp.cta->rank && warp.cta->launch->program->facts_of(op).own_shared) {
    raise_memory_fault(warp, op, MemoryFault::kOtherBlock, StateSpace::kShared, lane, address,
                       bytes);
  }
  return {static_cast<uint32_t>(rank), static_cast<uint32_t>(offset)};
}

void grow_async_queue(AsyncQueue& queue) {
  const uint32_t capacity = queue.capacity == 0 ? 32 : 2 * queue.capacity;
  void* memory = std::realloc(queue.items, capacity * sizeof(AsyncCopy));
  if (memory == nullptr) throw LaunchFault{out_of_memory("asynchronous copies in flight")};
  queue.items = static_cast<AsyncCopy*>(memory);
  queue.capacity = capacity;
}

uint64_t read_block_clock(const Warp& warp) { return warp.cta->cluster->instructions; }

uint64_t read_global_timer() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

}  // namespace lssar::vdev
