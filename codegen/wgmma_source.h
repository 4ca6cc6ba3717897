// Writes the wgmma instructions of a kernel: one specialisation of Wgmma (templates/ptx/wgmma.cuh)
// per element type and number of columns.
//
// Used by emit.cpp. Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "codegen/source/source_writer.h"

namespace lssar {

struct WgmmaShape {
  DType dtype = DType::kBf16;  // of a and b: fp16 or bf16
  int cols = 0;                // N: a multiple of 8, 8 to 256

  auto operator<=>(const WgmmaShape&) const = default;
};

// The shapes that the pass's kernels use, each once, in order. Empty if the variant does not use
// wgmma.
std::vector<WgmmaShape> wgmma_shapes(const Problem& problem, const Schedule& schedule);

// Writes their specialisations, each with the forms that the pass may use. Writes nothing if there
// are none.
void write_wgmma(SourceWriter& out, const Problem& problem, const Schedule& schedule);

}  // namespace lssar
