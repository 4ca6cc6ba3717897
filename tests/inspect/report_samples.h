// Requests, records and a comparison for the tests of the report.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "inspect/page/report.h"
#include "inspect/timing/kernel_timing.h"
#include "tests/autotune/sample_records.h"

namespace lssar {

inline ReportRequest sample_request(const char* target, Pass pass = Pass::kForward) {
  ReportRequest request;
  ExplanationRequest& asked = request.explanation;
  asked.problem = sample_problem(pass);
  asked.sizes = sizes_of_length(4096);
  asked.target = *target_from_name(target);
  asked.machine = std::string(target) == "sm_90a" ? h200() : a100();
  asked.model = *gpu_model(target);
  request.shown = 200;
  request.why_no_engine = "not asked for";
  return request;
}

// Candidates of the sample problem's space, one written every second; the first is the winner. To
// save time records share one source, unless their schedules need one of their own.
inline std::vector<TuningRecord> recorded_candidates(size_t count) {
  const TuningRecord base = sample_record();
  const Target target = *target_from_name(base.machine.target);
  const SearchSpace space = search_space(base.problem, target, Determinism::kRepeatable);
  Enumeration found;
  for (const Algorithm& algorithm : space.algorithms)
    enumerate_blocks(base.problem, target, algorithm, &found);
  std::vector<TuningRecord> records;
  for (size_t i = 0; i < found.candidates.size() && i < count; ++i) {
    TuningRecord record = base;
    record.schedule = found.candidates[i];
    record.source_hash = *schedule_source_hash(base.problem, record.schedule, target);
    record.chosen = i == 0;
    record.ms = 1.25 + 0.001 * double(i % 97);
    record.time = "2026-11-21T13:" + std::to_string(10 + i / 60 % 50) + ":" +
                  (i % 60 < 10 ? "0" : "") + std::to_string(i % 60) + "Z";
    records.push_back(record);
  }
  return records;
}

// As the timing model makes it: two loops, the second with two ways.
inline nlohmann::json sample_timing() {
  WayTiming way;
  way.instructions = 310;
  way.scores = 8192;
  way.timing.clocks = 800;
  way.timing.uses[size_t(ClockUse::kIssue)] = 600;
  way.timing.uses[size_t(ClockUse::kTensor)] = 200;
  way.timing.issue_bound = 580;
  way.special_run = {0x120, 8};
  way.notes = {"a note"};
  HotLoopTiming loop;
  loop.first_address = 0x100;
  loop.last_address = 0x200;
  loop.warps = 2;
  loop.ways = {way};
  KernelTiming kernel{"lssar_forward", {loop, loop}};
  kernel.loops[1].ways.push_back(way);
  kernel.loops[1].ways[1].timing.uses[size_t(ClockUse::kTurn)] = 50;
  return {{"loops", to_json(std::vector<KernelTiming>{kernel})}};
}

// As tools/compare_torch.py writes it.
inline nlohmann::json sample_comparison() {
  const auto record = [](const char* contender, int length, double ms, const char* pass) {
    return nlohmann::json{
        {"dim", 64},           {"length", length}, {"batch", 4},       {"heads", 16},
        {"causal", true},      {"data", "gauss"},  {"pass", pass},     {"contender", contender},
        {"status", "ok"},      {"median_ms", ms},  {"tflops", 9 / ms}, {"quartiles_ms", {ms, ms}},
        {"ratio_to_cudnn", ms}};
  };
  nlohmann::json other = record("flash", 4096, 1, "forward");
  other["status"] = "skipped";
  return {{"format", 1},
          {"machine", {{"gpu", "NVIDIA H200"}}},
          {"times_mean_something", true},
          {"records",
           {record("ours-p15", 4096, 1.5, "forward"), record("cudnn", 4096, 1, "forward"),
            record("cudnn", 4096, 2, "backward"), other}}};
}

// Two models of two layers with two heads, by examples/train/looking.py. Its test compares the
// fields of this file with those that it writes.
inline nlohmann::json sample_figures() {
  const auto text =
      read_file(std::string(LSSAR_SOURCE_FOLDER) + "/tests/inspect/attention_figures.json");
  return text.ok() ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
}

}  // namespace lssar
