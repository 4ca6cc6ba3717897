#include "inspect/page/report.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "autotune/search/search_report.h"
#include "codegen/source_header.h"
#include "inspect/kernel_facts.h"
#include "inspect/page/report_charts.h"
#include "inspect/page/report_page.h"
#include "inspect/timing/kernel_timing.h"
#include "runtime/replay.h"

namespace lssar {
namespace {

using nlohmann::json;

json standings_json(const Explanation& explanation) {
  json standings = json::array();
  const auto counts = explanation.count_by_standing();
  for (int i = 0; i < kNumStandings; ++i)
    standings.push_back({standing_name(static_cast<Standing>(i)), counts[size_t(i)]});
  return standings;
}

json rejected_json(const Explanation& explanation) {
  json rules = json::array();
  for (const RuleCount& rule : explanation.rejected)
    rules.push_back({rule.rule, rule.count, rule.example});
  return rules;
}

// One sentence each: what limits the kernel, how fast it could be, and what a search would try
// first.
json summary(const Explanation& explanation, const ExplanationRequest& request) {
  const CostEstimate& e = explanation.estimate;
  json lines = json::array();
  double largest = 0;
  for (const double ms : e.terms_ms) largest = std::max(largest, ms);
  lines.push_back(fmt::format(
      "Estimated {:.4g} ms. The largest resource is {}: {:.4g} ms if it were alone, {:.0f} % of "
      "the estimate; nothing is faster than {:.4g} ms at nominal rates.",
      e.ms, resource_name(e.limit, model_kind(request.target)), largest, 100 * largest / e.ms,
      e.lower_bound_ms));
  if (explanation.record && explanation.record->ms > 0) {
    const TuningRecord& record = *explanation.record;
    // The page shows two times of one schedule. Explain the other one.
    lines.push_back(fmt::format(
        "{} {:.4g} ms on {}, {}; the estimate is the cost model's, which orders candidates before "
        "any is compiled.",
        record.evidence == Evidence::kMeasured
            ? "Measured"
            : "Predicted from what the compiled kernel executes, at nominal rates:",
        record.ms, record.machine.device, record.time));
  } else {
    lines.push_back("No time was measured for it on this device.");
  }
  const auto better = std::find_if(
      explanation.ranking.begin(), explanation.ranking.end(),
      [&](uint32_t one) { return explanation.candidates[one].standing == Standing::kUntried; });
  if (better != explanation.ranking.end()) {
    const ConsideredCandidate& first = explanation.candidates[*better];
    lines.push_back(fmt::format("{}: {}; estimated {:.4g} ms, {:.2f} x this one's.",
                                explanation.is_searched ? "A search would try first"
                                                        : "Not searched, but faster by the model",
                                schedule_difference(explanation.choice.schedule, first.schedule),
                                first.estimate.ms, first.estimate.ms / e.ms));
  } else if (request.whole_space) {
    lines.push_back("The model puts no untried candidate before it.");
  }
  return lines;
}

void add_traced_charts(Engine& engine, const ExplanationRequest& asked, const Schedule& schedule,
                       json* out) {
  const GpuModel* const gpu = gpu_of(asked.model);
  const auto traced =
      gpu == nullptr ? Result<TracedKernels>(unsupported(
                           "the virtual device, which counts, runs only kernels of GPUs; `lssar "
                           "inspect` counts a CPU kernel's instructions in its machine code"))
                     : trace_kernels(engine, asked.problem, schedule, *gpu);
  if (traced.ok()) {
    (*out)["timeline"] = timeline_chart(*traced, *gpu);
    (*out)["counted"] = counted_chart(*traced);
    return;
  }
  for (const char* chart : {"timeline", "counted"})
    (*out)[chart] = missing_chart("Not run: " + traced.status().message());
}

// What the timing model says of each hot loop.
json timing_chart(const KernelFacts& facts, const ExplanationRequest& asked) {
  const auto timing = facts_timing(facts, asked.problem.pass, asked.target);
  if (!timing.ok()) return missing_chart("Not timed: " + timing.status().message());
  return {{"loops", to_json(*timing)}};
}

// Charts that need a compiled kernel and a device.
void add_engine_charts(const ReportRequest& request, const Schedule& schedule, json* out) {
  const ExplanationRequest& asked = request.explanation;
  const char* const charts[] = {"kernels", "timing", "timeline", "counted", "accuracy"};
  for (const char* chart : charts) (*out)[chart] = missing_chart(request.why_no_engine);
  if (request.engine == nullptr) return;
  Engine& engine = *request.engine;
  if (const auto facts = kernel_facts(engine, asked.problem, schedule); facts.ok()) {
    (*out)["kernels"] = to_json(*facts);
    (*out)["kernels"]["register_limit"] = 255;
    (*out)["timing"] = timing_chart(*facts, asked);
  } else {
    for (const char* chart : {"kernels", "timing"})
      (*out)[chart] = missing_chart("Not compiled: " + facts.status().message());
  }
  add_traced_charts(engine, asked, schedule, out);
  if (const auto accuracy = check_accuracy(engine, asked.problem, schedule); accuracy.ok()) {
    (*out)["accuracy"] = accuracy_chart(*accuracy);
  } else {
    (*out)["accuracy"] = missing_chart("Not checked: " + accuracy.status().message());
  }
}

ExplanationRequest explanation_of(const TuningTable& table, const TuningRecord& best,
                                  const Target& target, const DeviceModel& model) {
  ExplanationRequest request;
  request.problem = best.problem;
  request.sizes = best.sizes;
  request.determinism = best.bucket.determinism;
  request.target = target;
  request.machine = best.machine;
  request.model = model;
  request.given = best.schedule;
  request.tables = {&table};
  request.whole_space = false;
  return request;
}

// A chosen record beats others; of two chosen ones the later wins. Otherwise a timed record beats
// an untimed one, then the faster wins.
bool is_better(const TuningRecord& a, const TuningRecord& b) {
  if (a.chosen != b.chosen) return a.chosen;
  if (a.chosen) return a.time > b.time;
  if ((a.ms > 0) != (b.ms > 0)) return a.ms > 0;
  return a.ms < b.ms;
}

}  // namespace

json report_problem(const ReportRequest& request) {
  const ExplanationRequest& asked = request.explanation;
  const Explanation explanation = explain(asked);
  const Schedule& schedule = explanation.choice.schedule;
  json out = {{"name", to_string(explanation.bucket)},
              {"problem", to_string(asked.problem)},
              {"target", asked.target.name()},
              {"device", asked.machine.device},
              {"model", model_text(asked.model)},
              {"units", asked.target.is_cpu() ? "threads" : "SMs"},
              {"from", source_name(explanation.choice)},
              {"origin", origin_name(explanation.choice.origin)},
              {"reason", explanation.choice.reason},
              {"schedule", schedule_text(schedule, asked.problem)},
              {"difference",
               schedule_difference(default_schedule(asked.problem, asked.target, asked.determinism),
                                   schedule)},
              {"schedule_option", schedule_option(schedule, asked.problem, asked.target)},
              {"summary", summary(explanation, asked)},
              {"estimate", to_json(explanation.estimate, model_kind(asked.target))},
              {"algorithms", explanation.algorithms},
              {"standings", standings_json(explanation)},
              {"combinations", explanation.combinations},
              {"same_kernel", explanation.duplicates},
              {"rejected", rejected_json(explanation)}};
  const TuningRecord* record = explanation.record ? &*explanation.record : nullptr;
  out["evidence"] = record != nullptr && record->ms > 0 ? evidence_name(record->evidence) : "";
  out["ms"] = record != nullptr ? record->ms : 0;
  out["candidates"] = candidates_chart(explanation, asked, request.shown);
  out["landscape"] = landscape_chart(explanation, asked);
  out["search"] = search_chart(explanation, asked);
  out["shared"] = shared_chart(asked, schedule);
  out["compare"] = comparison_chart(asked, request.comparison, request.comparison_file);
  add_engine_charts(request, schedule, &out);
  return out;
}

Result<json> report_table(const TuningTable& table, const json& comparison,
                          const std::string& comparison_file, size_t shown) {
  // Grouped by bucket, target and device, in the order of the table.
  std::vector<const TuningRecord*> best;
  for (const TuningRecord& record : table.records()) {
    const auto same = std::find_if(best.begin(), best.end(), [&](const TuningRecord* other) {
      return other->bucket == record.bucket && other->machine.target == record.machine.target &&
             other->machine.device == record.machine.device;
    });
    if (same == best.end()) {
      best.push_back(&record);
    } else if (is_better(record, **same)) {
      *same = &record;
    }
  }
  json problems = json::array();
  std::string why = "it has no records";
  for (const TuningRecord* record : best) {
    const auto target = target_from_name(record->machine.target);
    const auto model = device_model(record->machine);
    Status status = !target.ok() ? target.status() : model.ok() ? Status() : model.status();
    if (status.ok()) status = validate(record->schedule, record->problem, *target);
    if (!status.ok()) {
      why = status.message();
      continue;
    }
    ReportRequest request;
    request.explanation = explanation_of(table, *record, *target, *model);
    request.why_no_engine =
        "A page of a whole table compiles and runs nothing: `lssar report` with this problem's "
        "options does, and looks at its whole search space.";
    request.comparison = comparison;
    request.comparison_file = comparison_file;
    request.shown = shown;
    json problem = report_problem(request);
    problem["origin"] = "table";
    problem["reason"] =
        fmt::format("{} of table {}",
                    record->chosen   ? "the latest winner"
                    : record->ms > 0 ? "the fastest record"
                                     : "a record",
                    table.name().empty() ? "in memory"
                                         : table.name().substr(table.name().find_last_of('/') + 1));
    problems.push_back(std::move(problem));
  }
  if (problems.empty()) return invalid_argument(fmt::format("table {}: {}", table.name(), why));
  return problems;
}

}  // namespace lssar
