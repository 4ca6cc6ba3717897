// The virtual device: runs the PTX of this project's kernels on the CPU, a warp at a time, and
// checks every memory access. docs/virtual_device.md says what it models.
//
// Device pointers are host addresses: memory is either allocated by the device or the caller's own,
// registered with import_range. Threads: as of device/device.h; launches execute synchronously on
// the calling thread and the device's own threads.
#pragma once

#include <cstdint>
#include <memory>

#include "codegen/target.h"
#include "device/device.h"
#include "virtual/count/block_trace.h"
#include "virtual/program/simd_level.h"
#include "virtual/state/approx_mode.h"
#include "virtual/state/async_timing.h"
#include "virtual/state/elected_lane.h"

namespace lssar {

struct VirtualOptions {
  // Whose limits apply and which PTX is accepted. The default is sm_80; a target without
  // shared_bytes_per_block gets the limits of sm_80.
  Target target;
  // Threads that run blocks, the caller's included. 0: as many as the machine has, and for a launch
  // no more than its thread has CPUs and a ThreadLimit allows.
  int num_threads = 0;
  SimdLevel simd = SimdLevel::kAuto;
  // A block that executes more warp instructions than this is stopped: an endless loop.
  uint64_t max_block_instructions = uint64_t{1} << 33;
  // Checks for races, missing fences and undefined values, beyond bounds and alignment.
  bool strict = false;
  // With `strict`, also what the PTX ISA does not promise though every GPU does it: that stmatrix
  // may overwrite what ldmatrix of the same warp has read, without bar.warp.sync between them.
  bool letter = false;
  // Counts accesses and instruction classes, see counters().
  bool count = false;
  // Where set, what one cluster of blocks of each kernel does is recorded there; implies `count`.
  // The caller's, and outlives the device.
  BlockTrace* trace = nullptr;
  // Order of warps and moments of asynchronous operations. 0: warps in order, each until it waits,
  // and operations as late as allowed; else drawn from the seed, the same for every run.
  uint64_t schedule_seed = 0;
  AsyncTiming async_timing = AsyncTiming::kBySeed;
  ApproxMode approx = ApproxMode::kNearest;
  // The lane that elect.sync elects. kDrawn needs a seed other than 0.
  ElectedLane elected_lane = ElectedLane::kLowest;
};

// Never null. LSSAR_VIRTUAL_CHECKS (fast, strict or letter), LSSAR_VIRTUAL_SEED and
// LSSAR_VIRTUAL_ELECT (lowest or drawn) override `strict` and `letter`, `schedule_seed` and
// `elected_lane`. Where one of them is
// wrong, or `simd` or LSSAR_VIRTUAL_SIMD names a level that does not exist or that this machine
// lacks, that is logged and load() of the device returns it as kInvalidArgument.
std::shared_ptr<Device> make_virtual_device(const VirtualOptions& options = {});

}  // namespace lssar
