// The shapes of a CPU target's backward, which follow from a schedule's rows and panels. What its
// forward has is in codegen/shapes.h. Threads: pure functions.
#pragma once

#include "codegen/problem.h"
#include "codegen/schedule.h"

namespace lssar {

// A tile of the backward: queries and keys whose weights and gradients are made before the products
// with them. Both are whole groups of cpu.rows, and the keys are whole panels too. One block sums
// dk and dv of a tile's keys, and another one sums dq of a tile's queries.
int cpu_grad_rows(const Schedule& schedule);
int cpu_grad_keys(const Schedule& schedule);

// Bytes of a thread's working memory: GradientTile, DkdvScratch and DqScratch (templates/cpu).
int cpu_tile_bytes(const Problem& problem, const Schedule& schedule);
int cpu_dkdv_scratch_bytes(const Problem& problem, const Schedule& schedule, const Target& target);
int cpu_dq_scratch_bytes(const Problem& problem, const Schedule& schedule, const Target& target);

// Numbers of a key in a panel: its own; in the backward also those of its value, and 1 / |k|.
int cpu_panel_rows(const Problem& problem);

}  // namespace lssar
