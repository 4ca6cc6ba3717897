// Charts of a kernel: its shared memory, its block's timeline, its counters, its accuracy, and its
// speed beside softmax.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "autotune/table/bucket.h"
#include "codegen/shared_layout.h"
#include "codegen/visible_keys.h"
#include "inspect/page/report_charts.h"

namespace lssar {
namespace {

using nlohmann::json;

constexpr const char* kClassNames[kNumInstructionClasses] = {
    "tensor", "special function", "fma",  "other float", "conversion",     "integer",
    "move",   "memory",           "warp", "control",     "synchronisation"};

json timeline_json(const Timeline& timeline) {
  json chart = {{"kernel", timeline.kernel},
                {"clocks", std::round(timeline.clocks)},
                {"is_cut", timeline.is_cut},
                {"labels", timeline.labels},
                {"lanes", json::array()},
                {"columns", {"lane", "kind", "begin", "end", "label", "amount", "special"}},
                {"spans", json::array()}};
  for (const TimelineLane& lane : timeline.lanes)
    chart["lanes"].push_back({{"name", lane.name}, {"role", lane.role}});
  for (const TimelineSpan& span : timeline.spans) {
    chart["spans"].push_back({span.lane, int(span.kind), int64_t(std::round(span.begin)),
                              int64_t(std::round(span.end)), span.label, span.instructions,
                              span.special});
  }
  return chart;
}

bool is_number(const json& record, const char* name) {
  return record.is_object() && record.contains(name) && record[name].is_number();
}

// The name of a pass in the output of tools/compare_torch.py.
std::string comparison_pass(Pass pass) {
  return pass == Pass::kForwardTrain ? "forward_train" : pass_name(pass);
}

// The field may have any type, because the file is untrusted.
json field(const json& object, const char* name) {
  return object.is_object() && object.contains(name) ? object[name] : json();
}

// Whether the record is of a rectangular call with the problem's dims, mask and pass. Packed
// sequences have `longest`, decodes `num_queries` and perhaps `kv_heads`.
bool is_of(const json& record, const Problem& problem) {
  for (const char* other : {"longest", "num_queries", "kv_heads"})
    if (!field(record, other).is_null()) return false;
  return field(record, "status") == "ok" && is_number(record, "median_ms") &&
         is_number(record, "length") && field(record, "dim") == problem.head_dim &&
         field(record, "causal") == problem.causal && field(record, "contender").is_string() &&
         field(record, "pass") == comparison_pass(problem.pass);
}

}  // namespace

json shared_chart(const ExplanationRequest& request, const Schedule& schedule) {
  if (request.target.is_cpu()) return missing_chart("A CPU has no shared memory.");
  const auto source = emit_kernel(request.problem, schedule, request.target);
  if (!source.ok()) return missing_chart(source.status().message());
  json chart = {{"limit", request.target.shared_bytes_per_block}, {"kernels", json::array()}};
  for (const LaunchStep& step : source->steps) {
    const auto layout = shared_layout(request.problem, schedule, step.entry);
    if (layout.empty()) continue;
    json kernel = {{"entry", step.entry}, {"bytes", step.shared_bytes}, {"parts", json::array()}};
    for (const SharedPart& part : layout)
      kernel["parts"].push_back({part.name, part.note, part.offset, part.bytes, part.stage});
    chart["kernels"].push_back(std::move(kernel));
  }
  return chart;
}

json timeline_chart(const TracedKernels& traced, const GpuModel& gpu) {
  json chart = {{"sizes", to_json(traced.sizes)},
                {"clock_ghz", gpu.clock_ghz * gpu.sustained},
                {"machine_instructions", traced.machine_instructions},
                {"kinds", json::array()},
                {"kernels", json::array()}};
  for (int i = 0; i < kNumSpanKinds; ++i)
    chart["kinds"].push_back(span_name(static_cast<SpanKind>(i)));
  for (const Timeline& timeline : traced.timelines)
    chart["kernels"].push_back(timeline_json(timeline));
  return chart;
}

json counted_chart(const TracedKernels& traced) {
  json chart = {{"sizes", to_json(traced.sizes)}, {"kernels", json::array()}};
  for (const KernelCounters& kernel : traced.counters) {
    const LaunchCounters& c = kernel.counters;
    json classes = json::array();
    for (int i = 0; i < kNumInstructionClasses; ++i) {
      const uint64_t warps = c.of(static_cast<InstructionClass>(i)).warps;
      if (warps > 0) classes.push_back({kClassNames[i], warps});
    }
    SharedTraffic shared;
    for (const SharedTraffic& one : c.shared) shared.add(one);
    GlobalTraffic global;
    for (const GlobalTraffic& one : c.global) global.add(one);
    chart["kernels"].push_back({{"kernel", kernel.kernel},
                                {"classes", std::move(classes)},
                                {"warp_instructions", c.warp_instructions},
                                {"shared_wavefronts", shared.wavefronts},
                                {"lost_wavefronts", shared.lost()},
                                {"global_bytes", global.bytes},
                                {"global_sector_bytes", global.sectors * 32},
                                {"tma_load_bytes", c.tma_load_bytes},
                                {"tma_store_bytes", c.tma_store_bytes + c.tma_reduce_bytes}});
  }
  return chart;
}

json accuracy_chart(const Accuracy& accuracy) {
  json chart = {{"sizes", to_json(accuracy.sizes)},
                {"device", accuracy.device},
                {"columns", {"output", "error", "allowed", "plain", "worst", "passed"}},
                {"rows", json::array()}};
  for (const AccuracyRow& row : accuracy.rows) {
    chart["rows"].push_back(
        {row.output, row.error, row.allowed, row.plain, row.worst_abs, row.passed});
  }
  return chart;
}

json comparison_chart(const ExplanationRequest& request, const json& comparison,
                      const std::string& file) {
  const Problem& problem = request.problem;
  if (has_window(problem) || problem.varlen || problem.rotary_dim != 0 || problem.invariant)
    return missing_chart(
        "`tools/compare_torch.py` measures problems without a window, rotary_dim, varlen and "
        "invariant only.");
  const std::string how =
      "`tools/compare_torch.py` on a machine with a GPU and PyTorch writes compare.json; then "
      "`--compare compare.json`.";
  if (comparison.is_null())
    return missing_chart("Nothing was measured against softmax attention: " + how);
  json rows = json::array();
  for (const json& record : field(comparison, "records")) {
    if (!is_of(record, request.problem)) continue;
    json row = json::array();
    for (const char* name : {"contender", "length", "median_ms", "quartiles_ms", "tflops",
                             "ratio_to_cudnn", "batch", "heads", "data"})
      row.push_back(field(record, name));
    rows.push_back(std::move(row));
  }
  if (rows.empty()) {
    return missing_chart(fmt::format(
        "{} has no time of {}, d = {}, {}: {}", file, comparison_pass(request.problem.pass),
        request.problem.head_dim, request.problem.causal ? "causal" : "not causal", how));
  }
  return {
      {"file", file},
      {"machine", field(field(comparison, "machine"), "gpu")},
      {"means_something", field(comparison, "times_mean_something") != false},
      {"columns",
       {"contender", "length", "ms", "quartiles_ms", "tflops", "ratio", "batch", "heads", "data"}},
      {"rows", std::move(rows)}};
}

}  // namespace lssar
