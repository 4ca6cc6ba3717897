// Inspection: everything that can be known of one kernel source: PTX, machine code, resources, what
// its instructions are, and what they did in a run that was counted.
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
  Sizes sizes;                         // of the counted run, cut where they take long
  std::optional<KernelSource> source;  // instead of the generated one
  bool count = true;                   // run it on a virtual device that counts
};

struct CountedKernel {
  KernelCounters counters;
  std::map<SourcePlace, LineActivity> by_place;  // of counted_source
};

struct Inspection {
  KernelFacts facts;  // compiled with line numbers
  std::string ptx;    // "" where the compiler gave none: then `problems` says why
  // Machine code; empty where there is none.
  std::vector<SassKernel> kernels;
  std::string listing;

  std::vector<CountedKernel> counted;  // by kernel; empty: nothing ran
  Sizes counted_sizes;
  // The lengths were given when it was counted, whatever the problem fixes: lines are those of the
  // source that was counted, this one; else of `facts.source`.
  std::string counted_source;

  std::vector<std::string> problems;  // what is missing, and why: a line each
};

// `options` opened `engine`. What cannot be found (a disassembler, say) is told in `problems`;
// errors are those of Engine::compile.
Result<Inspection> inspect(Engine& engine, const InspectionRequest& request);

// Kernels, their instructions by class, loops, the run, the lines that lose most.
std::string inspection_text(const Inspection& inspection);
nlohmann::json to_json(const Inspection& inspection);

// Every line of the source that became instructions, with them below it; loops with matrix products
// are marked. REQUIRES: !inspection.kernels.empty().
std::string side_by_side(const Inspection& inspection);

}  // namespace lssar
