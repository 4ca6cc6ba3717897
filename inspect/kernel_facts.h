// What is known about a compiled kernel without running it: registers, spills, shared memory,
// occupancy, and where its image is.
//
// Used by `lssar explain` and `lssar inspect`. Threads: as Engine.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"
#include "codegen/emit.h"
#include "codegen/launch_step.h"
#include "compile/compiler.h"
#include "inspect/occupancy.h"
#include "runtime/engine.h"

namespace lssar {

struct StepFacts {
  LaunchStep step;
  KernelResources resources;  // -1 if the image is PTX
  Occupancy occupancy;        // without registers if they are not known
};

struct KernelFacts {
  KernelSource source;
  Image image;
  std::string key;       // of the binary cache
  std::string compiler;  // "nvrtc 13.0.88"
  CacheSource cache_source = CacheSource::kComputed;
  double compile_ms = 0;
  // The file of the image in the cache's directory; "" if it is not there (in memory only, or in a
  // read-only layer).
  std::string image_path;
  std::vector<StepFacts> steps;
};

// Emits the source, and finds or compiles its image for the engine's target: a cubin if the
// compiler makes them, because its registers are the ones that run. Errors: those of
// Engine::compile.
Result<KernelFacts> kernel_facts(Engine& engine, const Problem& problem, const Schedule& schedule);
// The same for a given source.
Result<KernelFacts> kernel_facts(Engine& engine, const Problem& problem, const Schedule& schedule,
                                 KernelSource source);

// A line per kernel under a heading. Says so if registers are not known.
std::string facts_table(const KernelFacts& facts);
nlohmann::json to_json(const KernelFacts& facts);

}  // namespace lssar
