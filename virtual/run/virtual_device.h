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
  // Its limits apply, and it decides which PTX is accepted. The default is sm_80; a target without
  // shared_bytes_per_block gets the limits of sm_80.
  Target target;
  // Threads that run blocks, including the caller's. 0: as many as the machine has; a launch then
  // uses no more than its thread has CPUs and a ThreadLimit allows.
  int num_threads = 0;
  SimdLevel simd = SimdLevel::kAuto;
  // A block that executes more warp instructions than this is stopped, because it loops for ever.
  uint64_t max_block_instructions = uint64_t{1} << 33;
  // Checks for races, missing fences and undefined values, beyond bounds and alignment.
  bool strict = false;
  // With `strict`, also reports what every GPU does but the PTX ISA does not promise: stmatrix may
  // overwrite what ldmatrix of the same warp has read, without bar.warp.sync between them.
  bool letter = false;
  // Counts accesses and instruction classes, see counters().
  bool count = false;
  // If set, one cluster of each kernel is recorded there; implies `count`. The caller owns it; it
  // outlives the device.
  BlockTrace* trace = nullptr;
  // Decides the order of warps and when asynchronous operations take effect. 0: each warp in order
  // until it waits, and operations as late as allowed. Another seed: drawn from it, the same in
  // every run.
  uint64_t schedule_seed = 0;
  AsyncTiming async_timing = AsyncTiming::kBySeed;
  ApproxMode approx = ApproxMode::kNearest;
  // The lane that elect.sync elects. kDrawn needs a seed other than 0.
  ElectedLane elected_lane = ElectedLane::kLowest;
};

// Never null. LSSAR_VIRTUAL_CHECKS (fast, strict or letter) overrides `strict` and `letter`,
// LSSAR_VIRTUAL_SEED `schedule_seed`, LSSAR_VIRTUAL_ELECT (lowest or drawn) `elected_lane`. If one
// of them is wrong, or `simd` or LSSAR_VIRTUAL_SIMD names a level that does not exist or that this
// machine lacks, the error is logged, and load() of the device returns it as kInvalidArgument.
std::shared_ptr<Device> make_virtual_device(const VirtualOptions& options = {});

}  // namespace lssar
