// Predicts from machine code how long the hot loops of a kernel for sm_90a take, and what their
// clocks wait for.
//
// Used by `lssar inspect --timing` and `lssar report`. docs/timing_model.md says what is modelled.
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"
#include "inspect/kernel_facts.h"
#include "inspect/sass.h"
#include "inspect/timing/scheduler_simulator.h"
#include "inspect/timing/timing_constants.h"

namespace lssar {

// How a kernel fills an SM.
struct KernelShape {
  int threads = 0;        // of a block
  int blocks_per_sm = 1;  // at once
  int cluster = 1;        // blocks that share the tiles that the L2 sends
  bool is_backward = false;
  double l2_bytes_per_clock = 0;  // of one SM; 0: never waited for
};

struct WayTiming {
  uint32_t instructions = 0, tensor = 0, special = 0, fma = 0;
  // Scores that all blocks of the SM make in the iteration; 0: not known.
  int scores = 0;
  LoopTiming timing;
  InstructionRun special_run, fma_run;
  std::vector<std::string> notes;
};

struct HotLoopTiming {
  uint32_t first_address = 0, last_address = 0;
  int warps = 0;  // per scheduler
  std::vector<WayTiming> ways;
};

struct KernelTiming {
  std::string name;
  std::vector<HotLoopTiming> loops;
};

// Warps of a block and a scheduler that multiply: one of each warp group. The group that gives its
// registers away (USETMAXREG.DEALLOC) only moves data.
int multiplying_warps(const SassKernel& kernel, const KernelShape& shape);

// The hot loops of one kernel whose listing has words. kUnsupported: it has no HGMMA.
// kInvalidArgument: an instruction is not understood.
Result<KernelTiming> kernel_timing(const SassKernel& kernel, const KernelShape& shape,
                                   const TimingConstants& constants = {});

// All compiled kernels that have such loops. kUnsupported: there is none, or no cubin. Errors: also
// those of disassemble.
Result<std::vector<KernelTiming>> facts_timing(const KernelFacts& facts, Pass pass,
                                               const Target& target);

// Those of any cubin for sm_90a, such as one of nvcc. It does not say how its kernels are launched:
// a block is taken to fill an SM, and the L2, whose tiles a cluster may share, is never waited for.
// Errors: as facts_timing.
Result<std::vector<KernelTiming>> cubin_timing(const std::string& cubin, Pass pass);

// Clocks of the SM per score of each loop, in the order of the code: of its ways the one that takes
// least, which is LSSAR's linear form. Empty: the scores of a loop are not known.
std::vector<double> clocks_per_score(const std::vector<KernelTiming>& kernels);

std::string timing_text(const std::vector<KernelTiming>& kernels);
nlohmann::json to_json(const std::vector<KernelTiming>& kernels);

}  // namespace lssar
