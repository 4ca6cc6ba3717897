// Setting up a block, and running its warps in turn.
#include "runtime/virtual/block_runner.h"

#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "runtime/virtual/fault.h"

namespace lssar::vdev {
namespace {

constexpr size_t kMemoryAlignment = 1024;  // what TMA swizzles need of shared memory
// Fills what no instruction has written: NaN as a float, a far address as a pointer.
constexpr int kPoison = 0xff;

void fill_register(uint8_t* place, RegClass reg_class, uint64_t bits) {
  const auto fill = [&](auto value) {
    for (uint32_t i = 0; i < kLanes; ++i)
      std::memcpy(place + i * sizeof value, &value, sizeof value);
  };
  switch (reg_class) {
    case RegClass::kPred:
      std::memcpy(place, &bits, 4);
      break;
    case RegClass::k16:
      fill(static_cast<uint16_t>(bits));
      break;
    case RegClass::k32:
      fill(static_cast<uint32_t>(bits));
      break;
    case RegClass::k64:
      fill(bits);
      break;
  }
}

}  // namespace

void BlockRunner::AlignedFree::operator()(void* memory) const { std::free(memory); }

BlockRunner::BlockRunner() = default;
BlockRunner::~BlockRunner() {
  for (Warp& warp : warps_) std::free(warp.async.items);
}

bool BlockRunner::grow(Memory& memory, size_t& capacity, size_t bytes) {
  if (bytes <= capacity) return true;
  const size_t rounded = (bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
  memory.reset(static_cast<uint8_t*>(std::aligned_alloc(kMemoryAlignment, rounded)));
  capacity = memory ? rounded : 0;
  return memory != nullptr;
}

Status BlockRunner::prepare(const LaunchContext& launch) {
  launch_ = launch;
  context_.launch = &launch_;
  counts_.begin(launch.counts);
  const KernelProgram& program = *launch.program;
  const size_t warps = launch.num_warps();
  const size_t local = size_t{program.local_bytes} * kLanes;
  if (!grow(registers_, registers_capacity_, warps * program.register_bytes) ||
      !grow(shared_, shared_capacity_, launch.shared_bytes) ||
      !grow(local_, local_capacity_, warps * local)) {
    return out_of_memory(
        fmt::format("kernel {}: registers, shared and local memory of a block", program.name));
  }
  const size_t old_size = warps_.size();
  if (old_size < warps) {
    warps_.resize(warps);
    for (size_t i = old_size; i < warps; ++i) std::memset(&warps_[i], 0, sizeof(Warp));
  }
  waiting_.resize(warps_.size());
  arriving_.resize(warps_.size());
  for (size_t i = 0; i < warps; ++i) {
    Warp& warp = warps_[i];
    warp.registers = registers_.get() + i * program.register_bytes;
    warp.local = local_.get() + i * local;
    warp.local_bytes = program.local_bytes;
    warp.shared = shared_.get();
    warp.shared_bytes = launch.shared_bytes;
    warp.params = launch.params;
    warp.params_bytes = program.params_bytes;
    warp.range_begin = 0;
    warp.range_bytes = 0;
    warp.approx = launch.approx;
    warp.counters = counts_.accesses();
    warp.index = static_cast<uint32_t>(i);
    warp.context = &context_;
    fill_constants(warp);
  }
  return {};
}

void BlockRunner::fill_constants(Warp& warp) {
  std::memset(warp.registers, 0, kScratchBytes);
  for (const Constant& c : launch_.program->constants) {
    fill_register(warp.registers + c.offset, c.reg_class, c.bits);
  }
}

void BlockRunner::fill_specials(Warp& warp) {
  const auto& block = launch_.block;
  for (const SpecialRegister& s : launch_.program->specials) {
    uint8_t* place = warp.registers + s.offset;
    if (s.which == Special::kGridId) {
      fill_register(place, RegClass::k64, launch_.grid_id);
      continue;
    }
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const uint32_t thread = warp.index * kLanes + lane;
      uint32_t value = 0;
      switch (s.which) {
        case Special::kTidX:
          value = thread % block[0];
          break;
        case Special::kTidY:
          value = thread / block[0] % block[1];
          break;
        case Special::kTidZ:
          value = thread / block[0] / block[1];
          break;
        case Special::kNtidX:
          value = block[0];
          break;
        case Special::kNtidY:
          value = block[1];
          break;
        case Special::kNtidZ:
          value = block[2];
          break;
        case Special::kCtaidX:
          value = context_.index[0];
          break;
        case Special::kCtaidY:
          value = context_.index[1];
          break;
        case Special::kCtaidZ:
          value = context_.index[2];
          break;
        case Special::kNctaidX:
          value = launch_.grid[0];
          break;
        case Special::kNctaidY:
          value = launch_.grid[1];
          break;
        case Special::kNctaidZ:
          value = launch_.grid[2];
          break;
        case Special::kLaneId:
          value = lane;
          break;
        case Special::kWarpId:
          value = warp.index;
          break;
        case Special::kNumWarps:
          value = launch_.num_warps();
          break;
        case Special::kSmId:
          value = context_.index[0] % launch_.num_sms;
          break;
        case Special::kNumSms:
          value = launch_.num_sms;
          break;
        case Special::kGridId:
          break;
        case Special::kLaneMaskEq:
          value = 1u << lane;
          break;
        case Special::kLaneMaskLt:
          value = (1u << lane) - 1;
          break;
        case Special::kLaneMaskLe:
          value = (2u << lane) - 1;
          break;
        case Special::kLaneMaskGt:
          value = ~((2u << lane) - 1);
          break;
        case Special::kLaneMaskGe:
          value = ~((1u << lane) - 1);
          break;
        case Special::kDynamicShared:
          value = launch_.dynamic_shared_bytes;
          break;
        case Special::kTotalShared:
          value = launch_.shared_bytes;
          break;
      }
      std::memcpy(place + lane * sizeof value, &value, sizeof value);
    }
  }
}

void BlockRunner::reset_block(uint64_t index) {
  context_.index[0] = static_cast<uint32_t>(index % launch_.grid[0]);
  context_.index[1] = static_cast<uint32_t>(index / launch_.grid[0] % launch_.grid[1]);
  context_.index[2] = static_cast<uint32_t>(index / launch_.grid[0] / launch_.grid[1]);
  context_.instructions = 0;
  if (launch_.shared_bytes != 0) std::memset(shared_.get(), kPoison, launch_.shared_bytes);
  barriers_.fill({});
  const uint32_t num_warps = launch_.num_warps();
  for (uint32_t i = 0; i < num_warps; ++i) {
    Warp& warp = warps_[i];
    waiting_[i].fill(0);
    arriving_[i].fill(0);
    const uint32_t threads = launch_.num_threads() - i * kLanes;
    warp.live = threads >= kLanes ? kAllLanes : (1u << threads) - 1;
    warp.mask = 0;
    warp.missing = 0;
    warp.missing_any_op = false;
    warp.num_splits = 1;
    warp.splits[0] = {0, 0, warp.live, 0, nullptr, 0, WaitKind::kNone};
    warp.async.size = 0;
    std::memset(warp.async.commits, 0, sizeof warp.async.commits);
    fill_specials(warp);
    for (const auto& [offset, bytes] : launch_.program->undefined) {
      std::memset(warp.registers + offset, kPoison, bytes);
    }
    if (warp.local_bytes != 0) std::memset(warp.local, kPoison, size_t{warp.local_bytes} * kLanes);
  }
}

Status BlockRunner::run(uint64_t index) {
  reset_block(index);
  if (launch_.program->blocks.empty()) return {};
  try {
    run_warps();
  } catch (const LaunchFault& fault) {
    return fault.status;
  }
  return {};
}

void BlockRunner::run_warps() {
  const uint32_t num_warps = launch_.num_warps();
  while (true) {
    bool any_live = false;
    bool progress = false;
    for (uint32_t i = 0; i < num_warps; ++i) {
      Warp& warp = warps_[i];
      if (warp.live == 0) continue;
      const uint64_t before = context_.instructions;
      run_warp(warp);
      progress |= context_.instructions != before || warp.live == 0;
      any_live |= warp.live != 0;
    }
    if (!any_live) return;
    if (!progress) report_deadlock();
  }
}

void BlockRunner::report_deadlock() {
  constexpr size_t kMaxReported = 16;
  std::string text = fmt::format("kernel {}, block ({}, {}, {}): deadlock:", launch_.program->name,
                                 context_.index[0], context_.index[1], context_.index[2]);
  size_t count = 0;
  for (uint32_t i = 0; i < launch_.num_warps(); ++i) {
    const Warp& warp = warps_[i];
    for (uint32_t s = 0; s < warp.num_splits && warp.live != 0; ++s) {
      if (++count > kMaxReported) continue;
      const Split& split = warp.splits[s];
      const Op* op = split.barrier_op;
      std::string why;
      if (split.wait == WaitKind::kBarrier) {
        const BarrierState& b = barriers_[split.barrier];
        why = fmt::format("barrier {} of {} threads", split.barrier, b.expected);
      } else {
        why = fmt::format("lanes {:#010x} of its warp", split.need & ~split.mask);
      }
      const Instruction& in = launch_.program->instruction(*op);
      text += fmt::format("\n  warp {}, lanes {:#010x} wait at PTX line {} '{}' for {}", i,
                          split.mask, in.line, in.text.substr(0, 120), why);
    }
  }
  if (count > kMaxReported) text += fmt::format("\n  and {} more", count - kMaxReported);
  throw LaunchFault{device_error(std::move(text))};
}

}  // namespace lssar::vdev
