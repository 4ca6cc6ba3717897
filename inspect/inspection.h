// Inspection: everything that can be known about one kernel source: PTX, machine code, resources,
// its instructions, and what they did in a counted run.
//
// Used by `lssar inspect` and `lssar report`. Threads: as Engine.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"
#include "codegen/emit.h"
#include "codegen/sizes.h"
#include "inspect/kernel_facts.h"
#include "inspect/sass.h"
#include "inspect/source_lines.h"
#include "runtime/engine.h"

namespace lssar {

struct InspectionRequest {
  Problem problem;
  Schedule schedule;
  Sizes sizes;                         // of the counted run; shorter if they would take long
  std::optional<KernelSource> source;  // instead of the generated one
  bool count = true;                   // run it on a virtual device that counts
};

struct CountedKernel {
  KernelCounters counters;
  std::map<SourcePlace, LineActivity> by_place;  // in counted_source
};

struct Inspection {
  KernelFacts facts;  // compiled with line numbers
  std::string ptx;    // "" if the compiler gave none; `problems` then says why; "" for a CPU
  // How many multiply-adds of vectors the product of q and k takes per score. 0 for GPUs.
  double score_multiply_adds = 0;
  // Machine code; empty if there is none.
  std::vector<SassKernel> kernels;
  std::string listing;

  std::vector<CountedKernel> counted;  // by kernel; empty: nothing ran
  Sizes counted_sizes;
  // The source that was counted. It differs from facts.source if the problem fixes lengths, because
  // the counted run gives them at run time. "": facts.source was counted.
  std::string counted_source;

  std::vector<std::string> problems;  // what is missing and why, one line each
};

// `options` are those that opened `engine`. `problems` says what could not be found (a
// disassembler, for example). Errors: those of Engine::compile.
Result<Inspection> inspect(Engine& engine, const InspectionRequest& request);

// Kernels, their instructions by class, loops, the run, the lines that lose most.
std::string inspection_text(const Inspection& inspection);
nlohmann::json to_json(const Inspection& inspection);

// Every source line that became instructions, with the instructions below it. Loops with matrix
// products are marked. REQUIRES: !inspection.kernels.empty().
std::string side_by_side(const Inspection& inspection);

}  // namespace lssar
