#include "inspect/explanation_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "autotune/search/search_report.h"
#include "codegen/pass_needs.h"
#include "codegen/score_source.h"
#include "codegen/sizes.h"
#include "codegen/source_header.h"
#include "runtime/replay.h"

namespace lssar {
namespace {

constexpr int kBarWidth = 40;
constexpr size_t kShownRules = 12;

// Block characters show eighths of a character.
std::string bar(double share, bool unicode) {
  const double cells = std::clamp(share, 0.0, 1.0) * kBarWidth;
  if (!unicode) return std::string(size_t(std::lround(cells)), '#');
  constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  std::string text;
  for (int i = 0; i < int(cells); ++i) text += "█";
  return text + kEighths[int((cells - std::floor(cells)) * 8)];
}

std::string field(const char* name, const std::string& value) {
  return fmt::format("{:<10} {}\n", name, value);
}

std::string algorithm_name(const Explanation& explanation, const ConsideredCandidate& candidate) {
  return candidate.algorithm < 0 ? "none of the space's"
                                 : explanation.algorithms[size_t(candidate.algorithm)];
}

bool is_training(const Problem& problem) {
  return problem.pass == Pass::kForwardTrain || problem.pass == Pass::kBackward;
}

// What the forward for training saves of a row of one head. One row does not overflow.
SavedBytes saved_of_row(const Problem& problem, const Schedule& schedule) {
  return *saved_bytes(problem, schedule, {1, 1, 1, 1, 1});
}

std::string saved_text(const SavedBytes& row) {
  std::string text = fmt::format("{} bytes per row and head:", row.o + row.stats + row.x);
  if (row.o > 0) text += fmt::format(" {} what rounding took from o,", row.o);
  text += fmt::format(" {} statistics", row.stats);
  return row.x > 0 ? text + fmt::format(", {} X", row.x) : text;
}

std::string choice_text(const Explanation& explanation, const ExplanationRequest& request) {
  const Schedule by_default =
      default_schedule(request.problem, request.target, request.determinism);
  std::string text = field("problem", to_string(request.problem));
  if (is_general(request.problem)) {
    const char* name = "computes";
    for (const std::string& line : score_formula(request.problem)) {
      text += field(name, line);
      name = "";
    }
  }
  text += field("bucket", to_string(explanation.bucket));
  text += field("target", fmt::format("{}, estimates for {}", request.target.name(),
                                      model_text(explanation.model)));
  text += field("schedule", explanation.choice.reason);
  text += field("", algorithm_name(explanation, explanation.ranked(0)));
  text += field("", schedule_text(explanation.choice.schedule, request.problem));
  text += field(
      "", "against the default: " + schedule_difference(by_default, explanation.choice.schedule));
  if (is_training(request.problem))
    text += field("saved", saved_text(saved_of_row(request.problem, explanation.choice.schedule)));
  return text;
}

std::string estimate_text(const CostEstimate& estimate, ModelKind kind, bool unicode) {
  std::string text =
      fmt::format("\nEstimated {:.4g} ms (a model's word, not a measurement); limit: {}\n",
                  estimate.ms, resource_name(estimate.limit, kind));
  const double most = *std::max_element(estimate.terms_ms.begin(), estimate.terms_ms.end());
  for (int i = 0; i < kNumResources; ++i) {
    const double ms = estimate.terms_ms[size_t(i)];
    text += fmt::format("  {:<17} {:>9.4g} ms  {}\n", resource_name(static_cast<Resource>(i), kind),
                        ms, bar(most > 0 ? ms / most : 0, unicode));
  }
  if (kind == ModelKind::kGpu)
    text += fmt::format("  {:<17} {:>9.4g} ms  what nothing hides: starts, ends, late loads\n",
                        "stalls", estimate.stall_ms);
  text += fmt::format("  {:<17} {:>9.4g} ms\n", "launches", estimate.launch_ms);
  if (estimate.elsewhere_ms > 0)
    text += fmt::format(
        "  {:<17} {:>9.4g} ms  more in the forward for training, for the X this reads: beside the "
        "estimate, and in ratios\n",
        "elsewhere", estimate.elsewhere_ms);
  text += fmt::format("  {:<17} {:>9.3f}     {} that idle at the end\n", "wave factor",
                      estimate.wave_factor, kind == ModelKind::kGpu ? "SMs" : "threads");
  return text;
}

std::string evidence_text(const Explanation& explanation, const std::string& option) {
  if (!explanation.record) {
    return fmt::format("not checked by a search; `lssar verify{}` with the same problem does\n",
                       option);
  }
  const TuningRecord& record = *explanation.record;
  std::string text = fmt::format("{} on {} ({}", verdict_name(record.verdict),
                                 record.machine.device, record.machine.compiler);
  if (!record.machine.driver.empty()) text += ", driver " + record.machine.driver;
  text += fmt::format("), {}\n", record.time);
  if (record.ms > 0) {
    text += fmt::format("  {} {:.4g} ms +- {:.2g}, {} launches\n", evidence_name(record.evidence),
                        record.ms, record.spread_ms, record.samples);
  }
  text += fmt::format("  relative L2 error {:.2e}; the plain kernel's {:.2e}\n", record.error,
                      record.baseline_error);
  return text;
}

std::string kernels_text(const KernelFacts& facts, const std::string& option) {
  std::string text = "\nKernels\n";
  const std::string table = facts_table(facts);
  for (size_t at = 0; at < table.size();) {
    const size_t end = table.find('\n', at);
    text += "  " + table.substr(at, end - at) + "\n";
    at = end + 1;
  }
  text += field("  source", fmt::format("{}: lssar emit{} with the same problem and target",
                                        facts.source.name, option));
  text += field("  image", fmt::format("{} by {}, key {}", image_kind_name(facts.image.kind),
                                       facts.compiler, facts.key));
  if (!facts.image_path.empty()) text += field("", facts.image_path);
  return text;
}

std::string counts_text(const Explanation& explanation) {
  std::string text = fmt::format("\nThe search space: {} combinations\n", explanation.combinations);
  const auto counts = explanation.count_by_standing();
  for (int i = 0; i < kNumStandings; ++i) {
    if (counts[size_t(i)] == 0) continue;
    text +=
        fmt::format("  {:>9}  {}\n", counts[size_t(i)], standing_name(static_cast<Standing>(i)));
  }
  if (explanation.duplicates > 0)
    text += fmt::format("  {:>9}  the same kernel as an earlier one\n", explanation.duplicates);
  uint64_t others = 0;
  for (size_t i = 0; i < explanation.rejected.size(); ++i) {
    const RuleCount& rule = explanation.rejected[i];
    if (i < kShownRules) {
      text += fmt::format("  {:>9}  not legal, e.g. {}\n", rule.count, rule.example);
    } else {
      others += rule.count;
    }
  }
  if (others > 0)
    text += fmt::format("  {:>9}  not legal by other rules (--json has all)\n", others);
  for (const SearchSpace::Excluded& excluded : explanation.excluded)
    text += fmt::format("  {:>9}  {}: {}\n", "none", excluded.name, excluded.reason);
  return text;
}

std::string candidates_text(const Explanation& explanation, const ExplanationRequest& request,
                            size_t shown) {
  const Schedule& chosen = explanation.choice.schedule;
  std::string text =
      fmt::format("\nThe best of them\n  {:>9} {:>9}  why, and how it differs\n", "ms", "estimate");
  for (size_t i = 0; i < explanation.candidates.size() && i < shown; ++i) {
    const ConsideredCandidate& one = explanation.ranked(i);
    const double ms = one.record < 0 ? 0 : explanation.records[size_t(one.record)].ms;
    text += fmt::format("{} {:>9} {:>9.4g}  {}\n", i == 0 ? "*" : " ",
                        ms > 0 ? fmt::format("{:.4g}", ms) : "-", one.estimate.ms,
                        reason_of(explanation, one));
    if (i > 0) {
      text += fmt::format("  {:>9} {:>9}  {}; {}\n", "", "", algorithm_name(explanation, one),
                          schedule_difference(chosen, one.schedule));
    }
  }
  return text;
}

}  // namespace

std::string explanation_text(const Explanation& explanation, const ExplanationRequest& request,
                             const KernelFacts* facts, const ExplanationStyle& style) {
  std::string text = choice_text(explanation, request);
  text += estimate_text(explanation.estimate, model_kind(request.target), style.unicode);
  const std::string option =
      schedule_option(explanation.choice.schedule, request.problem, request.target);
  if (facts != nullptr) text += kernels_text(*facts, option);
  text += "\nEvidence: " + evidence_text(explanation, option);
  text += counts_text(explanation);
  return text + candidates_text(explanation, request, style.shown);
}

nlohmann::json explanation_json(const Explanation& explanation, const ExplanationRequest& request,
                                const KernelFacts* facts, size_t shown) {
  nlohmann::json json;
  json["problem"] = to_json(request.problem);
  json["bucket"] = to_json(explanation.bucket);
  json["target"] = request.target.name();
  if (const CpuModel* cpu = cpu_of(explanation.model)) {
    json["cpu_model"] = to_json(*cpu);
  } else {
    json["gpu_model"] = {{"name", model_name(explanation.model)},
                         {"num_sms", model_units(explanation.model)}};
  }
  json["choice"] = {{"schedule", is_general(request.problem)
                                     ? fields_of_pass(explanation.choice.schedule, request.problem)
                                     : to_json(explanation.choice.schedule)},
                    {"from", source_name(explanation.choice)},
                    {"origin", origin_name(explanation.choice.origin)},
                    {"reason", explanation.choice.reason}};
  if (is_training(request.problem)) {
    const SavedBytes row = saved_of_row(request.problem, explanation.choice.schedule);
    json["saved_bytes_per_row"] = {{"o", row.o}, {"stats", row.stats}, {"x", row.x}};
  }
  const ModelKind kind = model_kind(request.target);
  json["estimate"] = to_json(explanation.estimate, kind);
  json["record"] = explanation.record ? to_json(*explanation.record) : nlohmann::json();
  json["kernels"] = facts == nullptr ? nlohmann::json() : to_json(*facts);

  json["combinations"] = explanation.combinations;
  json["same_kernel"] = explanation.duplicates;
  json["not_legal"] = nlohmann::json::array();
  for (const RuleCount& rule : explanation.rejected) {
    json["not_legal"].push_back(
        {{"rule", rule.rule}, {"count", rule.count}, {"example", rule.example}});
  }
  json["excluded_algorithms"] = nlohmann::json::array();
  for (const SearchSpace::Excluded& one : explanation.excluded)
    json["excluded_algorithms"].push_back({{"name", one.name}, {"reason", one.reason}});
  const auto counts = explanation.count_by_standing();
  for (int i = 0; i < kNumStandings; ++i)
    json["standings"][standing_name(static_cast<Standing>(i))] = counts[size_t(i)];
  json["candidates"] = nlohmann::json::array();
  for (size_t i = 0; i < explanation.candidates.size() && i < shown; ++i) {
    const ConsideredCandidate& one = explanation.ranked(i);
    nlohmann::json candidate = {{"algorithm", algorithm_name(explanation, one)},
                                {"schedule", to_json(one.schedule)},
                                {"standing", standing_name(one.standing)},
                                {"reason", reason_of(explanation, one)},
                                {"estimate", to_json(one.estimate, kind)}};
    if (one.record >= 0) candidate["record"] = to_json(explanation.records[size_t(one.record)]);
    json["candidates"].push_back(std::move(candidate));
  }
  return json;
}

}  // namespace lssar
