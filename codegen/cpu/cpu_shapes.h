// Shapes of a CPU target's kernels that follow from a schedule's rows and panels. What the engine
// needs of them is in codegen/shapes.h. Threads: pure functions.
#pragma once

#include "codegen/problem.h"
#include "codegen/schedule.h"

namespace lssar {

// Groups of `rows` queries that a block of the forward has. A panel, or a part of v, is read from
// the second-level cache for the first group only. There is one group if the score function is
// given as expressions, else at least two, and as many as have 12 rows.
int cpu_groups(const Problem& problem, int rows);

// Up to this many queries of the heads that share keys are few, and have functions of their own
// (templates/cpu/few_queries.h).
inline constexpr int kCpuFewRows = 16;
// Keys of a block of these functions: whole vectors of every level, several at a time.
inline constexpr int kCpuFewKeys = 512;
// Whether the kernel has them.
bool cpu_takes_few_queries(const Problem& problem);
// Bytes of a thread's memory in lssar_few_scores: FewScratch.
int cpu_few_scratch_bytes(const Problem& problem, const Schedule& schedule, const Target& target);
// Floats between two rows of what a chunk of keys adds to o.
int cpu_few_pitch(const Problem& problem);

// Keys that a block of lssar_pack_keys packs: whole panels.
int cpu_pack_keys(const Schedule& schedule);

// A tile of the backward: queries and keys whose weights and gradients are made before the products
// with them. Both are whole groups of cpu.rows, and the keys are whole panels too. One block sums
// dk and dv of a tile's keys, and another one sums dq of a tile's queries.
int cpu_grad_rows(const Schedule& schedule);
int cpu_grad_keys(const Schedule& schedule);

// Bytes of a thread's working memory: GradientTile; DkdvScratch, with sums_dq QuerySums too; and
// DqScratch (templates/cpu).
int cpu_tile_bytes(const Problem& problem, const Schedule& schedule);
int cpu_dkdv_scratch_bytes(const Problem& problem, const Schedule& schedule, const Target& target);
int cpu_dq_scratch_bytes(const Problem& problem, const Schedule& schedule, const Target& target);

// Whether products multiply pairs of bf16 numbers (templates/cpu/pairs.h). All passes of a problem
// do or none does, so that the backward forms the scores of the forward. Values of few queries, and
// dq of rows of few keys, stay in float32.
bool cpu_has_pairs(const Problem& problem, const Target& target);

// Whether pass 2 multiplies values only for keys whose weights matter.
bool cpu_skips_keys(const Problem& problem, const Target& target);

// Rows of a panel: the numbers of a key; in the backward also those of its value, and 1 / |k|.
// With a target: panels of pairs have half as many rows of numbers, and 1 / |k| in every pass. The
// workspace has room for panels without pairs, on every target.
int cpu_panel_rows(const Problem& problem);
int cpu_panel_rows(const Problem& problem, const Target& target);

}  // namespace lssar
