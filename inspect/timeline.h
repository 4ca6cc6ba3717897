// Timeline: when each warp of a block works and what it waits for, from a BlockTrace.
//
// The virtual device records what ran, in which order each warp ran it, and which barrier waited
// for which warp. The times come from a model: instructions, special functions, products and copies
// at the nominal rates of a GpuModel, for one block that has its SM to itself. Used by `lssar
// report`. Threads: plain values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autotune/model/gpu_model.h"
#include "codegen/shared_layout.h"
#include "inspect/source_lines.h"
#include "virtual/count/block_trace.h"

namespace lssar {

enum class SpanKind {
  kArithmetic,
  kSpecial,      // arithmetic with special functions: softplus, powers
  kWaitData,     // for an mbarrier: data was loaded
  kWaitRoom,     // for an mbarrier: a place may be loaded again
  kWaitProduct,  // for wgmma
  kWaitOthers,   // at a barrier of the block
  kWaitStore,    // for copies out of shared memory
  kProduct,      // of a warp group, on the tensor cores
  kLoad,         // a copy into shared memory is on its way
  kHeld,         // loaded, and its place is not loaded again yet
};
inline constexpr int kNumSpanKinds = 10;
const char* span_name(SpanKind kind);  // "arithmetic", "waits for data", ...

struct TimelineSpan {
  int lane = 0;
  SpanKind kind = SpanKind::kArithmetic;
  double begin = 0, end = 0;  // clocks of the SM
  int label = 0;              // index of Timeline::labels: the function, the barrier, the tile
  uint32_t instructions = 0;  // issued by the warp; bytes for a load, FLOP for a product
  uint32_t special = 0;       // how many of them
};

struct TimelineLane {
  std::string name;  // "producer", "consumer 0", "tensor cores", "queries", "stage 2"
  std::string role;  // "warp", "tensor", "memory"
};

struct Timeline {
  std::string kernel;
  std::vector<TimelineLane> lanes;
  std::vector<TimelineSpan> spans;  // by lane, then by begin
  std::vector<std::string> labels;
  double clocks = 0;
  // Further spans were left out, or the trace was cut.
  bool is_cut = false;
};

struct TimelineInput {
  const KernelTrace& trace;
  GpuModel gpu;  // tensor_flop is the rate that this kernel's products reach
  std::vector<SharedPart> layout;
  std::vector<SourcePlace> places;  // in the PTX that ran
  std::string source;               // the source of that PTX
  // Machine instructions per PTX instruction, in issue slots.
  double machine_instructions = 1;
  size_t max_spans = 6000;
};

Timeline make_timeline(const TimelineInput& input);

// For each line of a generated source, the function that it is in, or "" outside of functions.
// Element 0 is not used.
std::vector<std::string> functions_by_line(const std::string& source);

}  // namespace lssar
