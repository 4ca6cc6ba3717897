// Records and files for the tests of the tuning table.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "autotune/table/tuning_record.h"
#include "autotune/table/tuning_table.h"
#include "codegen/target.h"

namespace lssar {

inline Problem sample_problem(Pass pass = Pass::kForward) {
  Problem problem;
  problem.causal = true;
  problem.pass = pass;
  problem.heads = problem.kv_heads = 8;
  return problem;
}

inline Sizes sizes_of_length(int64_t seq) {
  return {.batch = 2, .heads = 8, .kv_heads = 8, .seq_q = seq, .seq_k = seq};
}

inline Machine h200() { return {"NVIDIA H200", "sm_90a", 132, "13.0", "nvrtc 13.0.88"}; }
inline Machine a100() { return {"NVIDIA A100", "sm_80", 108, "13.0", "nvrtc 13.0.88"}; }

// A chosen, measured record whose source is what the generator makes now.
inline TuningRecord sample_record(const Machine& machine = h200(), int64_t seq = 4096,
                                  const Problem& problem = sample_problem()) {
  TuningRecord record;
  record.problem = problem;
  record.sizes = sizes_of_length(seq);
  record.bucket = bucket_of(problem, record.sizes, Determinism::kRepeatable);
  const Target target = *target_from_name(machine.target);
  record.schedule = default_schedule(problem, target);
  record.source_hash = *schedule_source_hash(problem, record.schedule, target);
  record.machine = machine;
  record.evidence = Evidence::kMeasured;
  record.chosen = true;
  record.ms = 1.25;
  record.spread_ms = 0.01;
  record.samples = 12;
  record.estimate_ms = 1.1;
  record.terms = {{"tensor", 0.9}, {"special functions", 0.7}};
  record.error = 0.0021;
  record.baseline_error = 0.002;
  record.registers = 168;
  record.spill_bytes = 0;
  record.shared_bytes = 200'000;
  record.time = "2026-11-21T13:16:13Z";
  record.search = "quick-3f9a12";
  return record;
}

// Many that differ, made fast: one source for all.
inline std::vector<TuningRecord> many_records(int count, int first = 0) {
  const TuningRecord base = sample_record();
  std::vector<TuningRecord> records(static_cast<size_t>(count), base);
  for (int i = 0; i < count; ++i) {
    records[static_cast<size_t>(i)].samples = first + i;
    records[static_cast<size_t>(i)].search = "search-" + std::to_string(first + i);
  }
  return records;
}

}  // namespace lssar
